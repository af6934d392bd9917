package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// wrapper is a program that starts the command in its arguments. The letters
// and names are those of its manual pages (GNU, util-linux, BSD and macOS
// where they agree); an option that is not listed makes what it starts unknown.
type wrapper struct {
	// short lists option letters as getopt does: "ab:c::" has -a, -b VALUE and
	// -c with a value only when glued to it.
	short string
	// long lists option names; a trailing = takes a value, a trailing [=] one
	// only behind an equals sign.
	long string
	// quit are options with which nothing is started.
	quit string
	// number: -10 is an option (nice).
	number bool
	// dash: a lone - is an option (env).
	dash bool
	// assigns: NAME=VALUE words before the command belong to its environment.
	assigns bool
	// skip is the number of operands before the command.
	skip int
	// open: words that are not in the text are added.
	open bool
	// here: the command runs in this shell and may move it.
	here bool
	// away: the folder it runs in is not known.
	away bool
	// joined: the operands are joined and read as a script.
	joined bool
	// script is the option whose value is a script: "-c" (su, script, flock).
	script string
	// folder is the option whose value is the folder to run in.
	folder []string
	// unknown are options with which the command is not what it says.
	unknown []string
	// replace are options whose value, or {}, stands for input (xargs).
	replace []string
	// noStdin: the command does not get the wrapper's input.
	noStdin bool
}

var wrappers = map[string]wrapper{
	"env": {
		short: "i0u:C:S:va:", long: "ignore-environment null unset= chdir= split-string= debug argv0= block-signal[=] default-signal[=] ignore-signal[=] list-signal-handling",
		quit: "--help --version", dash: true, assigns: true, folder: []string{"-C", "--chdir"}, unknown: []string{"-S", "--split-string"},
	},
	"sudo": {
		short:   "ABbEHiknPSsNC:D:g:h:p:R:r:T:t:U:u:",
		long:    "askpass bell background preserve-env[=] set-home login reset-timestamp non-interactive preserve-groups stdin shell no-update close-from= chdir= group= host= prompt= chroot= role= command-timeout= type= other-user= user=",
		quit:    "-V --version --help -l --list -v --validate -K --remove-timestamp -e --edit",
		assigns: true, folder: []string{"-D", "--chdir"}, unknown: []string{"-i", "--login", "-s", "--shell", "-R", "--chroot"},
	},
	"doas":   {short: "nLsu:C:a:", unknown: []string{"-s"}, quit: "-L"},
	"pkexec": {long: "disable-internal-agent keep-cwd user=", quit: "--version --help", away: true},
	"nice":   {short: "n:", long: "adjustment=", number: true, quit: "--help --version"},
	"ionice": {short: "c:n:t", long: "class= classdata= ignore", quit: "-p --pid -P --pgid -u --uid -h --help -V --version"},
	"nohup":  {quit: "--help --version"},
	"setsid": {short: "cfw", long: "ctty fork wait", quit: "-h --help -V --version"},
	"stdbuf": {short: "i:o:e:", long: "input= output= error=", quit: "--help --version"},
	"timeout": {
		short: "k:s:vfp", long: "kill-after= signal= verbose foreground preserve-status",
		quit: "--help --version", skip: 1,
	},
	"gtimeout": {
		short: "k:s:vfp", long: "kill-after= signal= verbose foreground preserve-status",
		quit: "--help --version", skip: 1,
	},
	"time":       {short: "apvqlhf:o:", long: "append portability verbose quiet format= output=", quit: "-V --version --help"},
	"command":    {short: "p", quit: "-v -V", here: true},
	"builtin":    {here: true},
	"noglob":     {here: true},
	"nocorrect":  {here: true},
	"-":          {},
	"exec":       {short: "cla:"},
	"caffeinate": {short: "disumt:w:"},
	"taskset":    {short: "ac", long: "all-tasks cpu-list", quit: "-p --pid -h --help -V --version", skip: 1},
	"chrt":       {short: "abdfiorvRT:P:D:", long: "all-tasks batch deadline fifo idle other rr reset-on-fork verbose sched-runtime= sched-period= sched-deadline=", quit: "-p --pid -m --max -h --help -V --version", skip: 1},
	"chroot":     {long: "groups= userspec= skip-chdir", quit: "--help --version", skip: 1, away: true},
	"flock": {
		short: "ensuxoFw:E:c:", long: "exclusive nb nonblock shared unlock close no-fork wait= timeout= conflict-exit-code= verbose command=",
		quit: "-h --help -V --version", skip: 1, script: "-c --command",
	},
	"unshare": {
		short: "fimnprUuCTc", long: "fork map-root-user map-current-user mount[=] uts[=] ipc[=] net[=] pid[=] user[=] cgroup[=] time[=] mount-proc[=] kill-child[=] keep-caps",
		quit: "-h --help -V --version", away: true,
	},
	"runuser": {short: "fmplu:g:G:s:w:P", long: "fast preserve-environment login user= group= supp-group= shell= pty", quit: "-h --help -V --version", unknown: []string{"-l", "--login", "-s", "--shell"}},
	"watch": {
		short: "bcdegn:pq:rtwx", long: "beep color differences[=] errexit chgexit interval= precise equexit= no-rerun no-title no-wrap exec",
		quit: "-h --help -v --version", joined: true,
	},
	"xargs": {
		short:   "0a:d:E:e::I:i::L:l::n:oP:prs:tx",
		long:    "null arg-file= delimiter= eof[=] replace[=] max-lines[=] max-args= open-tty max-procs= interactive process-slot-var= no-run-if-empty max-chars= show-limits verbose exit",
		quit:    "--help --version",
		open:    true,
		replace: []string{"-I", "-i", "--replace"},
		noStdin: true,
	},
	"strace": {short: "cCdDfFhiknqrtTvVwxyYza:b:e:E:I:o:O:p:P:s:S:u:U:X:", quit: "-h -V --help --version"},
}

