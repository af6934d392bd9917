package argv

import (
	"path"
	"strings"

	"github.com/regent-policy/regent/rego/shell"
)

type pathUse struct {
	kind kind
	path Path
}

// isSocket is true for the names that bash connects to instead of opening a file.
func isSocket(name string) bool {
	return strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/")
}

// isSink tells whether a file takes what is written to it and keeps nothing:
// exactly these, since anything else below /dev may be storage.
func isSink(name string) bool {
	switch name {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty":
		return true
	default:
		fd, ok := strings.CutPrefix(name, "/dev/fd/")
		return ok && len(fd) == 1 && fd[0] >= '0' && fd[0] <= '9'
	}
}

// fromInput is true for a word that the starter of the command makes of what it
// reads, with {} for the part that is not known.
func (s *scanner) fromInput(w shell.Word) bool {
	return s.cmd.OpenEnded && w.Kind == shell.Parameter && strings.IndexByte(w.Value, '$') < 0
}

func pathOf(w shell.Word) Path {
	p := Path{Word: w.Value}
	switch w.Kind {
	case shell.Literal:
		if w.Tilde {
			p.Kind = PathHome
			if len(w.Value) > 1 && w.Value[1] != '/' {
				p.Kind = PathUnknown
			}
		}
	case shell.Glob:
		p.Kind = PathGlob
		if w.Tilde {
			p.Kind = PathUnknown
		}
	default:
		p.Kind = PathUnknown
		if known, ok := knownFolder(w); ok {
			p = known
		}
	}
	return p
}

// knownFolder is the path that begins with $HOME or $PWD and holds no other
// expansion: what these two stand for is known. An assignment to one of them is a
// reason of its own not to be certain.
func knownFolder(w shell.Word) (Path, bool) {
	if w.Kind != shell.Parameter {
		return Path{}, false
	}
	for _, variable := range []struct {
		name string
		path Path
	}{{"HOME", Path{Word: "~", Kind: PathHome}}, {"PWD", Path{Word: "."}}} {
		rest, ok := strings.CutPrefix(w.Value, "$"+variable.name)
		if !ok {
			rest, ok = strings.CutPrefix(w.Value, "${"+variable.name+"}")
		}
		if ok && (rest == "" || rest[0] == '/') && !strings.ContainsAny(rest, "$`*?[") {
			variable.path.Word += rest
			return variable.path, true
		}
	}
	return Path{}, false
}

// isKnownFolder is true for the words that knownFolder reads.
func isKnownFolder(w shell.Word) bool {
	_, ok := knownFolder(w)
	return ok
}

// settlePaths sorts the paths named into those read and those written.
func (s *scanner) settlePaths(pattern []operand) {
	n := s.node
	if len(s.paths) == 0 && (s.spec.here == hereAlways || s.spec.here == hereRecursive && s.marks&recursive != 0) {
		k := kindIn
		for i := range pattern {
			if pattern[i].kind.isPath() {
				k = pattern[i].kind
				break
			}
		}
		s.paths = append(s.paths, pathUse{k, Path{Word: "."}})
	}
	relative := false
	for _, u := range s.paths {
		p := u.path
		p.Tree = u.kind == kindTree || u.kind == kindOutTree || s.marks&recursive != 0
		rewritten := s.marks&rewrites != 0
		switch {
		case u.kind.writes() || u.kind == kindArchive && rewritten:
			n.Writes = append(n.Writes, p)
		case u.kind == kindIn && rewritten:
			n.Reads = append(n.Reads, p)
			n.Writes = append(n.Writes, p)
		default:
			n.Reads = append(n.Reads, p)
		}
		relative = relative || p.Kind != PathHome && !path.IsAbs(p.Word)
	}
	if len(s.paths) == 0 {
		for i := range pattern {
			relative = relative || pattern[i].kind.isPath()
		}
	}
	if relative && s.cmd.DirUnknown {
		s.problem("the folder that " + s.spec.name + " works in cannot be told")
	}
}

// value adds the facts of w as a value or operand.
func (s *scanner) value(v param, w shell.Word) {
	n := s.node
	switch v.kind {
	case kindText, kindNumber, kindCommand, kindAssign, kindScript:
	case kindIn, kindTree, kindOut, kindOutDash, kindOutTree, kindArchive:
		s.path(v.kind, w)
	case kindDir:
		s.chdir(w)
	case kindProgram:
		n.Starts = append(n.Starts, w.Value)
	case kindHost:
		n.Hosts = append(n.Hosts, w.Value)
	case kindURL:
		n.URLs = append(n.URLs, w.Value)
	case kindRemote:
		s.remote(w)
	case kindRemoteOut:
		if !s.elsewhere(w) {
			s.path(kindOut, w)
		}
	case kindRepo:
		if strings.ContainsAny(w.Value, "/:") || w.Tilde {
			s.remote(w)
		}
	case kindReader:
		s.script(v.reader, w)
	}
}

func (s *scanner) path(k kind, w shell.Word) {
	p := pathOf(w)
	if p.Kind == PathUnknown && w.Kind == shell.Literal {
		s.problem("home folder cannot be told: " + w.Value)
	}
	if w.Kind == shell.Literal && w.Value == "-" && k != kindOut && k != kindOutTree {
		return
	}
	if k == kindArchive && strings.Contains(w.Value, ":") {
		s.problem("archive may be on another machine: " + w.Value)
	}
	s.paths = append(s.paths, pathUse{k, p})
}

// chdir moves to the folder that an option names (git -C).
func (s *scanner) chdir(w shell.Word) {
	p := pathOf(w)
	if p.Kind != PathLiteral && p.Kind != PathHome {
		s.dir.Unknown = true
		return
	}
	dir := w.Value
	switch {
	case dir == "":
	case p.Kind == PathHome || path.IsAbs(dir):
		s.dir = Repository{Dir: dir}
	default:
		if dir[0] == '~' {
			dir = "./" + dir
		}
		if s.dir.Dir != "" {
			dir = s.dir.Dir + "/" + dir
		}
		s.dir.Dir = dir
	}
}

// remote sorts out a word that is a local path, a URL or host:path.
func (s *scanner) remote(w shell.Word) {
	if !s.elsewhere(w) {
		s.path(kindIn, w)
	}
}

// elsewhere takes w as a URL or host:path if it is one.
func (s *scanner) elsewhere(w shell.Word) bool {
	if strings.Contains(w.Value, "://") {
		s.node.URLs = append(s.node.URLs, w.Value)
		return true
	}
	host, rest, ok := strings.Cut(w.Value, ":")
	if !ok || host == "" || strings.Contains(host, "/") || rest == "" {
		return false
	}
	s.node.Hosts = append(s.node.Hosts, host)
	return true
}

func (s *scanner) script(r reader, w shell.Word) {
	if w.Kind == shell.Parameter && s.spec.openScript {
		return
	}
	if w.Kind != shell.Literal {
		s.problem("script of " + s.spec.name + " cannot be told: " + w.Value)
		return
	}
	found := r(w.Value)
	if found.problem != "" {
		s.problem("script of " + s.spec.name + ": " + found.problem)
	}
	for _, word := range found.words {
		use, ok := s.spec.script[word]
		if !ok {
			s.problem("unlisted word in the script of " + s.spec.name + ": " + word)
			continue
		}
		s.use(use)
	}
	for _, p := range found.reads {
		s.paths = append(s.paths, pathUse{kindIn, p})
	}
	for _, p := range found.writes {
		s.paths = append(s.paths, pathUse{kindOut, p})
	}
}
