package shell

import "strings"

// wrapper is a program or builtin that starts the command in its arguments. The
// tables follow the manuals of GNU coreutils 9, findutils 4.9, util-linux 2.40,
// procps 4, sudo 1.9, strace 6, bash 5 and zsh 5. An option is known in exactly
// the spelling that is listed; behind any other, what is started is not known.
type wrapper struct {
	// short lists option letters as getopt does: "ab:c::" has -a, -b VALUE and
	// -c with a value only when it is glued on.
	short string
	// long lists option names: one that ends in = takes a value, one that ends in
	// [=] only takes it behind an equals sign.
	long string
	// quit lists options with which nothing is started.
	quit string
	// number: -10 is an option (nice). dash: so is a lone - (env).
	number, dash bool
	// assigns: NAME=VALUE words before the command are its environment.
	assigns bool
	// late: options may also stand behind those (sudo).
	late bool
	// operands is how many words stand between the options and the command.
	operands int

	// folder lists options whose value is the folder that the command runs in.
	folder string
	// script lists options whose value is a script for sh, and direct those that
	// keep a joined wrapper from calling a shell.
	script, direct string
	// mark lists options whose value, or {}, stands for text from the input.
	mark string
	// unclear lists options behind which the command is not what it says.
	unclear string

	// here: the command runs in this shell, which it may move. away: nobody
	// knows in which folder it runs.
	here, away bool
	// joined: the words are joined and read as a script.
	joined bool
	// open: words are added that are not in the text. fresh: the command does
	// not read the input of its wrapper.
	open, fresh bool
}

var wrappers = map[string]*wrapper{
	// Builtins.
	"command":   {short: "p", quit: "-v -V", here: true},
	"builtin":   {here: true},
	"exec":      {short: "cla:"},
	"noglob":    {here: true},
	"nocorrect": {here: true},
	"-":         {},

	// Environment and identity.
	"env": {
		short: "i0u:C:S:va:", long: "ignore-environment null unset= chdir= split-string= debug argv0= block-signal[=] default-signal[=] ignore-signal[=] list-signal-handling",
		quit: "--help --version", dash: true, assigns: true, folder: "-C --chdir", unclear: "-S --split-string",
	},
	"sudo": {
		short: "ABbEHiknPSsNC:D:g:p:R:r:T:t:U:u:",
		long:  "askpass bell background preserve-env[=] set-home login reset-timestamp non-interactive preserve-groups stdin shell no-update close-from= chdir= group= host= prompt= chroot= role= command-timeout= type= other-user= user=",
		quit:  "-V --version --help -l --list -v --validate -K --remove-timestamp -e --edit", assigns: true, late: true,
		folder: "-D --chdir", unclear: "-i --login -s --shell -R --chroot",
	},
	"doas":   {short: "nsu:C:a:", quit: "-L", unclear: "-s"},
	"pkexec": {long: "disable-internal-agent keep-cwd user=", quit: "--version --help", away: true},
	"chroot": {long: "groups= userspec= skip-chdir", quit: "--help --version", operands: 1, away: true},
	"unshare": {
		short: "fimnprUuCTc", long: "fork map-root-user map-current-user mount[=] uts[=] ipc[=] net[=] pid[=] user[=] cgroup[=] time[=] mount-proc[=] kill-child[=] keep-caps",
		quit: "-h --help -V --version", away: true,
	},

	// Priority, time and terminal.
	"nice":     {short: "n:", long: "adjustment=", number: true, quit: "--help --version"},
	"ionice":   {short: "c:n:t", long: "class= classdata= ignore", quit: "-p --pid -P --pgid -u --uid -h --help -V --version"},
	"chrt":     {short: "abdfiorvRT:P:D:", long: "all-tasks batch deadline fifo idle other rr reset-on-fork verbose sched-runtime= sched-period= sched-deadline=", quit: "-p --pid -m --max -h --help -V --version", operands: 1},
	"taskset":  {short: "ac", long: "all-tasks cpu-list", quit: "-p --pid -h --help -V --version", operands: 1},
	"nohup":    {quit: "--help --version"},
	"setsid":   {short: "cfw", long: "ctty fork wait", quit: "-h --help -V --version"},
	"stdbuf":   {short: "i:o:e:", long: "input= output= error=", quit: "--help --version"},
	"timeout":  {short: "k:s:vfp", long: "kill-after= signal= verbose foreground preserve-status", quit: "--help --version", operands: 1},
	"gtimeout": {short: "k:s:vfp", long: "kill-after= signal= verbose foreground preserve-status", quit: "--help --version", operands: 1},
	"time":     {short: "apvqlhf:o:", long: "append portability verbose quiet format= output=", quit: "-V --version --help"},
	"watch": {
		short: "bcdegn:pq:rtwx", long: "beep color differences[=] errexit chgexit interval= precise equexit= no-rerun no-title no-wrap exec",
		quit: "-h --help -v --version", joined: true, direct: "-x --exec",
	},
	"caffeinate": {short: "disumt:w:"},
	"strace":     {short: "cCdDfFhiknqrtTvVwxyYza:b:e:E:I:o:O:p:P:s:S:u:U:X:", quit: "-h -V --help --version"},

	// Locks and lists of arguments.
	"flock": {
		short: "ensuxoFw:E:c:", long: "exclusive nb nonblock shared unlock close no-fork wait= timeout= conflict-exit-code= verbose command=",
		quit: "-h --help -V --version", operands: 1, script: "-c --command",
	},
	"xargs": {
		short: "0a:d:E:e::I:i::L:l::n:oP:prs:tx",
		long:  "null arg-file= delimiter= eof[=] replace[=] max-lines[=] max-args= open-tty max-procs= interactive process-slot-var= no-run-if-empty max-chars= show-limits verbose exit",
		quit:  "--help --version", mark: "-I -i --replace", open: true, fresh: true,
	},
	"parallel": {
		short: "0kj:n:N:I:qtX", long: "null keep-order jobs= max-args= quote verbose will-cite halt= bar dry-run no-notice line-buffer ungroup",
		quit: "--version --help -V -h", unclear: "-I", joined: true, open: true, fresh: true,
	},
}

