package shell_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/shell"
)

// commandCase is a text, its commands as sketch renders them, and the kinds of
// its problems.
type commandCase struct {
	name, text string
	want       []string
	problems   string
}

func checkCommands(t *testing.T, dialect shell.Dialect, cases []commandCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := shell.Parse(dialect, tc.text)
			if diff := cmp.Diff(tc.want, sketches(got)); diff != "" {
				t.Errorf("commands of %q (-want +got):\n%s", tc.text, diff)
			}
			if k := kinds(got); k != tc.problems {
				t.Errorf("problems of %q = %v, want %q", tc.text, got.Problems, tc.problems)
			}
		})
	}
}

func TestEveryCommandIsListed(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"an empty text has none", "", nil, ""},
		{"a comment has none", "# rm x", nil, ""},
		{"a list", "a x && b || c; d", []string{"a x", "b", "c", "d"}, ""},
		{"a single ampersand separates", "echo done & rm -rf build", []string{"echo done [background]", "rm -rf build"}, ""},
		{"a newline after a comment separates", "ls -la # list files\nrm -rf build", []string{"ls -la", "rm -rf build"}, ""},
		{"a comment does not go on behind a backslash", "ls # list \\\nrm -rf build # x \\\nid", []string{"ls", "rm -rf build", "id"}, ""},
		{"a pipe", "a | b |& c", []string{"a [pipe]", "b [pipe; stdin=pipe]", "c [pipe; stdin=pipe]"}, ""},
		{"a negation", "! a", []string{"a"}, ""},
		{"time", "time -p a | b; time", []string{"a [pipe]", "b [pipe; stdin=pipe]"}, ""},
		{"a subshell and a block", "(a; b); { c; }", []string{"a [subshell]", "b [subshell]", "c [block]"}, ""},
		{"if with all its branches", "if a; then b; elif c; then d; else e; fi", []string{"a [condition]", "b [condition]", "c [condition]", "d [condition]", "e [condition]"}, ""},
		{"while and until", "while a; do b; done; until c; do d; done", []string{"a [loop]", "b [loop]", "c [loop]", "d [loop]"}, ""},
		{"for and select", `for f in *.md $(a); do rm "$f"; done; select x in y; do b; done`, []string{"a [loop,substitution]", "rm P:$f [loop]", "b [loop]"}, ""},
		{"a loop over a variable that programs read", "for PATH in ./bin; do b; done; select IFS in y; do c; done", []string{`PATH:=p:"" [loop]`, "b [loop]", `IFS:=p:"" [loop]`, "c [loop]"}, ""},
		{"for with arithmetic", "for ((i = 0; i < $(a); i++)); do b; done", []string{`(( P:"i = 0" d:"i < $(a)" P:i++ [loop]`, "a [loop,substitution]", "b [loop]"}, ""},
		{"case with words and patterns", "case $(a) in $(b)|c) d;; *) e;& esac", []string{"a [case,substitution]", "b [case,substitution]", "d [case]", "e [case]"}, ""},
		{"coproc is not judged", "coproc a; coproc n { b; }", []string{"a [coproc]", "b [coproc,block]"}, "construct"},
		{"the body of a function, which runs who knows where", "f() { a; }", []string{"a [function,block; dir?]"}, ""},
		{"a function that is used", "ls() { rm x; }; ls; a", []string{"rm x [function,block; dir?]", "ls", "a [dir?]"}, "construct"},
		{"a function that is used through a wrapper", "ls() { rm x; }; command -p env ls", []string{"rm x [function,block; dir?]", "command -p env ls", "env ls [command]", "ls [command,env]"}, "construct"},
		{"a function that calls itself", ":(){ :|:& };:", []string{`":" [function,block,background,pipe; dir?]`, `":" [function,block,background,pipe; stdin=pipe; dir?]`, `":"`}, "construct"},
	})
}

