package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// open lists the commands that a command starts, if it is a wrapper.
func (r *reader) open(words []Word, assigns []Assign, sc scope, at *place) {
	if len(words) == 0 || words[0].Kind != Literal {
		return
	}
	name := path.Base(words[0].Value)
	if name == words[0].Value && !sc.argv && r.builtin(name, words, sc, at) {
		return
	}
	switch name {
	case "find", "gfind":
		r.find(words, sc, *at)
	case "fd", "fdfind":
		r.fd(words, sc, *at)
	case "busybox", "toybox":
		if len(words) > 1 && !(words[1].Kind == Literal && strings.HasPrefix(words[1].Value, "-")) {
			r.start(words[1:], nil, sc.in(name), at)
		}
	case "su", "runuser", "script":
		r.scriptOption(name, words, sc, *at)
	default:
		if d, ok := shells[name]; ok {
			r.shell(name, d, words, sc, *at)
		} else if w, ok := wrappers[name]; ok {
			r.wrapped(name, w, words, sc, at)
		}
	}
}

// builtin looks at commands that only the shell itself has, and reports whether
// there is nothing more to open.
func (r *reader) builtin(name string, words []Word, sc scope, at *place) bool {
	switch name {
	case "cd", "chdir":
		r.cd(words, at)
	case "pushd", "popd", "source", ".":
		at.lose()
	case "alias":
		if slices.ContainsFunc(words[1:], func(w Word) bool { return w.Kind != Literal || strings.Contains(w.Value, "=") }) {
			r.problem("construct", sc.at.line, sc.at.col, "an alias may change what later words mean")
		}
	case "trap":
		r.trap(words, sc, *at)
	case "eval":
		args := words[1:]
		if len(args) > 0 && args[0].Kind == Literal && args[0].Value == "--" {
			args = args[1:]
		}
		r.joinedScript(name, r.dialect, args, sc.in(name), at)
	case "coproc", "repeat", "foreach":
		r.keyword(name, words, sc, *at)
	default:
		if _, ok := r.functions[name]; ok {
			at.lose()
		}
		return false
	}
	return true
}

// start lists an inner command and opens it in turn.
func (r *reader) start(words []Word, assigns []Assign, sc scope, at *place) {
	if len(words) > 1 && words[0].Kind == Literal && words[0].Value == "!" {
		r.problem("construct", sc.at.line, sc.at.col, "a prefix that is no program")
		words = words[1:]
	}
	if len(words) == 0 || r.tooDeep(sc) {
		return
	}
	c := Command{
		Words: slices.Clip(words), Assigns: assigns, Via: sc.via, OpenEnded: sc.open, Stdin: sc.stdin,
		DirUnknown: at.unknown, Line: sc.at.line, Column: sc.at.col, Text: clip(joined(words)),
	}
	if !at.unknown {
		c.Dir = at.dir
	}
	if r.add(c) {
		r.open(words, assigns, sc, at)
	}
}

func (r *reader) wrapperProblem(sc scope, format string, args ...any) {
	r.problem("wrapper", sc.at.line, sc.at.col, clip(fmt.Sprintf(format, args...)))
}

