package shell

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// reader walks a syntax tree and lists its commands.
type reader struct {
	dialect Dialect
	// src is the text that the positions of the tree belong to: the text given,
	// or the script of an opened wrapper while that is read.
	src string
	// inner is how many bytes of such scripts may still be read.
	inner int

	commands []Command
	problems []Problem
	// size is the number of words, assignments and redirections so far; full
	// is set once the limit of them or of commands is reached.
	size int
	full bool

	// heredocs and semicolons count what was met, for a substitution to see
	// what it holds.
	heredocs, semicolons int

	// buf is where words are put together.
	buf []byte

	// letting is set inside let, whose expressions are words with quotes.
	letting bool

	// setsHOME and setsCDPATH: the text may change what cd does.
	setsHOME, setsCDPATH bool

	// pending are redirections of the compound statements around, until a
	// command is found that carries them.
	pending []Redirect
	// functions are the names defined in the text.
	functions map[string]position
}

type position struct{ line, col int }

// scope is what a command inherits from the constructs around it.
type scope struct {
	via   []string
	stdin string
	// input is the text of a heredoc or here-string that stdin comes from.
	input Word
	open  bool
	depth int
	// argv is true where no shell is around that has builtins.
	argv bool
	// at is the place of the wrapper whose script is read.
	at position
}

// in is the scope one level further inside.
func (sc scope) in(via string) scope {
	sc.depth++
	if via != "" {
		sc.via = append(sc.via[:len(sc.via):len(sc.via)], via)
	}
	return sc
}

func (r *reader) facts() Facts {
	f := Facts{Dialect: Dialect(strings.ToValidUTF8(string(r.dialect), "\uFFFD")), Commands: r.commands, Problems: r.problems}
	if f.Commands == nil {
		f.Commands = []Command{}
	}
	return f
}

// problem notes a problem once for every kind and message.
func (r *reader) problem(kind string, line, col int, message string) {
	for _, p := range r.problems {
		if p.Kind == kind && p.Message == message {
			return
		}
	}
	r.problems = append(r.problems, Problem{Kind: kind, Message: message, Line: line, Column: col})
}

func (r *reader) problemAt(kind string, n syntax.Node, sc scope, message string) {
	line, col := r.lineCol(n.Pos(), sc)
	r.problem(kind, line, col, message)
}

// lineCol is the place of pos for the reader of the facts.
func (r *reader) lineCol(pos syntax.Pos, sc scope) (line, col int) {
	if sc.at.line > 0 {
		return sc.at.line, sc.at.col
	}
	if !pos.IsValid() {
		return 1, 1
	}
	if line, col = int(pos.Line()), int(pos.Col()); line > 0 && col > 0 {
		return line, col
	}
	return r.offsetPlace(int(pos.Offset()), sc)
}

// offsetPlace is lineCol for a byte of r.src.
func (r *reader) offsetPlace(offset int, sc scope) (line, col int) {
	if sc.at.line > 0 {
		return sc.at.line, sc.at.col
	}
	before := r.src[:min(offset, len(r.src))]
	return strings.Count(before, "\n") + 1, len(before) - strings.LastIndexByte(before, '\n')
}

// add lists a command, if there is room.
func (r *reader) add(c Command) bool {
	if r.full {
		return false
	}
	left := MaxWords - r.size
	if len(r.commands) == MaxCommands || len(c.Words)+len(c.Assigns)+len(c.Redirects) > left {
		r.full = true
		r.problem("limit", c.Line, c.Column, fmt.Sprintf("more than %d commands or %d words", MaxCommands, MaxWords))
		if len(r.commands) == MaxCommands {
			return false
		}
		c.Words = c.Words[:min(len(c.Words), left)]
		left -= len(c.Words)
		c.Assigns = c.Assigns[:min(len(c.Assigns), left)]
		left -= len(c.Assigns)
		c.Redirects = c.Redirects[:min(len(c.Redirects), left)]
	}
	r.size += len(c.Words) + len(c.Assigns) + len(c.Redirects)
	if c.Words == nil {
		c.Words = []Word{}
	}
	r.commands = append(r.commands, c)
	return true
}