func TestCommandsInsideWords(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"a substitution", `a $(b $(c))`, []string{`a d:"$(b $(c))"`, "b d:$(c) [substitution]", "c [substitution,substitution]"}, ""},
		{"a substitution in double quotes", `grep -n "$(cat pattern.txt)" main.go`, []string{`grep -n d:"$(cat pattern.txt)" main.go`, "cat pattern.txt [substitution]"}, ""},
		{"backquotes", "a `b \\`c\\``", []string{"a d:\"`b \\\\`c\\\\``\"", "b d:\"`c\\\\`\" [substitution]", "c [substitution,substitution]"}, ""},
		{"a process substitution", "diff <(sort a.txt) <(curl -s https://example.com/b.txt) >(tee x)", []string{
			`diff d:"<(sort a.txt)" d:"<(curl -s https://example.com/b.txt)" d:">(tee x)"`, "sort a.txt [process_substitution]",
			`curl -s "https://example.com/b.txt" [process_substitution]`, "tee x [process_substitution; stdin=pipe]",
		}, ""},
		{"an assignment", "x=$(a) y=`b` c", []string{"x:=d:$(a) y:=d:`b` c", "a [substitution]", "b [substitution]"}, ""},
		{"an assignment alone", "x=$(a)", []string{"x:=d:$(a)", "a [substitution]"}, ""},
		{"an array", "x=(1 $(a)); x[$(b)]=1", []string{`x:=d:"(1 $(a))"`, "a [substitution]", "x:=d:1", "b [substitution]"}, ""},
		{"a default", `a ${x:-$(b)} "${y:=` + "`c`" + `}"`, []string{`a d:"${x:-$(b)}" d:"${y:=` + "`c`" + `}"`, "b [substitution]", "c [substitution]"}, ""},
		{"other operators of an expansion", `a ${x/$(b)/$(c)} ${x:$(d)} ${x[$(e)]}`, []string{`a d:${x/$(b)/$(c)} d:"${x:$(d)}" d:"${x[$(e)]}"`, "b [substitution]", "c [substitution]", "d [substitution]", "e [substitution]"}, ""},
		{"arithmetic", "a $(( $(b) + 1 )) $[ $(c) ]", []string{`a d:"$(( $(b) + 1 ))" d:"$[ $(c) ]"`, "b [substitution]", "c [substitution]"}, ""},
		{"an arithmetic command", "(( x = $(a) )); let y=$(b)", []string{`(( d:"x = $(a)"`, "a [substitution]", "let d:y=$(b)", "b [substitution]"}, ""},
		{"a test", "[[ -n $(a) && ( $x == `b` || ! -f $(c) ) ]]", []string{`"[[" -n d:$(a) && ( p:$x == d:` + "`b`" + ` || ! -f d:$(c) ) "]]"`, "a [substitution]", "b [substitution]", "c [substitution]"}, ""},
		{"a regular expression", "[[ x =~ ^$(a)(b|c) ]]", []string{`"[[" x =~ d:^$(a)(b|c) "]]"`, "a [substitution]"}, ""},
		{"the target of a redirection", "a > $(b) < `c`", []string{"a >write:d:$(b) <read:d:`c` [stdin=file]", "b [substitution]", "c [substitution]"}, ""},
		{"a heredoc", "a <<E\nx $(b) ${y:-$(c)}\nE\nd", []string{"a <<none:E [stdin=heredoc]", "b [heredoc,substitution]", "c [heredoc,substitution]", "d"}, ""},
		{"a quoted heredoc is text", "a <<'E'\n$(b)\nE", []string{"a <<none:E [stdin=heredoc]"}, ""},
		{"a here-string", `a <<< "$(b)"`, []string{"a <<<none:d:$(b) [stdin=string]", "b [substitution]"}, ""},
		{"export and its like", "export x=$(a) y; declare -a z=($(b)); local w; readonly v=1; typeset -x u", []string{
			"export d:x=$(a) y", "a [substitution]", "declare -a d:z=($(b))", "b [substitution]", "local w", "readonly v=1", "typeset -x u",
		}, ""},
		{"export with a parameter", "export PATH=./bin:$PATH && ls", []string{`export p:"PATH=./bin:$PATH"`, "ls"}, ""},
		{"a prompt expansion", `echo "${one="$"}${two="${one}(id)"}${two@P}"`, []string{`echo d:"${one=\"$\"}${two=\"${one}(id)\"}${two@P}"`}, ""},
	})
}

