package shell_test

import (
	"encoding/json"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/regent-policy/regent/rego/shell"
)

// maxWork is how many bytes one text of the full length may make the package
// allocate. It stands for time and memory, and is far above what is needed.
const maxWork = 64 << 20

// checkFacts fails unless f keeps the promises that hold for any text.
func checkFacts(t testing.TB, what string, f shell.Facts) {
	t.Helper()
	if f.Commands == nil {
		t.Errorf("%q: Commands is nil", what)
	}
	if len(f.Commands) > shell.MaxCommands {
		t.Errorf("%q: %d commands", what, len(f.Commands))
	}
	words := 0
	for _, c := range f.Commands {
		words += len(c.Words) + len(c.Assigns) + len(c.Redirects)
		if c.Line < 1 || c.Column < 1 {
			t.Errorf("%q: command %q at %d:%d", what, c.Text, c.Line, c.Column)
		}
		if c.Words == nil {
			t.Errorf("%q: Words of %q is nil", what, c.Text)
		}
		if c.DirUnknown && c.Dir != "" {
			t.Errorf("%q: command %q has folder %q, which is unknown", what, c.Text, c.Dir)
		}
		if len(c.Text) > 200 {
			t.Errorf("%q: text of %d bytes", what, len(c.Text))
		}
		for _, w := range c.Words {
			checkWord(t, what, w)
		}
		for _, a := range c.Assigns {
			checkWord(t, what, a.Value)
		}
		for _, r := range c.Redirects {
			checkWord(t, what, r.Target)
			switch r.Mode {
			case "read", "write", "read_write", "none":
			default:
				t.Errorf("%q: redirection %q has mode %q", what, r.Op, r.Mode)
			}
		}
	}
	if words > shell.MaxWords {
		t.Errorf("%q: %d words", what, words)
	}
	for _, p := range f.Problems {
		switch p.Kind {
		case "syntax", "limit", "dialect", "construct", "wrapper":
		default:
			t.Errorf("%q: problem of kind %q", what, p.Kind)
		}
		if p.Message == "" || p.Line < 1 || p.Column < 1 {
			t.Errorf("%q: problem %+v", what, p)
		}
		if strings.Contains(p.Message, "gave up") {
			t.Errorf("%q: %s", what, p.Message)
		}
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatalf("%q: %v", what, err)
	}
	// What is no text would be replaced, and a rule would see another word.
	if strings.Contains(string(data), `\ufffd`) && !strings.Contains(what, "\uFFFD") && len(f.Problems) == 0 && allLiteral(f) {
		t.Errorf("%q: facts hold bytes that are no text", what)
	}
}

func allLiteral(f shell.Facts) bool {
	for _, c := range f.Commands {
		for _, w := range c.Words {
			if w.Kind != shell.Literal {
				return false
			}
		}
	}
	return true
}

func checkWord(t testing.TB, what string, w shell.Word) {
	t.Helper()
	switch w.Kind {
	case shell.Literal, shell.Glob, shell.Parameter, shell.Dynamic:
	default:
		t.Errorf("%q: word %q has kind %q", what, w.Value, w.Kind)
	}
}

