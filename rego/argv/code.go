package argv

import (
	"slices"
	"strings"

	"github.com/regent-policy/regent/rego/shell"
)

// Code is what a command runs besides the program that it is looked up by: files
// that its words name, and perhaps its input.
type Code struct {
	// Files are run for certain. Maybe are words that are run if they are files at
	// all, where the grammar of the program is not known that well.
	Files, Maybe []Path
	// Input is true where the program runs what it reads.
	Input bool
}

// Code tells which files a command runs: the program itself where it is named by a
// path, and the scripts of shells and interpreters. What those load in turn is not
// told, and neither are files that the words do not name.
func (t *Table) Code(c *shell.Command, n *Node) Code {
	var code Code
	if len(c.Words) == 0 {
		return code
	}
	switch n.Standing {
	case StandingPath:
		code.file(c.Words[0])
	case StandingDynamic:
		if isKnownFolder(c.Words[0]) {
			code.file(c.Words[0])
		}
		return code
	}
	for _, start := range n.Starts {
		if fields := strings.Fields(start); len(fields) > 0 && strings.Contains(fields[0], "/") && !strings.ContainsAny(fields[0], "$`*?[") {
			code.Files = append(code.Files, Path{Word: fields[0]})
		}
	}
	words := c.Words[1:]
	switch g, known := grammars[grammarOf(n.Program)]; {
	case n.Program == "." || n.Program == "source":
		if len(words) > 0 && words[0].Value == "--" {
			words = words[1:]
		}
		if len(words) > 0 {
			code.file(words[0])
		}
	case slices.Contains(makes, n.Program):
		code.Maybe = append(code.Maybe, n.Reads...)
	case known:
		g.read(words, &code)
	default:
		if s := t.programs[n.Program]; s != nil && s.interprets {
			for _, w := range words {
				code.maybe(w)
			}
			code.Input = len(code.Maybe) == 0
		}
	}
	return code
}

func (c *Code) file(w shell.Word) { c.Files = append(c.Files, pathOf(w)) }

func (c *Code) maybe(w shell.Word) {
	if !strings.HasPrefix(w.Value, "-") {
		c.Maybe = append(c.Maybe, pathOf(w))
	}
}

var makes = []string{"make", "gmake", "bmake"}

// grammar tells a script from the options before it. Letters and options that are
// in none of the lists may take a value or not.
type grammar struct {
	// bare are letters that stand alone, inline those after which code follows,
	// valued those with a value, glued or not, and rest those that take what is left
	// of the word.
	bare, inline, valued, rest string
	// digits are letters with digits glued on.
	digits string
	// input are letters with which the code comes from the input.
	input string
	// long are options without a value, longInline and longValued as above.
	long, longInline, longValued []string
	// loads are options, of one letter or more, whose value is run beforehand if it
	// is a path; script are those whose value is the script.
	loads, script []string
	// plus: options also begin with +. command: the first word is one of the
	// program's own.
	plus, command bool
}

// grammars follow the manuals of bash 5, dash, zsh 5, Python 3, Node.js 24, Deno 2,
// Perl 5, Ruby 3, PHP 8, Lua 5 and R 4.
var grammars = map[string]*grammar{
	"sh": {
		bare: "abefghiklmnprtuvxyBCDEFGHIPTVX", inline: "c", valued: "oO", input: "s", plus: true,
		long:  []string{"--login", "--norc", "--noprofile", "--posix", "--verbose", "--restricted", "--noediting", "--debugger"},
		loads: []string{"--rcfile", "--init-file"},
	},
	"python": {
		bare: "bBdEhiIOPqRsStuvVx", inline: "cm", valued: "WXQ", longValued: []string{"--check-hash-based-pycs"},
	},
	"node": {
		bare: "hivc", inline: "ep", valued: "C",
		longInline: []string{"--eval", "--print", "--run"},
		longValued: []string{"--conditions", "--input-type", "--title", "--stack-trace-limit", "--watch-path", "--test-name-pattern", "--test-reporter", "--max-old-space-size"},
		long:       []string{"--check", "--interactive", "--watch", "--test", "--inspect", "--inspect-brk", "--no-warnings", "--trace-warnings", "--enable-source-maps", "--expose-gc", "--experimental-strip-types", "--harmony"},
		loads:      []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file", "--env-file-if-exists"},
	},
	"deno": {
		bare: "AqrhVL", valued: "c", command: true,
		long:       []string{"--allow-all", "--allow-read", "--allow-write", "--allow-net", "--allow-env", "--allow-run", "--allow-sys", "--allow-ffi", "--no-check", "--check", "--quiet", "--watch", "--cached-only", "--no-prompt", "--no-lock", "--inspect"},
		longValued: []string{"--config", "--import-map", "--cert", "--location", "--seed", "--ext"},
		loads:      []string{"--preload", "--env-file"},
	},
	"perl": {bare: "acfhnpsSTtuUvwWX", inline: "eE", valued: "I", rest: "iFmMxDdVC", digits: "l0"},
	"ruby": {
		bare: "achlnpsSvwy", inline: "e", valued: "IEC", rest: "iFKWTx", digits: "0", loads: []string{"-r"},
		long: []string{"--jit", "--yjit", "--verbose", "--disable-gems", "--debug"}, longValued: []string{"--encoding", "--external-encoding", "--internal-encoding"},
	},
	"php": {bare: "aCehHilmnqsvw", inline: "rRBE", valued: "dcSt", loads: []string{"-z"}, script: []string{"-f", "-F", "--file", "--process-file"}},
	"lua": {bare: "iEvW", valued: "elL"},
	"Rscript": {
		inline: "e", longInline: []string{"--eval"}, bare: "gh",
		long: []string{"--vanilla", "--no-save", "--no-restore", "--no-environ", "--no-site-file", "--no-init-file", "--slave", "--quiet", "--verbose"}, longValued: []string{"--default-packages"},
	},
}

