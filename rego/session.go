package rego

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/catalog"
	"github.com/regent-policy/regent/rego/gitrepo"
	"github.com/regent-policy/regent/rego/shell"
)

// action is what an answer for a session is bound to: all that bears on what the
// call does, in one spelling.
type action struct {
	Kind        approval.Kind `json:"kind"`
	Harness     string        `json:"harness"`
	Tool        string        `json:"tool,omitempty"`
	Server      string        `json:"server,omitempty"`
	Environment string        `json:"environment,omitempty"`
	Cwd         string        `json:"cwd,omitempty"`
	Home        string        `json:"home,omitempty"`
	// Commands are in the form of [shell.Canonical], and Dirs where each of their
	// parts runs, links followed.
	Commands []string `json:"commands,omitempty"`
	Dirs     []string `json:"dirs,omitempty"`
	// Reads, Writes and Hosts are what the call names, links followed: a name that
	// leads elsewhere is another one.
	Reads   []string            `json:"reads,omitempty"`
	Writes  []string            `json:"writes,omitempty"`
	Hosts   []string            `json:"hosts,omitempty"`
	URLs    []string            `json:"urls,omitempty"`
	Changes []catalog.PatchStep `json:"changes,omitempty"`
	// Arguments are those of a tool that has neither commands nor patches, and
	// Described what its server says of it.
	Arguments jsontext.Value        `json:"arguments,omitempty"`
	Described string                `json:"described,omitempty"`
	Hints     *approval.Annotations `json:"hints,omitempty"`
	Port      int                   `json:"port,omitempty"`
	Protocol  string                `json:"protocol,omitempty"`
}

// SessionKey names what a request does, so that an answer for the session can be
// found again for the same action and for no other: 64 hexadecimal digits. It is
// made from Regent's own reading of the call and not from its text, so that
// spellings which mean the same have the same key. It reports false for a request
// whose answer must not be used again: where anything about it is not known, where
// it runs code that its words are or name, where it asks for more than the call, and
// where only a person may answer.
//
// The key is true of the moment. It is to be made anew for each request, since a
// link or the configuration of a repository may have changed what a name means.
func (p *Policy) SessionKey(r *approval.Request) (key string, ok bool) {
	in := p.facts.input(r)
	a, ok := p.facts.action(in)
	if !ok {
		return "", false
	}
	// What is no UTF-8 is an error here: two such texts must not be one.
	raw, err := jsonv2.Marshal(a, jsonv2.Deterministic(true))
	if err != nil {
		return "", false
	}
	sum := sha256.Sum256(append([]byte("regent session key 1\n"), raw...))
	return hex.EncodeToString(sum[:]), true
}

// action describes what a request does, if that is certain.
func (f *facts) action(in *Input) (action, bool) {
	r, call := &in.Request, &in.Facts.Tool
	if r.HumanOnly || r.HostAllows != nil && !*r.HostAllows || in.Facts.More || r.GrantRoot != "" {
		return action{}, false
	}
	if r.Command != nil && r.Kind != approval.KindCommand || len(r.Changes) > 0 && r.Kind != approval.KindFileChange ||
		r.Network != nil && r.Kind != approval.KindNetwork {
		return action{}, false // which part counts is not for Regent to guess
	}
	if in.Facts.Guard.Touched || in.Facts.Guard.Barred || len(call.Problems)+len(in.Facts.Paths.Unresolved) > 0 {
		return action{}, false
	}
	a := action{
		Kind: r.Kind, Harness: call.Harness, Environment: in.Environment.ID,
		Reads: in.Facts.Paths.Read, Writes: in.Facts.Paths.Write, Hosts: in.Facts.Hosts, URLs: in.Facts.URLs,
	}
	at := newPlace(in.Environment)
	var ok bool
	if a.Cwd, ok = at.folder(in.Environment.Cwd); !ok {
		return action{}, false
	}
	if a.Home, ok = at.folder(in.Environment.Home); !ok {
		return action{}, false
	}
	if t := r.Tool; t != nil {
		a.Tool, a.Server, a.Described, a.Hints = t.Name, t.Server, t.Description, t.Annotations
		if !call.MCP && !f.certain(call) {
			return action{}, false
		}
	}
	switch r.Kind {
	case approval.KindCommand:
		ok = f.bindCommands(&a, in, at)
	case approval.KindFileChange:
		ok = bindChanges(&a, in, at)
	case approval.KindNetwork:
		a.Port, a.Protocol = r.Network.Port, r.Network.Protocol
		ok = len(a.Hosts) > 0 && r.Tool == nil
	case approval.KindTool, approval.KindMCP:
		switch {
		case len(call.Commands) > 0:
			ok = f.bindCommands(&a, in, at)
		case len(call.Patched) > 0:
			ok = bindPatch(&a, in, at)
		default:
			ok = bindArguments(&a, r.Tool.Arguments)
		}
	default:
		ok = false
	}
	return a, ok
}

