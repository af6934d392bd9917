package shell_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego/shell"
)

func TestWrappersAreOpened(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"env with options and variables", "env -i -u A -C sub B=c D=$x rm x", []string{"env -i -u A -C sub B=c p:D=$x rm x", "B:=c D:=p:$x rm x [env; dir=sub]"}, "wrapper"},
		{"env with quoted values", `env - -- B=c D="$x" rm x`, []string{`env - -- B=c P:D=$x rm x`, "B:=c D:=P:$x rm x [env]"}, ""},
		{"env in a folder", "env --chdir=sub rm x; env -C /a ls", []string{"env --chdir=sub rm x", "rm x [env; dir=sub]", "env -C /a ls", "ls [env; dir=/a]"}, ""},
		{"env alone starts nothing", "env; env A=b; env --help rm", []string{"env", "env A=b", "env --help rm"}, ""},
		{"env that splits a string", `env -S "rm x" y`, []string{`env -S "rm x" y`, "rm x y [env; dir?]"}, "wrapper"},
		{"sudo", "sudo -u root -n A=b -- rm x; sudo -v; sudo -l rm", []string{"sudo -u root -n A=b -- rm x", "A:=b rm x [sudo]", "sudo -v", "sudo -l rm"}, ""},
		{"sudo with a login shell", "sudo -i rm x", []string{"sudo -i rm x", "rm x [sudo; dir?]"}, "wrapper"},
		{"sudo with clustered and glued options", "sudo -nEuroot rm x; sudo --user=root rm y", []string{"sudo -nEuroot rm x", "rm x [sudo]", "sudo --user=root rm y", "rm y [sudo]"}, ""},
		{"doas", "doas -u root rm x", []string{"doas -u root rm x", "rm x [doas]"}, ""},
		{"nice, ionice and nohup", "nice -n 5 nice -10 nice --adjustment=3 ionice -c2 -n 0 nohup rm x", []string{
			"nice -n 5 nice -10 nice --adjustment=3 ionice -c2 -n 0 nohup rm x", "nice -10 nice --adjustment=3 ionice -c2 -n 0 nohup rm x [nice]",
			"nice --adjustment=3 ionice -c2 -n 0 nohup rm x [nice,nice]", "ionice -c2 -n 0 nohup rm x [nice,nice,nice]",
			"nohup rm x [nice,nice,nice,ionice]", "rm x [nice,nice,nice,ionice,nohup]",
		}, ""},
		{"ionice of a process starts nothing", "ionice -p 12", []string{"ionice -p 12"}, ""},
		{"setsid, stdbuf and timeout", `setsid -f stdbuf -oL timeout -k 5 --signal=KILL "$t" rm x`, []string{
			`setsid -f stdbuf -oL timeout -k 5 --signal=KILL P:$t rm x`, `stdbuf -oL timeout -k 5 --signal=KILL P:$t rm x [setsid]`,
			`timeout -k 5 --signal=KILL P:$t rm x [setsid,stdbuf]`, "rm x [setsid,stdbuf,timeout]",
		}, ""},
		{"time as a program", `\time -f %e rm x; command time -p ls`, []string{"time -f %e rm x", "rm x [time]", "command time -p ls", "time -p ls [command]", "ls [command,time]"}, ""},
		{"command, builtin and exec", "command -p rm x; command -v rm; builtin cd; exec -a n rm y; exec > f", []string{
			"command -p rm x", "rm x [command]", "command -v rm", "builtin cd", "cd [builtin]", "exec -a n rm y [dir=~]", "rm y [exec; dir=~]", "exec >write:f [dir=~]",
		}, ""},
		{"eval", "eval rm x; eval 'a; b $c'; eval -- ls", []string{"eval rm x", "rm x [eval]", `eval "a; b $c"`, "a [eval]", "b p:$c [eval]", "eval -- ls", "ls [eval]"}, ""},
		{"eval of what is not known", `eval "rm $x"`, []string{`eval P:"rm $x"`, "rm p:$x [eval]"}, "wrapper"},
		{"trap", "trap 'rm x' EXIT; trap - INT; trap '' TERM; trap -p; trap", []string{`trap "rm x" EXIT`, "rm x [trap; dir?]", "trap - INT", `trap "" TERM`, "trap -p", "trap"}, ""},
		{"trap of what is not known", `trap "$x" EXIT`, []string{"trap P:$x EXIT", "p:$x [trap; dir?]"}, "wrapper"},
		{"xargs", "cat l | xargs -0 -n 1 -P4 --no-run-if-empty rm -f", []string{"cat l [pipe]", "xargs -0 -n 1 -P4 --no-run-if-empty rm -f [pipe; stdin=pipe]", "rm -f [pipe,xargs; open]"}, ""},
		{"xargs with a mark", "xargs -I{} mv {} {}.bak; xargs -i% rm %; xargs --replace=X ls X y", []string{
			"xargs -I{} mv {} {}.bak", "mv P:{} P:{}.bak [xargs; open]", "xargs -i% rm %", "rm P:% [xargs; open]", "xargs --replace=X ls X y", "ls P:X y [xargs; open]",
		}, ""},
		{"xargs alone", "xargs; xargs -n 1", []string{"xargs", "xargs -n 1"}, ""},
		{"xargs with a shell", "xargs sh -c 'rm \"$@\"' _", []string{`xargs sh -c "rm \"$@\"" _`, `sh -c "rm \"$@\"" _ [xargs; open]`, "rm p:$@ [xargs,sh -c]"}, "wrapper"},
		{"find", `find . -name '*.log' -exec rm {} + -execdir mv -- {} {}.x \; -ok ls \; -okdir id ';'`, []string{
			`find . -name *.log -exec rm {} + -execdir mv -- {} {}.x ; -ok ls ; -okdir id ;`,
			"rm P:{} [find -exec; open]", "mv -- P:{} P:{}.x [find -execdir; open; dir?]", "ls [find -ok]", "id [find -okdir; dir?]",
		}, ""},
		{"a plus inside -exec does not end it", `find -exec a + b \;`, []string{`find -exec a + b ;`, "a + b [find -exec]"}, ""},
		{"an -exec without end", "find -exec rm x", []string{"find -exec rm x", "rm x [find -exec]"}, "wrapper"},
		{"find that only searches", "find . -type f", []string{"find . -type f"}, ""},
		{"fd", `fd -e go -x wc -l; fd -X rm {} \; x; fd --exec=ls; fd foo`, []string{
			"fd -e go -x wc -l", "wc -l [fd -x; open]", "fd -X rm {} ; x", "rm P:{} [fd -X; open]", "fd --exec=ls", "ls [fd --exec; open]", "fd foo",
		}, "wrapper"},
		{"a shell with a script", "bash -c 'ls | rm x'; sh -lc ls; zsh -ic ls; /bin/dash -euc ls; bash -o pipefail -c ls; bash --norc --noprofile -c ls; bash -l -c ls", []string{
			`bash -c "ls | rm x"`, "ls [bash -c,pipe]", "rm x [bash -c,pipe; stdin=pipe]", "sh -lc ls", "ls [sh -c]", "zsh -ic ls", "ls [zsh -c]", "/bin/dash -euc ls", "ls [dash -c]",
			"bash -o pipefail -c ls", "ls [bash -c]", "bash --norc --noprofile -c ls", "ls [bash -c]", "bash -l -c ls", "ls [bash -c]",
		}, ""},
		{"a shell with more than a script", "bash -c 'rm $1' _ x", []string{`bash -c "rm $1" _ x`, "rm p:$1 [bash -c]"}, "wrapper"},
		{"a shell with options that are not known", "bash --rcfile f -c 'rm x'; bash -D -c 'rm x'", []string{`bash --rcfile f -c "rm x"`, `bash -D -c "rm x"`, "rm x [bash -c]"}, "wrapper"},
		{"a shell with a script that is not known", `bash -c "rm $x"; bash -c "$(cat s)"`, []string{`bash -c P:"rm $x"`, "rm p:$x [bash -c]", `bash -c d:"$(cat s)"`, "cat s [substitution]", `d:"$(cat s)" [bash -c]`, "cat s [bash -c,substitution]"}, "wrapper"},
		{"a shell without a grammar", "fish -c 'rm x'; ksh -c 'rm y'", []string{`fish -c "rm x"`, "rm x [fish -c]", `ksh -c "rm y"`, "rm y [ksh -c]"}, "wrapper"},
		{"a shell that reads a file is not opened", "bash s.sh; bash; sh -s", []string{"bash s.sh", "bash", "sh -s"}, ""},
		{"a shell that reads a heredoc", "bash -eu <<'E'\nrm $x\nE\nsh -s a <<< 'rm y'; bash s.sh <<< 'no'", []string{
			"bash -eu <<none:E [stdin=heredoc]", "rm p:$x [bash heredoc; stdin=heredoc]", `sh -s a <<<none:"rm y" [stdin=string]`, "rm y [sh string; stdin=string]", `bash s.sh <<<none:no [stdin=string]`,
		}, ""},
		{"a shell that reads a heredoc with expansions", "sudo bash <<E\nrm $x \\$y\nE", []string{"sudo bash <<none:E [stdin=heredoc]", "bash [sudo; stdin=heredoc]", "rm p:$x p:$y [sudo,bash heredoc; stdin=heredoc]"}, "wrapper"},
		{"su and script", "su -c 'rm x' bob; su - bob --command='rm y'; script -q -c 'rm z' f; su bob", []string{
			`su -c "rm x" bob`, "rm x [su -c; dir?]", `su - bob "--command=rm y"`, "rm y [su -c; dir?]", `script -q -c "rm z" f`, "rm z [script -c]", "su bob",
		}, ""},
		{"su with an option that is not known", "su --foo -c 'rm x'", []string{`su --foo -c "rm x"`, "rm x [su -c; dir?]"}, "wrapper"},
		{"watch joins its words", "watch -n 1 'ls | wc' -l; watch -x rm x", []string{`watch -n 1 "ls | wc" -l`, "ls [watch,pipe]", "wc -l [watch,pipe; stdin=pipe]", "watch -x rm x", "rm x [watch]"}, ""},
		{"flock", "flock -n l rm x; flock l -c 'rm y'; flock 9", []string{"flock -n l rm x", "rm x [flock]", `flock l -c "rm y"`, "rm y [flock -c]", "flock 9"}, ""},
		{"chroot and unshare run who knows where", "chroot --userspec=a / rm x; unshare -rn --mount rm y", []string{"chroot --userspec=a / rm x", "rm x [chroot; dir?]", "unshare -rn --mount rm y", "rm y [unshare; dir?]"}, ""},
		{"busybox and toybox", "busybox rm x; toybox; busybox --list", []string{"busybox rm x", "rm x [busybox]", "toybox", "busybox --list"}, ""},
		{"parallel", "parallel -j4 rm ::: a b; parallel", []string{`parallel -j4 rm ":::" a b`, "rm [parallel; open]", "parallel"}, "wrapper"},
		{"programs that only sound like wrappers", "ssh host rm x; docker exec c rm x", []string{"ssh host rm x", "docker exec c rm x"}, ""},
		{"an option that is not known", "nice --foo rm x; timeout -Z 5 rm x", []string{"nice --foo rm x", "rm x [nice]", "timeout -Z 5 rm x", "5 rm x [timeout]"}, "wrapper"},
		{"an abbreviated option is not known", "nice --adj=5 rm x", []string{"nice --adj=5 rm x", "rm x [nice]"}, "wrapper"},
		{"an argument that may be an option", "nice $x rm y; env $x", []string{"nice p:$x rm y", "env p:$x"}, "wrapper"},
		{"a value that is missing", "timeout -k", []string{"timeout -k"}, "wrapper"},
		{"a program that is not known", `nice "$x" y; $x -c 'rm z'`, []string{"nice P:$x y", "P:$x y [nice]", `p:$x -c "rm z"`}, ""},
		{"wrappers in wrappers", `sudo -u root env -i A=b timeout 5 bash -c "ls && nice rm x"`, []string{
			`sudo -u root env -i A=b timeout 5 bash -c "ls && nice rm x"`, `env -i A=b timeout 5 bash -c "ls && nice rm x" [sudo]`, `A:=b timeout 5 bash -c "ls && nice rm x" [sudo,env]`,
			`bash -c "ls && nice rm x" [sudo,env,timeout]`, "ls [sudo,env,timeout,bash -c]", "nice rm x [sudo,env,timeout,bash -c]", "rm x [sudo,env,timeout,bash -c,nice]",
		}, ""},
		{"a wrapper at the end of a pipe", "cat x | sudo sh", []string{"cat x [pipe]", "sudo sh [pipe; stdin=pipe]", "sh [pipe,sudo; stdin=pipe]"}, ""},
	})
}

