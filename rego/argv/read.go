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

type pathUse struct {
	kind kind
	path Path
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

// isSocket is true for the names that bash connects to instead of opening a file.
func isSocket(name string) bool {
	return strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/")
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
		if isHome(w) {
			p.Word, p.Kind = "~"+strings.TrimPrefix(strings.TrimPrefix(w.Value, "$HOME"), "${HOME}"), PathHome
		}
	}
	return p
}

// isHome is true for $HOME and paths below it. An assignment to HOME is a reason
// of its own not to be certain.
func isHome(w shell.Word) bool {
	if w.Kind != shell.Parameter {
		return false
	}
	rest, ok := strings.CutPrefix(w.Value, "$HOME")
	if !ok {
		rest, ok = strings.CutPrefix(w.Value, "${HOME}")
	}
	return ok && (rest == "" || rest[0] == '/') && !strings.ContainsAny(rest, "$`*?[")
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

// match gives each operand its entry in pattern: entries that want one take it
// first, optional ones from the left, and the repeated one what is left.
func (s *scanner) match(pattern []operand) {
	need := 0
	for i := range pattern {
		if pattern[i].count == exactlyOne || pattern[i].count == any1 {
			need++
		}
	}
	extra := max(len(s.operands)-need, 0)
	at := 0
	for i := range pattern {
		o := &pattern[i]
		n := 0
		switch o.count {
		case exactlyOne:
			n = 1
		case oneOrNone:
			if extra > 0 {
				n, extra = 1, extra-1
			}
		case any0:
			n, extra = extra, 0
		case any1:
			n, extra = 1+extra, 0
		}
		for ; n > 0 && at < len(s.operands); n-- {
			w := s.operands[at]
			s.judge(o, pattern, w, s.ended >= 0 && at >= s.ended)
			at++
		}
	}
	if at < len(s.operands) {
		s.problem("more operands than " + s.spec.name + " is known to take: " + s.operands[at].Value)
		for ; at < len(s.operands); at++ {
			if s.operands[at].Kind == shell.Dynamic {
				s.problem("word cannot be told: " + s.operands[at].Value)
			}
		}
	}
}

// judge adds the facts of operand w, which is o of pattern. ended is true where it
// cannot turn into an option any more.
func (s *scanner) judge(o *operand, pattern []operand, w shell.Word, ended bool) {
	if s.marks&lists == 0 {
		s.use(o.use)
	}
	if o.kind == kindCommand || o.kind == kindAssign {
		s.command(o.kind, w)
		return
	}
	spec := s.spec
	if spec.responses && w.Value != "" && strings.IndexByte("@*?[", w.Value[0]) >= 0 {
		s.problem("operand of " + spec.name + " may hold more options: " + w.Value)
	}
	switch w.Kind {
	case shell.Literal:
	case shell.Glob:
		if !ended && !s.globKeeps(w.Value) {
			s.problem("pattern may match a file named like an option of " + spec.name + ": " + w.Value)
		}
		if !mayRepeat(pattern) {
			s.problem("pattern may be several operands of " + spec.name + ": " + w.Value)
		}
	case shell.Parameter:
		if s.fromInput(w) {
			s.placed(o.kind, w)
			return
		}
		isText := o.kind == kindText || o.kind == kindNumber || o.kind == kindReader && spec.openScript
		// The value may start with a dash, or be several words.
		if o.kind.isPath() && isHome(w) {
			break
		}
		becomes := !ended && spec.style != styleWords && (!w.Quoted || w.Value == "" || w.Value[0] == '$' || w.Value[0] == '-')
		switch {
		case !isText,
			becomes && !(spec.harmless && spec.pathless),
			!w.Quoted && !allText(pattern):
			s.problem("operand of " + spec.name + " cannot be told: " + w.Value)
		}
	default:
		if (o.kind == kindIn || o.kind == kindTree) && isSubstituted(w) {
			return
		}
		s.problem("word cannot be told: " + w.Value)
	}
	s.value(o.param, w)
}

// isSubstituted is true for a word that is a process substitution and nothing
// else: a pipe whose commands the facts list by themselves. Text with characters
// that could begin or end something else is not looked into.
func isSubstituted(w shell.Word) bool { return isSubstitution(w.Value, "<(") }

func isSubstitution(value, start string) bool {
	text, ok := strings.CutPrefix(value, start)
	if !ok {
		return false
	}
	text, ok = strings.CutSuffix(text, ")")
	return ok && !strings.ContainsAny(text, "()$`\\{}")
}

// placed judges an operand that comes from the input of the starter; whether such
// words may be options is for fed to say.
func (s *scanner) placed(k kind, w shell.Word) {
	s.filled = true
	switch {
	case k == kindReader || k == kindCommand || k == kindAssign:
		s.problem("operand of " + s.spec.name + " comes from input")
	case k.isPath():
		s.paths = append(s.paths, pathUse{k, Path{Word: w.Value, Kind: PathInput}})
	}
}

// mayRepeat is true where it does not matter how many operands there are.
func mayRepeat(pattern []operand) bool {
	repeated := false
	for i := range pattern {
		o := &pattern[i]
		if o.kind.writes() || o.effects != 0 {
			return false
		}
		repeated = repeated || o.count == any0 || o.count == any1
	}
	return repeated
}

// wordsDoNoHarm is true where more words than one, of any form, add nothing.
func (s *scanner) wordsDoNoHarm(pattern []operand) bool {
	return s.spec.harmless && s.spec.pathless && allText(pattern)
}

func allText(pattern []operand) bool {
	for i := range pattern {
		if k := pattern[i].kind; k != kindText && k != kindNumber && k != kindReader {
			return false
		}
	}
	return true
}

// command takes w as part of a command that the facts list by itself, or as an
// assignment before it.
func (s *scanner) command(k kind, w shell.Word) {
	switch {
	case s.marks&closes != 0:
		if w.Kind != shell.Literal {
			s.problem("operand of " + s.spec.name + " cannot be told: " + w.Value)
		}
	case k == kindAssign && !s.runs && strings.Contains(w.Value, "="):
		if w.Kind == shell.Dynamic {
			s.problem("word cannot be told: " + w.Value)
		}
	default:
		s.runs = s.runs || s.spec.opens
	}
}

// globKeeps is true where no file name that pattern matches can do harm as an
// option of the program.
func (s *scanner) globKeeps(pattern string) bool {
	if s.spec.harmless || pattern == "" {
		return true
	}
	switch pattern[0] {
	case '-':
		return false
	case '*', '?', '[':
	default:
		return true
	}
	if s.spec.style != styleExact || s.spec.loose {
		return s.spec.style == styleWords
	}
	// Options are whole words here, so those that the pattern matches are known.
	for name, o := range s.spec.options {
		if o.effects == 0 && o.marks&opens == 0 {
			continue
		}
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return false
		}
	}
	return true
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

// given notes that option o is used, without its value.
func (s *scanner) given(o *option) {
	s.flag(o.name)
	s.use(o.use)
	if o.marks&supplants != 0 && len(s.operands) > 0 && len(s.spec.operands) > 0 && s.spec.operands[0].kind == kindReader {
		// Where options end at the first operand, that one is the script.
		s.problem("script of " + s.spec.name + " after an operand")
	}
	s.marks |= o.marks
	s.runs = s.runs || o.marks&opens != 0
}

// option reads w if it is an option, with its value. It is false for operands.
func (s *scanner) option(w shell.Word) bool {
	text := w.Value
	spec := s.spec
	switch spec.style {
	case styleExact:
		return s.exact(text)
	case styleGo:
		return s.goFlag(text)
	case styleKeys:
		return s.keyword(w)
	case styleBundle:
		if len(s.operands) == 0 && s.bundleFirst() && text != "" && text[0] != '-' {
			s.cluster("-"+text, true)
			return true
		}
	default:
	}
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	if o := spec.options[text]; o != nil {
		s.given(o)
		if o.value == valueRequired {
			s.nextValue(o)
		}
		return true
	}
	if text[1] == '-' {
		s.long(text)
		return true
	}
	s.cluster(text, false)
	return true
}

// bundleFirst is true while the word at hand is the first of the command.
func (s *scanner) bundleFirst() bool {
	return len(s.words) == len(s.cmd.Words)-2
}

// nextValue takes the next word, or words, as the value of o.
func (s *scanner) nextValue(o *option) {
	for _, v := range o.values {
		if v.kind == kindCommand {
			s.inner()
			return
		}
		if len(s.words) == 0 {
			s.problem("option " + o.name + " of " + s.spec.name + " lacks its value")
			return
		}
		w := s.words[0]
		s.words = s.words[1:]
		if w.Kind == shell.Literal && !s.inertAnyway(w.Value) {
			s.problem("value of " + o.name + " looks like an option: " + w.Value)
		}
		s.optionValue(o, v, w)
	}
}

// inertAnyway is true for a value that would do no harm as an option. Programs of
// one name differ in what takes a value: -l of sed takes one in some systems, and
// elsewhere the next word is read for itself.
func (s *scanner) inertAnyway(text string) bool {
	if len(text) < 2 || text[0] != '-' || isDigit(text[1]) || s.spec.harmless || s.spec.loose {
		return true
	}
	switch s.spec.style {
	case styleExact, styleWords, styleKeys:
		return true
	default:
	}
	name, _, _ := strings.Cut(text, "=")
	if o := s.spec.options[name]; o != nil {
		return o.inert()
	}
	if text[1] == '-' {
		return false
	}
	for i := 1; i < len(text); i++ {
		o := s.spec.options[shortName(text[i])]
		if o == nil || !o.inert() {
			return false
		}
		if o.value != valueNone {
			return true
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// inert is true for an option that adds nothing whatever its value is.
func (o *option) inert() bool {
	if o.effects != 0 || o.marks&(rewrites|opens) != 0 {
		return false
	}
	for _, v := range o.values {
		if v.kind.writes() || v.kind == kindProgram || v.kind == kindReader {
			return false
		}
	}
	return true
}

// inner skips the words of a command inside an expression, up to ; or {} +. Without
// an expression they may also end with the words themselves (fd -x).
func (s *scanner) inner() {
	for i, w := range s.words {
		if w.Kind != shell.Literal {
			continue
		}
		if w.Value == ";" || w.Value == "+" && i > 0 && s.words[i-1].Value == "{}" {
			s.words = s.words[i+1:]
			return
		}
	}
	if s.spec.style == styleExact {
		s.problem("command without its end")
	}
	s.words = nil
}

// optionValue judges w as a value of o.
func (s *scanner) optionValue(o *option, v param, w shell.Word) {
	switch w.Kind {
	case shell.Literal:
	case shell.Glob:
		// Several matches turn all but the first into operands or options.
		if !s.globKeeps(w.Value) {
			s.problem("pattern may match a file named like an option of " + s.spec.name + ": " + w.Value)
		}
	case shell.Parameter:
		isText := v.kind == kindText || v.kind == kindNumber
		if !isText && !(v.kind.isPath() && isHome(w)) || isText && !w.Quoted && !s.wordsDoNoHarm(s.spec.operands) {
			s.problem("value of " + o.name + " cannot be told: " + w.Value)
		}
	default:
		s.problem("word cannot be told: " + w.Value)
	}
	s.value(v, w)
}

// glued judges the part of a literal word that is the value of o.
func (s *scanner) glued(o *option, value string) {
	if len(o.values) != 1 {
		s.problem("option " + o.name + " of " + s.spec.name + " takes two words")
		return
	}
	s.value(o.values[0], shell.Word{Value: value, Kind: shell.Literal})
}

// optionWithOpenValue reads a word that starts with the literal spelling of a
// listed option and a value that is not literal, such as --include=*.go.
func (s *scanner) optionWithOpenValue(w shell.Word) bool {
	name, value, ok := strings.Cut(w.Value, "=")
	if !ok || !strings.HasPrefix(name, "--") || strings.ContainsAny(name, "*?[$`") || value == "" {
		return false
	}
	o := s.spec.options[name]
	if o == nil || len(o.values) != 1 {
		return false
	}
	v := o.values[0]
	s.given(o)
	part := shell.Word{Value: value, Kind: w.Kind, Quoted: w.Quoted}
	if w.Kind == shell.Glob {
		// Every match starts with the option itself.
		if v.kind.isPath() || v.kind == kindReader {
			s.problem("value of " + name + " cannot be told: " + value)
		}
		s.value(v, part)
		return true
	}
	s.optionValue(o, v, part)
	return true
}

// long reads --name or --name=value that is not listed as it stands.
func (s *scanner) long(text string) {
	name, value, hasValue := strings.Cut(text, "=")
	if o := s.spec.options[name]; o != nil && hasValue {
		s.given(o)
		if o.value == valueNone {
			s.problem("option " + name + " of " + s.spec.name + " takes no value")
			return
		}
		s.glued(o, value)
		return
	}
	s.flag(name)
	abbreviated := false
	for full, o := range s.spec.options {
		if strings.HasPrefix(full, name) {
			abbreviated = true
			s.given(o)
			if hasValue && o.value != valueNone {
				s.glued(o, value)
			}
		}
	}
	switch {
	case abbreviated:
		s.problem("abbreviated option " + name + " of " + s.spec.name)
	default:
		s.notListed(name)
	}
}

// notListed notes an option that the table does not have.
func (s *scanner) notListed(name string) {
	if s.spec.loose {
		s.unlisted = name
		return
	}
	s.problem("unlisted option " + name + " of " + s.spec.name)
}

// cluster reads one or more letters after a dash.
func (s *scanner) cluster(text string, bundle bool) {
	spec := s.spec
	for i := 1; i < len(text); i++ {
		c := text[i]
		if spec.numeric && isDigit(c) {
			continue
		}
		o := spec.options[shortName(c)]
		if o == nil || c >= 128 {
			if i == 1 || !spec.loose {
				s.genericFlag(text)
			} else {
				s.flag(shortName(c))
			}
			s.notListed(shortName(c))
			return
		}
		s.given(o)
		rest := text[i+1:]
		switch o.value {
		case valueNone:
		case valueOptional:
			if rest != "" {
				s.glued(o, rest)
			}
			return
		case valueRequired:
			if rest != "" && !bundle {
				s.glued(o, rest)
				return
			}
			s.nextValue(o)
			if !bundle {
				return
			}
		}
	}
}

// exact reads w where options are whole words.
func (s *scanner) exact(text string) bool {
	if o := s.spec.options[text]; o != nil {
		s.given(o)
		if o.value == valueRequired {
			s.nextValue(o)
		}
		return true
	}
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	if name, value, ok := strings.Cut(text, "="); ok {
		if o := s.spec.options[name]; o != nil && o.value != valueNone {
			s.given(o)
			s.glued(o, value)
			return true
		}
	}
	s.genericFlag(text)
	s.notListed(text)
	return true
}

// goFlag reads a flag of Go's flag package. The table lists it with one dash.
func (s *scanner) goFlag(text string) bool {
	if len(text) < 2 || text[0] != '-' {
		return false
	}
	name, value, hasValue := strings.Cut(text, "=")
	if strings.HasPrefix(name, "--") {
		name = name[1:]
	}
	o := s.spec.options[name]
	if o == nil {
		s.flag(name)
		s.notListed(name)
		return true
	}
	s.given(o)
	switch {
	case hasValue && o.value != valueNone:
		s.glued(o, value)
	case hasValue:
		// A boolean flag: -x=false switches it off, which adds nothing.
	case o.value == valueRequired:
		s.nextValue(o)
	}
	return true
}

// keyword reads key=value.
func (s *scanner) keyword(w shell.Word) bool {
	name, value, ok := strings.Cut(w.Value, "=")
	if !ok {
		return false
	}
	o := s.spec.options[name]
	if o == nil {
		s.flag(name)
		s.notListed(name)
		return true
	}
	s.given(o)
	s.glued(o, value)
	return true
}

// openEnd adds the operands that the starter of the command takes from its input
// or puts in place of {}.
func (s *scanner) openEnd(pattern []operand) {
	if len(pattern) == 0 {
		s.problem("operands of " + s.spec.name + " come from input")
		return
	}
	switch last := &pattern[len(pattern)-1]; {
	case last.count == exactlyOne || last.count == oneOrNone,
		last.kind == kindReader, last.kind == kindCommand, last.kind == kindAssign:
		s.problem("operands of " + s.spec.name + " come from input")
	case last.kind.isPath():
		s.paths = append(s.paths, pathUse{last.kind, Path{Word: "{}", Kind: PathInput}})
	}
}