// script parses r.src and lists its commands.
func (r *reader) script(sc scope, at *place) {
	if !utf8.ValidString(r.src) {
		line, col := r.lineCol(syntax.Pos{}, sc)
		r.problem("syntax", line, col, "the text is not valid UTF-8")
		r.src = strings.ToValidUTF8(r.src, "\uFFFD")
	}
	if i := strings.IndexAny(r.src, "\x00\r"); i >= 0 {
		// Shells take a carriage return as part of a word and drop or stop at
		// a NUL; the grammar treats both as space.
		line, col := r.offsetPlace(i, sc)
		r.problem("construct", line, col, "the text holds a carriage return or a NUL byte")
	}
	r.noteVariables(r.src)
	stmts, rest, offset := r.statements(sc)
	r.stmts(stmts, sc, at)
	if rest != "" {
		r.salvage(rest, offset, sc)
		at.lose()
	}
}

// scriptIn reads a script that a wrapper starts.
func (r *reader) scriptIn(d Dialect, text string, sc scope, at *place) {
	if r.tooDeep(sc) {
		return
	}
	if r.inner -= len(text); r.inner < 0 {
		r.problem("limit", max(sc.at.line, 1), max(sc.at.col, 1), "the scripts inside wrappers are too long")
		return
	}
	src, dialect, pending := r.src, r.dialect, r.pending
	sc.argv = false
	r.src, r.dialect, r.pending = text, d, nil
	r.script(sc, at)
	r.src, r.dialect, r.pending = src, dialect, pending
}

func (r *reader) tooDeep(sc scope) bool {
	if sc.depth > MaxDepth {
		r.problem("limit", max(sc.at.line, 1), max(sc.at.col, 1), fmt.Sprintf("nested deeper than %d", MaxDepth))
		return true
	}
	return r.full
}

func (r *reader) stmts(stmts []*syntax.Stmt, sc scope, at *place) {
	for _, s := range stmts {
		if r.full {
			return
		}
		r.stmt(s, sc, at)
	}
}

// apart lists statements that run in a shell of their own.
func (r *reader) apart(stmts []*syntax.Stmt, sc scope, at place) {
	if !r.tooDeep(sc) {
		r.stmts(stmts, sc, &at)
	}
}

// inside lists statements that run in this shell.
func (r *reader) inside(stmts []*syntax.Stmt, sc scope, at *place) {
	if !r.tooDeep(sc) {
		r.stmts(stmts, sc, at)
	}
}

func (r *reader) stmt(s *syntax.Stmt, sc scope, at *place) {
	if s == nil || r.full {
		return
	}
	if s.Coprocess {
		r.problemAt("construct", s, sc, "a coprocess")
	}
	if s.Semicolon.IsValid() && !s.Background {
		r.semicolons++
	}
	if s.Background || s.Coprocess || s.Disown {
		apart := *at
		sc, at = sc.in("background"), &apart
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		r.call(s, c.Assigns, c.Args, sc, at)
		return
	case *syntax.DeclClause:
		r.decl(s, c, sc, at)
		return
	case *syntax.LetClause, *syntax.ArithmCmd, *syntax.TestClause, nil:
		r.pseudo(s, sc, at)
		return
	case *syntax.BinaryCmd:
		if len(s.Redirs) == 0 {
			r.binary(s, c, sc, at)
			return
		}
	}
	redirects, inner := r.redirects(s.Redirs, sc)
	for _, x := range s.Redirs {
		r.nested(x.Word, sc, at)
		r.heredoc(x, sc, at)
	}
	sc = inner
	r.pending = append(r.pending, redirects...)
	r.compound(s, sc, at)
	if len(r.pending) > 0 {
		r.emit(s, nil, nil, nil, sc, at)
	}
}

