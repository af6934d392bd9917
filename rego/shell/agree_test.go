package shell_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regent-policy/regent/rego/shell"
)

var agree = flag.Int("agree", 0, "how many mutated scripts to compare with each shell, beside the listed ones")

// TestShellsRunNothingThatIsNotListed runs scripts in the shells that are
// installed, with functions a, b and c that log their arguments and no other
// program within reach, and fails where a shell runs one that the facts do not
// list although they hold no problem.
func TestShellsRunNothingThatIsNotListed(t *testing.T) {
	for _, tc := range []struct {
		program string
		args    []string
		dialect shell.Dialect
		scripts []string
	}{
		{"bash", []string{"--norc", "--noprofile"}, shell.Bash, scripts},
		{"bash", []string{"--norc", "--noprofile"}, shell.POSIX, scripts},
		{"dash", nil, shell.POSIX, scripts},
		{"zsh", []string{"-f"}, shell.Zsh, slices.Concat(scripts, zshScripts)},
	} {
		t.Run(tc.program+" as "+string(tc.dialect), func(t *testing.T) {
			program, err := exec.LookPath(tc.program)
			if err != nil {
				t.Skipf("%s is not installed", tc.program)
			}
			run := runner{program: program, args: tc.args, dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
			certain := 0
			check := func(script string) {
				facts := shell.Parse(tc.dialect, script)
				if len(facts.Problems) > 0 || unclear(facts, script) {
					return
				}
				for _, call := range run.calls(t, script) {
					certain++
					if !slices.ContainsFunc(facts.Commands, func(c shell.Command) bool { return mayBe(c, call) }) {
						t.Errorf("%q runs %q, which is not among %q", script, call, sketches(facts))
					}
				}
			}
			for _, s := range tc.scripts {
				check(s)
			}
			if certain < len(tc.scripts)/2 {
				t.Errorf("only %d calls were compared", certain)
			}
			seed := uint64(time.Now().UnixNano())
			rnd := rand.New(rand.NewPCG(seed, 0))
			for range *agree {
				check(mutate(rnd, tc.scripts))
			}
			if *agree > 0 {
				t.Logf("seed %d, %d calls compared", seed, certain)
			}
		})
	}
}

// unclear reports whether the log of script cannot be read: a word ends a record,
// or is written in two pieces while another shell writes too.
func unclear(f shell.Facts, script string) bool {
	for _, c := range f.Commands {
		for _, w := range c.Words {
			if strings.Contains(w.Value, "\x01") || strings.Contains(w.Value, "\n") && strings.ContainsAny(script, "|&") {
				return true
			}
		}
	}
	return false
}

// runner starts a shell on scripts and reads what its functions logged.
type runner struct {
	program  string
	args     []string
	dir, log string
	n        int
}

// calls are the words of each call to one of the functions.
func (r *runner) calls(t *testing.T, script string) [][]string {
	t.Helper()
	// Each run has a log of its own: what an earlier one left in the background
	// may still write.
	r.n++
	name := r.log + strconv.Itoa(r.n)
	log, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(name)
	defer log.Close()
	var functions strings.Builder
	for _, f := range []string{"a", "b", "c"} {
		fmt.Fprintf(&functions, "%s() { local IFS='\x02'; printf '%s\\002%%d\\002%%s\\001' \"$#\" \"$*\" >&3; }\n", f, f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, append(r.args, "-c", functions.String()+script)...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"PATH=/nonexistent", "HOME=/nonexistent"}, r.dir, []*os.File{log}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// How it ends does not matter: many scripts are errors.
	_ = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var calls [][]string
	for _, record := range bytes.Split(bytes.TrimSuffix(data, []byte{1}), []byte{1}) {
		name, rest, ok := strings.Cut(string(record), "\x02")
		count, args, ok2 := strings.Cut(rest, "\x02")
		switch {
		case !ok || !ok2:
		case count == "0":
			calls = append(calls, []string{name})
		default:
			calls = append(calls, append([]string{name}, strings.Split(args, "\x02")...))
		}
	}
	return calls
}

// mayBe reports whether a command that is listed may turn out as call.
func mayBe(c shell.Command, call []string) bool {
	if len(c.Words) == 0 {
		return false
	}
	if c.Words[0].Kind != shell.Literal {
		return true // nobody takes it for anything certain
	}
	return wordsMayBe(c.Words, call)
}

func wordsMayBe(words []shell.Word, call []string) bool {
	if len(words) == 0 {
		return len(call) == 0
	}
	w := words[0]
	switch {
	case w.Kind == shell.Literal && !w.Tilde:
		return len(call) > 0 && call[0] == w.Value && wordsMayBe(words[1:], call[1:])
	case w.Kind == shell.Literal, w.Kind == shell.Parameter && w.Quoted:
		return len(call) > 0 && wordsMayBe(words[1:], call[1:])
	}
	for n := range len(call) + 1 {
		if wordsMayBe(words[1:], call[n:]) {
			return true
		}
	}
	return false
}

var mutations = strings.Fields("a b c ; && || | & |& \\ ' \" ` $( ) ( (( )) $(( { } # ${x:- ${x+ ${x# } $x ${x} $' $\" <<E <<'E' <<-E <<< [[ ]] == =~ if then else fi for in do done case esac ;; ! time ~ {a,b} {1..2} x= x+= y=( y[ ] [ = $ <( @( !( +( *( ?( $[ 1 - , 2>&1 >&2 let ${ ${#x} ${!x} ${x@Q} ${x/ / \\' \\\" \\` \\$ \\\\ % : eval \\n + function f()")

// mutate makes a new script out of listed ones.
func mutate(r *rand.Rand, scripts []string) string {
	s := scripts[r.IntN(len(scripts))]
	if r.IntN(3) == 0 {
		s += []string{"; ", "\n", " && ", " | ", " & ", " "}[r.IntN(6)] + scripts[r.IntN(len(scripts))]
	}
	if r.IntN(6) == 0 {
		around := [][2]string{{"$(", ")"}, {"`", "`"}, {"(", ")"}, {"{ ", "; }"}, {`"$(`, `)"`}, {"if ", "; then b; fi"}, {"eval '", "'"}, {"for i in 1; do ", "; done"}, {"${x:-$(", ")}"}, {"a <<E\n", "\nE\n"}, {"x=$(", ")"}, {"[[ $(", ") ]]"}}
		o := around[r.IntN(len(around))]
		s = o[0] + s + o[1]
	}
	for range r.IntN(4) {
		i := r.IntN(len(s) + 1)
		switch r.IntN(6) {
		case 0, 1, 2:
			m := mutations[r.IntN(len(mutations))]
			if r.IntN(2) == 0 {
				m = " " + m + " "
			}
			s = s[:i] + m + s[i:]
		case 3:
			s = s[:i] + "\\\n" + s[i:]
		case 4:
			s = s[:i] + "\n" + s[i:]
		default:
			s = s[:i] + s[min(i+1, len(s)):]
		}
	}
	return s
}

// scripts call a, b and c in every form that the shells have in common, and in
// forms of which they make different things.
var scripts = []string{
	"time -- a", "time -p -- a", "time ! a", "! time a", "time -- a | b", "time { a; }", "time (a; b)", "if ! a; then b; fi", "while ! a; do b; done", "{ a;}", "for x do a; done", "for x in; do a; done; b",
	"x=y >&2 a", ">&2 x=y a b", "x=y eval 'a'", "x=y z=w", "a <<\"E F\"\n$(b)\nE F\nc", "a <<E-F\n$(b)\nE-F\nc", "a <<$x\n$(b)\n$x\nc", "a <<\\E\n$(b)\nE\nc", "a <<''\n$(b)\n\nc", "a <<E\nE \n $(b)\nE\nc", "(a <<E)\n$(b)\nE\nc", "{ a <<E; b; }\nx\nE\nc",
	"a `b <<E\nx\nE\n` c", "a <<E && b\nx\nE", "a <<E || b <<F\nx\nE\ny\nF", "a <<E \\\n b\nx\nE", "for ((;;)) { a; break; }", "( (a) )", "((a) )", "( (a); b)", "[[ a &&\n b ]] && a", "a < <(b)", "a > >(b)", "a 3< <(b) <&3", "a ${x%%+(y)} b", "a ${x:?$(b)}; c", "a ${x+$(b)} c",
	"function f { a; } 2>&1; f", "function f() { a; }; f", "function f() (a); f b", "! ! a", "declare -A x=([y]=z [$(a)]=b); c", "f() { local x=$(a) y=(b $(c)); }; f", "export -n x; a", "'a' x", "\"a\" x", "\\a x", "a'' x", "$'a' x", "{a,b} x", "a{,} x", "if a; then b; fi | c", "while a; do b; break; done | c", "case x in x) a;; esac | c", "for i in 1; do a; done && c", "{ a; } && b || { c; }",
	"a\\\n&& b", "a | \\\n b", "a &&\\\nb", "a; \\\nb", "a \\\n\\\n b", "if a\\\nthen b; fi", "a \"b\\\nc\"", "a 'b\\\nc'", "a \"$(b\\\n c)\"", "a ${x\\\n:-b}", "a $x\\\ny", "a '' \"\" $'' b", "a \"\"'' x", "a x\"\"y", "a [[ b ]]", "a { b }", "a if then fi", "a do done", "a ! b", "a time b", "a in b", "case in in in) a;; esac", "for in in x; do a $in; done", "a case x in esac",
	"a 1>&2", "a 1 >&2", "a x1>&2", "a {x}>&2", "a -1 >&2", "a 2>&1 3>&1 4>&-", "a>&2", "a>&2b", "a|b|c", "a&&b||c;a", "(a)|(b)", "(a)&&(b)", "{ a; }|{ b; }", "a&b&c", "a;b;c;", ";a", "&& a", "a &&", "a |", "a;;", "()", "( )", "{ }", "{ ; }", "if", "fi", "a fi", "}", "a }", "a )", "a ]]", "a esac", "do a", "a; do b", "then a",
	"x=${y:-$(a)}; b", "x=\"$(a)\" b", "x='$(a)' b", "x=`a`$(b) c", "x[0]=a; b", "x[a]=b c", "x=(a) b", "x=()", "x+=(a $(b)); c", "a x=(b)", "a x[1]=b", "a =b", "=a b", "a= b", "a=\\\n b",
	"a # b # c\nc", "a #\nb", "#\na", "a;#b\nc", "a&#b\nc", "a|#b\nc", "(#b\na)", "{ #b\na; }", "a $(#b\nc)", "a `#b`", "a ${x#b}#c", "a \"#b\"", "a '#b' #c", "a b#c", "a $#", "a ${#}", "a ${#x} #b", "if a #b\nthen c; fi", "case x in #a\nx) b;; #c\nesac", "for i in a #b\ndo c; done", "a && #b\nc", "x=(a #b\nc); b", "a \\#b", "[[ a ]] #b\nc",
	"!(a)", "!(a; b)", "if !(a); then b; fi", "a && !(b) | c", "! (a)", "! { a; }", "!a", "@(a)", "!(a)b", "a; !(b x) && c",
	"a x; b y", "a && b || c", "a | b |& c", "a & b", "a # x \\\nb", "a 'x y' \"z $x\"", "a $(b x)", "a `b x`", "a \"$(b \"$(c)\")\"",
	"a \"`b \\\"x\\\"`\"", "a `b \\`c\\``", "a ${x:-$(b)}", "a \"${x:-$(b)}\"", "a \"${x:-'$(b)'}\"", "a ${x:-'$(b)'}",
	"a ${x:-\"$(b)\"}", "a <<E\nx $(b)\nE\nc", "a <<'E'\nx $(b)\nE\nc", "a <<-E\n\tx `b`\n\tE\nc", "a <<E | b\nx\nE",
	"a <<E; b <<F\nx\nE\ny\nF\nc", "a <<< $(b)", "a <<\"E\"\n$(b)\nE\nc", "if a; then b; else c; fi",
	"for i in x $(a); do b $i; done", "case x in x) a;; y) b;; *) c;; esac", "case a in a|b) a;& (c) b;; esac",
	"while a; do b; break; done", "{ a; b; }", "(a; b)", "((1+1)); a", "a $((1+2))", "a $(( $(b; echo 1) ))", "((a)|(b))",
	"((a);(b))", "a $((b)|(c))", "a $( (b)|(c) )", "[[ x == $(a) ]] && b", "[[ x =~ (x|y) ]] && a", "[[ x =~ $(a) ]] ; b",
	"[[ ( x == y ) || z ]]; a", "[[ x =~ ^[a-z]\\ \\(b ]] ; a", "[[ a < b ]] && a", "f() { a; b; }; f", "function f { a; }; f",
	"f() (a); f", "time a", "! a", "time -p a | b", "a {x,y} {1..3} z{,w}", "a $'x\\'y' b", "a $\"x\" b", "a ~ ~/x", "a \\; b",
	"a \\\nb", "a\\\n b", "x=1 a", "x=$(a) b", "x=(1 $(a) 2); b", "x+=y; a", "y[1]=z; a", "y[$(a)]=z; b", "a <(b) ", "a @(x|y)",
	"a !(x)", "a +(x|$(b))", "a *(x", "a ?(x)y", "[ x = y ] || a", "eval 'a; b'", "eval \"a $(b)\"", "eval a \\; b", "a $[1+1]",
	"a \"$[1]\"", "let 'x=1'; a", "let x=1 y=2; a", "a 2>&1 | b", "a >&2; b", "a 2>&1 >&2 # b\nc", "a;\n\n# c\nb", "a |\n b",
	"a &&\n# x\n b", "a \\\n# b\nc", "a x#y #z\nb", "a ${#x} ${x#y} ${x##$(b)} #c\nb", "a '#' \"#\" \\# b", "a $(b # x )\n)",
	"a $(b <<E\nx\nE\n)", "a \"$(b <<E\n\"\nE\n)\"", "a `b # x`; c", "a $(case x in x) b;; esac)", "a $(case x in (x) b;; esac) c",
	"a \"${x-`b`}\" c", "a ${x/'a'/$(b)}", "a \"${x/'a'/$(b)}\"", "a ${x:+\\}} b; c", "a ${x:-{y,z}} b", "a ${x:-a b} c",
	"a \"${x:-\"a b\"}\" c", "a ${x:-`b`} c", "until a; do b; done", "select i in x; do a; break; done", "coproc a",
	"coproc { a; }; b", "{ a; } 2>&1 | { b; }", "a() { b; } ; (a)", "a; } b", "a 'x\ny' b", "a $'x\\\ny'",
	"for ((i=0;i<2;i++)); do a $i; done", "for i; do a; done; b", "for i in a b\ndo c\ndone", "if a\nthen b\nelif c\nthen :\nfi",
	"a $(b; c) `b; c`", "a ${x:-$((1+$(b; echo 1)))}", "a \"$( b ')' )\" c", "a \"$( b \\) )\" c", "a $(b ')' ) c", "a ${x:-')'} c",
	"a ${x:-\\'} c", "a \"${x:-\\'$(b)}\" c", "a \"${x:-\\\"$(b)}\" c", "a \"\\$(b)\" c", "a \\$(b) c", "a \"\\`b\\`\" c",
	"a \\`b\\` c", "a '\\' b", "a \"\\\\\" b", "a \\\\ b", "bash -c 'a; b'", "env a", "command a; builtin eval b", "command -p a",
	"exec a", "eval eval a", "trap a EXIT; b", "trap 'a; b' EXIT", "x='a b'; $x", "x=a; $x y", "set -- a b; \"$@\"",
	"a=(x); b \"${a[@]}\"", "declare x=$(a); b", "export x=`a`; b", "local x=$(a)", "readonly x=y z=$(a)", "declare -a x=(y $(a))",
	"typeset x=$(a) y", "a $(<x) b", "a ${ b; } c", "a \"$x\"'y'z", "a a=~/x:~ =~", "a x{a,b}y{c,d}z", "a {a,{b,c}} {x} {} {,}",
	"a {1..10..3} {a..e} {01..03}", "a \"{a,b}\"{c,d}'e'", "a ''{,} \"\" x", "a $x $y z", "a \"$x\" $*", "a -x -- --y=z",
	"a [x] [ ] ]", "a $(b 'x'#; c\n)", "a $(b $x# ; c\n)", "a `b ${x}#; c\n`", "(a 'x'# ; b\n)", "{ a \"x\"# ; b\n}",
	"a <(b 'x'# ; c\n)", "x=(a 'b'# $(c)\n)", "case x in 'x'#) a;; *) b;; esac", "a $((1))# ; b", "[[ 'a'#b == $(c) ]]", "a $(b)#c",
	"f() { a 'b'# ; c\n}; f",
}

// zshScripts are forms of zsh alone.
var zshScripts = []string{
	"for i (x y) a $i", "for i in x y; a $i", "for i in x y; do a $i; done", "if [[ x == x ]] a", "if [[ x ]] { a } else { b }",
	"repeat 2 a", "repeat 2 { a; }", "repeat 2; do a; done", "while [[ -z $x ]] { x=1; a }", "a =a", "() { a } b", "() { a; } b; c",
	"function { a }", "{ a } always { b }", "a &| b", "a &! b", "a |& b", "${:-a} b", "x='$(a)'; b ${(e)x}", "x='$(a)'; b ${(e)x} c",
	"a ${${x:-y}:-z}", "a ${${x:-$(b)}:-z}", "case x { x) a ;; }", "case x in (x|y) a;| *) b;; esac", "foreach i (x y) a $i; end",
	"a *(e:'b':N)", "a x(|y)", "a x(N)", "noglob a *", "- a", "nocorrect a", "a $x[1]", "a $x[$(b)]", "a $x:h", "a $#x", "a $+x",
	"a $^x $=x $~x", "a <1-3>(N)", "a ^x", "a (x|y)(N)", "function f g { a }; g", "f g() { a }; g", "alias c=a\nc x",
	"alias -g X='; b'\na X", "a ${x:s/x/y/}", "a ${x:s/x/$(b)/}", "a \"${x:s/x/`b`/}\"", "a ${(s.:.)x}", "a ${(e):-'$(b)'}",
	"a ${(%):-'%D'}", "a \"${(@)x}\"", "a $x(N)", "a \"$x[1]\"", "a ${x[(r)$(b)]}", "a $[1+1]", "a \"$[1]\"", "a $((1+1))",
	"(( x = 1 )); a", "let x=1; a", "[[ x = (x|y) ]] && a", "[[ -n $(a) ]] && b", "a =(b)", "a <(b) >(c)", "a >&2 | b",
	"a 2>&1 >&2; b", "a <<< x", "a <<<$(b)", "a ''{,} {a..c} {3..1} {01..03} {1..5..2}", "a x{1,2}y", "time a", "coproc a",
	"coproc { a }; b", "typeset x=$(a); b", "local x=$(a) y", "export x=~/y:~; a", "a ~ ~/x ~+ ~-", "a x=~", "a 'x''y'",
	"setopt rcquotes; a 'x''y'", "a $'\\x41\\n\\e\\u0041'", "a $\"x\"", "exec a", "command a", "builtin eval a", "eval 'a; b'",
	"a; } b", "{ a; }; b", "{a}; b", "if a; then b; fi", "if a { b }", "if (a) { b } elif { c } { a }", "while (a) { b; break }",
	"for ((i=0;i<2;i++)) a", "for ((i=0;i<2;i++)) { a }", "for i; do a; done; b", "select i (x) a", "until a; do b; done", "a # b",
	"a \\# b", "a#b", "! a", "!a", "a !b", "a\\!b", "a x^y x~y x#y", "a {x} {} }", "a }", "a; # b", "a % b", "a ? *",
	"[ x = y ] || a", "[ x == y ] || a", "test x = y || a", "a ${x?} b", "a ${x:?b}", "x=(a b); $x", "x=(a b); ${x[@]} c",
	"x=(1 2); a \"$x\" $x[2]", "a ${=x} b", "x='a b'; ${=x}", "x='a b'; $=x", "x='a b'; $x; b", "a &&\n b", "a ;& b", "a ;; b",
	"a 1>&2 2>&1",
}
