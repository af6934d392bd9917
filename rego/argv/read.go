package argv

import (
	"path"
	"strings"

	"github.com/regent-policy/regent/rego/shell"
)

// trustedDirs are the system folders whose programs are what their base name says.
// A program named by any other path is not looked up, since anybody may have put
// it there.
var trustedDirs = map[string]bool{
	"/bin": true, "/usr/bin": true, "/usr/local/bin": true, "/sbin": true, "/usr/sbin": true,
	"/usr/local/sbin": true, "/opt/homebrew/bin": true, "/opt/homebrew/sbin": true,
}

// ReadAll reads all commands of facts, in order. Beyond [Table.Read] it checks
// that each command which is said to start another one is followed by it, and
// where the file names of an open-ended command come from.
func (t *Table) ReadAll(facts *shell.Facts) []Node {
	nodes := make([]Node, len(facts.Commands))
	scanners := make([]scanner, len(facts.Commands))
	for i := range scanners {
		s := &scanners[i]
		s.table, s.cmd, s.node = t, &facts.Commands[i], &nodes[i]
		s.read()
	}
	for i := range scanners {
		s := &scanners[i]
		if s.runs && !started(scanners, i) {
			s.problem("the command that " + s.node.Program + " starts cannot be told")
		}
		if s.cmd.OpenEnded {
			s.fed(scanners, i)
		}
	}
	return nodes
}

// Read reads one command by the grammar of its program. It keeps parts of c. What
// only other commands could tell counts as a problem.
func (t *Table) Read(c *shell.Command) Node {
	var node Node
	s := scanner{table: t, cmd: c, node: &node}
	s.read()
	if s.runs {
		s.problem("the command that " + node.Program + " starts cannot be told")
	}
	if c.OpenEnded {
		s.problem("operands come from input")
	}
	return node
}

// scanner reads the words of one command.
type scanner struct {
	table *Table
	cmd   *shell.Command
	node  *Node
	spec  *spec
	// words are those not read yet.
	words []shell.Word
	// operands are the words found to be operands, with whether they came after
	// "--".
	operands []shell.Word
	ended    int
	// marks are those of all options given.
	marks marks
	// runs is true once a command is started that the facts list by itself.
	runs bool
	// unlisted is an option that adds nothing to the effects of a program that does
	// more than read.
	unlisted string
	// paths are the paths named, with their kinds: what they are for may depend on
	// an option that follows.
	paths []pathUse
	// filled is true where words from input stand in places of their own, so that
	// none are added at the end.
	filled bool
	// dir is the folder the program moves to before it works.
	dir Repository
}

func (s *scanner) problem(text string) { s.node.Problems = append(s.node.Problems, text) }

func (s *scanner) use(key string) {
	if key == "" {
		return
	}
	for _, k := range s.node.Uses {
		if k == key {
			return
		}
	}
	s.node.Uses = append(s.node.Uses, key)
}

func (s *scanner) read() {
	c, n := s.cmd, s.node
	n.Via, n.Stdin, n.OpenEnded = c.Via, c.Stdin, c.OpenEnded
	n.Dir, n.DirUnknown = c.Dir, c.DirUnknown
	n.Line, n.Column, n.Text = c.Line, c.Column, c.Text
	s.dir = Repository{Dir: c.Dir, Unknown: c.DirUnknown}
	s.assigns()
	if len(c.Words) > 0 {
		s.program()
	}
	s.redirects()
	for i := range n.Writes {
		n.Writes[i].Sink = isSink(n.Writes[i].Word)
	}
	for i := range n.Redirects {
		n.Redirects[i].Socket = isSocket(n.Redirects[i].Target)
	}
}

func (s *scanner) assigns() {
	if len(s.cmd.Assigns) == 0 {
		return
	}
	s.node.Assigns = make([]Assign, len(s.cmd.Assigns))
	for i, a := range s.cmd.Assigns {
		s.node.Assigns[i] = Assign{Name: a.Name, Value: a.Value.Value, Kind: wordKind(a.Value), Append: a.Append, Bare: len(s.cmd.Words) == 0}
	}
}

// wordKind is the kind of a word for JSON: empty for a literal one. A value that is
// just what one command prints is told apart, since the facts list that command.
func wordKind(w shell.Word) string {
	switch w.Kind {
	case shell.Literal:
		return ""
	case shell.Dynamic:
		if isSubstitution(w.Value, "$(") {
			return KindSubstitution
		}
	default:
	}
	return string(w.Kind)
}

