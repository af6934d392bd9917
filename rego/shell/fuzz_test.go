package shell_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/regent-policy/regent/rego/shell"
)

// corpusCase is a command of the corpus of classification failures.
type corpusCase struct {
	ID    string        `json:"id"`
	Shell shell.Dialect `json:"shell"`
	Text  string        `json:"text"`
	Argv  []string      `json:"argv"`
}

func corpus(tb testing.TB) []corpusCase {
	tb.Helper()
	data, err := os.ReadFile("testdata/corpus.json")
	if err != nil {
		tb.Fatal(err)
	}
	var cases []corpusCase
	if err := json.Unmarshal(data, &cases); err != nil {
		tb.Fatal(err)
	}
	return cases
}

func FuzzParse(f *testing.F) {
	for _, c := range corpus(f) {
		if c.Text != "" {
			f.Add(c.Text)
		}
	}
	for _, s := range scripts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range []shell.Dialect{shell.Bash, shell.POSIX, shell.Zsh} {
			var got shell.Facts
			if n := work(func() { got = shell.Parse(d, text) }); n > maxWork {
				t.Errorf("%s: %q allocates %d MiB", d, text, n>>20)
			}
			checkFacts(t, text, got)
		}
	})
}

// What has a form is known to its end, and has it again when it is read again.
func FuzzCanonical(f *testing.F) {
	for _, c := range corpus(f) {
		if c.Text != "" {
			f.Add(c.Text)
		}
	}
	f.Add("cd a && ls -l 'b c' >out 2>&1 | tee ~/x & ! (d; e) || { f; }")
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range []shell.Dialect{shell.Bash, shell.POSIX, shell.Zsh} {
			form, ok := shell.Canonical(d, text)
			if !ok {
				continue
			}
			facts := shell.Parse(d, text)
			if len(facts.Problems) > 0 || len(facts.Commands) == 0 {
				t.Fatalf("%s: %q has the form %s, with problems %v", d, text, form, facts.Problems)
			}
			for _, c := range facts.Commands {
				for _, w := range c.Words {
					// An interpreter's own words may hold more.
					if w.Kind != shell.Literal && len(c.Via) == 0 {
						t.Fatalf("%s: %q has the form %s, but %q is not known", d, text, form, w.Value)
					}
				}
			}
			if again, ok := shell.Canonical(d, text+"\n"); !ok || again != form {
				t.Fatalf("%s: %q has the form %s, and with a line end %s (%t)", d, text, form, again, ok)
			}
		}
	})
}

func FuzzParseArgv(f *testing.F) {
	for _, c := range corpus(f) {
		if len(c.Argv) > 0 {
			f.Add(strings.Join(c.Argv, "\n"))
		}
	}
	f.Add("find\n.\n-exec\nrm\n{}\n;")
	f.Add("sudo\n-u\nroot\nenv\n-S\na b\nsh\n-c\nrm x")
	f.Add("xargs\n-I%\nbash\n-c\nrm %")
	f.Add("")
	f.Fuzz(func(t *testing.T, lines string) {
		checkFacts(t, lines, shell.ParseArgv(strings.Split(lines, "\n")))
	})
}