func (r *reader) compound(s *syntax.Stmt, sc scope, at *place) {
	switch c := s.Cmd.(type) {
	case *syntax.BinaryCmd:
		r.binary(s, c, sc, at)
	case *syntax.Subshell:
		r.apart(c.Stmts, sc.in("subshell"), *at)
	case *syntax.Block:
		r.inside(c.Stmts, sc.in("block"), at)
	case *syntax.IfClause:
		r.ifClause(c, sc.in("condition"), at)
	case *syntax.WhileClause:
		r.loop(at, func() {
			r.inside(c.Cond, sc.in("loop"), at)
			r.inside(c.Do, sc.in("loop"), at)
		})
	case *syntax.ForClause:
		r.forClause(c, sc.in("loop"), at)
	case *syntax.CaseClause:
		r.caseClause(c, sc.in("case"), at)
	case *syntax.FuncDecl:
		r.function(c, sc, at)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.deeper(c.Stmt, sc.in(""), at)
		}
	case *syntax.CoprocClause:
		r.problemAt("construct", c, sc, "a coprocess")
		if c.Name != nil {
			r.nested(c.Name, sc, at)
		}
		apart := *at
		r.deeper(c.Stmt, sc.in("coproc"), &apart)
	default:
		r.problemAt("construct", s, sc, "a form that is not known")
	}
}

func (r *reader) deeper(s *syntax.Stmt, sc scope, at *place) {
	if !r.tooDeep(sc) {
		r.stmt(s, sc, at)
	}
}

// binary lists pipelines and lists. Their trees lean to the left and may be as
// long as the text, so they are followed in a loop.
func (r *reader) binary(s *syntax.Stmt, c *syntax.BinaryCmd, sc scope, at *place) {
	pipe := c.Op == syntax.Pipe || c.Op == syntax.PipeAll
	// Most are short.
	var somePart [8]*syntax.Stmt
	var someOps [8]syntax.BinCmdOperator
	parts, ops := somePart[:0], someOps[:0]
	for {
		parts, ops = append(parts, c.Y), append(ops, c.Op)
		next, ok := c.X.Cmd.(*syntax.BinaryCmd)
		if !ok || len(c.X.Redirs) > 0 || c.X.Background || pipe != (next.Op == syntax.Pipe || next.Op == syntax.PipeAll) {
			parts = append(parts, c.X)
			break
		}
		c = next
	}
	slices.Reverse(parts)
	slices.Reverse(ops)
	if pipe {
		r.pipeline(parts, sc, at)
		return
	}
	r.list(parts, ops, sc, at)
}

func (r *reader) pipeline(parts []*syntax.Stmt, sc scope, at *place) {
	inner := sc.in("pipe")
	var apart place
	for i, p := range parts {
		apart = *at
		if i > 0 {
			inner.stdin, inner.input = "pipe", Word{}
		}
		r.deeper(p, inner, &apart)
		if i == len(parts)-1 && apart != *at {
			// zsh, and bash with lastpipe, run the last part in this shell.
			at.lose()
		}
	}
}

func (r *reader) ifClause(c *syntax.IfClause, sc scope, at *place) {
	var ends []place
	for c != nil {
		before := *at
		r.inside(c.Cond, sc, at)
		then := *at
		if *at != before {
			at.lose() // the condition moved, or failed to
		}
		r.inside(c.Then, sc, &then)
		ends = append(ends, then)
		if c.Else == nil {
			if len(c.Cond) > 0 {
				ends = append(ends, *at)
			}
			break
		}
		c = c.Else
	}
	*at = meet(ends)
}

func (r *reader) forClause(c *syntax.ForClause, sc scope, at *place) {
	switch l := c.Loop.(type) {
	case *syntax.WordIter:
		r.loopVariable(l, sc, at)
		for _, w := range l.Items {
			if evaluates(r.word(w.Parts, argument).Value) {
				r.problemAt("construct", w, sc, "text that runs a command where arithmetic reads it")
			}
			r.nested(w, sc, at)
		}
	case *syntax.CStyleLoop:
		exprs := []syntax.ArithmExpr{l.Init, l.Cond, l.Post}
		r.arithmCommand(l, exprs, sc, at)
		for _, x := range exprs {
			r.arithmetic(x, sc, at)
		}
	}
	r.loop(at, func() { r.inside(c.Do, sc, at) })
}

