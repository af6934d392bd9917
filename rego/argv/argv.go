// Package argv reads what a simple command says by the grammar of the program
// it names: which options are given, which files are read and written, which
// hosts are reached. The grammars are data, see [Load]. What an option means for
// the effects of a command is not decided here but in Rego, on the same data.
package argv

import (
	"path"
	"slices"
)

// Node is one simple command, read by the grammar of its program. It is what
// policies see of a command as input.facts.command.nodes; empty parts are left
// out of its JSON.
type Node struct {
	// Program is the base name that the catalogue was asked for, empty for a bare
	// assignment or redirection. Name is the word as it is written, where that is
	// something else ("/bin/ls", "./cat", "$cmd").
	Program string `json:"program,omitempty"`
	Name    string `json:"name,omitempty"`
	// Args are all words after the program, after quote removal.
	Args []string `json:"args,omitempty"`
	// Flags are the options given, without their values, each in the spelling the
	// catalogue lists it under; clusters are split (-la is "-l", "-a"). An option
	// that is not listed is there as it is written and, where it could be a
	// cluster, by its letters too; an abbreviated long option also in every
	// spelling it may stand for. Flags say what may have been asked for: rules that
	// restrict can rely on them.
	Flags []string `json:"flags,omitempty"`
	// Subcommand is the path of sub-commands, outermost first ("remote", "add").
	Subcommand []string `json:"subcommand,omitempty"`
	// Operands are the words that are neither options, their values nor
	// sub-commands.
	Operands []string `json:"operands,omitempty"`
	// Uses are the keys of data.regent.catalog.commands that bear on the effects:
	// the program or sub-command itself and everything used of it that is not
	// inert. It is empty for a program that is not listed.
	Uses []string `json:"uses,omitempty"`
	// Standing tells why there is no certain entry for the program: "unlisted",
	// "path" (a path outside the trusted system folders) or "dynamic" (the word is
	// not known before the shell runs).
	Standing string `json:"standing,omitempty"`
	// Reads and Writes are the paths named by operands, option values and
	// redirections.
	Reads  []Path `json:"reads,omitempty"`
	Writes []Path `json:"writes,omitempty"`
	// Hosts and URLs are where the command would connect to, as written.
	Hosts []string `json:"hosts,omitempty"`
	URLs  []string `json:"urls,omitempty"`
	// Starts are the programs named by option values.
	Starts []string `json:"starts,omitempty"`
	// Assigns and Redirects are those of the shell command.
	Assigns   []Assign   `json:"assigns,omitempty"`
	Redirects []Redirect `json:"redirects,omitempty"`
	// Repositories are the git repositories whose configuration the command obeys.
	Repositories []Repository `json:"repositories,omitempty"`
	// Via, Stdin and OpenEnded are those of shell.Command.
	Via       []string `json:"via,omitempty"`
	Stdin     string   `json:"stdin,omitempty"`
	OpenEnded bool     `json:"open_ended,omitempty"`
	// Dir is the folder the shell is in, relative to the starting folder ("" is that
	// folder itself) until [Join] makes it absolute. It means nothing when
	// DirUnknown.
	Dir        string `json:"dir,omitempty"`
	DirUnknown bool   `json:"dir_unknown,omitempty"`
	// Problems tell, in words for people, what about this command cannot be told
	// for certain. A command with problems is never certainly harmless.
	Problems []string `json:"problems,omitempty"`
	// Loose is true where the table tells the effects of the program and not what
	// each of its words is: any may be the name of a file. Policies do not see it.
	Loose bool `json:"-"`
	// Line, Column and Text are where the command stands and its source.
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

// Path is a file name that a command reads or writes.
type Path struct {
	// Word is the name as written, after quote removal.
	Word string `json:"word"`
	// Kind says how much of the name is known: it is empty for a literal name,
	// "home" for one whose leading ~ the shell replaces, "glob" for a pattern of the
	// shell, "unknown" for anything that is not known before the shell runs, and
	// "input" for names that another command hands over (xargs, find -exec).
	Kind string `json:"kind,omitempty"`
	// Tree is true where everything below the path is meant too.
	Tree bool `json:"tree,omitempty"`
	// Sink is true for a file that takes what is written to it and keeps nothing.
	Sink bool `json:"sink,omitempty"`
}

// The kinds of Path.
const (
	PathLiteral = ""
	PathHome    = "home"
	PathGlob    = "glob"
	PathUnknown = "unknown"
	PathInput   = "input"
)

// KindSubstitution is the kind of a value that is what one command prints, $(...),
// and nothing else. The facts list that command.
const KindSubstitution = "substitution"

// The values of Node.Standing.
const (
	StandingUnlisted = "unlisted"
	StandingPath     = "path"
	StandingDynamic  = "dynamic"
)

// Assign is a NAME=value before a command, on its own, or handed over by env.
type Assign struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Kind is the kind of the value's word, empty for a literal one, or
	// KindSubstitution.
	Kind   string `json:"kind,omitempty"`
	Append bool   `json:"append,omitempty"`
	// Bare is true for an assignment without a command, which lasts.
	Bare bool `json:"bare,omitempty"`
}

