package shell_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/rego/shell"
)

func TestCanonicalIsOneForAllSpellings(t *testing.T) {
	t.Parallel()
	for _, spellings := range [][]string{
		{"ls -l src", " ls\t-l  src ", "'ls' \"-l\" src", `l\s -l s'r'c`, "ls -l src # look", "ls \\\n -l src\n", "ls -l src;", "ls $'-l' src"},
		{"cd a && make", "cd a&&make", "cd a &&\n make", "\"cd\" a  && 'make'"},
		{"a; b", "a\nb", "a;b;", "a # x\n\nb"},
		{"ls >out 2>&1", "ls > out 2>&1", "ls >'out' 2>&1"},
		{"(a; b)", "( a\nb )"},
		{"cp x.go y.go", "cp {x,y}.go"},
		{"cat ~/x", "cat ~/'x'"},
	} {
		want, ok := shell.Canonical(shell.Bash, spellings[0])
		if !ok {
			t.Errorf("%q has no form", spellings[0])
		}
		for _, s := range spellings[1:] {
			if got, ok := shell.Canonical(shell.Bash, s); !ok || got != want {
				t.Errorf("%q: %s (%t), want %s as for %q", s, got, ok, want, spellings[0])
			}
		}
	}
}

func TestCanonicalTellsApartWhatDiffers(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{
		"a b", "a 'b '", "'a b'", "a b ''", "a \"'b'\"", `a 'b" "c'`, "a b c", "ab", "a\nb", "a && b", "a || b", "a | b", "a |& b", "a & b", "a b &", "! a b",
		"(a b)", "{ a b; }", "(a; b)", "{ a; b; }", "(a); b", "a; (b)", "a && b || c", "a && { b || c; }", "a || b && c", "a; b; c", "a && b && c", "a && (b && c)",
		"a b >c", "a b >>c", "a b >|c", "a b <c", "a b <>c", "a b 2>c", "a b &>c", "a >b c d", "a '>c'", "a b >c d", "a b 2>&1", "a b 1>&2", "a b <<<c", "a b <&-",
		"{ a b; } >c", "(a b) >c", "a b >c | d", "a b | d >c", ">c", "a ~", "a '~'", "a ~/b", "a '~/b'", "A=1 a", "a A=1", "A=1; a", "A+=1 a", "A=2 a", "A='1 a'",
		"a {b,c}", "a '{b,c}'", "a '*'", "a '$b'", "a '`b`'",
	} {
		form, ok := shell.Canonical(shell.Bash, text)
		if !ok {
			t.Errorf("%q has no form", text)
			continue
		}
		if other, ok := seen[form]; ok && !(text == "a {b,c}" && other == "a b c") {
			t.Errorf("%q and %q are both %s", text, other, form)
		}
		seen[form] = text
	}
	bash, _ := shell.Canonical(shell.Bash, "a b")
	posix, _ := shell.Canonical(shell.POSIX, "a b")
	argv, _ := shell.CanonicalArgv([]string{"a", "b"})
	joined, _ := shell.CanonicalArgv([]string{"a b"})
	if bash == posix || bash == argv || argv == joined {
		t.Errorf("forms %q, %q, %q and %q are not all different", bash, posix, argv, joined)
	}
}

func TestWhatIsNotKnownHasNoCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "  ", "# nothing", "a $b", "a \"$b\"", "a $(b)", "a `b`", "a *.go", "a b?", "a [bc]", "a ~sam/x", "a ~+", "a <(b)", "a > $b", "a > *", "A=$b a", "A=(b c)", "A[1]=b",
		"cat <<E\nx\nE", "cat <<'E'\nx\nE", "for a in b; do c; done", "if a; then b; fi", "while a; do b; done", "case a in b) c;; esac", "f() { a; }", "[[ a == b ]]",
		"((a))", "let a=1", "time a", "coproc a", "export A=b", "a 'b", "a )", "a \"$@\"", "a $((1))", "a <<<$b", "a 'b\x00'", "a\r\nb", "a \xff", "alias a=b; a",
		"a" + strings.Repeat(";a", shell.MaxCommands), strings.Repeat("(", 100) + "a" + strings.Repeat(")", 100),
	} {
		if form, ok := shell.Canonical(shell.Bash, text); ok {
			t.Errorf("%.40q has the form %.40s", text, form)
		}
	}
	for _, dialect := range []shell.Dialect{"fish", "", "powershell"} {
		if form, ok := shell.Canonical(dialect, "a"); ok {
			t.Errorf("in %q a has the form %s", dialect, form)
		}
	}
	for _, argv := range [][]string{nil, {"a\x00"}, {"a", "\xff"}} {
		if form, ok := shell.CanonicalArgv(argv); ok {
			t.Errorf("%q has the form %s", argv, form)
		}
	}
}

// Where two texts have one form, what is found in them is the same too, but for
// where it stands.
func TestOneCanonicalFormIsOneSetOfFacts(t *testing.T) {
	t.Parallel()
	pieces := rapid.SampledFrom([]string{
		"a", "b", "ab", "'a'", `"b"`, `\a`, "~", "'~'", "-x", "=", "A=1", "{a,b}", " ", " ", " ", "\n", ";", "&", "&&", "|", "||", "|&", "!", "(", ")", "{ ", "; }", ">", ">>", "<", "2>", ">&", "1", "#", "\\\n",
	})
	ignored := []cmp.Option{cmpopts.IgnoreFields(shell.Command{}, "Line", "Column", "Text"), cmpopts.IgnoreFields(shell.Word{}, "Quoted"), cmpopts.EquateEmpty()}
	byForm := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 1, 12).Draw(t, "text"), "")
		form, ok := shell.Canonical(shell.Bash, text)
		if !ok {
			return
		}
		other, ok := byForm[form]
		if !ok {
			byForm[form] = text
			return
		}
		if diff := cmp.Diff(shell.Parse(shell.Bash, other).Commands, shell.Parse(shell.Bash, text).Commands, ignored...); diff != "" {
			t.Fatalf("%q and %q are both %s (-first +second):\n%s", other, text, form, diff)
		}
	})
}
