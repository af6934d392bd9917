package argv

// reader reads text in a small language that a program takes as an operand or
// value.
type reader func(text string) finding

// finding is what a reader found: words to look up in the script table of the
// program, files, and what it could not understand.
type finding struct {
	words         []string
	reads, writes []Path
	problem       string
}

var readers = map[string]reader{
	"date": readDate,
}

// readDate tells a format from a time to set the clock to.
func readDate(text string) finding {
	if len(text) > 0 && text[0] == '+' {
		return finding{words: []string{"format"}}
	}
	return finding{words: []string{"set"}}
}