func TestAssignmentsStandAlone(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"before a command", "LC_ALL=C sort names.txt", []string{"LC_ALL:=C sort names.txt"}, ""},
		{"on their own they are a command without words", "PATH=x; ls", []string{"PATH:=x", "ls"}, ""},
		{"appending", "PATH+=:x", []string{`PATH+:=":x"`}, ""},
		{"an empty value", "x= a", []string{`x:="" a`}, ""},
		{"a redirection on its own is a command without words", "> f", []string{">write:f"}, ""},
	})
}

func TestRedirections(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"writes", "a > b >> c >| d &> e &>> f 2> g", []string{"a >write:b >>write:c >|write:d &>write:e &>>write:f 2>write:g"}, ""},
		{"reads", "a < b 3< c", []string{"a <read:b 3<read:c [stdin=file]"}, ""},
		{"read and write", "a <> b", []string{"a <>read_write:b [stdin=file]"}, ""},
		{"copies of descriptors", "a 2>&1 >&2 3<&0 >&- 2>&1-", []string{"a 2>&none:1 >&none:2 3<&none:0 >&none:- 2>&none:1-"}, ""},
		{"a word after >& is a file", "echo hi >& notes.txt; a >&$x; a >&1x", []string{"echo hi >&write:notes.txt", "a >&write:p:$x", "a >&write:1x"}, ""},
		{"a word behind a closed descriptor is an argument to bash", "rm 2>&--rf x", []string{"rm x 2>&write:--rf"}, "construct"},
		{"a word after <& is a file", "a <& f", []string{"a <&read:f [stdin=file]"}, ""},
		{"a named descriptor", "exec {fd}> f", []string{"exec {fd}>write:f"}, ""},
		{"a braces target is unknown", "a > {b,c}", []string{"a >write:d:{b,c}"}, ""},
		{"a glob target", "a > *.x", []string{"a >write:g:*.x"}, ""},
		{"a tilde target", "a > ~/x", []string{"a >write:~:~/x"}, ""},
		{"before the command", "> f a", []string{"a >write:f"}, ""},
		{"of a loop, listed once at its first command", "for i in 1; do a; b; done > f 2> g", []string{"a >write:f 2>write:g [loop]", "b [loop]"}, ""},
		{"of nested constructs", "{ { a; } > f; b; } > g", []string{"a >write:g >write:f [block,block]", "b [block]"}, ""},
		{"of a subshell, a condition and a function", "(a) > f; if b; then c; fi < g; f() { d; } >> h", []string{"a >write:f [subshell]", "b <read:g [condition; stdin=file]", "c [condition; stdin=file]", "d >>write:h [function,block; dir?]"}, ""},
		{"of a construct without commands", "case x in esac > f", []string{">write:f"}, ""},
		{"input is handed on to what stands inside", "cat x | while read l; do sh; done; { sh; } < f; { sh; } <<< x", []string{
			"cat x [pipe]", "read l [pipe,loop; stdin=pipe]", "sh [pipe,loop; stdin=pipe]", "sh <read:f [block; stdin=file]", "sh <<<none:x [block; stdin=string]", "x [block,sh string; stdin=string]",
		}, ""},
		{"a heredoc hides no pipe", "cat <<'EOF' | sh\necho hi\nEOF", []string{"cat <<none:EOF [pipe; stdin=heredoc]", "sh [pipe; stdin=pipe]"}, ""},
		{"two heredocs", "cat <<A <<-B; x\na\nA\n\tb\n\tB\ny", []string{"cat <<none:A <<-none:B [stdin=heredoc]", "x", "y"}, ""},
	})
	checkCommands(t, shell.Zsh, []commandCase{
		{"clobbering in zsh", "echo hi >| n; a >! b; a >>| c; a >>! d; a &>| e; a >&| f; a >>& g", []string{
			"echo hi >|write:n", "a >!write:b", "a >>|write:c", "a >>!write:d", "a &>|write:e", "a >&|write:f", "a >>&write:g",
		}, ""},
		{"a redirection alone starts a program in zsh", "< f", []string{"<read:f [stdin=file]"}, "construct"},
		{"disowned jobs of zsh", "a &| b &! c", []string{"a [background]", "b [background]", "c"}, ""},
	})
}