// loopVariable lists the variable of a loop as an assignment where it may be one
// that programs or the shell go by: those have capitals, and in zsh any name may
// be one.
func (r *reader) loopVariable(l *syntax.WordIter, sc scope, at *place) {
	name := l.Name.Value
	if strings.ToLower(name) == name && r.dialect != Zsh {
		return
	}
	line, col := r.lineCol(l.Name.Pos(), sc)
	c := Command{
		Assigns:    []Assign{{Name: name, Value: Word{Kind: Parameter}}},
		Via:        sc.via,
		DirUnknown: at.unknown, Line: line, Column: col, Text: clip(name),
	}
	if !at.unknown {
		c.Dir = at.dir
	}
	r.add(c)
}

// loop runs body, which may run any number of times: once it has moved, every
// command in it may start elsewhere.
func (r *reader) loop(at *place, body func()) {
	start, before := len(r.commands), *at
	body()
	if *at != before {
		r.lost(start)
		at.lose()
	}
}

// lost marks all commands listed since start: their folder is not known.
func (r *reader) lost(start int) {
	for i := start; i < len(r.commands); i++ {
		r.commands[i].Dir, r.commands[i].DirUnknown = "", true
	}
}

func (r *reader) caseClause(c *syntax.CaseClause, sc scope, at *place) {
	r.nested(c.Word, sc, at)
	ends := []place{*at}
	through := *at
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			r.nested(p, sc, at)
		}
		start := *at
		if through != start {
			start.lose() // reached from the item before, or directly
		}
		r.inside(item.Stmts, sc, &start)
		ends = append(ends, start)
		through = *at
		if item.Op != syntax.Break {
			through = start
		}
	}
	*at = meet(ends)
}

func (r *reader) function(c *syntax.FuncDecl, sc scope, at *place) {
	names := c.Names
	if c.Name != nil {
		names = []*syntax.Lit{c.Name}
	}
	if len(names) == 0 {
		r.problemAt("construct", c, sc, "a function without a name")
	}
	line, col := r.lineCol(c.Pos(), sc)
	for _, n := range names {
		if r.functions == nil {
			r.functions = make(map[string]position)
		}
		name := r.word([]syntax.WordPart{n}, value).Value
		if _, ok := r.functions[name]; !ok {
			r.functions[name] = position{line, col}
		}
	}
	// It runs later, or never, and nobody knows where.
	later := *at
	later.lose()
	inner := sc.in("function")
	inner.stdin, inner.input = "", Word{}
	r.deeper(c.Body, inner, &later)
}

// functionsUsed states the functions that are also used as a command: what the
// name means is then not what it says.
func (r *reader) functionsUsed() {
	if len(r.functions) == 0 {
		return
	}
	for _, c := range r.commands {
		if len(c.Words) == 0 || c.Words[0].Kind != Literal {
			continue
		}
		if at, ok := r.functions[c.Words[0].Value]; ok {
			r.problem("construct", at.line, at.col, fmt.Sprintf("%s is a function defined here", clip(c.Words[0].Value)))
		}
	}
}

// redirects converts the redirections of a statement. The scope it returns
// says where they make standard input come from.
func (r *reader) redirects(list []*syntax.Redirect, sc scope) ([]Redirect, scope) {
	if len(list) == 0 {
		return nil, sc
	}
	out := make([]Redirect, 0, len(list))
	for _, x := range list {
		d, in := r.redirect(x, sc)
		out = append(out, d)
		if in == "" || d.FD != "" && d.FD != "0" {
			continue
		}
		sc.stdin, sc.input = in, Word{}
		switch in {
		case "heredoc":
			sc.input = r.heredocText(x)
		case "string":
			sc.input = d.Target
		}
	}
	return out, sc
}

