package rego

import (
	"os"
	"path"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/argv"
)

// Operands are the files that a call runs as far as its words name them, absolute,
// with links followed, sorted: programs named by a path, scripts given to shells and
// interpreters, files that are sourced. An approval that is bound to the words of a
// call can be bound to what these hold as well. A file that is named and not there
// is among them, since it may be there when the call runs.
//
// Not among them are programs that are looked up by name, since in which folders is
// the agent's business, those of the system folders, files whose names are not known
// before a shell runs the text, and whatever scripts and programs go on to load:
// imports, the scripts of a package, a Makefile that is not named.
func (p *Policy) Operands(r *approval.Request) []string {
	return p.facts.operands(p.facts.input(r))
}

// entries are the files that interpreters run when they are given a folder.
var entries = []string{"__main__.py", "index.js"}

func (f *facts) operands(in *Input) []string {
	at := newPlace(in.Environment)
	var found []string
	first := 0
	for _, c := range in.Facts.Tool.Commands {
		parsed := parseCommand(c)
		nodes := in.Facts.Command.Nodes[first : first+len(parsed.Commands)]
		first += len(parsed.Commands)
		var read []string // files that commands up to here read
		for i := range nodes {
			n := &nodes[i]
			code := f.commands.Code(&parsed.Commands[i], n)
			for _, name := range at.files(n, code.Files) {
				if info, err := os.Stat(name); err != nil || !info.IsDir() {
					found = append(found, name)
					continue
				}
				for _, entry := range entries {
					found = append(found, regular([]string{path.Join(name, entry)})...)
				}
			}
			found = append(found, regular(at.files(n, code.Maybe))...)
			if code.Input {
				for _, d := range n.Redirects {
					if d.Mode == "read" && (d.FD == "" || d.FD == "0") {
						found = append(found, at.files(n, []argv.Path{{Word: d.Target, Kind: d.Kind}})...)
					}
				}
				if n.Stdin == "pipe" {
					// What runs is what these print.
					found = append(found, regular(read)...)
				}
			}
			read = append(read, at.files(n, n.Reads)...)
		}
	}
	return sorted(found)
}

// files are the paths of a command that can be told, resolved.
func (p *place) files(n *argv.Node, paths []argv.Path) []string {
	var set pathSet
	for _, w := range paths {
		if w.Kind == argv.PathLiteral || w.Kind == argv.PathHome {
			set.addWord(&set.read, p, n, w)
		}
	}
	return set.read
}

// regular are the names that are files.
func regular(names []string) []string {
	var found []string
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			found = append(found, name)
		}
	}
	return found
}