// grammarOf is the name of the grammar of a program.
func grammarOf(program string) string {
	switch program {
	case "sh", "bash", "zsh", "dash", "ksh", "ksh93", "ash", "mksh", "rbash", "yash":
		return "sh"
	case "node", "nodejs", "ts-node", "tsx":
		return "node"
	case "lua", "luajit":
		return "lua"
	}
	for _, family := range []string{"python", "pypy"} {
		if rest, ok := strings.CutPrefix(program, family); ok && strings.Trim(rest, "0123456789.") == "" {
			return "python"
		}
	}
	return program
}

// read finds the script among the words behind the program.
func (g *grammar) read(words []shell.Word, code *Code) {
	if g.command && len(words) > 0 {
		switch words[0].Value {
		case "run", "test", "bench", "serve":
			words = words[1:]
		default:
			if !strings.ContainsAny(words[0].Value, "./") && !strings.HasPrefix(words[0].Value, "-") {
				return
			}
		}
	}
	doubt := false
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		v := w.Value
		switch {
		case w.Kind != shell.Literal && !isKnownFolder(w):
			return // whether it is an option cannot be told
		case v == "-":
			code.Input = true
			return
		case v == "--":
			if len(words) > 0 {
				code.file(words[0])
			} else {
				code.Input = true
			}
			return
		case w.Kind == shell.Literal && len(v) > 1 && (v[0] == '-' || v[0] == '+' && g.plus):
			var done bool
			if words, doubt, done = g.option(v, words, code); done {
				return
			}
		case doubt:
			// It may be the value of the option before it.
			code.maybe(w)
			for _, next := range words {
				code.maybe(next)
			}
			return
		default:
			code.file(w)
			return
		}
	}
	code.Input = true
}

// option reads one word of options. It returns the words that are left, whether the
// next one may be a value, and whether no script follows.
func (g *grammar) option(v string, words []shell.Word, code *Code) (rest []shell.Word, doubt, done bool) {
	value := func(glued string, has bool) *shell.Word {
		switch {
		case has:
			return &shell.Word{Value: glued, Kind: shell.Literal}
		case len(words) > 0:
			w := words[0]
			words = words[1:]
			return &w
		}
		return nil
	}
	load := func(w *shell.Word) {
		if w != nil && (strings.Contains(w.Value, "/") || w.Tilde) {
			code.file(*w)
		}
	}
	if strings.HasPrefix(v, "--") {
		name, glued, has := strings.Cut(v, "=")
		switch {
		case slices.Contains(g.longInline, name):
			return words, false, true
		case slices.Contains(g.script, name):
			if w := value(glued, has); w != nil {
				code.file(*w)
			}
			return words, false, true
		case slices.Contains(g.loads, name):
			load(value(glued, has))
		case slices.Contains(g.longValued, name):
			value(glued, has)
		default:
			return words, !has && !slices.Contains(g.long, name), false
		}
		return words, false, false
	}
	for i := 1; i < len(v); i++ {
		letter, glued := v[i:i+1], v[i+1:]
		switch {
		case strings.Contains(g.inline, letter):
			return words, false, true
		case strings.Contains(g.input, letter):
			code.Input = true
			return words, false, true
		case slices.Contains(g.script, "-"+letter):
			if w := value(glued, glued != ""); w != nil {
				code.file(*w)
			}
			return words, false, true
		case slices.Contains(g.loads, "-"+letter):
			load(value(glued, glued != ""))
			return words, false, false
		case strings.Contains(g.valued, letter):
			// A shell takes the value of -eo as a word of its own, always.
			value(glued, glued != "" && !g.plus)
			if g.plus {
				continue
			}
			return words, false, false
		case strings.Contains(g.rest, letter):
			return words, false, false
		case strings.Contains(g.digits, letter):
			for i+1 < len(v) && (v[i+1] >= '0' && v[i+1] <= '9' || v[i+1] == 'x') {
				i++
			}
		case !strings.Contains(g.bare, letter):
			doubt = true
		}
	}
	return words, doubt, false
}
