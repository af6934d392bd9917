package pluginpb_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	ours "github.com/regent-policy/regent/plugin/pluginpb"
)

var update = flag.Bool("update", false, "write the generated files")

// sources are what hosts and plugins say to each other, and what hosts that load
// Regent do.
var sources = []string{"regent_plugin.proto", "regent_evaluator.proto"}

// compiled is a source with its comments, which the generators copy.
func compiled(t *testing.T, source string) *descriptorpb.FileDescriptorProto {
	t.Helper()
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	return protodesc.ToFileDescriptorProto(files[0])
}

// TestGeneratedFiles compares the Go code with what the generators, whose versions
// go.mod pins, make of the sources; -update writes it.
func TestGeneratedFiles(t *testing.T) {
	for _, source := range sources {
		t.Run(source, func(t *testing.T) { generated(t, source) })
	}
}

func generated(t *testing.T, source string) {
	t.Helper()
	file := compiled(t, source)
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
			FileToGenerate: []string{source},
			Parameter:      proto.String("paths=source_relative"),
			ProtoFile:      []*descriptorpb.FileDescriptorProto{file},
		})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "tool", generator)
		cmd.Stdin = bytes.NewReader(request)
		cmd.Stderr = os.Stderr
		output, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", generator, err)
		}
		var response pluginpb.CodeGeneratorResponse
		if err := proto.Unmarshal(output, &response); err != nil {
			t.Fatalf("%s: %v", generator, err)
		}
		if response.Error != nil || len(response.GetFile()) != 1 {
			t.Fatalf("%s: %s, %d files", generator, response.GetError(), len(response.GetFile()))
		}
		name, want := response.GetFile()[0].GetName(), response.GetFile()[0].GetContent()
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is not what %s says; run make generate (-want +got):\n%s", name, source, diff)
		}
	}
}

// TestEnumsStartWithUnspecified: a field that is not set must never mean yes.
func TestEnumsStartWithUnspecified(t *testing.T) {
	if n := ours.File_regent_evaluator_proto.Enums().Len(); n > 0 {
		t.Errorf("regent_evaluator.proto has %d enumerations, which this test does not look at", n)
	}
	enums := ours.File_regent_plugin_proto.Enums()
	if enums.Len() == 0 {
		t.Fatal("no enumerations")
	}
	for i := range enums.Len() {
		first := enums.Get(i).Values().Get(0)
		if first.Number() != 0 || !bytes.HasSuffix([]byte(first.Name()), []byte("_UNSPECIFIED")) {
			t.Errorf("%s starts with %s = %d", enums.Get(i).Name(), first.Name(), first.Number())
		}
	}
}
