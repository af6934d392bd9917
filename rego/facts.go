package rego

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/catalog"
	"github.com/regent-policy/regent/rego/shell"
)

// Input is what the rules see of a request: the request as it came, the place
// where it runs, and the facts that Regent worked out.
type Input struct {
	Request     approval.Request     `json:"request"`
	Environment approval.Environment `json:"environment"`
	Facts       Facts                `json:"facts"`
	// Verdicts are what the reviewers said, in the order in which they were asked,
	// and Ruling what sent the request to them. Only verdict rules see these two.
	Verdicts []approval.Verdict `json:"verdicts,omitempty"`
	Ruling   *Reviewed          `json:"ruling,omitempty"`
}

// Reviewed is what verdict rules see of the ruling that asked for the verdicts.
type Reviewed struct {
	Route approval.Route `json:"route"`
	// Reviewers are those that were to be asked.
	Reviewers []string          `json:"reviewers"`
	Effects   []approval.Effect `json:"effects"`
	External  bool              `json:"external"`
	ReadOnly  bool              `json:"read_only"`
	// Rules are the ids of the rules that fired on the request.
	Rules []string `json:"rules"`
}

// Facts is what the request alone and the file system tell about a call. Lists
// are never absent, so that a rule which walks over one does not fall silent.
type Facts struct {
	// Tool is the tool by its catalogue entry.
	Tool catalog.Call `json:"tool"`
	// Command holds every simple command of the call.
	Command CommandFacts `json:"command"`
	// Programs are the plain names of the programs that the commands start.
	Programs []string `json:"programs"`
	// Paths are the files that the call names.
	Paths PathFacts `json:"paths"`
	// Hosts are in lower case, without port or final dot.
	Hosts []string `json:"hosts"`
	URLs  []string `json:"urls"`
	// More is true when the request asks for more than the call itself: for
	// permissions, or to leave the sandbox.
	More bool `json:"more"`
	// Permissions says what kinds of access the request asks for.
	Permissions PermissionFacts `json:"permissions"`
	// Guard lists what the call would do to Regent's own files.
	Guard GuardFacts `json:"guard"`
	// Granted is there when the turn or the session holds permissions.
	Granted *GrantFacts `json:"granted,omitempty"`
}

// CommandFacts are the commands of a call and what could not be read of them.
type CommandFacts struct {
	Nodes []argv.Node `json:"nodes"`
	// Summary says once what the nodes say again and again.
	Summary  argv.Summary    `json:"summary"`
	Problems []shell.Problem `json:"problems"`
	// ByProgram holds the nodes of each program by their number. Only rules have
	// it: it says nothing that Nodes does not.
	ByProgram map[string]map[string]argv.Node `json:"by_program,omitempty"`
}

// add reads one command of a call. What it returns goes with the nodes added last.
func (f *CommandFacts) add(table *argv.Table, c catalog.Command, at *place) *shell.Facts {
	parsed := parseCommand(c)
	dir, known := at.join(at.env.Cwd, c.Cwd)
	if !known {
		dir = ""
	}
	nodes := table.ReadAll(&parsed)
	argv.Join(nodes, dir, at.env.Home)
	f.Nodes = append(f.Nodes, nodes...)
	f.Problems = append(f.Problems, parsed.Problems...)
	return &parsed
}

// PathFacts are absolute paths, symbolic links resolved as far as they exist,
// sorted. Unresolved are the names that cannot be told from the text.
type PathFacts struct {
	Read       []string `json:"read"`
	Write      []string `json:"write"`
	Unresolved []string `json:"unresolved"`
}

// PermissionFacts sums up a requested profile.
type PermissionFacts struct {
	Network bool `json:"network,omitempty"`
	Read    bool `json:"read,omitempty"`
	Write   bool `json:"write,omitempty"`
	// Problem says why the profile cannot be understood in this environment.
	Problem string `json:"problem,omitempty"`
}

// GuardFacts are the protected files that a call touches. Writes are named as
// written to; Mentions are named by a command in any other way, which counts
// unless that command certainly only reads.
type GuardFacts struct {
	// Touched is true when there is anything in the rest.
	Touched bool `json:"touched"`
	// Limit says which limit was reached in reading the call: what lies past it
	// may be anything.
	Limit    string    `json:"limit,omitempty"`
	Writes   []string  `json:"writes"`
	Mentions []Mention `json:"mentions"`
	// Barred is true when there is anything in Decides or Reaches.
	Barred bool `json:"barred"`
	// Decides are the commands of Regent's own that the call runs and that decide
	// for a person.
	Decides []string `json:"decides"`
	// Reaches are the sealed files and addresses that the call would reach.
	Reaches []string `json:"reaches"`
	// MayDecide and MayReach are parts of the call that may turn out to be such
	// commands, files or addresses.
	MayDecide []string `json:"may_decide"`
	MayReach  []string `json:"may_reach"`
	// Named are such commands, files and addresses in text that the call hands to a
	// program. They count where the call does more than read and write files.
	Named []string `json:"named"`
	// Opens are the sealed files that the requested permissions would open among
	// others. Whatever is granted, they are taken out of it.
	Opens []string `json:"opens"`
}

