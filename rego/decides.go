package rego

import (
	"path"
	"slices"
	"strings"

	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/shell"
)

// program is what Regent is called. Names are compared without regard to case,
// since some file systems do so too.
const program = "regent"

// standing says what a command of Regent's own means for an agent.
type standing int

// The standings, from the one that any agent may have to the one that none may.
// What the table below does not know is unsure.
const (
	looks standing = iota
	unsure
	decides
)

// group is the standing of a word that only leads to subcommands.
const group standing = -1

// commands are Regent's own, by their words. Those that decide answer for a
// person, or settle who may: which workspaces are trusted, what is granted, who
// holds a token. Those that write where agents are set up are unsure.
var commands = map[string]standing{
	"trust": decides, "untrust": decides, "token": decides, "step-up": decides, "serve": decides,

	"permission":        group,
	"permission decide": decides, "permission watch": decides,
	"permission list": looks, "permission info": looks,

	"policy":         group,
	"policy confirm": decides,
	"policy list":    looks, "policy lint": looks, "policy schema": looks, "policy diff": looks,

	// A ledger is only ever looked at, and so are grants by an agent. Any other
	// word would change them.
	"ledger":        group,
	"ledger verify": looks, "ledger export": looks,
	"grants":      group,
	"grants list": looks,
	"reviewer":    group, "reviewer report": looks,

	// What sets a harness up also takes that back.
	"install": group, "install codex": unsure,

	"bench": looks, "check": looks, "classify": looks, "codex": looks, "completion": looks, "doctor": looks, "explain": looks,
	"help": looks, "hook": looks, "init": looks, "plugin": looks, "profile": looks, "replay": looks, "status": looks,
	"test": looks, "version": looks, "__complete": looks, "__completeNoDesc": looks,
}

// standingOf is the standing of a path of words.
func standingOf(words string) standing {
	if s, ok := commands[words]; ok {
		return s
	}
	if strings.HasPrefix(words, "ledger ") || strings.HasPrefix(words, "grants ") {
		return decides
	}
	return unsure
}

// valued are the flags that take the word that follows them, bare those that do
// not. Any other flag may do either.
var (
	valued = map[string]bool{"--home": true, "--workspace": true, "--organization": true, "--output": true}
	bare   = map[string]bool{"--help": true, "-h": true, "--version": true, "--": true}
)

// maxReadings bounds the readings of a line with flags that nobody knows.
const maxReadings = 256

// commandLine reads the words behind the program's name.
type commandLine struct {
	words    []shell.Word
	open     bool // more words come from input
	readings int
}

// standing is the gravest that any reading of the line has, and the command's
// words.
func (l *commandLine) standing(at int, before string) (standing, string) {
	if l.readings++; l.readings > maxReadings {
		return unsure, before
	}
	if at >= len(l.words) {
		if l.open {
			return unsure, before
		}
		return looks, before
	}
	w := l.words[at]
	if strings.HasPrefix(w.Value, "-") && (w.Kind == shell.Literal || single(w)) {
		name, _, joined := strings.Cut(w.Value, "=")
		switch {
		case w.Kind != shell.Literal && !(joined && valued[name]):
			return unsure, before
		case joined || bare[w.Value]:
			return l.standing(at+1, before)
		case valued[name]:
			if at+1 < len(l.words) && l.words[at+1].Kind != shell.Literal && !single(l.words[at+1]) {
				return unsure, before
			}
			return l.standing(at+2, before)
		}
		with, withWords := l.standing(at+2, before)
		without, withoutWords := l.standing(at+1, before)
		if with > without {
			return with, withWords
		}
		return without, withoutWords
	}
	if w.Kind != shell.Literal {
		return unsure, before
	}
	words := strings.TrimPrefix(before+" "+w.Value, " ")
	if s := standingOf(words); s != group {
		return s, words
	}
	return l.standing(at+1, words)
}

// single is true for a word that is one word whatever its value.
func single(w shell.Word) bool { return w.Kind == shell.Parameter && w.Quoted }