// redirect converts one redirection and tells what its descriptor reads.
func (r *reader) redirect(x *syntax.Redirect, sc scope) (d Redirect, in string) {
	d.Op = x.Op.String()
	if i := int(x.OpPos.Offset()); x.OpPos.IsValid() && i+len(d.Op) <= len(r.src) {
		// Some operators have spellings that the grammar does not tell apart.
		if op := r.src[i : i+len(d.Op)]; strings.Trim(op, "<>&|!-") == "" {
			d.Op = op
		}
	}
	if x.N != nil {
		if d.FD = x.N.Value; len(d.FD) > 1 && r.dialect != Bash {
			r.problemAt("construct", x, sc, "a descriptor of more than one digit")
		}
	}
	if ws := r.words(nil, x.Word, target); len(ws) == 1 {
		d.Target = ws[0]
	} else {
		d.Target = Word{Kind: Dynamic}
	}
	if (x.Op == syntax.DplOut || x.Op == syntax.DplIn) && len(d.Target.Value) > 1 && d.Target.Value[0] == '-' {
		r.problemAt("construct", x, sc, "a word that touches the - of a closed descriptor")
	}
	switch x.Op {
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.AppClob,
		syntax.RdrAll, syntax.RdrAllClob, syntax.AppAll, syntax.AppAllClob:
		d.Mode = "write"
	case syntax.RdrIn:
		d.Mode, in = "read", "file"
	case syntax.RdrInOut:
		d.Mode, in = "read_write", "file"
	case syntax.DplOut:
		if d.Mode = "write"; descriptor(d.Target) {
			d.Mode = "none"
		}
	case syntax.DplIn:
		in = "file"
		if d.Mode = "read"; descriptor(d.Target) {
			d.Mode = "none"
		}
	case syntax.Hdoc, syntax.DashHdoc:
		r.heredocs++
		d.Mode, in = "none", "heredoc"
	case syntax.WordHdoc:
		d.Mode, in = "none", "string"
	default:
		d.Mode = "read_write"
	}
	return d, in
}

// heredocText is the body of a heredoc as the command reads it.
func (r *reader) heredocText(x *syntax.Redirect) Word {
	if x.Hdoc == nil {
		return Word{Kind: Literal}
	}
	quoted := quotedDelimiter(x.Word)
	b := wordBuilder{r: r, use: value, buf: r.buf[:0], kind: Literal}
	for _, p := range x.Hdoc.Parts {
		switch l, ok := p.(*syntax.Lit); {
		case !ok:
			b.expansion(p, true)
		case quoted:
			b.buf = append(b.buf, l.Value...)
		default:
			b.buf = unescapeQuoted(b.buf, l.Value, "$`\\")
		}
	}
	r.buf = b.buf
	return Word{Value: string(b.buf), Kind: b.kind}
}

// descriptor reports whether the target of >& or <& is a descriptor: digits
// with an optional - behind them, or - alone.
func descriptor(w Word) bool {
	if w.Kind != Literal || w.Value == "" {
		return false
	}
	digits := strings.TrimSuffix(w.Value, "-")
	return strings.Trim(digits, "0123456789") == ""
}