// settle sorts the lists and sums them up.
func (g *GuardFacts) settle() {
	for _, list := range []*[]string{&g.Decides, &g.Reaches, &g.MayDecide, &g.MayReach, &g.Named, &g.Opens} {
		*list = sorted(*list)
	}
	g.Barred = len(g.Decides)+len(g.Reaches) > 0
	g.Touched = g.Limit != "" || len(g.Writes)+len(g.Mentions)+len(g.MayDecide)+len(g.MayReach)+len(g.Named) > 0
}

// Mention is a protected path among a command's words.
type Mention struct {
	Node int    `json:"node"`
	Path string `json:"path"`
}

// facts works out Facts. It reads the file system and changes nothing.
type facts struct {
	commands  *argv.Table
	tools     *catalog.Catalog
	protected protected
	sealed    sealed
}

// input makes the input of one request.
func (f *facts) input(r *approval.Request) *Input {
	in := &Input{Request: *r}
	if r.Environment != nil {
		in.Environment = *r.Environment
	}
	in.Facts = f.of(r, in.Environment)
	return in
}

func (f *facts) of(r *approval.Request, env approval.Environment) Facts {
	call := f.tools.Call(r)
	out := Facts{
		Tool:    call,
		Command: CommandFacts{Nodes: []argv.Node{}, Problems: []shell.Problem{}},
	}
	place := newPlace(env)
	var paths pathSet
	var trees []string // folders of which all is read

	reach := f.sealed.reach(&out.Guard, place)
	for _, c := range call.Commands {
		before := len(out.Command.Nodes)
		parsed := out.Command.add(f.commands, c, place)
		out.Guard.decisions(c.Text, parsed, out.Command.Nodes[before:], place)
		reach.text(c.Text)
	}
	out.Command.Summary = argv.Summarize(out.Command.Nodes)
	f.commands.Shorten(&out.Command.Summary)
	for i := range out.Command.Nodes {
		n := &out.Command.Nodes[i]
		if n.Program != "" && !slices.Contains(out.Programs, n.Program) {
			out.Programs = append(out.Programs, n.Program)
		}
		for _, p := range n.Reads {
			before := len(paths.read)
			paths.addWord(&paths.read, place, n, p)
			if p.Tree {
				trees = append(trees, paths.read[before:]...)
			}
		}
		for _, p := range n.Writes {
			if p.Sink {
				continue
			}
			paths.addWord(&paths.write, place, n, p)
		}
		out.Hosts = append(out.Hosts, n.Hosts...)
		out.URLs = append(out.URLs, n.URLs...)
		reach.command(n)
	}
	for _, p := range call.Reads {
		before := len(paths.read)
		paths.add(&paths.read, place, env.Cwd, p)
		for _, name := range paths.read[before:] {
			// Whether the tool reads what is below cannot be told. Folders far above
			// are listed all the time.
			if f.sealed.encloses(name) {
				trees = append(trees, name)
			}
		}
	}
	for _, p := range call.Writes {
		paths.add(&paths.write, place, env.Cwd, p)
	}
	out.Hosts = append(out.Hosts, call.Hosts...)
	out.URLs = append(out.URLs, call.URLs...)
	out.Hosts = hostNames(out.Hosts, out.URLs)
	out.URLs = sorted(out.URLs)
	out.Programs = sorted(out.Programs)
	out.Paths = PathFacts{Read: sorted(paths.read), Write: sorted(paths.write), Unresolved: sorted(paths.unresolved)}
	out.Permissions = permissionFacts(r.Permissions, place)
	out.More = r.Permissions != nil || r.Escalated || call.Escalated
	f.protected.guard(&out.Guard, out.Paths.Write, paths.unresolvedWrites, out.Command.Nodes, place)
	reach.pathFacts(out.Paths, trees)
	reach.request(r, &call, f.commands)
	for _, p := range out.Command.Problems {
		if p.Kind == "limit" {
			out.Guard.Limit = p.Message
		}
	}
	out.Guard.settle()
	return out
}