// folder is an absolute folder with its links followed. One that is not given
// stays empty.
func (p *place) folder(name string) (string, bool) {
	if name == "" {
		return "", true
	}
	if !path.IsAbs(name) {
		return "", false
	}
	return p.resolve("", name)
}

// certain reports whether the tables tell all that a tool does: it is listed, and
// neither it nor what its arguments add is unknown.
func (f *facts) certain(call *catalog.Call) bool {
	if len(call.Inner) > 0 {
		for i := range call.Inner {
			if inner := &call.Inner[i]; inner.MCP || !f.certain(inner) {
				return false
			}
		}
		return true
	}
	_, entry, ok := f.tools.Lookup(call.Harness, call.Key)
	if !ok || !call.Listed {
		return false
	}
	if call.Variant != "" {
		if entry, ok = entry.Variants[call.Variant]; !ok {
			return false
		}
	}
	return !slices.Contains(entry.Effects, catalog.Unknown) && !slices.ContainsFunc(call.Raised, func(name string) bool {
		raised, ok := entry.Arguments[name]
		return !ok || slices.Contains(raised.Effects, catalog.Unknown)
	})
}

// bindCommands binds the commands of a call. The other arguments are left out: they
// are words for people, and times to wait.
func (f *facts) bindCommands(a *action, in *Input, at *place) bool {
	call := &in.Facts.Tool
	if a.Cwd == "" || len(call.Commands) == 0 || len(call.Raised)+len(call.Inner) > 0 || call.MCP || len(call.Patched) > 0 {
		return false
	}
	for _, c := range call.Commands {
		form, ok := canonicalCommand(c)
		if !ok {
			return false
		}
		a.Commands = append(a.Commands, form)
	}
	if len(in.Facts.Command.Nodes) == 0 || len(in.Facts.Command.Problems) > 0 {
		return false
	}
	for i := range in.Facts.Command.Nodes {
		n := &in.Facts.Command.Nodes[i]
		dir, ok := at.resolve(n.Dir, ".")
		if n.DirUnknown || !ok || !f.repeatable(n) {
			return false
		}
		a.Dirs = append(a.Dirs, dir)
	}
	return len(f.operands(in)) == 0
}

func canonicalCommand(c catalog.Command) (string, bool) {
	if len(c.Argv) > 0 {
		return shell.CanonicalArgv(c.Argv)
	}
	return shell.Canonical(dialect(c.Shell), c.Text)
}

// plainWays are the constructs around a command that leave it what it is. Whatever
// else stands in argv.Node.Via started it.
var plainWays = []string{"pipe", "background", "subshell", "block"}

