//go:build unix

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