// shells are programs that read scripts, with the grammar they read them by.
var shells = map[string]Dialect{
	"bash": Bash, "rbash": Bash, "sh": POSIX, "dash": POSIX, "ash": POSIX, "zsh": Zsh,
	"ksh": "ksh", "mksh": "ksh", "ksh93": "ksh", "fish": "fish", "csh": "csh", "tcsh": "csh",
	"pwsh": "powershell", "powershell": "powershell",
}

// shellFlags are the flags before a script that change nothing in how it is
// read; c must be among them.
const shellFlags = "ceilsux"

var shellLong = []string{"--login", "--norc", "--noprofile", "--posix"}

// open lists the commands that the command starts, if it is a wrapper.
func (r *reader) open(words []Word, assigns []Assign, sc scope, at *place) {
	if len(words) == 0 || words[0].Kind != Literal {
		return
	}
	name := path.Base(words[0].Value)
	if name == words[0].Value && !r.argv {
		switch name {
		case "cd", "chdir":
			r.cd(words, at)
			return
		case "pushd", "popd", "source", ".":
			at.lose()
			return
		case "alias":
			if slices.ContainsFunc(words[1:], func(w Word) bool { return w.Kind != Literal || strings.Contains(w.Value, "=") }) {
				r.problem("construct", sc.at.line, sc.at.col, "an alias may change what later words mean")
			}
			return
		case "trap":
			r.trap(words, sc, *at)
			return
		case "coproc", "repeat", "foreach":
			r.keyword(name, words, sc, *at)
			return
		}
		if _, ok := r.functions[name]; ok {
			at.lose()
		}
	}
	switch name {
	case "eval":
		args := words[1:]
		if len(args) > 0 && args[0].Kind == Literal && args[0].Value == "--" {
			args = args[1:]
		}
		r.joinedScript(name, r.dialect, args, sc, at)
		return
	case "find", "gfind":
		r.find(words, sc, *at)
		return
	case "fd", "fdfind":
		r.fd(words, sc, *at)
		return
	case "busybox", "toybox":
		if len(words) > 1 && !(words[1].Kind == Literal && strings.HasPrefix(words[1].Value, "-")) {
			r.start(words[1:], nil, sc.in(name), at)
		}
		return
	case "su", "script":
		r.scriptOption(name, words, sc, *at)
		return
	case "parallel":
		r.parallel(words, sc, *at)
		return
	}
	if d, ok := shells[name]; ok {
		r.shell(name, d, words, sc, *at)
		return
	}
	if w, ok := wrappers[name]; ok {
		r.wrapped(name, w, words, sc, at)
	}
}