// shells are programs that read scripts, with the dialect they read them in.
// Those that are no Dialect of this package have no grammar here.
var shells = map[string]Dialect{
	"bash": Bash, "rbash": Bash, "sh": POSIX, "dash": POSIX, "ash": POSIX, "zsh": Zsh,
	"ksh": "ksh", "ksh93": "ksh", "mksh": "ksh", "csh": "csh", "tcsh": "csh", "fish": "fish",
	"pwsh": "powershell", "powershell": "powershell",
}

// shellFlags are the letters of options before a script that change nothing in
// how it is read. Among them must be c.
const shellFlags = "ceilsux"

// shellOptions are such options in full.
const shellOptions = "--login --norc --noprofile --posix"

// starter marks: where find, fd and parallel put text of their own.
var (
	findMarks     = []string{"{}"}
	fdMarks       = []string{"{}", "{/}", "{//}", "{.}", "{/.}"}
	parallelMarks = []string{"{}", "{.}", "{/}", "{//}", "{/.}", "{#}", "{%}", "{1}", "{2}", "{3}"}
)

// has reports whether a list of words separated by spaces holds word.
func has(list, word string) bool {
	for len(list) > 0 {
		var first string
		if first, list, _ = strings.Cut(list, " "); first == word {
			return true
		}
	}
	return false
}

// takes says what value an option has.
type takes uint8

const (
	// unlisted options are not known.
	unlisted takes = iota
	nothing
	aValue
	// aGluedValue may be left out, and is never a word of its own.
	aGluedValue
)

func (w *wrapper) letter(c byte) takes {
	i := strings.IndexByte(w.short, c)
	switch {
	case i < 0 || c == ':':
		return unlisted
	case strings.HasPrefix(w.short[i+1:], "::"):
		return aGluedValue
	case strings.HasPrefix(w.short[i+1:], ":"):
		return aValue
	}
	return nothing
}

func (w *wrapper) name(name string) takes {
	switch {
	case name == "" || strings.Contains(name, " "):
		return unlisted
	case has(w.long, name):
		return nothing
	case has(w.long, name+"[=]"):
		return aGluedValue
	case has(w.long, name+"="):
		return aValue
	}
	return unlisted
}

// options is how the options of a wrapper end.
type options struct {
	// operands are the words behind them.
	operands []Word
	// quit: nothing is started. unknown is an option that is not listed, or
	// lacks its value. unclear: a word may be an option or not.
	quit, unclear bool
	unknown       string
}

// options reads the options at the start of args as getopt does, and tells each
// with its value, which is nil when it has none.
func (w *wrapper) options(args []Word, tell func(option string, value *Word)) options {
	for len(args) > 0 {
		a := args[0]
		if a.Kind != Literal {
			// Certainly one word that is no option, or else anything.
			if whole(a) || a.Kind == Glob && a.Value[0] != '-' {
				return options{operands: args}
			}
			return options{unclear: true}
		}
		s := a.Value
		switch {
		case s == "--":
			return options{operands: args[1:]}
		case s == "-" && w.dash, w.number && len(s) > 1 && s[0] == '-' && strings.Trim(s[1:], "0123456789") == "":
			args = args[1:]
			continue
		case len(s) < 2 || s[0] != '-':
			return options{operands: args}
		case has(w.quit, s):
			return options{quit: true}
		}
		rest, ok := w.option(s, args[1:], tell)
		if !ok {
			return options{unknown: s}
		}
		args = rest
	}
	return options{}
}

// option reads the option or cluster s and returns the words behind its value.
func (w *wrapper) option(s string, rest []Word, tell func(string, *Word)) ([]Word, bool) {
	if long, ok := strings.CutPrefix(s, "--"); ok {
		name, glued, has := strings.Cut(long, "=")
		takes := w.name(name)
		switch {
		case takes == unlisted, takes == nothing && has:
			return nil, false
		case has:
			tell("--"+name, &Word{Value: glued, Kind: Literal})
		case takes == aValue:
			if len(rest) == 0 || !whole(rest[0]) {
				return nil, false
			}
			tell("--"+name, &rest[0])
			rest = rest[1:]
		default:
			tell("--"+name, nil)
		}
		return rest, true
	}
	for i := 1; i < len(s); i++ {
		option, glued := "-"+s[i:i+1], s[i+1:]
		switch takes := w.letter(s[i]); {
		case takes == unlisted:
			return nil, false
		case takes == nothing:
			tell(option, nil)
			continue
		case glued != "":
			tell(option, &Word{Value: glued, Kind: Literal})
		case takes == aGluedValue:
			tell(option, nil)
		case len(rest) == 0 || !whole(rest[0]):
			return nil, false
		default:
			tell(option, &rest[0])
			rest = rest[1:]
		}
		break
	}
	return rest, true
}

// whole reports whether w is certainly one word.
func whole(w Word) bool {
	return w.Kind == Literal || w.Kind == Parameter && w.Quoted
}