func (s *scanner) redirects() {
	if len(s.cmd.Redirects) == 0 {
		return
	}
	s.node.Redirects = make([]Redirect, len(s.cmd.Redirects))
	for i, r := range s.cmd.Redirects {
		out := Redirect{Op: r.Op, FD: r.FD, Mode: r.Mode}
		switch r.Mode {
		case "read", "write", "read_write":
			p := pathOf(r.Target)
			out.Target, out.Kind = p.Word, p.Kind
			if p.Kind == PathUnknown {
				s.problem("target of " + r.Op + " cannot be told: " + p.Word)
			}
			if isSocket(p.Word) {
				break
			}
			if s.cmd.DirUnknown && p.Kind != PathHome && !path.IsAbs(p.Word) {
				s.problem("the folder of " + p.Word + " cannot be told")
			}
			if r.Mode != "write" {
				s.node.Reads = append(s.node.Reads, p)
			}
			if r.Mode != "read" {
				s.node.Writes = append(s.node.Writes, p)
			}
		case "none":
		default:
			s.problem("redirection " + r.Op + " cannot be told")
		}
		s.node.Redirects[i] = out
	}
}

func (s *scanner) program() {
	n := s.node
	first := s.cmd.Words[0]
	s.words = s.cmd.Words[1:]
	s.ended = -1
	if len(s.words) > 0 {
		n.Args = make([]string, len(s.words))
		for i := range s.words {
			n.Args[i] = s.words[i].Value
		}
	}
	if first.Kind != shell.Literal || first.Value == "" {
		n.Name, n.Standing = first.Value, StandingDynamic
		s.problem("the program cannot be told: " + first.Value)
		s.generic()
		return
	}
	n.Program = first.Value
	if slash := strings.LastIndexByte(first.Value, '/'); slash >= 0 {
		n.Name, n.Program = first.Value, first.Value[slash+1:]
		if first.Tilde || !trustedDirs[first.Value[:slash]] {
			n.Standing = StandingPath
			s.problem("program named by a path outside the system folders: " + first.Value)
			s.generic()
			return
		}
	} else if first.Tilde {
		n.Name, n.Standing = first.Value, StandingPath
		s.problem("program named by a path outside the system folders: " + first.Value)
		s.generic()
		return
	}
	spec := s.table.programs[n.Program]
	if spec == nil {
		n.Standing = StandingUnlisted
		s.problem("unlisted program " + n.Program)
		s.generic()
		return
	}
	s.spec = spec
	s.walk()
}

// generic reads the words of a program whose grammar is not known by the common
// conventions, for rules that look for options.
func (s *scanner) generic() {
	for i, w := range s.words {
		if w.Kind == shell.Literal && w.Value == "--" {
			s.addOperands(s.words[i+1:])
			return
		}
		if len(w.Value) > 1 && w.Value[0] == '-' {
			s.genericFlag(w.Value)
			continue
		}
		s.node.Operands = append(s.node.Operands, w.Value)
	}
}

func (s *scanner) addOperands(words []shell.Word) {
	for _, w := range words {
		s.node.Operands = append(s.node.Operands, w.Value)
	}
}

// genericFlag adds an option that is not listed: without its value, as it is
// written, and by its letters where it could be a cluster.
func (s *scanner) genericFlag(word string) {
	name, _, _ := strings.Cut(word, "=")
	s.flag(name)
	if strings.HasPrefix(word, "--") || len(name) <= 2 {
		return
	}
	for i := 1; i < len(name); i++ {
		if name[i] >= 0x80 || name[i] <= ' ' {
			return
		}
		s.flag(shortName(name[i]))
	}
}

func (s *scanner) flag(name string) {
	for _, f := range s.node.Flags {
		if f == name {
			return
		}
	}
	s.node.Flags = append(s.node.Flags, name)
}

// shortNames are "-" and each ASCII letter, so that splitting a cluster makes no
// new strings.
var shortNames = func() (names [128]string) {
	for i := range names {
		names[i] = "-" + string(rune(i))
	}
	return names
}()

func shortName(c byte) string {
	if c < 128 {
		return shortNames[c]
	}
	return "-?"
}

// walk reads the words by the grammar of s.spec.
func (s *scanner) walk() {
	if s.probe() {
		return
	}
	for len(s.words) > 0 && s.spec != nil {
		w := s.words[0]
		s.words = s.words[1:]
		if s.spec.style == styleWords {
			s.exactOnly(w)
			continue
		}
		switch w.Kind {
		case shell.Literal:
		case shell.Glob, shell.Parameter:
			if s.optionWithOpenValue(w) || !s.operand(w) {
				continue
			}
			s.rest()
			continue
		default:
			if !s.operand(w) {
				continue
			}
			s.rest()
			continue
		}
		if w.Value == "--" && s.spec.style != styleExact && s.spec.style != styleKeys {
			if s.spec.subs != nil {
				s.problem("-- before a sub-command of " + s.spec.name)
			}
			s.rest()
			continue
		}
		if s.option(w) {
			continue
		}
		if s.operand(w) {
			s.rest()
		}
	}
	s.finish()
}

