package argv

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
	kindIn      // a file or folder that is read
	kindTree    // a folder that is read with everything below it
	kindOut     // a file that is written
	kindOutDash // the same, where "-" is standard output
	kindOutTree // a folder written or removed with everything below it
	kindDir     // the folder that the command then works in
	kindProgram // a program that is started
	kindHost    // a host, perhaps with user and port
	kindURL     // a URL
	kindRemote  // a local path, a URL or host:path (scp, rsync, git clone)
	kindCommand // words of a command that the shell facts list by itself
	kindScript  // shell text whose commands the shell facts list
	kindAssign  // NAME=value words before a command (env)
	kindReader  // a small language with a reader of its own, see readers
)

var kinds = map[string]kind{
	"text": kindText, "num": kindNumber, "in": kindIn, "tree": kindTree, "out": kindOut, "out-": kindOutDash,
	"outtree": kindOutTree, "dir": kindDir, "prog": kindProgram, "host": kindHost, "url": kindURL,
	"remote": kindRemote, "cmd": kindCommand, "script": kindScript, "assign": kindAssign,
}

// isPath is true for the kinds that name files, where a name that is not known
// makes the command unknown.
func (k kind) isPath() bool {
	switch k {
	case kindIn, kindTree, kindOut, kindOutDash, kindOutTree, kindDir, kindRemote:
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
	use    string
	value  valueMode
	kind   kind
	reader reader
	// supplants is true where the option brings what would else be the first
	// operand (grep -e), tree where it makes path operands mean everything below
	// them (grep -r), opens where it starts a command listed by the shell facts.
	supplants, tree, opens bool
}

// quantity is how many operands an operand entry stands for.
type quantity uint8

const (
	exactlyOne quantity = iota
	oneOrNone
	any0
	any1
)

type operand struct {
	kind    kind
	reader  reader
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
	// place of name, when an option opens a command.
	opened    []operand
	openedUse string
	// numeric lists -5 as an inert option.
	numeric bool
	// harmless says that no option of the program, listed or not, does more than
	// read, so that a word which turns into an option does no harm.
	harmless bool
	// pathless says moreover that no option names a file.
	pathless bool
	// loose says that options which are not listed add nothing to the effects.
	loose bool
	// opens says that the operands are a command listed by the shell facts.
	opens bool
	// feeds says that the program prints names of files below its operands.
	feeds bool
	gate  string
	// inherit says that sub-commands take the options of this entry too.
	inherit bool
	// probes are whole argument lists, joined by probeSep, that only print about
	// the program itself.
	probes map[string]string
	// script are the keys for what the operand's reader found.
	script map[string]string
	subs   map[string]*spec
	parent *spec
}

const probeSep = " "