// wrapped opens a wrapper of the table. Where that is not sure it is a problem,
// and the best guess is listed.
func (r *reader) wrapped(name string, w *wrapper, words []Word, sc scope, at *place) {
	in := sc.in(name)
	in.open = in.open || w.open
	if w.fresh {
		in.stdin, in.input = "", Word{}
	}
	here := *at
	if w.away {
		here.lose()
	}
	var script *Word
	var split []Word
	mark, direct := "", false
	tell := func(option string, value *Word) {
		switch {
		case has(w.unclear, option):
			r.wrapperProblem(sc, "what %s %s starts cannot be told", name, option)
			here.lose()
			if name == "env" && value != nil {
				split = guessed(strings.Fields(value.Value))
			}
		case has(w.folder, option):
			r.enter(*value, false, &here)
		case has(w.script, option):
			script = value
		case has(w.direct, option):
			direct = true
		case has(w.mark, option):
			if mark = "{}"; value != nil {
				mark = value.Value
				if value.Kind != Literal {
					r.wrapperProblem(sc, "where %s puts its input cannot be told", name)
				}
			}
		}
	}
	rest := words[1:]
	var assigns []Assign
	for {
		o := w.options(rest, tell)
		switch {
		case o.quit:
			return
		case o.unclear:
			r.wrapperProblem(sc, "the arguments of %s cannot be told", name)
			return
		case o.unknown != "":
			r.wrapperProblem(sc, "%s has an option that is not known: %s", name, o.unknown)
			r.start(afterOptions(rest), nil, in, &here)
			return
		}
		rest = append(split, o.operands...)
		split = nil
		n := len(assigns)
		// To some shells called sh, time is grammar, and so is what follows it.
		grammar := name == "time" && !sc.argv
		for (w.assigns || grammar) && len(rest) > 0 {
			name, value, ok := strings.Cut(rest[0].Value, "=")
			if !ok || name == "" {
				break
			}
			if grammar {
				r.problem("construct", sc.at.line, sc.at.col, "an assignment behind time")
			}
			if !whole(rest[0]) {
				r.wrapperProblem(sc, "the arguments of %s cannot be told", words[0].Value)
			}
			assigns = append(assigns, Assign{Name: name, Value: Word{Value: value, Kind: rest[0].Kind, Quoted: rest[0].Quoted}})
			rest = rest[1:]
		}
		if !w.late || n == len(assigns) {
			break
		}
	}
	if script != nil {
		r.literalScript(name+" -c", POSIX, *script, in.renamed(name+" -c"), here)
		return
	}
	for range w.operands {
		if len(rest) == 0 {
			return
		}
		if !whole(rest[0]) {
			r.wrapperProblem(sc, "the operands of %s cannot be told", name)
			return
		}
		rest = rest[1:]
	}
	switch {
	case len(rest) == 0:
		if name == "parallel" {
			r.wrapperProblem(sc, "what parallel starts cannot be told")
		}
	case w.script != "" && len(rest) > 1 && rest[0].Kind == Literal && has(w.script, rest[0].Value):
		r.literalScript(name+" -c", POSIX, rest[1], in.renamed(name+" -c"), here)
	case name == "parallel":
		if i := slices.IndexFunc(rest, func(w Word) bool { return w.Kind == Literal && strings.HasPrefix(w.Value, ":::") }); i >= 0 {
			rest = rest[:i]
		}
		r.joinedScript(name, POSIX, standIn(rest, parallelMarks), in, &here)
	case w.joined && !direct:
		r.joinedScript(name, POSIX, rest, in, &here)
	case w.here:
		r.start(rest, assigns, in, at)
	default:
		if mark != "" {
			rest = standIn(rest, []string{mark})
		}
		r.start(rest, assigns, in, &here)
	}
}

// renamed is the scope with another name for the wrapper it is inside of.
func (sc scope) renamed(via string) scope {
	sc.via = append(sc.via[:len(sc.via)-1:len(sc.via)-1], via)
	return sc
}

// afterOptions are the words from the first that is no option: a guess at what
// a wrapper starts whose options are not known.
func afterOptions(words []Word) []Word {
	for i, w := range words {
		if w.Kind == Literal && !strings.HasPrefix(w.Value, "-") && !strings.Contains(w.Value, "=") {
			return words[i:]
		}
	}
	return nil
}

// standIn marks the words in which the starter puts text of its own.
func standIn(words []Word, marks []string) []Word {
	out := slices.Clone(words)
	for i := range out {
		for _, m := range marks {
			if m != "" && strings.Contains(out[i].Value, m) && (out[i].Kind == Literal || out[i].Kind == Glob) {
				out[i].Kind, out[i].Quoted, out[i].Tilde = Parameter, true, false
			}
		}
	}
	return out
}