// call lists a simple command and what stands inside its words.
func (r *reader) call(s *syntax.Stmt, assigns []*syntax.Assign, args []*syntax.Word, sc scope, at *place) {
	var words []Word
	for len(args) > 1 && (args[0].Lit() == "--" || args[0].Lit() == "!") {
		// What is left of time -- and time !, which are grammar to some shells.
		r.problemAt("construct", args[0], sc, "a prefix that is no program")
		args = args[1:]
	}
	if len(args) > 0 {
		switch p := args[0].Parts[0].(type) {
		case *syntax.Lit:
			r.commandPosition(p, sc)
		case *syntax.ExtGlob:
			// Without extglob, which is off by default, !(a) is ! with a subshell.
			r.problemAt("construct", p, sc, "an extended glob that may be a subshell")
			in, apart := sc.in("subshell"), *at
			in.at.line, in.at.col = r.lineCol(p.Pos(), sc)
			r.scriptIn(r.dialect, p.Pattern.Value, in, &apart)
		}
		words = make([]Word, 0, len(args))
		for _, a := range args {
			if words = r.words(words, a, argument); len(words) > MaxWords {
				break
			}
		}
	}
	var as []Assign
	if len(assigns) > 0 {
		as = make([]Assign, 0, len(assigns))
		for _, a := range assigns {
			as = append(as, r.assign(a))
		}
	}
	if len(words) > 0 && words[0].Kind == Literal && (words[0].Value == "[" || words[0].Value == "test") {
		for i := range words {
			if evaluates(words[i].Value) {
				words[i].Kind = Dynamic
			}
		}
	}
	inner := r.begin(s, words, as, sc, at)
	for _, a := range assigns {
		r.nestedAssign(a, sc, at)
	}
	for _, a := range args {
		r.nested(a, sc, at)
	}
	r.finish(s, words, as, sc, inner, at)
}

// commandPosition looks at the start of a program's name that is grammar to a
// shell, but not to ours.
func (r *reader) commandPosition(l *syntax.Lit, sc scope) {
	switch s := l.Value; {
	case r.dialect == Zsh && strings.HasPrefix(s, "{"):
		r.problemAt("construct", l, sc, "a block without a space behind its brace")
	case r.dialect == POSIX && s != "[" && s != "[[" && (strings.Contains(s, "+=") || strings.Contains(s, "[")):
		r.problemAt("construct", l, sc, "an assignment to some of the shells called sh")
	}
}

// begin lists one command and returns the scope of what it starts. The caller
// then lists the commands inside its words, and calls finish.
func (r *reader) begin(s *syntax.Stmt, words []Word, assigns []Assign, sc scope, at *place) scope {
	redirects, inner := r.redirects(s.Redirs, sc)
	line, col := r.emit(s, words, assigns, redirects, inner, at)
	if inner.at.line == 0 {
		inner.at = position{line, col}
	}
	return inner
}

// finish lists the commands inside the redirections of a command and those
// that it starts.
func (r *reader) finish(s *syntax.Stmt, words []Word, assigns []Assign, sc, inner scope, at *place) {
	for _, x := range s.Redirs {
		r.nested(x.Word, sc, at)
		r.heredoc(x, sc, at)
	}
	if len(words) > 0 {
		r.open(words, assigns, inner, at)
	}
}

func (r *reader) emit(s *syntax.Stmt, words []Word, assigns []Assign, redirects []Redirect, sc scope, at *place) (line, col int) {
	line, col = r.lineCol(s.Pos(), sc)
	if len(r.pending) > 0 {
		redirects = append(r.pending, redirects...)
		r.pending = nil
	}
	c := Command{
		Words: words, Assigns: assigns, Redirects: redirects,
		Via: sc.via, OpenEnded: sc.open, Stdin: sc.stdin,
		DirUnknown: at.unknown, Line: line, Column: col, Text: clip(r.text(s)),
	}
	if !at.unknown {
		c.Dir = at.dir
	}
	r.add(c)
	return line, col
}

// text is the source of a statement without heredoc bodies.
func (r *reader) text(s *syntax.Stmt) string {
	from := s.Pos()
	to := from
	if s.Cmd != nil {
		to = s.Cmd.End()
	}
	for _, x := range s.Redirs {
		if x.Word != nil {
			if e := x.Word.End(); e.After(to) {
				to = e
			}
		}
	}
	return r.slice(from, to)
}

func (r *reader) assign(a *syntax.Assign) Assign {
	out := Assign{Append: a.Append, Value: Word{Kind: Literal}}
	if a.Name != nil {
		out.Name = a.Name.Value
	}
	switch {
	case a.Array != nil:
		out.Value = Word{Value: r.source(a.Array), Kind: Dynamic}
	case a.Value != nil:
		out.Value = r.word(a.Value.Parts, value)
	}
	if a.Index != nil || evaluates(out.Value.Value) {
		// A subscript is an expression of its own, and so is text that looks
		// like one once arithmetic reads the variable.
		out.Value.Kind = Dynamic
	}
	return out
}

