package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// patch adds every path that patch text touches.
func (call *Call) patch(name, s string) {
	steps, err := PatchSteps(s)
	call.Patched = append(call.Patched, steps...)
	for _, step := range steps {
		p := step.Path
		if p == "" {
			continue
		}
		if !slices.Contains(call.Writes, p) {
			call.path(&call.Writes, name, p)
		}
	}
	if err != nil {
		call.problem("argument %s is a patch that cannot be read: %v", name, err)
	}
}

// ErrPatch means that patch text is not understood completely. The paths that
// were found before the fault still stand.
var ErrPatch = errors.New("patch is not understood")

// PatchPaths lists every path that patch text changes, moves from or moves to,
// in the order in which they stand and each once. It reads the *** Begin Patch
// grammar and unified diffs, with or without git's headers, and is strict: a
// line that it does not expect is an error, because the program that applies
// the patch might see a file there.
func PatchPaths(s string) ([]string, error) {
	steps, err := PatchSteps(s)
	var paths []string
	for _, step := range steps {
		if step.Path != "" && !slices.Contains(paths, step.Path) {
			paths = append(paths, step.Path)
		}
	}
	return paths, err
}

// PatchStep is one thing that a patch does: an operation on a file, or a header
// that bears on the one before it and has no path. Operation is add, update, delete,
// move, or a header of git; it is for comparison, and not a closed set.
type PatchStep struct {
	Operation string `json:"operation"`
	Path      string `json:"path,omitempty"`
}

// PatchSteps is [PatchPaths] with what happens to each file, in the order of the
// text.
func PatchSteps(s string) ([]PatchStep, error) {
	p := &patchReader{lines: strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")}
	for len(p.lines) > 0 && p.lines[len(p.lines)-1] == "" {
		p.lines = p.lines[:len(p.lines)-1]
		p.cut++
	}
	for p.at < len(p.lines) && p.lines[p.at] == "" {
		p.at++
	}
	if p.at == len(p.lines) {
		return nil, fmt.Errorf("%w: it is empty", ErrPatch)
	}
	var err error
	if strings.TrimSpace(p.lines[p.at]) == "*** Begin Patch" {
		err = p.begin()
	} else {
		err = p.unified()
	}
	if err == nil && p.files == 0 {
		err = p.fault("it names no file")
	}
	return p.steps, err
}

type patchReader struct {
	lines []string
	at    int
	// cut counts the empty lines that were taken off the end.
	cut   int
	steps []PatchStep
	// files is how many of the steps have a path.
	files int
}

func (p *patchReader) fault(format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrPatch, p.at+1, fmt.Sprintf(format, args...))
}

func (p *patchReader) add(operation, name string) error {
	switch {
	case name == "":
		return p.fault("a file without a name")
	case name != strings.TrimSpace(name):
		// Whether the program that applies the patch keeps the space is not known.
		return p.fault("a file name with space around it")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return p.fault("a file name with control characters")
	}
	step := PatchStep{operation, name}
	if slices.Contains(p.steps, step) {
		return nil
	}
	if p.files >= maxPaths {
		return p.fault("more than %d files", maxPaths)
	}
	p.steps = append(p.steps, step)
	p.files++
	return nil
}

// begin reads "*** Begin Patch", then sections that each start with a header,
// then "*** End Patch" as the last line.
func (p *patchReader) begin() error {
	for p.at++; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.TrimSpace(line) == "*** End Patch" {
			if p.at != len(p.lines)-1 {
				p.at++
				return p.fault("text after the end of the patch")
			}
			return nil
		}
		var err error
		if name, ok := strings.CutPrefix(line, "*** Add File: "); ok {
			err = p.add("add", name)
			p.body(func(l string) bool { return strings.HasPrefix(l, "+") })
		} else if name, ok := strings.CutPrefix(line, "*** Delete File: "); ok {
			err = p.add("delete", name)
		} else if name, ok := strings.CutPrefix(line, "*** Update File: "); ok {
			err = p.add("update", name)
			if p.at+1 < len(p.lines) {
				if to, ok := strings.CutPrefix(p.lines[p.at+1], "*** Move to: "); ok {
					p.at++
					err = errors.Join(err, p.add("move", to))
				}
			}
			p.body(updateLine)
		} else {
			err = p.fault("neither a file header nor the end of the patch")
		}
		if err != nil {
			return err
		}
	}
	return p.fault("the patch has no end")
}

// body passes over the lines of a section that fit.
func (p *patchReader) body(fits func(string) bool) {
	for p.at+1 < len(p.lines) && fits(p.lines[p.at+1]) {
		p.at++
	}
}

func updateLine(l string) bool {
	if l == "" || l == "@@" || strings.HasPrefix(l, "@@ ") || l == "*** End of File" {
		return true
	}
	return l[0] == '+' || l[0] == '-' || l[0] == ' '
}