// isProgram reports whether a word names Regent, by any path and version.
func isProgram(word string) bool {
	name := word[strings.LastIndexByte(word, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	return strings.EqualFold(name, program)
}

// namesProgram reports whether text holds the program's name as a word. The
// folder .regent is not one.
func namesProgram(text string) bool {
	found := false
	eachName(text, func(int) bool {
		found = true
		return false
	})
	return found
}

// eachName visits where text goes on behind each place that names the program,
// until visit returns false.
func eachName(text string, visit func(end int) bool) {
	for at := 0; at+len(program) <= len(text); at++ {
		if c := text[at]; c != 'r' && c != 'R' {
			continue
		}
		end := at + len(program)
		if !strings.EqualFold(text[at:end], program) ||
			at > 0 && inName(text[at-1]) || end < len(text) && inName(text[end]) {
			continue
		}
		if !visit(end) {
			return
		}
	}
}

func inName(c byte) bool { return c == '.' || inWord(c) }

func inWord(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// maxSpoken is how many words behind the program's name may make up a command in
// text that is not shell.
const maxSpoken = 8

// maxNamed is how often text may name the program until it counts as naming a
// command.
const maxNamed = 1000

// spoken is the deciding command that text names in whatever form, as in
// run(["regent", "trust"]); empty where it names none.
func spoken(text string) string {
	var found string
	named := 0
	eachName(text, func(end int) bool {
		if named++; named > maxNamed {
			found = "..."
			return false
		}
		var words []shell.Word
		for _, w := range strings.FieldsFunc(text[end:min(len(text), end+256)], func(r rune) bool { return r < 0x80 && !inWord(byte(r)) }) {
			if words = append(words, shell.Word{Value: w, Kind: shell.Literal}); len(words) == maxSpoken {
				break
			}
		}
		l := commandLine{words: words}
		if s, command := l.standing(0, ""); s == decides {
			found = command
		}
		return found == ""
	})
	return found
}

// decisions finds Regent's own deciding commands among those of a call: the ones
// that the call certainly runs, those that it may run, and those that it names in
// another way.
func (g *GuardFacts) decisions(text string, parsed *shell.Facts, nodes []argv.Node, at *place) {
	named := namesProgram(text)
	for i := range parsed.Commands {
		named = g.decision(&parsed.Commands[i], &nodes[i], at) || named
	}
	if !named {
		return
	}
	if len(parsed.Problems) > 0 || slices.ContainsFunc(parsed.Commands, readsText) {
		if command := spoken(text); command != "" {
			g.Named = append(g.Named, program+" "+command)
		}
	}
	for i := range parsed.Commands {
		c := &parsed.Commands[i]
		if len(c.Words) > 0 && c.Words[0].Kind != shell.Literal {
			g.MayDecide = append(g.MayDecide, c.Text)
		}
	}
	for _, p := range parsed.Problems {
		if p.Kind == "wrapper" || p.Kind == "dialect" || p.Kind == "syntax" || p.Kind == "construct" {
			g.MayDecide = append(g.MayDecide, p.Message)
		}
	}
}

// readsText is true for a command whose input stands in the text: a heredoc or a
// here-string. Its words have no part of that.
func readsText(c shell.Command) bool {
	return slices.ContainsFunc(c.Redirects, func(r shell.Redirect) bool { return strings.HasPrefix(r.Op, "<<") })
}

// decision looks at one command, and reports whether it names the program.
func (g *GuardFacts) decision(c *shell.Command, n *argv.Node, at *place) bool {
	if len(c.Words) == 0 {
		for _, a := range c.Assigns {
			if namesProgram(a.Value.Value) {
				return true
			}
		}
		return false
	}
	first := c.Words[0]
	line := commandLine{words: c.Words[1:], open: c.OpenEnded}
	own := first.Kind == shell.Literal && isProgram(first.Value)
	if !own && n.Standing == argv.StandingPath {
		// A link to the program, by another name.
		resolved, ok := at.resolve(n.Dir, first.Value)
		own = ok && isProgram(resolved)
	}
	if own {
		switch s, command := line.standing(0, ""); s {
		case decides:
			g.Decides = append(g.Decides, program+" "+command)
		case unsure:
			g.MayDecide = append(g.MayDecide, c.Text)
		}
		return true
	}
	if n.Standing != "" {
		// By another name, perhaps: a copy, or a variable.
		s, command := line.standing(0, "")
		if s == decides && (n.Standing == argv.StandingDynamic || strings.Contains(command, " ")) {
			g.MayDecide = append(g.MayDecide, c.Text)
		}
	}
	named := false
	for i, w := range c.Words[1:] {
		if !strings.Contains(strings.ToLower(w.Value), program) {
			continue
		}
		named = named || namesProgram(w.Value)
		if w.Kind == shell.Literal && isProgram(path.Clean(w.Value)) {
			// What starts it may be a wrapper that is not known as one.
			l := commandLine{words: c.Words[i+2:], open: c.OpenEnded}
			if s, command := l.standing(0, ""); s == decides {
				g.Named = append(g.Named, program+" "+command)
			}
		} else if command := spoken(w.Value); command != "" {
			g.Named = append(g.Named, program+" "+command)
		}
	}
	for _, a := range c.Assigns {
		named = named || namesProgram(a.Value.Value)
	}
	return named
}