// work is what f allocates, in bytes.
func work(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// hostile are pieces that cost most when they are repeated.
var hostile = []string{
	"(", "$(", "`", "{ ", "if ", "while ", "for a in b; do ", "case a in a) ", "case a in (", "a()", "function a ", "time ", "coproc ", "! ",
	"${x:-", `"${x:-`, "$((", "((", "((( ", "$((-", "$((~", "$((1+", "$((1?", "a=(", "a[", "${a[", "${a/", "$[", "<(", "x=$(", `"$(`,
	"[[ ", "[[ ! ", "[[ a && ", "[[ ( ", "[[ -n ", "@(", "!(a|", "let ", "declare a=(",
	"a&&", "a|", "a;", "a&", "a\n", "a ", ";;", "<<a ", "<<a;", "a <<a\n", "<<a\n$(", "> a ", "a=b ",
	"{", "{,", "{a,b}", "{1..99}", "a {a..z} ", "'", `"`, `\`, `'\''`, "#\n", "#\\\n", "\\\n", "a'#\\\n", "x#", "'x'#\n", "`b 'x'#\n`", "a $(b 'x'#\n) ", "$\\\n(",
	"eval ", "sudo ", "env ", "env a=b ", "sh -c ", "bash -c '", "xargs ", "find -exec ", "trap 'a' 1;", "nice -n 1 ",
	"cd a&&", "cd a;", "if cd a; then b; fi;", "for i in 1; do cd a; done;", "a\r", "\x00", "\xff", "é", "$'\\x41'", "a() { b; };a;",
}

func TestHostileTexts(t *testing.T) {
	for _, unit := range hostile {
		for d, length := range map[shell.Dialect]int{shell.Bash: shell.MaxText / 4, shell.POSIX: shell.MaxText / 16, shell.Zsh: shell.MaxText / 16} {
			text := strings.Repeat(unit, length/len(unit))
			var f shell.Facts
			if n := work(func() { f = shell.Parse(d, text) }); n > maxWork {
				t.Errorf("%s: %q repeated allocates %d MiB", d, unit, n>>20)
			}
			checkFacts(t, unit+" repeated", f)
		}
	}
}

func TestLimits(t *testing.T) {
	deep := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	for _, tc := range []struct {
		name, text string
		limited    bool
	}{
		{"a text of the full length", "rm x;" + strings.Repeat(" ", shell.MaxText-5), false},
		{"a text that is too long", "rm x;" + strings.Repeat(" ", shell.MaxText-4), true},
		{"nesting", "rm x;" + deep("(", "a", ")", shell.MaxDepth), false},
		{"nesting that is too deep", "rm x;" + deep("( ", "a", " )", shell.MaxDepth+1), true},
		{"substitutions that are too deep", "rm x;" + deep("$(", "a", ")", shell.MaxDepth+1), true},
		{"nesting that the parser must not follow", "rm x;" + strings.Repeat("( ", 20000), true},
		{"wrappers", "rm x;" + strings.Repeat("env ", shell.MaxDepth), false},
		{"wrappers that are too deep", "rm x;" + strings.Repeat("env ", shell.MaxDepth+3), true},
		{"commands", "rm x" + strings.Repeat(";a", shell.MaxCommands-1), false},
		{"too many commands", "rm x" + strings.Repeat(";a", shell.MaxCommands), true},
		{"words", "rm x;b" + strings.Repeat(" a", shell.MaxWords-3), false},
		{"too many words", "rm x;b" + strings.Repeat(" a", shell.MaxWords-2), true},
		{"too many words from braces", "rm x;b" + strings.Repeat(" {1..250}", 70), true},
		{"too many words from braces in all", "rm x" + strings.Repeat(";b {1..250}", 70), true},
		{"too many redirections", "rm x;b" + strings.Repeat(" >a", shell.MaxWords), true},
		{"too many assignments", "rm x;" + strings.Repeat("a= ", shell.MaxWords), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := shell.Parse(shell.Bash, tc.text)
			checkFacts(t, tc.name, got)
			limited := false
			for _, p := range got.Problems {
				limited = limited || p.Kind == "limit"
			}
			if limited != tc.limited {
				t.Errorf("a limit was reached: %t, want %t (%v)", limited, tc.limited, got.Problems)
			}
			if len(got.Commands) == 0 || sketch(got.Commands[0]) != "rm x" {
				t.Errorf("what stands before the limit is lost: %q", sketches(got)[:min(3, len(got.Commands))])
			}
		})
	}
}

func TestLimitsOfArgv(t *testing.T) {
	long := append([]string{"rm", "x"}, make([]string, shell.MaxWords)...)
	for _, argv := range [][]string{long, {"rm", "x", strings.Repeat("y", shell.MaxText)}} {
		got := shell.ParseArgv(argv)
		checkFacts(t, "argv", got)
		if kinds(got) != "limit" {
			t.Errorf("problems = %v, want a limit", got.Problems)
		}
		if len(got.Commands) == 0 || len(got.Commands[0].Words) < 2 || got.Commands[0].Words[0].Value != "rm" {
			t.Errorf("what stands before the limit is lost")
		}
	}
}

// TestScriptsInScripts has each script hold most of the one around it, so that
// reading all of them costs the square of the text.
func TestScriptsInScripts(t *testing.T) {
	text := strings.Repeat("eval ", 5000) + "rm x"
	var f shell.Facts
	if n := work(func() { f = shell.Parse(shell.Bash, text) }); n > maxWork {
		t.Errorf("allocates %d MiB", n>>20)
	}
	checkFacts(t, "eval repeated", f)
	if kinds(f) != "limit" {
		t.Errorf("problems = %v, want a limit", f.Problems)
	}
}