func TestDoubtfulForms(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"single quotes do not quote here", `a "${x:-'$(b)'}"`, []string{`a d:"${x:-'$(b)'}"`}, "construct"},
		{"nor in a heredoc", "a <<E\n${x:-'$(b)'}\nE", []string{"a <<none:E [stdin=heredoc]"}, "construct"},
		{"nor in arithmetic", "a $(( '$(b)' ))", []string{`a d:"$(( '$(b)' ))"`}, "construct"},
		{"double parentheses may be commands", "((a)|(b)); x=1", []string{"a [unparsed; dir?]", "b [unparsed; dir?]", "x:=1 [unparsed; dir?]"}, "syntax"},
		{"an extended glob that may be a subshell", "!(rm -rf x; b) | c", []string{"rm -rf x [pipe,subshell]", "b [pipe,subshell]", `d:"!(rm -rf x; b)" [pipe]`, "c [pipe; stdin=pipe]"}, "construct"},
		{"an extended glob with more than a pattern", "a @(x|$(b))", []string{"a d:@(x|$(b))"}, "construct"},
		{"a # that touches a quote is no comment", "a $(b 'x'# ; c\n)", []string{`a d:"$(b 'x'\\# ; c\n)"`, "b x# [substitution]", "c [substitution]"}, "construct"},
		{"nor is one that touches a substitution", "a $(b $((1))# ; c\n)", []string{`a d:"$(b $((1))\\# ; c\n)"`, "b d:$((1))# [substitution]", "c [substitution]"}, "construct"},
		{"an operator cut by the end of a line", "a \"$\\\n(b)\"", []string{"a $(b)"}, "construct"},
		{"a heredoc that ends where lines are joined", "a <<E\nE\\\n\nb\nE", []string{"a <<none:E [stdin=heredoc]"}, "construct"},
		{"a heredoc that ends at an empty line", "a <<''\n$(b)\n\nc", []string{`a <<none:"" [stdin=heredoc]`, "c"}, "construct"},
		{"a heredoc with lines that go on", "a <<E\nx \\\ny\nE", []string{"a <<none:E [stdin=heredoc]"}, ""},
		{"a carriage return", "a\r\nb", []string{"a", "b"}, "construct"},
		{"a NUL byte", "a\x00b", []string{"ab"}, "construct"},
		{"bytes that are no text", "a \xff; b", []string{"a \uFFFD", "b"}, "syntax"},
		{"a heredoc and a semicolon in one substitution", "x=$(a <<E\nE\nb; c)", []string{`x:=d:"$(a <<E\nE\nb; c)"`, "a <<none:E [substitution; stdin=heredoc]", "b [substitution]", "c [substitution]"}, "construct"},
		{"a message from a heredoc", "git commit -m \"$(cat <<'E'\nfix; a thing\nE\n)\"", []string{`git commit -m d:"$(cat <<'E'\nfix; a thing\nE\n)"`, "cat <<none:E [substitution; stdin=heredoc]"}, ""},
		{"text that runs a command where arithmetic reads it", "x='a[$(b)]'; (( x )); [ 'a[$(b)]' -eq 1 ]; for y in 'a[`b`]'; do ((y)); done", []string{`x:=d:"a[$(b)]"`, "(( P:x", `"[" d:"a[$(b)]" -eq 1 "]"`, "(( P:y [loop]"}, "construct"},
		{"a prefix that is no program", "time -- a | b", []string{"a [pipe]", "b [pipe; stdin=pipe]"}, "construct"},
		{"an alias", "alias ls='rm x'; ls", []string{`alias "ls=rm x"`, "ls"}, "construct"},
		{"asking for an alias", "alias ls", []string{"alias ls"}, ""},
	})
	checkCommands(t, shell.Zsh, []commandCase{
		{"a block without a space", "{ls}; b", []string{"{ls}", "b"}, "construct"},
		{"a brace that ends a block", "a}; b", []string{"a}", "b"}, "construct"},
		{"repeat", "repeat 3 rm x", []string{"repeat 3 rm x", "rm x [repeat]"}, "construct"},
		{"coproc", "coproc rm x", []string{"coproc rm x", "rm x [coproc]"}, "construct"},
		{"short loops", "for f (*.txt) rm $f", []string{"f [unparsed; dir?]", "g:*.txt [unparsed; dir?]", "rm p:$f [unparsed; dir?]"}, "syntax"},
		{"a function without a name runs", "() { rm x; }", []string{"rm x [function,block; dir?]"}, "construct"},
		{"precommand modifiers", "noglob rm *; - ls; nocorrect ls", []string{"noglob rm g:*", "rm g:* [noglob]", "- ls", "ls [-]", "nocorrect ls", "ls [nocorrect]"}, ""},
	})
	checkCommands(t, shell.POSIX, []commandCase{
		{"bash forms in sh", "if [[ -f x ]]; then a &> f; fi", []string{`"[[" -f x "]]" [condition]`, "a &>write:f [condition]"}, "construct"},
		{"appending in sh", "x+=1 a", []string{"x+=1 a"}, "construct"},
		{"coproc in sh", "coproc rm x", []string{"coproc rm x", "rm x [coproc]"}, "construct"},
		{"double parentheses are commands in sh", "((a))", []string{"a [subshell,subshell]"}, ""},
		{"time is grammar to some sh", "time ! a; time x=1 b", []string{"time ! a", "a [time]", "time x=1 b", "x:=1 b [time]"}, "construct"},
		{"a descriptor of two digits", "a 12> f", []string{"a 12>write:f"}, "construct"},
	})
}