// evaluates reports whether s is text that runs a command where the shell reads
// it as an expression, as a[$(id)] does.
func evaluates(s string) bool {
	i := strings.IndexByte(s, '[')
	return i >= 0 && strings.ContainsAny(s[i:], "$`")
}

// decl lists export, declare, local, readonly, typeset: builtins whose
// arguments are assignments.
func (r *reader) decl(s *syntax.Stmt, c *syntax.DeclClause, sc scope, at *place) {
	words := make([]Word, 0, 1+len(c.Args))
	words = append(words, Word{Value: c.Variant.Value, Kind: Literal})
	for _, a := range c.Args {
		switch {
		case a.Naked && a.Index == nil && a.Name == nil:
			words = r.words(words, a.Value, argument)
		case a.Naked && a.Index == nil:
			words = append(words, Word{Value: a.Name.Value, Kind: Literal})
		default:
			x := r.assign(a)
			eq := "="
			if x.Append {
				eq = "+="
			}
			if a.Index != nil {
				x.Value.Value = r.source(a)
			} else {
				x.Value.Value = x.Name + eq + x.Value.Value
			}
			if x.Value.Tilde {
				x.Value.Tilde, x.Value.Kind = false, Dynamic
			}
			words = append(words, x.Value)
		}
	}
	inner := r.begin(s, words, nil, sc, at)
	for _, a := range c.Args {
		r.nestedAssign(a, sc, at)
	}
	r.finish(s, words, nil, sc, inner, at)
}

// pseudo lists the forms that look like commands to whoever reads a script and
// are grammar to the shell: [[ ]], (( )), let, and a redirection alone.
func (r *reader) pseudo(s *syntax.Stmt, sc scope, at *place) {
	var words []Word
	switch c := s.Cmd.(type) {
	case nil:
		if r.dialect == Zsh && len(s.Redirs) > 0 {
			r.problemAt("construct", s, sc, "zsh starts $NULLCMD for a redirection alone")
		}
	case *syntax.TestClause:
		words = []Word{{Value: "[[", Kind: Literal}}
		words = r.testWords(words, c.X, sc.depth)
		words = append(words, Word{Value: "]]", Kind: Literal})
	case *syntax.ArithmCmd:
		words = []Word{{Value: "((", Kind: Literal}, r.arithmWord(c.X)}
	case *syntax.LetClause:
		words = []Word{{Value: "let", Kind: Literal}}
		for _, x := range c.Exprs {
			words = append(words, r.arithmWord(x))
		}
	}
	inner := r.begin(s, words, nil, sc, at)
	switch c := s.Cmd.(type) {
	case *syntax.TestClause:
		r.test(c.X, sc, at)
	case *syntax.ArithmCmd:
		r.arithmetic(c.X, sc, at)
	case *syntax.LetClause:
		r.letting = true
		for _, x := range c.Exprs {
			r.arithmetic(x, sc, at)
		}
		r.letting = false
	}
	r.finish(s, words, nil, sc, inner, at)
}

// arithmCommand lists the head of for (( ; ; )).
func (r *reader) arithmCommand(l *syntax.CStyleLoop, exprs []syntax.ArithmExpr, sc scope, at *place) {
	words := []Word{{Value: "((", Kind: Literal}}
	for _, x := range exprs {
		if x != nil {
			words = append(words, r.arithmWord(x))
		}
	}
	line, col := r.lineCol(l.Pos(), sc)
	c := Command{
		Words: words, Via: sc.via, Stdin: sc.stdin, DirUnknown: at.unknown,
		Line: line, Column: col, Text: clip(r.source(l)),
	}
	if !at.unknown {
		c.Dir = at.dir
	}
	r.add(c)
}