// start lists an inner command and opens it in turn.
func (r *reader) start(words []Word, assigns []Assign, sc scope, at *place) {
	if len(words) == 0 || r.tooDeep(sc) {
		return
	}
	c := Command{
		Words: slices.Clip(words), Assigns: assigns, Via: sc.via, OpenEnded: sc.open, Stdin: sc.stdin,
		Dir: at.dir, DirUnknown: at.unknown, Line: sc.at.line, Column: sc.at.col, Text: clip(joined(words)),
	}
	if r.add(c) < 0 {
		return
	}
	r.open(words, assigns, sc, at)
}

func (r *reader) wrapperProblem(sc scope, format string, args ...any) {
	r.problem("wrapper", sc.at.line, sc.at.col, clip(fmt.Sprintf(format, args...)))
}

// whole reports whether w is certainly one word that is no option.
func whole(w Word) bool {
	return w.Kind == Literal || w.Kind == Parameter && w.Quoted
}

// notKnown is what options calls an argument that only the shell knows.
const notKnown = "\x00"

// options reads the options of a wrapper as getopt does, up to the first
// operand. It calls each with the option as listed and its value. It returns
// the operands, false where they cannot be told.
func (w *wrapper) options(args []Word, each func(option string, value *Word)) (rest []Word, quit bool, bad string) {
	for len(args) > 0 {
		a := args[0]
		if a.Kind != Literal {
			if a.Kind == Parameter && a.Quoted || len(a.Value) > 0 && a.Kind == Glob && a.Value[0] != '-' {
				return args, false, "" // an operand; judged by whoever takes it
			}
			return nil, false, notKnown
		}
		s := a.Value
		if s == "--" {
			return args[1:], false, ""
		}
		if s == "-" && w.dash {
			args = args[1:]
			continue
		}
		if len(s) < 2 || s[0] != '-' {
			return args, false, ""
		}
		if slices.Contains(strings.Fields(w.quit), s) {
			return nil, true, ""
		}
		args = args[1:]
		if w.number && strings.Trim(s[1:], "0123456789") == "" {
			continue
		}
		if strings.HasPrefix(s, "--") {
			name, val, has := strings.Cut(s[2:], "=")
			switch kind := w.longKind(name); {
			case kind == 0, kind == 1 && has:
				return nil, false, s
			case kind == 2 && !has:
				if len(args) == 0 || !whole(args[0]) {
					return nil, false, s
				}
				each("--"+name, &args[0])
				args = args[1:]
			case has:
				each("--"+name, &Word{Value: val, Kind: Literal})
			default:
				each("--"+name, nil)
			}
			continue
		}
		for i := 1; i < len(s); i++ {
			opt := "-" + s[i:i+1]
			switch w.shortKind(s[i]) {
			case 0:
				return nil, false, s
			case 1:
				each(opt, nil)
				continue
			case 2:
				if i+1 < len(s) {
					each(opt, &Word{Value: s[i+1:], Kind: Literal})
				} else if len(args) > 0 && whole(args[0]) {
					each(opt, &args[0])
					args = args[1:]
				} else {
					return nil, false, s
				}
			case 3:
				if i+1 < len(s) {
					each(opt, &Word{Value: s[i+1:], Kind: Literal})
				} else {
					each(opt, nil)
				}
			}
			break
		}
	}
	return nil, false, ""
}

// shortKind is 0 for an unknown letter, 1 without a value, 2 with one, 3 with
// one that may be left out.
func (w *wrapper) shortKind(c byte) int {
	i := strings.IndexByte(w.short, c)
	switch {
	case i < 0 || c == ':':
		return 0
	case strings.HasPrefix(w.short[i+1:], "::"):
		return 3
	case strings.HasPrefix(w.short[i+1:], ":"):
		return 2
	}
	return 1
}

func (w *wrapper) longKind(name string) int {
	for f := range strings.FieldsSeq(w.long) {
		switch {
		case f == name:
			return 1
		case strings.TrimSuffix(f, "[=]") == name:
			return 3
		case strings.TrimSuffix(f, "=") == name:
			return 2
		}
	}
	return 0
}