// joinedScript reads words joined by spaces as a script, as eval does.
func (r *reader) joinedScript(name string, d Dialect, words []Word, in scope, at *place) {
	var b strings.Builder
	for i, w := range words {
		if w.Kind != Literal || w.Tilde {
			r.wrapperProblem(in, "what %s starts cannot be told", name)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.Value)
	}
	r.scriptIn(d, b.String(), in, at)
}

// literalScript reads a script that is one word. One that is not literal is a
// problem, and is read all the same: what it says is a hint for a rule that
// denies.
func (r *reader) literalScript(name string, d Dialect, script Word, in scope, at place) {
	if script.Kind != Literal {
		r.wrapperProblem(in, "the script of %s cannot be told", name)
	}
	if _, ok := variants[d]; !ok {
		r.wrapperProblem(in, "there is no grammar for the script of %s", name)
		d = Bash
	}
	in.open = false
	r.scriptIn(d, script.Value, in, &at)
}

// shell opens sh -c 'script' and a shell that reads a heredoc.
func (r *reader) shell(name string, d Dialect, words []Word, sc scope, at place) {
	args, script, stdin, known := words[1:], false, false, true
	for len(args) > 0 && !script {
		a := args[0]
		if a.Kind != Literal || len(a.Value) < 2 || a.Value[0] != '-' {
			break
		}
		args = args[1:]
		if a.Value == "--" {
			break
		}
		if has(shellOptions, a.Value) {
			continue
		}
		flags := a.Value[1:]
		if n := len(flags) - 1; (flags[n] == 'o' || flags[n] == 'O') && len(args) > 0 && args[0].Kind == Literal {
			flags, args = flags[:n], args[1:]
		}
		known = known && strings.Trim(flags, shellFlags) == ""
		if !strings.HasPrefix(flags, "-") {
			script = strings.Contains(flags, "c")
			stdin = stdin || strings.Contains(flags, "s")
		}
	}
	switch {
	case !known:
		r.wrapperProblem(sc, "%s has an option that is not known", name)
	case !script && len(args) > 0 && args[0].Kind != Literal:
		r.wrapperProblem(sc, "the arguments of %s cannot be told", name)
	}
	switch {
	case script && len(args) > 0:
		if len(args) > 1 || sc.open {
			r.wrapperProblem(sc, "%s -c has more arguments than its script", name)
		}
		r.literalScript(name+" -c", d, args[0], sc.in(name+" -c"), at)
	case !script && sc.input.Kind != "" && (stdin || len(args) == 0):
		// Its commands read on behind the script.
		doc := sc.input
		sc.input = Word{}
		via := name + " " + sc.stdin
		r.literalScript(via, d, doc, sc.in(via), at)
	}
}

// scriptOption opens su -c and script -c, whose options may stand anywhere.
func (r *reader) scriptOption(name string, words []Word, sc scope, at place) {
	in := sc.in(name + " -c")
	if name != "script" {
		at.lose()
	}
	operands := 0
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w.Kind != Literal:
			r.wrapperProblem(sc, "the arguments of %s cannot be told", name)
		case w.Value == "-c" || w.Value == "--command":
			if i++; i < len(words) {
				r.literalScript(name+" -c", POSIX, words[i], in, at)
			}
		case strings.HasPrefix(w.Value, "--command="):
			script := Word{Value: w.Value[len("--command="):], Kind: Literal}
			r.literalScript(name+" -c", POSIX, script, in, at)
		case w.Value == "-" || w.Value == "-l" || w.Value == "--login" || w.Value == "-q":
		case name == "runuser" && (w.Value == "-u" || w.Value == "--user"):
			if i += 2; i < len(words) && words[i].Kind == Literal && words[i].Value == "--" {
				i++
			}
			if i < len(words) {
				r.start(words[i:], nil, sc.in(name), &at)
			}
			return
		case !strings.HasPrefix(w.Value, "-"):
			// BSD script takes a command behind its file.
			if operands++; operands == 2 && name == "script" {
				r.wrapperProblem(sc, "what script starts cannot be told")
				r.start(words[i:], nil, sc.in(name), &at)
				return
			}
		default:
			r.wrapperProblem(sc, "%s has an option that is not known: %s", name, w.Value)
		}
	}
}

