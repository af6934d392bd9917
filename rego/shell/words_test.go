package shell_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/shell"
)

func TestWords(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a plain word is literal", `x a/b.go -n --lines=5 @{1} a=b`, `x a/b.go -n --lines=5 @{1} a=b`},
		{"quotes are removed", `x 'a b' "c d" e'f'g""`, `x "a b" "c d" efg`},
		{"operators inside quotes are text", `rg -n 'foo|bar && baz > qux' src`, `rg -n "foo|bar && baz > qux" src`},
		{"a backslash takes the meaning from the next byte", `x a\ b \$y \* \~ \{a,b\}`, `x "a b" $y * ~ {a,b}`},
		{"in double quotes only some backslashes go", `x "\$a \` + "`" + ` \" \\ \n"`, `x "$a ` + "`" + ` \" \\ \\n"`},
		{"single quotes keep everything", `x '$a \n "b"'`, `x "$a \\n \"b\""`},
		{"a line that goes on leaves nothing", "x a\\\nb \"c\\\nd\" \\\n e", `x ab cd e`},
		{"an even number of backslashes does not go on", "x a\\\\\\\nb", `x "a\\b"`},
		{"an empty word in quotes stays", `x '' ""`, `x "" ""`},

		{"ANSI quotes are decoded", `x $'a\tb\n' $'\x41\u00e9\101\'\e' $'\U0001f600'`, `x "a\tb\n" "AéA'\x1b" 😀`},
		{"ANSI escapes that shells read differently are unknown", `x $'\cA' $'\q' $'a\0b' $'\xff' $'\u41'`, ``},
		{"a translated string is unknown", `x $"hello"`, `x d:hello`},

		{"an unquoted pattern is a glob", `x *.go a?b [ab]c src/*`, `x g:*.go g:a?b g:"[ab]c" g:src/*`},
		{"a quoted pattern is text", `x '*.go' "a?b" \*`, `x *.go a?b *`},
		{"brackets that do not close are text", `[ a = b ]`, `"[" a = b "]"`},
		{"an extended glob is unknown", `x !(a|b) @(c)`, `x d:!(a|b) d:@(c)`},

		{"a plain parameter may split", `x $a ${b} $1 $? $# $$ a$b`, `x p:$a p:${b} p:$1 p:$? p:$# p:$$ p:a$b`},
		{"a quoted parameter is one word", `x "$a" "a ${b}" a"$b"`, `x P:$a P:"a ${b}" P:a$b`},
		{"a parameter of which one part may split may split", `x "$a"$b`, `x p:$a$b`},
		{"all arguments may be any number even in quotes", `x "$@" "$*" $@ $*`, `x p:$@ P:$* p:$@ p:$*`},
		{"a parameter with a glob is unknown", `x "$d"/*.go`, `x d:$d/*.go`},
		{"IFS glues a command to one word", `rm${IFS}-rf${IFS}build`, `p:rm${IFS}-rf${IFS}build`},

		{
			"any other expansion is unknown", `x ${a:-b} ${a#b} ${#a} ${!a} ${a[0]} ${a@P} ${a/b/c} ${a:1} ${a^}`,
			`x d:"${a:-b}" d:${a#b} d:${#a} d:${!a} d:"${a[0]}" d:${a@P} d:${a/b/c} d:"${a:1}" d:${a^}`,
		},
		{"arithmetic is unknown", `x $((1+2)) $[1+2] "$((a))"`, `x d:$((1+2)) d:"$[1+2]" d:$((a))`},

		{"a tilde is marked", `x ~ ~/a '~' \~ a~ "~/b"`, `x ~:~ ~:~/a ~ ~ a~ ~/b`},
		{"other homes are unknown", `x ~bob ~+ ~-/a ~$u`, `x d:~bob d:~+ d:~-/a d:~$u`},
		{"a tilde in what looks like an assignment is unknown", `x a=~/b a=/c:~ --d=~/e a:~`, `x d:a=~/b d:"a=/c:~" --d=~/e "a:~"`},

		{"braces become words", `x {a,b} a{1,2}b {a,{b,c}} {1..3} {c..a} {01..03} {1..5..2}`, `x a b a1b a2b a b c 1 2 3 c b a 01 02 03 1 3 5`},
		{"braces multiply", `x {a,b}{1,2}`, `x a1 a2 b1 b2`},
		{"an empty choice in braces goes", `x {,a} b{,c} {,}`, `x a b bc`},
		{"braces with nothing to choose are text", `x {} {a} {a b} a{`, `x {} {a} {a b} a{`},
		{"quoted braces are text", `x '{a,b}' "{a,b}" \{a,b}`, `x {a,b} {a,b} d:{a,b}`},
		{"quotes in braces are removed", `x {"a b",c}`, `x "a b" c`},
		{"a parameter in braces stays one", `x {"$a",b}`, `x P:$a b`},
		{"too many words from braces are unknown", `x {1..257} {a,b}{1..200}`, `x d:{1..257} d:{a,b}{1..200}`},
		{"braces that shells read differently are unknown", `x {a,b{ {a},b} {{a,b}1..2} {A..c} {a,$} {a..} {-01..3}`, `x d:{a,b{ d:{a},b} d:{{a,b}1..2} d:{A..c} d:{a,$} d:{a..} d:{-01..3}`},
		{"braces in an assignment are text", `x={a,b} y=* z=~/a`, `x:={a,b} y:=* z:=~:~/a`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := shell.Parse(shell.Bash, tc.text)
			if len(got.Commands) != 1 || len(got.Problems) != 0 {
				t.Fatalf("Parse(%q) = %d commands, problems %v; want one command", tc.text, len(got.Commands), got.Problems)
			}
			if tc.want == "" {
				for _, w := range got.Commands[0].Words[1:] {
					if w.Kind != shell.Dynamic {
						t.Errorf("word %q is %s, want dynamic", w.Value, w.Kind)
					}
				}
				return
			}
			if diff := cmp.Diff(tc.want, sketch(got.Commands[0])); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

func TestWordsOfOtherDialects(t *testing.T) {
	for _, tc := range []struct {
		name     string
		dialect  shell.Dialect
		text     string
		want     string
		problems string
	}{
		{"sh may be bash, so braces are unknown", shell.POSIX, `x {a,b} {} {a}`, `x d:{a,b} {} {a}`, ""},
		{"sh may be bash, so ANSI quotes are unknown", shell.POSIX, `x $'a'`, `x d:$a`, "construct"},
		{"sh may be bash, so old arithmetic is unknown", shell.POSIX, `x "$[1]"`, `x d:"$[1]"`, "construct"},
		{"quotes behind a dollar in quotes are no ANSI quotes", shell.POSIX, `x 'a$' "b$" 'c$[0-9]'`, `x a$ b$ "c$[0-9]"`, ""},
		{"zsh reads =name as a path", shell.Zsh, `=ls =ls -a = a=b`, `d:=ls d:=ls -a = a=b`, ""},
		{"zsh keeps empty words from braces", shell.Zsh, `x {,}`, `x "" ""`, ""},
		{"zsh globs are never plain text", shell.Zsh, `x a^b a#b <1-9>`, `x g:a^b g:a#b d:<1-9>`, ""},
		{"a zsh qualifier may run code", shell.Zsh, `x *(e:id:)`, `x d:"*(e:id:)"`, "construct"},
		{"zsh flags may run code", shell.Zsh, `x ${(e)a}`, `x d:${(e)a}`, "construct"},
		{"nested expansions of zsh", shell.Zsh, `x ${${a}:-b}`, `x d:"${${a}:-b}"`, "construct"},
		{"subscripts of zsh", shell.Zsh, `x $a[1]`, `x d:"$a[1]"`, ""},
		{"dollars that zsh may expand", shell.Zsh, `x $=a "$~" a$`, `x d:$=a d:$~ a$`, ""},
		{"plain parameters of zsh", shell.Zsh, `x $a "$b"`, `x p:$a P:$b`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := shell.Parse(tc.dialect, tc.text)
			if len(got.Commands) != 1 {
				t.Fatalf("Parse(%q) = %q, want one command", tc.text, sketches(got))
			}
			if diff := cmp.Diff(tc.want, sketch(got.Commands[0])); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", tc.text, diff)
			}
			if k := kinds(got); k != tc.problems {
				t.Errorf("Parse(%q) has problems %v, want %q", tc.text, got.Problems, tc.problems)
			}
		})
	}
}

// TestWordsAreWhatBashPasses compares literal words with what bash hands to a
// builtin that prints them.
func TestWordsAreWhatBashPasses(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	for _, words := range []string{
		`a\ b 'c d' "e f" g"h"'i'\j`,
		`"\$a \" \\ \n" '\n' \\n \'`,
		"a\\\nb \"c\\\nd\" 'e\\\nf' g\\\\\\\nh",
		`$'\a\b\e\f\n\r\t\v\\\'\"\?' $'\101\x41\u0041\U00000041' $'\1012' $'\x412'`,
		`{a,b}{1,2} x{,y}z {,a} {a,{b,c},d}e {1..3} {3..1} {01..03} {001..3} {a..e} {e..a} {1..9..3} {9..1..3} {-1..1}`,
		`{} {a} {{a} a{b}c {a,b}'{c,d}' "{a,b}"{c,d} \{a,b\} {a\,b,c} {"a,b",c} {'{',b} {../a,../b} {a.b,c} {1.2,3}`,
		`'' "" ''{,} "a"{,}`,
		`[ ] [a \[a\] '[a]' a=b -x --y=z @{1} HEAD~1 a#b %1`,
	} {
		var want bytes.Buffer
		cmd := exec.Command(bash, "--norc", "--noprofile", "-c", `printf '%s\0' `+words)
		cmd.Env, cmd.Dir, cmd.Stdout = []string{"PATH=/nonexistent", "LC_ALL=C.UTF-8"}, t.TempDir(), &want
		if err := cmd.Run(); err != nil {
			t.Fatalf("bash: %v", err)
		}
		got := shell.Parse(shell.Bash, "printf "+words)
		if len(got.Commands) != 1 || len(got.Problems) > 0 {
			t.Fatalf("Parse(%q) = %q, %v", words, sketches(got), got.Problems)
		}
		var have []string
		for _, w := range got.Commands[0].Words[1:] {
			if w.Kind != shell.Literal {
				t.Errorf("%q: %q is %s, want literal", words, w.Value, w.Kind)
			}
			have = append(have, w.Value)
		}
		if diff := cmp.Diff(strings.Split(strings.TrimSuffix(want.String(), "\x00"), "\x00"), have); diff != "" {
			t.Errorf("words of %q (-bash +got):\n%s", words, diff)
		}
	}
}