func TestTextThatDoesNotParse(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"what stands before the error is kept", "rm -rf a\nls\nif", []string{"rm -rf a", "ls"}, "syntax"},
		{"what stands beside the error is found", `git push --force && (( ; if foo "bar ; rm x; $(ls`, []string{
			"git push --force [unparsed; dir?]", `foo d:"\"bar" [unparsed; dir?]`, "rm x [unparsed; dir?]", "ls [unparsed; dir?]",
		}, "syntax"},
		{"reserved words are not programs", "if rm x; then while ls", []string{"rm x [unparsed; dir?]", "ls [unparsed; dir?]"}, "syntax"},
		{"a heredoc that the end of the text ends", "sh <<E\nrm x", []string{"sh <<none:E [stdin=heredoc]", "rm x [sh heredoc; stdin=heredoc]"}, "syntax"},
	})
}

func TestUnknownDialects(t *testing.T) {
	for _, d := range []shell.Dialect{"", "fish", "powershell", "cmd", "BASH", "ba\xffsh"} {
		got := shell.Parse(d, "rm x")
		if len(got.Commands) != 0 || kinds(got) != "dialect" {
			t.Errorf("Parse(%q) = %q, %v; want no commands and a problem with the dialect", d, sketches(got), got.Problems)
		}
	}
}

func TestPlaces(t *testing.T) {
	got := shell.Parse(shell.Bash, "a  $(b)\n  c && bash -c 'd\n e'")
	want := []shell.Command{
		{Words: []shell.Word{{Value: "a", Kind: shell.Literal}, {Value: "$(b)", Kind: shell.Dynamic}}, Line: 1, Column: 1, Text: "a  $(b)"},
		{Words: []shell.Word{{Value: "b", Kind: shell.Literal}}, Via: []string{"substitution"}, Line: 1, Column: 6, Text: "b"},
		{Words: []shell.Word{{Value: "c", Kind: shell.Literal}}, Line: 2, Column: 3, Text: "c"},
		{Words: []shell.Word{{Value: "bash", Kind: shell.Literal}, {Value: "-c", Kind: shell.Literal}, {Value: "d\n e", Kind: shell.Literal, Quoted: true}}, Line: 2, Column: 8, Text: "bash -c 'd\n e'"},
		{Words: []shell.Word{{Value: "d", Kind: shell.Literal}}, Via: []string{"bash -c"}, Line: 2, Column: 8, Text: "d"},
		{Words: []shell.Word{{Value: "e", Kind: shell.Literal}}, Via: []string{"bash -c"}, Line: 2, Column: 8, Text: "e"},
	}
	if diff := cmp.Diff(want, got.Commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if len(got.Problems) != 0 {
		t.Errorf("problems = %v", got.Problems)
	}
}
