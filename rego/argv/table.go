package argv

import "slices"

// Table is the catalogue of commands: the grammar of each program and the
// effects of what it is given. It does not change once loaded and is safe for
// concurrent use.
type Table struct {
	programs map[string]*spec
	data     map[string]any
}

// Data is the catalogue for data.regent.catalog.commands: an object from each key
// that Node.Uses may hold to {"effects": [...]}. Inert options have no key. The value is made of maps, slices and strings, is shared,
// and must not be changed.
func (t *Table) Data() map[string]any { return t.data }

// Runs reports whether the program starts whatever its words say, or runs code that
// they are or name: shells, interpreters, wrappers. Programs that are not listed do
// for all that is known.
func (t *Table) Runs(program string) bool {
	s := t.programs[program]
	return s == nil || s.interprets || s.opens
}

// Has reports whether using key has the effect.
func (t *Table) Has(key string, effect Effects) bool {
	entry, ok := t.data[key].(map[string]any)
	if !ok {
		return true // what is not in the table may do anything
	}
	effects, _ := entry["effects"].([]any)
	for _, name := range effect.Names() {
		if slices.Contains(effects, any(name)) {
			return true
		}
	}
	return false
}

// Programs returns how many program names are listed.
func (t *Table) Programs() int { return len(t.programs) }

// style is how a program reads its words.
type style uint8

const (
	// styleGNU has clusters of letters, glued values, --long=value, and options
	// that may follow operands.
	styleGNU style = iota
	// stylePOSIX is styleGNU whose options end at the first operand.
	stylePOSIX
	// styleExact takes each option as one whole word and values as words of their
	// own (find, javac).
	styleExact
	// styleGo is the flag package of Go: one or two dashes mean the same, values
	// are glued with = or the next word, options end at the first operand.
	styleGo
	// styleWords has no options at all (echo, test).
	styleWords
	// styleBundle is styleGNU where the first word is a cluster even without its
	// dash (tar, ps).
	styleBundle
	// styleKeys has words of the form key=value (dd).
	styleKeys
)

var styles = map[string]style{
	"gnu": styleGNU, "posix": stylePOSIX, "exact": styleExact, "go": styleGo,
	"words": styleWords, "bundle": styleBundle, "keys": styleKeys,
}

// kind is what an operand or the value of an option is.
type kind uint8

const (
	kindText kind = iota
	kindNumber
	kindIn        // a file or folder that is read
	kindTree      // a folder that is read with everything below it
	kindOut       // a file that is written
	kindOutDash   // the same, where "-" is standard output
	kindOutTree   // a folder written or removed with everything below it
	kindDir       // the folder that the command then works in
	kindProgram   // a program that is started
	kindHost      // a host, perhaps with user and port
	kindURL       // a URL
	kindRemote    // a local path, a URL or host:path (scp, rsync)
	kindRemoteOut // the same as the place that is written to
	kindRepo      // the same, or a name (git push)
	kindCommand   // words of a command that the shell facts list by itself
	kindScript    // shell text whose commands the shell facts list
	kindAssign    // NAME=value words before a command (env)
	kindArchive   // a file that is read, or written where an option says so (tar -f)
	kindReader    // a small language with a reader of its own, see readers
)

var kinds = map[string]kind{
	"text": kindText, "num": kindNumber, "in": kindIn, "tree": kindTree, "out": kindOut, "out-": kindOutDash,
	"outtree": kindOutTree, "dir": kindDir, "prog": kindProgram, "host": kindHost, "url": kindURL,
	"remote": kindRemote, "remoteout": kindRemoteOut, "repo": kindRepo, "cmd": kindCommand, "script": kindScript, "assign": kindAssign, "archive": kindArchive,
}

// isPath is true for the kinds that name files, where a name that is not known
// makes the command unknown.
func (k kind) isPath() bool {
	switch k {
	case kindIn, kindTree, kindOut, kindOutDash, kindOutTree, kindDir, kindRemote, kindRemoteOut, kindRepo, kindArchive:
		return true
	default:
		return false
	}
}

// writes is true for the kinds that name files which are written.
func (k kind) writes() bool {
	switch k {
	case kindOut, kindOutDash, kindOutTree, kindRemoteOut:
		return true
	default:
		return false
	}
}

// valueMode says whether an option takes a value.
type valueMode uint8

const (
	valueNone valueMode = iota
	valueRequired
	// valueOptional values are glued: --color=always, -i.bak.
	valueOptional
)

type option struct {
	name    string
	effects Effects
	// use is the key in Table.data, empty for an inert option.
	use   string
	value valueMode
	// values are what the option takes, more than one only where they are words of
	// their own.
	values []param
	marks  marks
}

// param is what a value or operand is.
type param struct {
	kind   kind
	reader reader
}

// marks are what an option changes beside its own effects.
type marks uint16

const (
	// supplants: it brings what would else be the first operand (grep -e).
	supplants marks = 1 << iota
	// recursive: paths mean everything below them (grep -r).
	recursive
	// rewrites: files that are else read are written (sed -i, tar -c).
	rewrites
	// opens: it starts a command that the shell facts list by itself (find -exec).
	opens
	// closes: the operands are not a command that is run (command -v).
	closes
	// feeds: it makes the program print names of files below its operands.
	feeds
	// unfeeds: it makes the program print something else than whole names or lines.
	unfeeds
	// lists: operands only choose what is shown (git branch --list).
	lists
	// reads: the call only reads, whatever the program does otherwise (dpkg -l).
	reads
)

// here is when a program reads the current folder.
type here uint8

const (
	hereNever here = iota
	hereRecursive
	hereAlways
)

// quantity is how many operands an operand entry stands for.
type quantity uint8

const (
	exactlyOne quantity = iota
	oneOrNone
	any0
	any1
)

type operand struct {
	param
	count   quantity
	effects Effects
	use     string
}

type spec struct {
	// name is the program and its sub-commands, which is also the key in
	// Table.data.
	name     string
	effects  Effects
	style    style
	options  map[string]*option
	operands []operand
	// opened are the operands in place of those above, and openedUse the key in
	// place of name, when an option opens a command or makes the call a reader.
	opened    []operand
	openedUse string
	// reachUse is the key that counts where a host or a URL is named.
	reachUse string
	// numeric lists -5 as an inert option.
	numeric bool
	// harmless says that no option of the program, listed or not, does more than
	// read, so that a word which turns into an option does no harm.
	harmless bool
	// pathless says moreover that no option names a file.
	pathless bool
	// loose says that options which are not listed add nothing to the effects.
	loose bool
	// responses says that an operand @FILE holds more arguments.
	responses bool
	// interprets says that the program runs code which its words are or name.
	interprets bool
	// opens says that the operands are a command listed by the shell facts.
	opens bool
	// marks are those that hold whatever the options are.
	marks marks
	// here says whether the program reads the current folder where no path is given.
	here here
	gate string
	// inherit says that sub-commands take the options of this entry too.
	inherit bool
	// probes are whole argument lists, joined by probeSep, that only print about
	// the program itself.
	probes map[string]bool
	// script are the keys for what the operand's reader found, and openScript says
	// that words which are data of the shell are fine in its place.
	script     map[string]string
	openScript bool
	subs       map[string]*spec
	// mixed says that an operand may stand in place of a sub-command.
	mixed  bool
	parent *spec
}

const (
	probeSep = " "
	// probeUse is the key of all probes.
	probeUse = "PROBE"
)
