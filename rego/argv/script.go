package argv

import (
	"slices"
	"strings"
)

// reader reads text in a small language that a program takes as an operand or
// value.
type reader func(text string) finding

// finding is what a reader found: words to look up in the script table of the
// program, files, and what it could not understand. What was found before a
// problem is kept.
type finding struct {
	words         []string
	reads, writes []Path
	problem       string
}

func (f *finding) word(w string) {
	if !slices.Contains(f.words, w) {
		f.words = append(f.words, w)
	}
}

// readers are the small languages by the names that tables use as KIND.
var readers = map[string]reader{
	"awk":       readAwk,
	"condition": readCondition,
	"date":      readDate,
	"format":    readFormat,
	"jq":        readJq,
	"gitconfig": readGitConfig,
	"sed":       readSed,
	"sysctl":    readSysctl,
	"test":      readTest,
	"variable":  readVariable,
	"yq":        readYq,
}

// readDate tells a format from a time to set the clock to.
func readDate(text string) finding {
	if strings.HasPrefix(text, "+") {
		return finding{words: []string{"format"}}
	}
	return finding{words: []string{"set"}}
}

// readGitConfig tells settings of git that only change looks, or switch off what
// would start a program, from all others.
func readGitConfig(text string) finding {
	name, value, hasValue := strings.Cut(text, "=")
	name = strings.ToLower(name)
	cosmetic := false
	switch {
	case strings.HasPrefix(name, "color."), strings.HasPrefix(name, "advice."), strings.HasPrefix(name, "column."):
		cosmetic = true
	case name == "core.pager" || strings.HasPrefix(name, "pager."):
		cosmetic = hasValue && (value == "cat" || value == "" || value == "false")
	case name == "core.fsmonitor" || name == "log.showsignature" || name == "diff.external":
		cosmetic = hasValue && (value == "" || value == "false" && name != "diff.external")
	default:
		switch name {
		case "core.quotepath", "core.abbrev", "core.precomposeunicode", "log.date", "log.decorate", "log.abbrevcommit",
			"diff.renames", "diff.renamelimit", "diff.noprefix", "diff.mnemonicprefix", "diff.algorithm", "diff.context",
			"diff.colormoved", "diff.wordregex", "grep.linenumber", "status.relativepaths", "status.branch",
			"status.showuntrackedfiles", "branch.sort", "tag.sort", "i18n.logoutputencoding":
			cosmetic = true
		}
	}
	if cosmetic {
		return finding{words: []string{"cosmetic"}}
	}
	return finding{words: []string{"setting"}}
}

// readFormat finds what makes git check signatures.
func readFormat(text string) finding {
	if strings.Contains(text, "%G") {
		return finding{words: []string{"%G"}}
	}
	return finding{}
}

// readTest finds the operators of test that evaluate a subscript, which may hold a
// command.
func readTest(text string) finding {
	switch {
	case text == "-v" || text == "-R":
		return finding{words: []string{text}}
	case strings.Contains(text, "[") && strings.ContainsAny(text, "$`"):
		return finding{problem: "a subscript may hold a command"}
	default:
		return finding{}
	}
}

// readSysctl tells a name from one that is set.
func readSysctl(text string) finding {
	if strings.Contains(text, "=") {
		return finding{words: []string{"set"}}
	}
	return finding{words: []string{"name"}}
}

// readCondition finds the operators of [[ that evaluate their operands as
// arithmetic, where the value of a variable may hold a command.
func readCondition(text string) finding {
	switch text {
	case "-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		return finding{words: []string{text}}
	}
	return readTest(text)
}

// readVariable tells names of shell variables that may mean something to shells or
// programs from those that are made up: by custom these are in lower case. Zsh
// ties some of these to what they mean in upper case.
func readVariable(text string) finding {
	switch text {
	case "path", "fpath", "cdpath", "manpath", "mailpath", "module_path", "prompt", "psvar", "histchars":
		return finding{words: []string{"special"}}
	}
	for i := range len(text) {
		if c := text[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9' || i == 0) {
			return finding{words: []string{"special"}}
		}
	}
	return finding{words: []string{"plain"}}
}

// readJq finds what loads modules from files.
func readJq(text string) finding {
	var f finding
	for _, word := range []string{"import", "include"} {
		for rest := text; ; {
			at := strings.Index(rest, word)
			if at < 0 {
				break
			}
			rest = rest[at+len(word):]
			if strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), `"`) {
				f.word(word)
			}
		}
	}
	return f
}

// readYq finds the operators of yq that reach beyond its input.
func readYq(text string) finding {
	f := readJq(text)
	for _, operator := range []string{"load", "system"} {
		if strings.Contains(text, operator) {
			f.word(operator)
		}
	}
	return f
}