func parseCommand(c catalog.Command) shell.Facts {
	if len(c.Argv) > 0 {
		return shell.ParseArgv(c.Argv)
	}
	return shell.Parse(dialect(c.Shell), c.Text)
}

func dialect(name string) shell.Dialect {
	if name == "" {
		return shell.Bash
	}
	return shell.Dialect(name)
}

// sorted returns v sorted, without duplicates, and never nil.
func sorted(v []string) []string {
	if len(v) == 0 {
		return []string{}
	}
	slices.Sort(v)
	return slices.Compact(v)
}

// place resolves names in an environment.
type place struct {
	env  permission.Environment
	fsys permission.FS
}

func newPlace(env approval.Environment) *place {
	return &place{env: Environment(env), fsys: &remembered{FS: permission.OS(), links: map[string]link{}}}
}

// remembered asks the file system about each path once in a decision: the names
// of a call share most of their folders.
type remembered struct {
	permission.FS
	links map[string]link
}

type link struct {
	target string
	err    error
}

func (r *remembered) Readlink(path string) (string, error) {
	l, ok := r.links[path]
	if !ok {
		if above, known := r.links[parent(path)]; known && errors.Is(above.err, fs.ErrNotExist) {
			l = above // nothing stands below what does not exist
		} else {
			l.target, l.err = r.FS.Readlink(path)
		}
		r.links[path] = l
	}
	return l.target, l.err
}

// parent is the folder of an absolute, clean path.
func parent(name string) string { return name[:max(strings.LastIndexByte(name, '/'), 0)] }

// Environment is the request's environment in the words of package permission.
func Environment(env approval.Environment) permission.Environment {
	return permission.Environment{ID: env.ID, Cwd: env.Cwd, Home: env.Home, TmpDir: env.TmpDir, ProjectRoots: env.ProjectRoots}
}

// join is the absolute folder that name means from dir. A leading tilde is the
// environment's home.
func (p *place) join(dir, name string) (string, bool) {
	switch {
	case name == "":
		return dir, dir != ""
	case name == "~" || strings.HasPrefix(name, "~/"):
		if p.env.Home == "" {
			return "", false
		}
		return path.Join(p.env.Home, strings.TrimPrefix(name, "~")), true
	case strings.HasPrefix(name, "~"):
		return "", false
	case path.IsAbs(name):
		return path.Clean(name), true
	case !path.IsAbs(dir):
		return "", false
	default:
		return path.Join(dir, name), true
	}
}

// resolve is the absolute path that name means from dir, links resolved.
func (p *place) resolve(dir, name string) (string, bool) {
	if !path.IsAbs(name) && !strings.HasPrefix(name, "~") && !path.IsAbs(dir) {
		return "", false
	}
	env := p.env
	env.Cwd = dir
	absolute, err := env.Resolve(name, p.fsys)
	if err != nil {
		return "", false
	}
	return absolute, true
}

// pathSet collects the paths of a call.
type pathSet struct{ read, write, unresolved, unresolvedWrites []string }

// unclear notes a name that cannot be told.
func (s *pathSet) unclear(into *[]string, name string) {
	s.unresolved = append(s.unresolved, name)
	if into == &s.write {
		s.unresolvedWrites = append(s.unresolvedWrites, name)
	}
}

func (s *pathSet) add(into *[]string, p *place, dir, name string) {
	if absolute, ok := p.resolve(dir, name); ok {
		*into = append(*into, absolute)
		return
	}
	s.unclear(into, name)
}

func (s *pathSet) addWord(into *[]string, p *place, n *argv.Node, w argv.Path) {
	switch w.Kind {
	case argv.PathLiteral:
		if strings.HasPrefix(w.Word, "~") {
			// A quoted tilde is a file name like any other.
			w.Word = "./" + w.Word
		}
	case argv.PathHome:
	case argv.PathGlob:
		// The part before the pattern is certain, what it matches is not: both are
		// told, so that a rule about a folder sees the pattern below it.
		s.unclear(into, w.Word)
	default:
		s.unclear(into, w.Word)
		return
	}
	if n.DirUnknown && !path.IsAbs(w.Word) && w.Kind != argv.PathHome {
		s.unclear(into, w.Word)
		return
	}
	s.add(into, p, n.Dir, w.Word)
}

// hostNames unites hosts and the hosts of addresses, in the form that rules
// compare with.
func hostNames(hosts, urls []string) []string {
	var names []string
	for _, h := range hosts {
		if n, ok := hostName(h); ok {
			names = append(names, n)
		}
	}
	for _, u := range urls {
		if n, ok := urlHost(u); ok {
			names = append(names, n)
		}
	}
	return sorted(names)
}

