package argv

import (
	"path"
	"slices"
	"strings"
)

// starter returns the program in an element of shell.Command.Via, as in
// "find -exec" or "/bin/bash -c".
func starter(via string) string {
	program, _, _ := strings.Cut(via, " ")
	return path.Base(program)
}

// started reports whether a later command says that it was started by command i.
func started(scanners []scanner, i int) bool {
	depth := len(scanners[i].cmd.Via)
	for j := i + 1; j < len(scanners); j++ {
		via := scanners[j].cmd.Via
		if len(via) > depth && starter(via[depth]) == scanners[i].node.Program {
			return true
		}
	}
	return false
}

// fed judges the operands that command i takes from another one.
//
// What find -exec puts in place of {} starts with a folder that find was given, so
// it is neither an option nor elsewhere. What xargs reads may be cut at blanks into
// words of any form: that is only fine for programs that no word harms, and where
// files are read, if the words are names of files below known folders. They are
// marked as PathInput for rules that deny files: a name with blanks in it can still
// come to mean another file.
func (s *scanner) fed(scanners []scanner, i int) {
	if s.spec == nil || len(s.cmd.Via) == 0 {
		s.problem("operands come from input")
		return
	}
	depth := len(s.cmd.Via) - 1
	by := starter(s.cmd.Via[depth])
	at := -1
	for j := i - 1; j >= 0 && at < 0; j-- {
		c := scanners[j].cmd
		if len(c.Via) == depth && scanners[j].node.Program == by && slices.Equal(c.Via, s.cmd.Via[:depth]) {
			at = j
		}
	}
	switch {
	case at < 0:
		s.problem("operands come from input")
	case by == "find" || by == "fd" || by == "fdfind":
	case !s.spec.harmless:
		s.problem("operands from input may be options of " + s.spec.name)
	case by != "xargs", s.readsInput() && !comesFromFinder(scanners, at):
		s.problem("operands of " + s.spec.name + " come from input")
	}
}

// readsInput is true where names of files come from elsewhere.
func (s *scanner) readsInput() bool {
	for _, u := range s.paths {
		if u.path.Kind == PathInput {
			return true
		}
	}
	return false
}

// comesFromFinder reports whether the input of command i comes through a pipe from
// a program that prints names of files below its operands, perhaps through others
// that only pass some of its lines on.
func comesFromFinder(scanners []scanner, i int) bool {
	via := scanners[i].cmd.Via
	for j := i; j > 0 && scanners[j].cmd.Stdin == "pipe"; {
		j--
		s := &scanners[j]
		// What stands left of a pipe is the command just before, unless that is
		// part of something larger, which shows in the way to it.
		if !slices.Equal(s.cmd.Via, via) || s.spec == nil || len(s.node.Problems) > 0 {
			return false
		}
		if s.marks&feeds != 0 {
			return s.marks&unfeeds == 0
		}
		// Parts of a line may be names of other files.
		if !passesLines[s.spec.name] || len(s.paths) > 0 || s.marks&unfeeds != 0 {
			return false
		}
	}
	return false
}

// passesLines are programs that print lines of their input as they are.
var passesLines = map[string]bool{"grep": true, "head": true, "tail": true, "sort": true, "uniq": true}
