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
	for i := range facts.Commands {
		s := scanner{table: t, cmd: &facts.Commands[i], node: &nodes[i]}
		s.read()
		if s.opens && !opened(facts.Commands, i, s.node.Program) {
			s.problem("the command that " + s.node.Program + " starts cannot be told")
		}
	}
	for i := range nodes {
		t.feed(facts.Commands, nodes, i)
	}
	return nodes
}

// Read reads one command by the grammar of its program. It keeps parts of c.
func (t *Table) Read(c *shell.Command) Node {
	var node Node
	s := scanner{table: t, cmd: c, node: &node}
	s.read()
	return node
}

// opened reports whether a later command was started by command i, the program.
func opened(commands []shell.Command, i int, program string) bool {
	depth := len(commands[i].Via)
	for j := i + 1; j < len(commands); j++ {
		if via := commands[j].Via; len(via) > depth {
			first, _, _ := strings.Cut(via[depth], " ")
			if path.Base(first) == program {
				return true
			}
		}
	}
	return false
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
	// supplanted is true once an option has brought the first operand, tree once
	// one has asked for whole trees, opens once a command is started that the facts
	// list by itself.
	supplanted, tree, opens, openedByOption bool
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

// wordKind is the kind of a word for JSON: empty for a literal one.
func wordKind(w shell.Word) string {
	if w.Kind == shell.Literal {
		return ""
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
	}
	return p
}

func (s *scanner) program() {
	n := s.node
	first := s.cmd.Words[0]
	s.words = s.cmd.Words[1:]
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
	s.ended = -1
	for len(s.words) > 0 {
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
		args = strings.Join(s.node.Args, probeSep)
	}
	use, ok := spec.probes[args]
	if !ok {
		return false
	}
	for _, w := range s.words {
		if w.Value != "" && w.Value[0] == '-' {
			s.flag(w.Value)
		} else {
			s.node.Operands = append(s.node.Operands, w.Value)
		}
	}
	s.use(use)
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
	if w.Kind != shell.Literal {
		s.problem("the sub-command of " + s.spec.name + " cannot be told: " + w.Value)
		s.operands = append(s.operands, w)
		return false
	}
	sub := s.spec.subs[w.Value]
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
	if s.openedByOption {
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
	if s.supplanted && len(pattern) > 0 && pattern[0].count == exactlyOne {
		pattern = pattern[1:]
	}
	s.match(pattern)
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
			s.judge(o, w, s.ended >= 0 && at >= s.ended)
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
	if s.cmd.OpenEnded {
		s.openEnd(pattern)
	}
}

// judge adds the facts of operand w. ended is true where it cannot turn into an
// option any more.
func (s *scanner) judge(o *operand, w shell.Word, ended bool) {
	s.use(o.use)
	if o.kind == kindCommand || o.kind == kindAssign {
		s.opens = s.opens || s.spec.opens && o.kind == kindCommand
		return
	}
	switch w.Kind {
	case shell.Literal:
	case shell.Glob:
		if !ended && !s.globKeeps(w.Value) {
			s.problem("pattern may match a file named like an option of " + s.spec.name + ": " + w.Value)
		}
	case shell.Parameter:
		// The value may start with a dash, or be several words.
		becomes := !ended && (w.Value == "" || w.Value[0] == '$' || w.Value[0] == '-') || !w.Quoted
		if o.kind != kindText && o.kind != kindNumber || becomes && !(s.spec.harmless && s.spec.pathless) {
			s.problem("operand of " + s.spec.name + " cannot be told: " + w.Value)
		}
	default:
		s.problem("word cannot be told: " + w.Value)
	}
	s.value(o.kind, o.reader, w)
}

// globKeeps is true where no file name that pattern matches can do harm as an
// option of the program.
func (s *scanner) globKeeps(pattern string) bool {
	if s.spec.harmless {
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
		if o.effects == 0 && !o.opens {
			continue
		}
		if ok, err := path.Match(pattern, name); ok || err != nil {
			return false
		}
	}
	return true
}

// value adds the facts of w as a value or operand of kind k.
func (s *scanner) value(k kind, r reader, w shell.Word) {
	n := s.node
	switch k {
	case kindText, kindNumber, kindCommand, kindAssign, kindScript:
	case kindIn, kindTree, kindOut, kindOutDash, kindOutTree, kindDir:
		s.path(k, w)
	case kindProgram:
		n.Starts = append(n.Starts, w.Value)
	case kindHost:
		n.Hosts = append(n.Hosts, w.Value)
	case kindURL:
		n.URLs = append(n.URLs, w.Value)
	case kindRemote:
		s.remote(w)
	case kindReader:
		s.script(r, w)
	}
}

func (s *scanner) path(k kind, w shell.Word) {
	p := pathOf(w)
	if p.Kind == PathUnknown && w.Kind == shell.Literal {
		s.problem("home folder cannot be told: " + w.Value)
	}
	literal := w.Kind == shell.Literal && !w.Tilde
	switch k {
	case kindIn, kindTree:
		if literal && w.Value == "-" {
			return
		}
		p.Tree = k == kindTree || s.tree
		s.node.Reads = append(s.node.Reads, p)
	case kindOutDash:
		if literal && w.Value == "-" {
			return
		}
		s.node.Writes = append(s.node.Writes, p)
	case kindOut, kindOutTree:
		p.Tree = k == kindOutTree || s.tree
		s.node.Writes = append(s.node.Writes, p)
	case kindDir:
		s.chdir(w, p)
	default:
	}
}

// chdir moves to the folder that an option names (git -C).
func (s *scanner) chdir(w shell.Word, p Path) {
	if p.Kind != PathLiteral && p.Kind != PathHome {
		s.dir.Unknown = true
		return
	}
	dir := w.Value
	switch {
	case dir == "":
	case p.Kind == PathHome:
		s.dir = Repository{Dir: dir}
	case path.IsAbs(dir):
		s.dir = Repository{Dir: path.Clean(dir)}
	default:
		if dir[0] == '~' {
			dir = "./" + dir
		}
		s.dir.Dir = joinDir(s.dir.Dir, dir)
	}
}

// joinDir joins two relative folders, keeping a leading ~ of dir literal.
func joinDir(base, dir string) string {
	if base == "" {
		base = "."
	}
	joined := path.Join(base, dir)
	if joined[0] == '~' && base[0] != '~' {
		joined = "./" + joined
	}
	if joined == "." {
		return ""
	}
	return joined
}

// remote sorts out a word that is a local path, a URL or host:path.
func (s *scanner) remote(w shell.Word) {
	n := s.node
	if strings.Contains(w.Value, "://") {
		n.URLs = append(n.URLs, w.Value)
		return
	}
	if host, rest, ok := strings.Cut(w.Value, ":"); ok && host != "" && !strings.Contains(host, "/") && rest != "" {
		n.Hosts = append(n.Hosts, host)
		return
	}
	n.Reads = append(n.Reads, pathOf(w))
}

func (s *scanner) script(r reader, w shell.Word) {
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
	s.node.Reads = append(s.node.Reads, found.reads...)
	s.node.Writes = append(s.node.Writes, found.writes...)
}

// given notes that option o is used, without its value.
func (s *scanner) given(o *option) {
	s.flag(o.name)
	s.use(o.use)
	s.supplanted = s.supplanted || o.supplants
	s.tree = s.tree || o.tree
	if o.opens {
		s.opens, s.openedByOption = true, true
	}
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

// nextValue takes the next word as the value of o.
func (s *scanner) nextValue(o *option) {
	if o.kind == kindCommand {
		s.inner()
		return
	}
	if len(s.words) == 0 {
		s.problem("option " + o.name + " of " + s.spec.name + " lacks its value")
		return
	}
	w := s.words[0]
	s.words = s.words[1:]
	s.optionValue(o, w)
}

// inner skips the words of a command inside an expression, up to ; or {} +.
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
	s.problem("command without its end")
	s.words = nil
}

// optionValue judges w as the value of o.
func (s *scanner) optionValue(o *option, w shell.Word) {
	switch w.Kind {
	case shell.Literal:
	case shell.Glob:
		// Several matches turn all but the first into operands or options.
		if !s.globKeeps(w.Value) {
			s.problem("pattern may match a file named like an option of " + s.spec.name + ": " + w.Value)
		}
	case shell.Parameter:
		if o.kind != kindText && o.kind != kindNumber || !w.Quoted && !(s.spec.harmless && s.spec.pathless) {
			s.problem("value of " + o.name + " cannot be told: " + w.Value)
		}
	default:
		s.problem("word cannot be told: " + w.Value)
	}
	s.value(o.kind, o.reader, w)
}

// glued judges the part of a literal word that is the value of o.
func (s *scanner) glued(o *option, value string) {
	s.value(o.kind, o.reader, shell.Word{Value: value, Kind: shell.Literal})
}

// optionWithOpenValue reads a word that starts with the literal spelling of a
// listed option and a value that is not literal, such as --include=*.go.
func (s *scanner) optionWithOpenValue(w shell.Word) bool {
	name, value, ok := strings.Cut(w.Value, "=")
	if !ok || !strings.HasPrefix(name, "--") || strings.ContainsAny(name, "*?[$`") || value == "" {
		return false
	}
	o := s.spec.options[name]
	if o == nil || o.value == valueNone {
		return false
	}
	s.given(o)
	part := shell.Word{Value: value, Kind: w.Kind, Quoted: w.Quoted}
	if w.Kind == shell.Glob {
		// Every match starts with the option itself.
		if o.kind.isPath() || o.kind == kindReader {
			s.problem("value of " + name + " cannot be told: " + value)
		}
		s.value(o.kind, o.reader, part)
		return true
	}
	s.optionValue(o, part)
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
	case !s.spec.loose:
		s.problem("unlisted option " + name + " of " + s.spec.name)
	}
}

// cluster reads one or more letters after a dash.
func (s *scanner) cluster(text string, bundle bool) {
	spec := s.spec
	for i := 1; i < len(text); i++ {
		c := text[i]
		if spec.numeric && c >= '0' && c <= '9' {
			continue
		}
		o := spec.options[shortName(c)]
		if o == nil || c >= 128 {
			if i == 1 || !spec.loose {
				s.genericFlag(text)
			} else {
				s.flag(shortName(c))
			}
			if !spec.loose {
				s.problem("unlisted option " + shortName(c) + " of " + spec.name)
			}
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
	if !s.spec.loose {
		s.problem("unlisted option " + text + " of " + s.spec.name)
	}
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
		if !s.spec.loose {
			s.problem("unlisted option " + name + " of " + s.spec.name)
		}
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
		if !s.spec.loose {
			s.problem("unlisted option " + name + " of " + s.spec.name)
		}
		return true
	}
	s.given(o)
	s.glued(o, value)
	return true
}

// openEnd judges the words that the starter of the command adds at its end or
// in place of {}.
func (s *scanner) openEnd(pattern []operand) {
	k := kindText
	if len(pattern) == 0 {
		s.problem("operands of " + s.spec.name + " come from input")
		return
	}
	last := &pattern[len(pattern)-1]
	k = last.kind
	if last.count == exactlyOne || last.count == oneOrNone || k == kindReader || k == kindCommand {
		s.problem("operands of " + s.spec.name + " come from input")
		return
	}
	p := Path{Word: "{}", Kind: PathInput, Tree: s.tree || k == kindTree || k == kindOutTree}
	switch k {
	case kindIn, kindTree, kindRemote:
		s.node.Reads = append(s.node.Reads, p)
	case kindOut, kindOutDash, kindOutTree:
		s.node.Writes = append(s.node.Writes, p)
	default:
	}
}