// probe is true where the whole argument list is one that only tells about the
// program.
func (s *scanner) probe() bool {
	spec := s.spec
	if len(spec.probes) == 0 || len(s.words) > 3 || s.cmd.OpenEnded {
		return false
	}
	for _, w := range s.words {
		if w.Kind != shell.Literal || w.Tilde || strings.Contains(w.Value, probeSep) {
			return false
		}
	}
	var args string
	switch len(s.words) {
	case 0:
	case 1:
		args = s.words[0].Value
	default:
		args = strings.Join(s.node.Args[len(s.node.Args)-len(s.words):], probeSep)
	}
	if !spec.probes[args] {
		return false
	}
	for _, w := range s.words {
		if w.Value != "" && w.Value[0] == '-' {
			s.flag(w.Value)
		} else {
			s.node.Operands = append(s.node.Operands, w.Value)
		}
	}
	s.use(probeUse)
	s.words, s.spec = nil, nil
	return true
}

// exactOnly reads a word of a program without options: listed words count as
// options, all others are operands.
func (s *scanner) exactOnly(w shell.Word) {
	if w.Kind == shell.Literal {
		if o := s.spec.options[w.Value]; o != nil {
			s.given(o)
			return
		}
	}
	s.operands = append(s.operands, w)
}

// rest takes all words that are left as operands.
func (s *scanner) rest() {
	if s.ended < 0 {
		s.ended = len(s.operands)
	}
	s.operands = append(s.operands, s.words...)
	s.words = nil
}

// operand takes w as an operand or sub-command. It is true where the options end
// here.
func (s *scanner) operand(w shell.Word) bool {
	if s.spec.subs != nil && len(s.operands) == 0 {
		return s.subcommand(w)
	}
	s.operands = append(s.operands, w)
	switch s.spec.style {
	case stylePOSIX, styleGo:
		return true
	default:
		return false
	}
}

func (s *scanner) subcommand(w shell.Word) bool {
	if w.Kind != shell.Literal && s.spec.mixed {
		s.operands = append(s.operands, w)
		return false
	}
	if w.Kind != shell.Literal {
		s.problem("the sub-command of " + s.spec.name + " cannot be told: " + w.Value)
		s.operands = append(s.operands, w)
		return false
	}
	sub := s.spec.subs[w.Value]
	if sub == nil && s.spec.mixed {
		s.operands = append(s.operands, w)
		return false
	}
	if sub == nil {
		// What it does is not known; the effects of the program itself are the least.
		s.problem("unlisted sub-command " + s.spec.name + " " + w.Value)
		s.node.Subcommand = append(s.node.Subcommand, w.Value)
		s.use(s.spec.name)
		s.generic()
		s.words, s.spec = nil, nil
		return false
	}
	s.node.Subcommand = append(s.node.Subcommand, w.Value)
	s.spec = sub
	s.probe()
	return false
}

// finish judges the operands once all words are read.
func (s *scanner) finish() {
	spec := s.spec
	if spec == nil {
		s.addOperands(s.operands)
		return
	}
	pattern := spec.operands
	s.node.Loose = spec.loose && !spec.harmless
	s.marks |= spec.marks
	if s.marks&(opens|reads) != 0 {
		if s.unlisted != "" {
			s.problem("unlisted option " + s.unlisted + " of " + spec.name)
		}
		s.use(spec.openedUse)
		if spec.opened != nil {
			pattern = spec.opened
		}
	} else {
		s.use(spec.name)
	}
	if spec.gate != "" {
		s.node.Repositories = []Repository{s.dir}
	}
	if len(s.operands) > 0 {
		s.node.Operands = make([]string, len(s.operands))
		for i := range s.operands {
			s.node.Operands[i] = s.operands[i].Value
		}
	}
	if s.marks&supplants != 0 && len(pattern) > 0 && pattern[0].count == exactlyOne {
		pattern = pattern[1:]
	}
	s.match(pattern)
	if s.cmd.OpenEnded && !s.filled {
		s.openEnd(pattern)
	}
	s.settlePaths(pattern)
	if len(s.node.Hosts)+len(s.node.URLs) > 0 {
		s.use(spec.reachUse)
	}
}
