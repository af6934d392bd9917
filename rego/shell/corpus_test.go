package shell_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/shell"
)

var update = flag.Bool("update", false, "rewrite testdata/corpus.golden")

// TestCorpus holds the facts of every command of the corpus against the ones
// that were reviewed.
func TestCorpus(t *testing.T) {
	const golden = "testdata/corpus.golden"
	var b strings.Builder
	for _, c := range corpus(t) {
		facts := shell.Parse(c.Shell, c.Text)
		if len(c.Argv) > 0 {
			facts = shell.ParseArgv(c.Argv)
			fmt.Fprintf(&b, "# %s argv %q\n", c.ID, c.Argv)
		} else {
			fmt.Fprintf(&b, "# %s %s %q\n", c.ID, c.Shell, c.Text)
		}
		for _, s := range sketches(facts) {
			fmt.Fprintln(&b, s)
		}
		for _, p := range facts.Problems {
			fmt.Fprintf(&b, "problem %s: %s\n", p.Kind, p.Message)
		}
		fmt.Fprintln(&b)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("facts of the corpus (-want +got):\n%s", diff)
	}
}