// scripted are the programs that read a small language, from a file with one of
// scriptFlags.
var (
	scripted    = []string{"awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "gojq", "jaq", "yq", "bc", "dc"}
	scriptFlags = []string{"-f", "--file", "--from-file"}
)

// versioned are programs that obey the configuration of a repository, of which only
// that of git is looked at.
var versioned = []string{"hg", "chg", "rhg", "sl", "jj", "svn", "fossil", "bzr", "brz", "darcs", "pijul", "cvs", "gh", "glab", "hub", "tig", "lazygit", "git-lfs"}

// repeatable reports whether a command does the same when it is run again, as far
// as it can be told: nothing about it is unknown, it runs no code that its words
// are or name, and nothing but its words says what it starts.
func (f *facts) repeatable(n *argv.Node) bool {
	switch {
	case len(n.Problems) > 0, n.Standing != "", n.OpenEnded, len(n.Assigns) > 0:
		return false
	case n.Program == "" && n.Name != "", n.Program != "" && f.commands.Runs(n.Program):
		return false
	case slices.Contains(scripted, n.Program) && slices.ContainsFunc(n.Flags, func(flag string) bool { return slices.Contains(scriptFlags, flag) }):
		return false
	case slices.ContainsFunc(n.Via, func(way string) bool { return !slices.Contains(plainWays, way) }):
		return false
	case slices.ContainsFunc(n.Redirects, func(d argv.Redirect) bool { return d.Socket }):
		return false
	case slices.ContainsFunc(n.Uses, func(use string) bool { return f.commands.Has(use, argv.Unknown) }):
		return false
	case slices.Contains(versioned, n.Program):
		return false
	case n.Program == "git" && (len(n.Repositories) == 0 || slices.ContainsFunc(n.Uses, func(use string) bool { return f.commands.Has(use, argv.Process) })):
		// What does more than read also runs hooks, which no look at the configuration
		// tells, and an option may name programs of its own.
		return false
	}
	for _, list := range [][]argv.Path{n.Reads, n.Writes} {
		if slices.ContainsFunc(list, func(p argv.Path) bool { return p.Kind != argv.PathLiteral && p.Kind != argv.PathHome }) {
			return false
		}
	}
	return !slices.ContainsFunc(n.Repositories, func(repository argv.Repository) bool {
		if repository.Unknown {
			return true
		}
		report, err := gitrepo.Inspect(repository.Dir)
		return err != nil || report.Unknown || !report.Inert
	})
}

// bindChanges binds the files that a change names. What it writes into them is left
// out: who agrees for a session agrees to these files.
func bindChanges(a *action, in *Input, at *place) bool {
	call := &in.Facts.Tool
	if a.Cwd == "" || len(in.Request.Changes) == 0 || len(call.Raised)+len(call.Inner)+len(call.Commands) > 0 || call.MCP {
		return false
	}
	for _, c := range in.Request.Changes {
		a.Changes = append(a.Changes, catalog.PatchStep{Operation: c.Operation, Path: c.Path})
		if c.MovePath != "" {
			a.Changes = append(a.Changes, catalog.PatchStep{Operation: "move", Path: c.MovePath})
		}
	}
	a.Changes = append(a.Changes, call.Patched...)
	return a.resolveChanges(at)
}

// bindPatch binds the files that a patch names, as bindChanges does.
func bindPatch(a *action, in *Input, at *place) bool {
	call := &in.Facts.Tool
	if a.Cwd == "" || len(call.Raised)+len(call.Inner)+len(call.Commands)+len(call.URLs)+len(call.Hosts) > 0 || call.MCP {
		return false
	}
	a.Changes = slices.Clone(call.Patched)
	return a.resolveChanges(at)
}

func (a *action) resolveChanges(at *place) bool {
	for i := range a.Changes {
		c := &a.Changes[i]
		if c.Path == "" {
			continue // a header
		}
		var ok bool
		if c.Path, ok = at.resolve(at.env.Cwd, c.Path); !ok {
			return false
		}
	}
	return len(a.Changes) > 0
}

// bindArguments binds all arguments of a tool. Numbers keep their spelling: two of
// them may be one as float64.
func bindArguments(a *action, raw json.RawMessage) bool {
	if len(raw) == 0 {
		return true
	}
	a.Arguments = slices.Clone(jsontext.Value(raw))
	return a.Arguments.Format(jsontext.ReorderRawObjects(true)) == nil
}