func TestParseArgv(t *testing.T) {
	for _, tc := range []struct {
		name     string
		argv     []string
		want     []string
		problems string
	}{
		{"all words are literal", []string{"ls", "*.go", "$x", "~", "{a,b}", "a b", ""}, []string{`ls *.go $x ~ {a,b} "a b" ""`}, ""},
		{"a shell with a script", []string{"bash", "-lc", "ls src | wc -l"}, []string{`bash -lc "ls src | wc -l"`, "ls src [bash -c,pipe]", "wc -l [bash -c,pipe; stdin=pipe]"}, ""},
		{"a shell with more than a script", []string{"/bin/sh", "-c", "rm x", "y"}, []string{`/bin/sh -c "rm x" y`, "rm x [sh -c]"}, "wrapper"},
		{"a zsh script", []string{"zsh", "-c", "rm =x"}, []string{`zsh -c "rm =x"`, "rm d:=x [zsh -c]"}, ""},
		{"a script that moves", []string{"bash", "-lc", "cd src && ls"}, []string{`bash -lc "cd src && ls"`, "cd src [bash -c]", "ls [bash -c; dir=src]"}, ""},
		{"a wrapper", []string{"env", "MODE=1", "python3", "-c", "print(1)"}, []string{"env MODE=1 python3 -c print(1)", "MODE:=1 python3 -c print(1) [env]"}, ""},
		{"operators are words", []string{"echo", "a", "&&", "rm", ">", "x"}, []string{"echo a && rm > x"}, ""},
		{"there is no shell that could move", []string{"cd", "/x"}, []string{"cd /x"}, ""},
		{"nothing at all", nil, nil, "syntax"},
		{"bytes that are no text", []string{"a", "\xff"}, []string{"a d:\uFFFD"}, "syntax"},
		{"a NUL byte", []string{"a", "b\x00c"}, []string{`a "b\x00c"`}, "syntax"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := shell.ParseArgv(tc.argv)
			if diff := cmp.Diff(tc.want, sketches(got)); diff != "" {
				t.Errorf("commands of %q (-want +got):\n%s", tc.argv, diff)
			}
			if k := kinds(got); k != tc.problems {
				t.Errorf("problems of %q = %v, want %q", tc.argv, got.Problems, tc.problems)
			}
		})
	}
}