// wrapped opens a wrapper of the table.
func (r *reader) wrapped(name string, w wrapper, words []Word, sc scope, at *place) {
	in := sc.in(name)
	place := *at
	if w.away {
		place.lose()
	}
	var unknown, replace string
	var script, split *Word
	exec := false
	rest, quit, bad := w.options(words[1:], func(opt string, val *Word) {
		switch {
		case slices.Contains(w.unknown, opt):
			unknown, split = opt, val
		case slices.Contains(w.folder, opt):
			r.enter(*val, false, &place)
		case slices.Contains(strings.Fields(w.script), opt):
			script = val
		case slices.Contains(w.replace, opt):
			replace = "{}"
			if val != nil {
				replace = val.Value
				if val.Kind != Literal {
					unknown = opt
				}
			}
		case name == "watch" && (opt == "-x" || opt == "--exec"):
			exec = true
		}
	})
	switch {
	case quit:
		return
	case bad == notKnown:
		r.wrapperProblem(sc, "the arguments of %s cannot be told", name)
		return
	case bad != "":
		r.wrapperProblem(sc, "%s has an option that is not known: %s", name, bad)
		r.start(afterOptions(words[1:]), nil, in, &place)
		return
	case unknown != "":
		r.wrapperProblem(sc, "what %s %s starts cannot be told", name, unknown)
		place.lose()
	}
	if script != nil {
		r.literalScript(name+" -c", POSIX, *script, sc, place)
		return
	}
	if name == "env" && split != nil {
		rest = append(guessed(strings.Fields(split.Value)), rest...)
	}
	for range w.skip {
		if len(rest) == 0 {
			return
		}
		if !whole(rest[0]) {
			r.wrapperProblem(sc, "the operands of %s cannot be told", name)
			return
		}
		rest = rest[1:]
	}
	if name == "flock" && len(rest) > 0 && rest[0].Kind == Literal && (rest[0].Value == "-c" || rest[0].Value == "--command") {
		if len(rest) > 1 {
			r.literalScript("flock -c", POSIX, rest[1], sc, place)
		}
		return
	}
	var assigns []Assign
	if w.assigns {
		for len(rest) > 0 {
			n, v, ok := strings.Cut(rest[0].Value, "=")
			if !ok || n == "" || rest[0].Kind != Literal && !(rest[0].Kind == Parameter && rest[0].Quoted) {
				break
			}
			assigns = append(assigns, Assign{Name: n, Value: Word{Value: v, Kind: rest[0].Kind, Quoted: rest[0].Quoted}})
			rest = rest[1:]
		}
	}
	if len(rest) == 0 {
		return
	}
	if w.noStdin {
		in.stdin, in.input = "", Word{}
	}
	if w.open {
		in.open = true
	}
	if w.joined && !exec {
		r.joinedScript(name, POSIX, rest, sc, &place)
		return
	}
	if replace != "" {
		rest = standIn(rest, replace)
	}
	if w.here {
		r.start(rest, assigns, in, at)
		return
	}
	r.start(rest, assigns, in, &place)
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
func standIn(words []Word, marks ...string) []Word {
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

// joinedScript reads the words joined by spaces, as eval does.
func (r *reader) joinedScript(name string, d Dialect, words []Word, sc scope, at *place) {
	var b strings.Builder
	for i, w := range words {
		if w.Kind != Literal || w.Tilde {
			r.wrapperProblem(sc, "what %s starts cannot be told", name)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w.Value)
	}
	r.scriptIn(d, b.String(), sc.in(name), at)
}

// literalScript reads a script that is one word. One that is not literal is a
// problem, and is read all the same: what it says is a hint for a rule that
// denies.
func (r *reader) literalScript(via string, d Dialect, script Word, sc scope, at place) {
	if script.Kind != Literal {
		r.wrapperProblem(sc, "the script of %s cannot be told", via)
	}
	if _, ok := variants[d]; !ok {
		r.wrapperProblem(sc, "there is no grammar for the script of %s", via)
		d = Bash
	}
	sc.open = false
	r.scriptIn(d, script.Value, sc.in(via), &at)
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
		if slices.Contains(shellLong, a.Value) {
			continue
		}
		flags := a.Value[1:]
		if n := len(flags) - 1; (flags[n] == 'o' || flags[n] == 'O') && len(args) > 0 && args[0].Kind == Literal {
			flags, args = flags[:n], args[1:]
		}
		known = known && strings.Trim(flags, shellFlags) == ""
		if flags != "" && flags[0] != '-' {
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
	if script {
		if len(args) == 0 {
			return
		}
		if len(args) > 1 || sc.open {
			r.wrapperProblem(sc, "%s -c has more arguments than its script", name)
		}
		r.literalScript(name+" -c", d, args[0], sc, at)
		return
	}
	if sc.input.Kind != "" && (stdin || len(args) == 0) {
		doc := sc.input
		// The script is what the shell reads; its commands read on behind it.
		sc.input = Word{}
		r.literalScript(name+" "+sc.stdin, d, doc, sc, at)
	}
}

// scriptOption opens su -c and script -c, whose options may stand anywhere.
func (r *reader) scriptOption(name string, words []Word, sc scope, at place) {
	if name == "su" {
		at.lose()
	}
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case w.Kind != Literal:
			r.wrapperProblem(sc, "the arguments of %s cannot be told", name)
		case w.Value == "-c" || w.Value == "--command":
			if i++; i < len(words) {
				r.literalScript(name+" -c", POSIX, words[i], sc, at)
			}
		case strings.HasPrefix(w.Value, "--command="):
			script := Word{Value: w.Value[len("--command="):], Kind: Literal}
			r.literalScript(name+" -c", POSIX, script, sc, at)
		case w.Value == "-" || w.Value == "-l" || w.Value == "--login" || w.Value == "-q" || !strings.HasPrefix(w.Value, "-"):
		default:
			r.wrapperProblem(sc, "%s has an option that is not known: %s", name, w.Value)
		}
	}
}

// trap opens the handler of trap 'command' SIGNAL.
func (r *reader) trap(words []Word, sc scope, at place) {
	args := words[1:]
	if len(args) > 0 && args[0].Kind == Literal && args[0].Value == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	h := args[0]
	if h.Kind == Literal && (h.Value == "" || h.Value[0] == '-' || len(args) == 1) {
		return
	}
	at.lose()
	in := sc
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
		inner := standIn(words[from:min(i, len(words))], "{}")
		in.open = sc.open || slices.ContainsFunc(inner, func(w Word) bool { return strings.Contains(w.Value, "{}") })
		r.start(inner, nil, in, &here)
	}
}

