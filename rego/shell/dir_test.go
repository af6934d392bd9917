package shell_test

import (
	"strings"
	"testing"

	"github.com/regent-policy/regent/rego/shell"
)

func TestFolders(t *testing.T) {
	checkCommands(t, shell.Bash, []commandCase{
		{"after && and ;", "cd a && ls; ls\nls", []string{"cd a", "ls [dir=a]", "ls [dir=a]", "ls [dir=a]"}, ""},
		{"step by step", "cd a; cd ../b/./c; ls; cd /d; ls; cd ..; ls", []string{"cd a", "cd ../b/./c [dir=a]", "ls [dir=b/c]", "cd /d [dir=b/c]", "ls [dir=/d]", "cd .. [dir=/d]", "ls [dir=/]"}, ""},
		{"above the start", "cd ..; ls; cd ..; ls", []string{"cd ..", "ls [dir=..]", "cd .. [dir=..]", "ls [dir=../..]"}, ""},
		{"back to the start", "cd a; cd ..; ls", []string{"cd a", "cd .. [dir=a]", "ls"}, ""},
		{"and back again", "cd a; cd /b; cd -; ls; cd -; ls", []string{"cd a", "cd /b [dir=a]", "cd - [dir=/b]", "ls [dir=a]", "cd - [dir=a]", "ls [dir=/b]"}, ""},
		{"back to where nobody has been", "cd -; ls", []string{"cd -", "ls [dir?]"}, ""},
		{"home", "cd; ls; cd ~/a; ls; cd ..; ls; cd ..; ls", []string{"cd", "ls [dir=~]", "cd ~:~/a [dir=~]", "ls [dir=~/a]", "cd .. [dir=~/a]", "ls [dir=~]", "cd .. [dir=~]", "ls [dir?]"}, ""},
		{"a folder that is called like home", "cd '~'; ls", []string{"cd ~", "ls [dir=./~]"}, ""},
		{"options", "cd -P a; cd -L -- b; ls; cd -P ..; ls", []string{"cd -P a", "cd -L -- b [dir=a]", "ls [dir=a/b]", "cd -P .. [dir=a/b]", "ls [dir?]"}, ""},
		{"through a wrapper of the shell", "builtin cd a && command cd b && ls; eval cd c; ls", []string{"builtin cd a", "cd a [builtin]", "command cd b [dir=a]", "cd b [command; dir=a]", "ls [dir=a/b]", "eval cd c [dir=a/b]", "cd c [eval; dir=a/b]", "ls [dir=a/b/c]"}, ""},
		{"a wrapper that is a program cannot move", "env cd a; bash -c 'cd b; ls'; ls", []string{"env cd a", "cd a [env]", `bash -c "cd b; ls"`, "cd b [bash -c]", "ls [bash -c; dir=b]", "ls"}, ""},

		{"a subshell", "(cd a && ls); ls", []string{"cd a [subshell]", "ls [subshell; dir=a]", "ls"}, ""},
		{"a block", "{ cd a; ls; }; ls", []string{"cd a [block]", "ls [block; dir=a]", "ls [dir=a]"}, ""},
		{"the background", "cd a & ls", []string{"cd a [background]", "ls"}, ""},
		{"a substitution", "x $(cd a; ls) && ls", []string{`x d:"$(cd a; ls)"`, "cd a [substitution]", "ls [substitution; dir=a]", "ls"}, ""},
		{"a pipe", "cd a | ls; ls", []string{"cd a [pipe]", "ls [pipe; stdin=pipe]", "ls"}, ""},
		{"the last part of a pipe, which may be this shell", "ls | cd a; ls", []string{"ls [pipe]", "cd a [pipe; stdin=pipe]", "ls [dir?]"}, ""},

		{"a way out when it fails", "cd a || exit 1; ls", []string{"cd a", "exit 1", "ls [dir=a]"}, ""},
		{"a longer way out", "cd a || { echo no; exit; }; ls", []string{"cd a", "echo no [block]", "exit [block]", "ls [dir=a]"}, ""},
		{"a command when it fails", "cd a || ls; ls", []string{"cd a", "ls", "ls [dir?]"}, ""},
		{"another folder when it fails", "cd a || cd b; ls", []string{"cd a", "cd b", "ls [dir?]"}, ""},
		{"only when something else works", "make && cd a; ls", []string{"make", "cd a", "ls [dir?]"}, ""},
		{"only when something else fails", "make || cd a; ls", []string{"make", "cd a", "ls [dir?]"}, ""},
		{"later in the same chain", "make && cd a && ls", []string{"make", "cd a", "ls [dir=a]"}, ""},
		{"the other way of a chain", "cd a && make || ls", []string{"cd a", "make [dir=a]", "ls [dir?]"}, ""},
		{"a negated one", "! cd a && ls", []string{"cd a", "ls [dir?]"}, ""},

		{"in one branch", "if x; then cd a; ls; fi; ls", []string{"x [condition]", "cd a [condition]", "ls [condition; dir=a]", "ls [dir?]"}, ""},
		{"in every branch alike", "if x; then cd a; else cd a; fi; ls", []string{"x [condition]", "cd a [condition]", "cd a [condition]", "ls [dir=a]"}, ""},
		{"as a condition", "if cd a; then ls; else ls; fi", []string{"cd a [condition]", "ls [condition; dir=a]", "ls [condition; dir?]"}, ""},
		{"in a loop", "for i in 1 2; do ls; cd a; ls; done; ls", []string{"ls [loop; dir?]", "cd a [loop; dir?]", "ls [loop; dir?]", "ls [dir?]"}, ""},
		{"and back in a loop", "for i in 1 2; do (cd a; ls); ls; done", []string{"cd a [loop,subshell]", "ls [loop,subshell; dir=a]", "ls [loop]"}, ""},
		{"in a case", "case x in y) cd a; ls;; esac; ls", []string{"cd a [case]", "ls [case; dir=a]", "ls [dir?]"}, ""},
		{"falling through a case", "case x in y) cd a;& z) ls;; esac", []string{"cd a [case]", "ls [case; dir?]"}, ""},

		{"one that grows and grows", "cd /" + strings.Repeat("a", 1023) + "; ls; cd b; ls", []string{"cd /" + strings.Repeat("a", 1023), "ls [dir=/" + strings.Repeat("a", 1023) + "]", "cd b [dir=/" + strings.Repeat("a", 1023) + "]", "ls [dir?]"}, ""},
		{"a target that is not known", `cd "$x"; ls`, []string{"cd P:$x", "ls [dir?]"}, ""},
		{"known again after an absolute one", `cd "$x"; cd /a; ls; cd b; ls`, []string{"cd P:$x", "cd /a [dir?]", "ls [dir=/a]", "cd b [dir=/a]", "ls [dir=/a/b]"}, ""},
		{"a glob, two words, an empty one", "(cd a*; ls); (cd a b; ls); (cd ''; ls); (cd +1; ls)", []string{"cd g:a* [subshell]", "ls [subshell; dir?]", "cd a b [subshell]", "ls [subshell; dir?]", `cd "" [subshell]`, "ls [subshell; dir?]", "cd +1 [subshell]", "ls [subshell; dir?]"}, ""},
		{"the directory stack", "pushd a; ls; popd", []string{"pushd a", "ls [dir?]", "popd [dir?]"}, ""},
		{"a script that is read in", ". ./env; ls", []string{". ./env", "ls [dir?]"}, ""},
		{"a search path for folders", "CDPATH=/x; cd a; ls; cd ./b; cd /c; ls", []string{"CDPATH:=/x", "cd a", "ls [dir?]", "cd ./b [dir?]", "cd /c [dir?]", "ls [dir=/c]"}, ""},
		{"another home", "HOME=/x; cd; ls", []string{"HOME:=/x", "cd", "ls [dir?]"}, ""},
		{"home only read", "cd; ls $HOME ${HOME}", []string{"cd", "ls p:$HOME p:${HOME} [dir=~]"}, ""},
		{"a function", "f() { cd a; ls; }; ls", []string{"cd a [function,block; dir?]", "ls [function,block; dir?]", "ls"}, ""},
		{"a text that does not parse", "cd a\nls )", []string{"cd a", "ls [unparsed; dir?]"}, "syntax"},
	})
}
