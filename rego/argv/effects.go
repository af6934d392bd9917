package argv

import (
	"fmt"
	"strings"
)

// Effects is a set of effects, as a bit mask. The zero value is no effect, which
// the tables call "inert".
type Effects uint8

// The effects a command may have.
const (
	Read Effects = 1 << iota
	Write
	Process
	Network
	Unknown
)

// effectNames are in the alphabetical order that results are sorted in.
var effectNames = []struct {
	name string
	bit  Effects
}{
	{"network", Network},
	{"process", Process},
	{"read", Read},
	{"unknown", Unknown},
	{"write", Write},
}

// Names returns the names of the effects in e, sorted.
func (e Effects) Names() []string {
	names := make([]string, 0, len(effectNames))
	for _, n := range effectNames {
		if e&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// String returns the names joined by spaces, or "inert".
func (e Effects) String() string {
	if e == 0 {
		return "inert"
	}
	return strings.Join(e.Names(), " ")
}

// parseEffects reads names separated by spaces or plus signs. "inert" is the
// empty set and stands alone.
func parseEffects(text string) (Effects, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '+' })
	if len(fields) == 0 {
		return 0, fmt.Errorf("no effect named")
	}
	if len(fields) == 1 && fields[0] == "inert" {
		return 0, nil
	}
	var set Effects
next:
	for _, f := range fields {
		for _, n := range effectNames {
			if n.name != f {
				continue
			}
			if set&n.bit != 0 {
				return 0, fmt.Errorf("effect %q named twice", f)
			}
			set |= n.bit
			continue next
		}
		return 0, fmt.Errorf("unknown effect %q", f)
	}
	return set, nil
}