func permissionFacts(requested *permission.Profile, p *place) PermissionFacts {
	var out PermissionFacts
	if requested == nil {
		return out
	}
	profile, _, err := permission.Normalise(*requested, permission.SideRequested, p.env, p.fsys)
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	out.Network = profile.Network.All || len(profile.Network.Hosts) > 0
	for _, e := range profile.FileSystem.Entries {
		switch e.Access {
		case permission.Write:
			out.Write = true
		case permission.Read:
			out.Read = true
		case permission.Deny:
		}
	}
	return out
}

// protected are the files that no call changes without a person.
type protected struct {
	paths []string
	// marks are the last components of paths: what a name must hold, or the folder
	// it starts from, to mean one of them.
	marks []string
}

func newProtected(paths []string) protected {
	var p protected
	for _, name := range paths {
		if absolute, err := filepath.Abs(name); err == nil {
			p.paths = append(p.paths, absolute)
			if resolved, err := filepath.EvalSymlinks(absolute); err == nil && resolved != absolute {
				p.paths = append(p.paths, resolved)
			}
		}
	}
	p.paths = sorted(p.paths)
	for _, name := range slices.Concat(p.paths, agentFiles) {
		p.marks = append(p.marks, path.Base(name))
	}
	p.marks = sorted(p.marks)
	return p
}

// agentFiles are the files and folders, relative to a project or a home, that
// decide whether an agent asks at all. Documented per harness in docs/effects.md.
var agentFiles = []string{
	".claude/settings.json",
	".claude/settings.local.json",
	".claude/hooks",
	".codex",
	".cursor/hooks.json",
	".cursor/cli.json",
	".gemini/settings.json",
	".qwen/settings.json",
	".github/hooks",
	".clinerules/hooks",
	".opencode",
	"opencode.json",
	".config/opencode",
	".config/goose",
	".regent",
}

// covers reports whether writing to target can change something protected:
// what mentions finds, or a folder that holds one.
func (p protected) covers(target string) bool {
	return p.mentions(target) || slices.ContainsFunc(p.paths, func(name string) bool { return below(name, target) })
}

// mentions reports whether target is protected by itself: such a file, or
// something below such a folder.
func (p protected) mentions(target string) bool {
	if slices.ContainsFunc(p.paths, func(name string) bool { return below(target, name) }) {
		return true
	}
	for _, name := range agentFiles {
		at := strings.Index(target, name)
		if at > 0 && target[at-1] == '/' && (at+len(name) == len(target) || target[at+len(name)] == '/') {
			return true
		}
	}
	return false
}

// below reports whether name is dir or stands below it.
func below(name, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return strings.HasPrefix(name, dir) && (len(name) == len(dir) || name[len(dir)] == '/')
}

// marked reports whether text holds a part of a protected name.
func (p protected) marked(text string) bool {
	return slices.ContainsFunc(p.marks, func(mark string) bool { return strings.Contains(text, mark) })
}

// mayMean reports whether a name that cannot be resolved has a part that a
// protected name ends in. It says yes too often rather than too seldom.
func (p protected) mayMean(word string) bool {
	for part := range strings.SplitSeq(word, "/") {
		if slices.ContainsFunc(p.marks, func(mark string) bool {
			matched, err := path.Match(part, mark)
			return part == mark || matched && err == nil && part != "*"
		}) {
			return true
		}
	}
	return false
}

// guard finds what a call does to protected files: by the paths that it writes,
// by the names of those that cannot be resolved, and by the words of its commands.
func (p protected) guard(out *GuardFacts, writes, unresolved []string, nodes []argv.Node, at *place) {
	out.Writes, out.Mentions = []string{}, []Mention{}
	for _, w := range writes {
		if p.covers(w) {
			out.Writes = append(out.Writes, w)
		}
	}
	for _, w := range unresolved {
		if p.mayMean(w) {
			out.Writes = append(out.Writes, w)
		}
	}
	for i := range nodes {
		n := &nodes[i]
		inside := p.marked(n.Dir)
		for _, word := range n.Args {
			if !inside && !p.marked(word) {
				continue
			}
			joined, ok := at.join(n.Dir, word)
			if n.DirUnknown && !path.IsAbs(word) {
				joined, ok = word, false
			}
			if ok && p.mentions(joined) || !ok && p.mayMean(word) {
				out.Mentions = append(out.Mentions, Mention{Node: i, Path: joined})
			}
		}
	}
}
