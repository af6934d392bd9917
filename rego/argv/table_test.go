package argv_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/policy/catalog/commands"
	"github.com/regent-policy/regent/rego/shell"
)

func load(t testing.TB) *argv.Table {
	t.Helper()
	table, err := argv.Load(commands.FS)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// literal is a command of literal words.
func literal(words ...string) *shell.Command {
	c := &shell.Command{Line: 1, Column: 1}
	for _, w := range words {
		c.Words = append(c.Words, shell.Word{Value: w, Kind: shell.Literal})
	}
	return c
}

func TestReadListsWhatIsUsed(t *testing.T) {
	table := load(t)
	tests := []struct {
		name string
		cmd  *shell.Command
		want argv.Node
	}{
		{
			"letters of a cluster are options of their own",
			literal("sort", "-nru", "-k2", "a.txt"),
			argv.Node{
				Program: "sort", Args: []string{"-nru", "-k2", "a.txt"}, Flags: []string{"-n", "-r", "-u", "-k"},
				Operands: []string{"a.txt"}, Uses: []string{"sort"}, Reads: []argv.Path{{Word: "a.txt"}}, Line: 1, Column: 1,
			},
		},
		{
			"a value glued to a cluster is a path",
			literal("sort", "-uoout", "a.txt"),
			argv.Node{
				Program: "sort", Args: []string{"-uoout", "a.txt"}, Flags: []string{"-u", "-o"},
				Operands: []string{"a.txt"}, Uses: []string{"sort"}, Reads: []argv.Path{{Word: "a.txt"}},
				Writes: []argv.Path{{Word: "out"}}, Line: 1, Column: 1,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, table.Read(tt.cmd)); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := argv.Load(commands.FS); err != nil {
			b.Fatal(err)
		}
	}
}