// trap opens the handler of trap 'command' SIGNAL, which runs who knows where.
func (r *reader) trap(words []Word, sc scope, at place) {
	args := words[1:]
	if len(args) > 0 && args[0].Kind == Literal && args[0].Value == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	h := args[0]
	if h.Kind == Literal && (len(args) == 1 || h.Value == "" || h.Value[0] == '-') {
		return // it lists, resets or ignores
	}
	at.lose()
	in := sc.in("trap")
	in.stdin, in.input = "", Word{}
	r.literalScript("trap", r.dialect, h, in, at)
}

// keyword looks at words that are grammar to a shell, but not to ours.
func (r *reader) keyword(name string, words []Word, sc scope, at place) {
	// The grammar of bash has coproc; sh may be bash, and zsh has all three.
	if r.dialect == Bash || r.dialect == POSIX && name != "coproc" {
		return
	}
	r.problem("construct", sc.at.line, sc.at.col, name+" is grammar to some shells")
	words = words[1:]
	if name == "repeat" && len(words) > 0 {
		words = words[1:]
	}
	r.start(words, nil, sc.in(name), &at)
}

// find opens every -exec, -execdir, -ok and -okdir of find.
func (r *reader) find(words []Word, sc scope, at place) {
	for i := 1; i < len(words); i++ {
		w := words[i]
		if w.Kind != Literal {
			continue
		}
		switch w.Value {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		from, here := i+1, at
		for i = from; i < len(words); i++ {
			if v := words[i]; v.Kind == Literal && (v.Value == ";" || v.Value == "+" && i > from && words[i-1].Value == "{}") {
				break
			}
		}
		if i == len(words) {
			r.wrapperProblem(sc, "find %s has no end", w.Value)
		}
		if w.Value == "-execdir" || w.Value == "-okdir" {
			here.lose()
		}
		in := sc.in("find " + w.Value)
		inner := words[from:min(i, len(words))]
		in.open = sc.open || slices.ContainsFunc(inner, func(w Word) bool { return strings.Contains(w.Value, "{}") })
		r.start(standIn(inner, findMarks), nil, in, &here)
	}
}

// fd opens the -x and -X of fd.
func (r *reader) fd(words []Word, sc scope, at place) {
	for i := 1; i < len(words); i++ {
		w := words[i]
		if w.Kind != Literal {
			continue
		}
		name, glued, has := strings.Cut(w.Value, "=")
		switch {
		case name == "-x" || name == "-X" || name == "--exec" || name == "--exec-batch":
		case strings.HasPrefix(name, "--exec"),
			strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "--") && strings.ContainsAny(name, "xX"):
			r.wrapperProblem(sc, "what fd %s starts cannot be told", w.Value)
			continue
		case name == "-C" || name == "--base-directory":
			at.lose()
			continue
		default:
			continue
		}
		from := i + 1
		for i = from; i < len(words); i++ {
			if words[i].Kind == Literal && words[i].Value == ";" {
				break
			}
		}
		inner := words[from:min(i, len(words))]
		if has {
			r.wrapperProblem(sc, "what fd %s starts cannot be told", w.Value)
			inner = append([]Word{{Value: glued, Kind: Literal}}, inner...)
		}
		in := sc.in("fd " + name)
		in.open = true
		r.start(standIn(inner, fdMarks), nil, in, &at)
	}
}