// Redirect is one redirection; see shell.Redirect. Target is empty where Mode
// is none.
type Redirect struct {
	Op     string `json:"op"`
	FD     string `json:"fd,omitempty"`
	Mode   string `json:"mode"`
	Target string `json:"target,omitempty"`
	// Kind is the kind of the target as in Path.
	Kind string `json:"kind,omitempty"`
	// Socket is true for a target that bash connects to instead of opening it.
	Socket bool `json:"socket,omitempty"`
}

// Repository is where git looks for a repository: in Dir or the nearest folder
// above it that has one. Dir is as in Node, and means nothing when Unknown.
type Repository struct {
	Dir     string `json:"dir,omitempty"`
	Unknown bool   `json:"unknown,omitempty"`
}

// Summary is what all nodes of a command text have that bears on its effects,
// each once, so that policies need not visit every node. Its fields mean what
// those of [Node] do, without what bears on nothing: writes to sinks, and
// redirections that connect to nothing.
type Summary struct {
	Uses []string `json:"uses,omitempty"`
	// Reads stands for all uses that only read, which are then left out of Uses;
	// see [Table.Shorten].
	Reads        bool         `json:"reads,omitempty"`
	Standing     string       `json:"standing,omitempty"`
	Writes       []Path       `json:"writes,omitempty"`
	Assigns      []Assign     `json:"assigns,omitempty"`
	Sockets      []string     `json:"sockets,omitempty"`
	Repositories []Repository `json:"repositories,omitempty"`
	Problems     []string     `json:"problems,omitempty"`
}

// Summarize returns the summary of nodes, which is input.facts.command.summary.
func Summarize(nodes []Node) Summary {
	var s Summary
	for i := range nodes {
		n := &nodes[i]
		s.Uses = union(s.Uses, n.Uses)
		s.Assigns = union(s.Assigns, n.Assigns)
		s.Repositories = union(s.Repositories, n.Repositories)
		s.Problems = union(s.Problems, n.Problems)
		if s.Standing == "" {
			s.Standing = n.Standing
		}
		for _, w := range n.Writes {
			if !w.Sink {
				s.Writes = union(s.Writes, []Path{w})
			}
		}
		for _, r := range n.Redirects {
			if r.Socket {
				s.Sockets = union(s.Sockets, []string{r.Target})
			}
		}
	}
	slices.Sort(s.Uses)
	return s
}

// Shorten puts Reads in the place of the uses that only read: most uses of most
// texts, and they all say the same.
func (t *Table) Shorten(s *Summary) {
	uses := s.Uses
	s.Uses = nil
	for _, use := range uses {
		entry, _ := t.data[use].(map[string]any)
		effects, _ := entry["effects"].([]any)
		if len(effects) == 1 && effects[0] == "read" {
			s.Reads = true
			continue
		}
		s.Uses = append(s.Uses, use)
	}
}

// union appends to list what more has besides. Lists are short, and hostile input
// is bounded by the limits of the shell facts.
func union[T comparable](list, more []T) []T {
	for _, m := range more {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// Join makes the folders of nodes absolute: cwd is the starting folder and home
// what a leading ~ stands for, empty where that is not known.
func Join(nodes []Node, cwd, home string) {
	for i := range nodes {
		n := &nodes[i]
		n.Dir, n.DirUnknown = joinStart(n.Dir, n.DirUnknown, cwd, home)
		if !n.DirUnknown {
			n.Dir = path.Clean(n.Dir)
		}
		for j := range n.Repositories {
			r := &n.Repositories[j]
			r.Dir, r.Unknown = joinStart(r.Dir, r.Unknown, cwd, home)
		}
	}
}

// joinStart leaves .. in place: behind a link, a program that changes folder ends
// up elsewhere than cleaning the path says.
func joinStart(dir string, unknown bool, cwd, home string) (string, bool) {
	switch {
	case unknown:
		return "", true
	case dir == "":
		return cwd, cwd == ""
	case dir[0] == '~':
		if home == "" || len(dir) > 1 && dir[1] != '/' {
			return "", true
		}
		return home + dir[1:], false
	case path.IsAbs(dir):
		return dir, false
	default:
		return cwd + "/" + dir, cwd == ""
	}
}
