package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
)

// TestWithPluginChangesOnePlace is in package main because the command would want a
// file for each case.
func TestWithPluginChangesOnePlace(t *testing.T) {
	digest, old := strings.Repeat("ab", 32), strings.Repeat("12", 32)
	flow := `{command: ["/bin/acme"], sha256: "` + digest + `"}`
	for _, test := range []struct{ name, before, want string }{
		{"no plugins yet", "version: 1 # one\n", "version: 1 # one\n\nplugins:\n  acme: " + flow + "\n"},
		{"no line break at the end", "version: 1", "version: 1\n\nplugins:\n  acme: " + flow + "\n"},
		{"before others", "version: 1\nplugins:\n    # theirs\n    b: {command: [/b]} # b\n", "version: 1\nplugins:\n    # theirs\n    acme: " + flow + "\n    b: {command: [/b]} # b\n"},
		{"an empty mapping", "version: 1\nplugins: {}\n", "version: 1\nplugins: {acme: " + flow + "}\n"},
		{"a mapping in one line", "version: 1\nplugins: { b: {command: [/b]}}\n", "version: 1\nplugins: {acme: " + flow + ",  b: {command: [/b]}}\n"},
		{"one without a pin, in one line", "version: 1\nplugins: {acme: {command: [/bin/acme]}}\n", `version: 1` + "\n" + `plugins: {acme: {sha256: "` + digest + `", command: [/bin/acme]}}` + "\n"},
		{"one without a pin, in lines", "version: 1\nplugins:\n  acme:\n    # why\n    command: [/bin/acme]\n", "version: 1\nplugins:\n  acme:\n    # why\n    sha256: \"" + digest + "\"\n    command: [/bin/acme]\n"},
		{"a pin in quotes", "version: 1\nplugins: {acme: {command: [/bin/acme], sha256: '" + old + "'}} # é\n", "version: 1\nplugins: {acme: {command: [/bin/acme], sha256: \"" + digest + "\"}} # é\n"},
		{"a plain pin, after other characters", "version: 1\nplugins: {b: {command: [\"/\u00e9\"]}, acme: {sha256: a" + old[1:] + ", command: [/bin/acme]}}\n", "version: 1\nplugins: {b: {command: [\"/\u00e9\"]}, acme: {sha256: \"" + digest + "\", command: [/bin/acme]}}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before, _, err := config.Parse("/c/config.yaml", []byte(test.before))
			if err != nil {
				t.Fatal(err)
			}
			got, err := withPlugin([]byte(test.before), before, "/c/config.yaml", "acme", config.Plugin{Command: []string{"/bin/acme"}, SHA256: digest})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWithPluginRefusesWhatItCannotEdit: a value that is nothing has no place to
// write to.
func TestWithPluginRefusesWhatItCannotEdit(t *testing.T) {
	text := []byte("version: 1\nplugins:\n")
	got, err := editPlugin(text, "acme", config.Plugin{Command: []string{"/a"}, SHA256: strings.Repeat("ab", 32)})
	if err == nil {
		t.Errorf("text = %s", got)
	}
}

// TestScaffoldIsTheExample: the example is tested, and what is scaffolded is not.
func TestScaffoldIsTheExample(t *testing.T) {
	want, err := os.ReadFile("../../examples/reviewer-go/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), scaffoldMain); diff != "" {
		t.Errorf("scaffold/main.go.txt is not examples/reviewer-go/main.go (-want +got):\n%s", diff)
	}
}