// unified reads a series of file sections: optional git headers, "--- old" and
// "+++ new", hunks whose lines are counted.
func (p *patchReader) unified() error {
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		var err error
		switch {
		case strings.HasPrefix(line, "diff --git "):
			err = p.git()
		case strings.HasPrefix(line, "--- "):
			err = p.file(false)
		case line == "":
			p.at++
		default:
			err = p.fault("neither a file header nor a hunk")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// git reads one section of a git diff.
func (p *patchReader) git() error {
	pair := strings.TrimPrefix(p.lines[p.at], "diff --git ")
	before := p.files
	p.at++
	for p.at < len(p.lines) {
		line := p.lines[p.at]
		for _, head := range []string{"rename from ", "rename to ", "copy from ", "copy to "} {
			if name, ok := strings.CutPrefix(line, head); ok {
				name, err := p.name(name)
				if err == nil {
					err = p.add(strings.TrimSpace(head), name)
				}
				if err != nil {
					return err
				}
			}
		}
		if hasAnyPrefix(line, "old mode ", "new mode ", "deleted file mode ", "new file mode ") {
			if len(p.steps) >= 2*maxPaths {
				return p.fault("more than %d headers", maxPaths)
			}
			p.steps = append(p.steps, PatchStep{Operation: line})
		}
		switch {
		case hasAnyPrefix(line, "index ", "old mode ", "new mode ", "deleted file mode ", "new file mode ",
			"similarity index ", "dissimilarity index ", "rename from ", "rename to ", "copy from ", "copy to "):
			p.at++
		case strings.HasPrefix(line, "--- "):
			// The first line may name another file than the two that follow.
			if name, ok := sameName(pair); ok {
				if err := p.add("update", name); err != nil {
					return err
				}
			}
			return p.file(true)
		case strings.HasPrefix(line, "GIT binary patch"), strings.HasPrefix(line, "Binary files "):
			return p.fault("a binary patch")
		default:
			return p.pair(pair, before)
		}
	}
	return p.pair(pair, before)
}

// pair takes the name of a section without content from its first line.
func (p *patchReader) pair(pair string, before int) error {
	if p.files > before {
		return nil
	}
	if name, ok := sameName(pair); ok {
		return p.add("update", name)
	}
	return p.fault("a git header whose names are not certain")
}

// sameName splits "a/name b/name", which is only certain when both are the same.
func sameName(pair string) (string, bool) {
	half := len(pair) / 2
	if len(pair)%2 == 0 || pair[half] != ' ' || strings.Contains(pair, `"`) {
		return "", false
	}
	a, okA := strings.CutPrefix(pair[:half], "a/")
	b, okB := strings.CutPrefix(pair[half+1:], "b/")
	return a, okA && okB && a == b
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// file reads "--- old", "+++ new" and the hunks after them. Tools disagree on
// when to take a/ and b/ off a name; outside git's own headers both readings
// are listed.
func (p *patchReader) file(git bool) error {
	old, err := p.name(p.lines[p.at][len("--- "):])
	if err != nil {
		return err
	}
	p.at++
	if p.at == len(p.lines) || !strings.HasPrefix(p.lines[p.at], "+++ ") {
		return p.fault("--- without +++")
	}
	next, err := p.name(p.lines[p.at][len("+++ "):])
	if err != nil {
		return err
	}
	if old == "/dev/null" && next == "/dev/null" {
		return p.fault("both names are /dev/null")
	}
	operation := "update"
	switch {
	case old == "/dev/null":
		operation = "add"
	case next == "/dev/null":
		operation = "delete"
	}
	for _, side := range []struct{ name, prefix string }{{old, "a/"}, {next, "b/"}} {
		if side.name == "/dev/null" {
			continue
		}
		stripped, ok := strings.CutPrefix(side.name, side.prefix)
		if ok {
			if err := p.add(operation, stripped); err != nil {
				return err
			}
		}
		if !ok || !git {
			if err := p.add(operation, side.name); err != nil {
				return err
			}
		}
	}
	p.at++
	hunks := 0
	for p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "@@ ") {
		if err := p.hunk(); err != nil {
			return err
		}
		hunks++
	}
	if hunks == 0 {
		return p.fault("no hunk after the names")
	}
	return nil
}

// name reads a file name: quoted as git does, or up to a tab, after which diff
// puts the time.
func (p *patchReader) name(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		s, _, _ = strings.Cut(s, "\t")
		return s, nil
	}
	end := strings.LastIndexByte(s, '"')
	if end == 0 || strings.TrimRight(s[end+1:], "\t ") != "" {
		return "", p.fault("a quoted name that is not closed")
	}
	name, err := strconv.Unquote(s[:end+1])
	if err != nil {
		return "", p.fault("a quoted name that cannot be read")
	}
	return name, nil
}

// hunk reads "@@ -l,n +l,n @@" and exactly as many lines as it announces.
func (p *patchReader) hunk() error {
	removed, added, ok := hunkCounts(p.lines[p.at])
	if !ok {
		return p.fault("a hunk header that cannot be read")
	}
	p.at++
	for removed > 0 || added > 0 {
		if p.at == len(p.lines) {
			// Empty context lines at the end may have lost their space.
			if removed == added && removed <= p.cut {
				return nil
			}
			return p.fault("the hunk ends too early")
		}
		line := p.lines[p.at]
		switch {
		case line == "", line[0] == ' ':
			removed, added = removed-1, added-1
		case line[0] == '-':
			removed--
		case line[0] == '+':
			added--
		case line[0] == '\\':
		default:
			return p.fault("a line that belongs to no hunk")
		}
		if removed < 0 || added < 0 {
			return p.fault("the hunk is longer than its header says")
		}
		p.at++
	}
	if p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], `\ `) {
		p.at++
	}
	return nil
}

func hunkCounts(line string) (removed, added int, ok bool) {
	rest, ok := strings.CutPrefix(line, "@@ -")
	if !ok {
		return 0, 0, false
	}
	ranges, _, ok := strings.Cut(rest, " @@")
	if !ok {
		return 0, 0, false
	}
	from, to, ok := strings.Cut(ranges, " +")
	if !ok {
		return 0, 0, false
	}
	removed, ok = hunkLength(from)
	if !ok {
		return 0, 0, false
	}
	added, ok = hunkLength(to)
	return removed, added, ok
}

func hunkLength(s string) (int, bool) {
	start, length, hasLength := strings.Cut(s, ",")
	if n, err := strconv.Atoi(start); err != nil || n < 0 {
		return 0, false
	}
	if !hasLength {
		return 1, true
	}
	n, err := strconv.Atoi(length)
	return n, err == nil && n >= 0
}