// fd opens the -x and -X of fd.
func (r *reader) fd(words []Word, sc scope, at place) {
	for i := 1; i < len(words); i++ {
		w := words[i]
		if w.Kind != Literal {
			continue
		}
		name := w.Value
		if opt, _, ok := strings.Cut(name, "="); ok {
			name = opt
		}
		switch {
		case name == "-x" || name == "-X" || name == "--exec" || name == "--exec-batch":
		case strings.HasPrefix(name, "--exec"),
			strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "--") && strings.ContainsAny(name, "xX"):
			r.wrapperProblem(sc, "what fd %s starts cannot be told", w.Value)
			continue
		case name == "-C" || strings.HasPrefix(name, "--base-directory"):
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
		if name != w.Value {
			r.wrapperProblem(sc, "what fd %s starts cannot be told", w.Value)
			inner = append([]Word{{Value: w.Value[len(name)+1:], Kind: Literal}}, inner...)
		}
		in := sc.in("fd " + name)
		in.open = true
		r.start(standIn(inner, "{}", "{/}", "{//}", "{.}", "{/.}"), nil, in, &at)
	}
}

var parallelOptions = wrapper{
	short: "0kj:n:I:qtX", quit: "--version --help -V -h",
	long: "null keep-order jobs= max-args= quote verbose will-cite halt= bar dry-run no-notice line-buffer ungroup",
}

// parallel opens GNU parallel where it is simple: known options, a literal
// command, and arguments behind :::.
func (r *reader) parallel(words []Word, sc scope, at place) {
	rest, quit, bad := parallelOptions.options(words[1:], func(string, *Word) {})
	if quit {
		return
	}
	if bad != "" {
		r.wrapperProblem(sc, "the options of parallel are not known")
		return
	}
	for i, w := range rest {
		if w.Kind == Literal && strings.HasPrefix(w.Value, ":::") {
			rest = rest[:i]
			break
		}
	}
	if len(rest) == 0 {
		r.wrapperProblem(sc, "what parallel starts cannot be told")
		return
	}
	in := sc
	in.open, in.stdin, in.input = true, "", Word{}
	r.joinedScript("parallel", POSIX, rest, in, &at)
}
