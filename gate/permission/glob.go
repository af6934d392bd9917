package permission

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Limits that keep matching cheap, whoever wrote the patterns. doublestar tries
// the alternatives of all braces in turn, so their product counts, and looks at
// each byte of a pattern for each of a path.
const (
	maxPattern      = 1024
	maxAlternatives = 64
	// maxCost is for all patterns of a profile together.
	maxCost = 1 << 15
)

// globCost is how much one byte of a path costs to match.
func globCost(pattern string) int {
	_, rest := splitGlob(pattern)
	return len(rest) * alternatives(rest)
}

// cleanGlob tells whether pattern has the form that normalising gives it.
func cleanGlob(pattern string) bool {
	if !strings.HasPrefix(pattern, "/") || checkGlob(pattern) != nil {
		return false
	}
	literal, rest := splitGlob(pattern)
	from := unescapeGlob(literal)
	return rest != "" && isClean(from) && escapeGlob(from) == literal && path.Clean("/"+rest) == "/"+rest
}

// checkGlob refuses what cannot be matched, or cannot match anything.
func checkGlob(pattern string) error {
	if pattern == "" || !isText(pattern) {
		return fmt.Errorf("%w: empty or not text", ErrBadPattern)
	}
	// Normalising adds the working folder, which has a limit of its own.
	if len(pattern) > maxPattern+maxPath {
		return fmt.Errorf("%w: longer than %d bytes", ErrBadPattern, maxPattern)
	}
	if !doublestar.ValidatePattern(pattern) {
		return ErrBadPattern
	}
	if oddSlash(pattern) {
		return fmt.Errorf("%w: escaped slash, or slash in a class", ErrBadPattern)
	}
	if alternatives(pattern) > maxAlternatives {
		return fmt.Errorf("%w: more than %d alternatives", ErrBadPattern, maxAlternatives)
	}
	return nil
}

// oddSlash tells whether a valid pattern has a slash that is no separator, so that
// cutting it into components would go wrong.
func oddSlash(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; pattern[i] == '/' {
				return true
			}
		case '[':
			end := classEnd(pattern[i:])
			if strings.Contains(pattern[i:i+end], "/") {
				return true
			}
			i += end
		}
	}
	return false
}

// alternatives is an upper bound for the number of patterns that the braces of a
// valid pattern stand for.
func alternatives(pattern string) int {
	total, open := 1, []int{}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			i += classEnd(pattern[i:])
		case '{':
			open = append(open, 1)
		case ',':
			if len(open) > 0 {
				open[len(open)-1]++
			}
		case '}':
			if len(open) > 0 {
				total = min(total*open[len(open)-1], maxAlternatives+1)
				open = open[:len(open)-1]
			}
		}
	}
	return total
}

// classEnd is the index of the ] that ends the character class at the start of
// pattern.
func classEnd(pattern string) int {
	for i := 1; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return len(pattern) - 1
}

// splitGlob cuts pattern before its first component that is more than literal.
// The literal part keeps its escapes and no final slash, except for / itself.
func splitGlob(pattern string) (literal, rest string) {
	start := 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '/':
			start = i + 1
		case '*', '?', '[', '{':
			literal = pattern[:start]
			if len(literal) > 1 {
				literal = strings.TrimRight(literal, "/")
				if literal == "" {
					literal = "/"
				}
			}
			return literal, pattern[start:]
		}
	}
	return pattern, ""
}

// literalPrefix is the folder that everything a clean pattern matches is in.
func literalPrefix(pattern string) string {
	literal, _ := splitGlob(pattern)
	return unescapeGlob(literal)
}

var globMeta = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`)

// escapeGlob makes a pattern that matches the literal path p.
func escapeGlob(p string) string { return globMeta.Replace(p) }

func unescapeGlob(literal string) string {
	if !strings.Contains(literal, `\`) {
		return literal
	}
	var b strings.Builder
	for i := 0; i < len(literal); i++ {
		if literal[i] == '\\' && i+1 < len(literal) {
			i++
		}
		b.WriteByte(literal[i])
	}
	return b.String()
}

var (
	// dotdot finds ".." as a component, or as one of the alternatives for one.
	dotdot = regexp.MustCompile(`(^|[/{,])\.\.($|[/},])`)
	// nothing finds a component that may be empty or ".", which no path has.
	nothing = regexp.MustCompile(`(^|/)\{([^{}]*,)?\.?(,[^{}]*)?\}(/|$)`)
	// windows finds a backslash before something that needs no escape.
	windows = regexp.MustCompile(`^(?:[^\\]|\\[^\p{L}\p{N}_.~ ])*\\[\p{L}\p{N}_.~ ]`)
)

// normaliseGlob returns the entries that pattern stands for in env: usually one
// pattern, more where links are in its literal part, and plain paths if nothing
// in it is a pattern.
func (env Environment) normaliseGlob(pattern string, fsys FS) ([]Entry, error) {
	if err := checkGlob(pattern); err != nil {
		// Windows paths often are no valid patterns, and ErrForeign says more.
		if foreignGlob(pattern) {
			return nil, ErrForeign
		}
		return nil, err
	}
	if env.OS == "windows" || foreignGlob(pattern) {
		return nil, ErrForeign
	}
	literal, rest := splitGlob(pattern)
	if len(rest) > maxPattern {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrBadPattern, maxPattern)
	}
	if dotdot.MatchString(rest) {
		return nil, fmt.Errorf(`%w: ".." after a wildcard`, ErrBadPattern)
	}
	if nothing.MatchString(rest) {
		return nil, fmt.Errorf("%w: alternative without a name", ErrBadPattern)
	}
	if _, err := regexp.Compile(globRegexp(pattern)); err != nil {
		return nil, fmt.Errorf("%w: class with a range that ends before it starts", ErrBadPattern)
	}
	from := unescapeGlob(literal)
	if from == "" {
		from = "."
	}
	folders, err := env.spellings(from, fsys)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, folder := range folders {
		if rest == "" {
			out = append(out, Literal(folder, Deny))
			continue
		}
		joined := strings.TrimSuffix(escapeGlob(folder), "/") + path.Clean("/"+rest)
		if err := checkGlob(joined); err != nil {
			return nil, err
		}
		out = append(out, DenyGlob(joined))
	}
	return out, nil
}

func foreignGlob(pattern string) bool {
	return drive.MatchString(pattern) || uri.MatchString(pattern) || strings.HasPrefix(pattern, `\\`) ||
		windows.MatchString(pattern)
}

// matchGlob tells whether a clean pattern matches the clean path p or a folder
// above it.
func matchGlob(pattern, p string) bool {
	// x/** is x and everything below it, but not for doublestar if x ends in a star
	// or in two of them.
	for strings.HasSuffix(pattern, "/**") {
		pattern = strings.TrimSuffix(pattern, "/**")
	}
	if pattern == "" || p == "/" {
		// The root has no name, and doublestar takes that for an empty one.
		return pattern == ""
	}
	for _, whole := range []string{pattern, pattern + "/**"} {
		if matched, err := doublestar.Match(whole, p); matched || err != nil {
			return true
		}
	}
	return false
}

// matchGlobFolded tells whether it does on a volume that ignores letter case;
// folded is the foldKey of p.
func matchGlobFolded(pattern, p, folded string) bool {
	if !strings.Contains(pattern, "[") {
		return matchGlob(foldKey(pattern), folded)
	}
	expr, err := regexp.Compile(globRegexp(pattern))
	return err != nil || expr.MatchString(p) || expr.MatchString(folded)
}

// globRegexp translates a pattern, so that the ranges in its classes can be
// matched without regard to case.
func globRegexp(pattern string) string {
	var b strings.Builder
	b.WriteString(`(?is)^`)
	for i, depth := 0, 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '\\':
			if i++; i < len(pattern) {
				r := firstRune(pattern[i:])
				b.WriteString(regexp.QuoteMeta(r))
				i += len(r) - 1
			}
		case '?':
			b.WriteString(`[^/]`)
		case '*':
			switch {
			case strings.HasPrefix(pattern[i:], "**/"):
				// Wider than doublestar where ** does not begin a component: a deny
				// may match too much here, never too little.
				b.WriteString(`(?:.*/)?`)
				i += 2
			case strings.HasPrefix(pattern[i:], "**"):
				b.WriteString(`.*`)
				i++
			default:
				b.WriteString(`[^/]*`)
			}
		case '[':
			end := classEnd(pattern[i:])
			b.WriteString(classRegexp(pattern[i+1 : i+end]))
			i += end
		case '{':
			depth++
			b.WriteString(`(?:`)
		case ',':
			if depth > 0 {
				b.WriteString(`|`)
			} else {
				b.WriteString(`,`)
			}
		case '}':
			depth--
			b.WriteString(`)`)
		default:
			if tail := strings.TrimPrefix(pattern[i:], "/**"); tail != pattern[i:] && (tail == "" || strings.ContainsAny(tail[:1], ",}")) {
				b.WriteString(`(?:/.*)?`)
				i += 2
				continue
			}
			r := firstRune(pattern[i:])
			b.WriteString(regexp.QuoteMeta(r))
			i += len(r) - 1
		}
	}
	b.WriteString(`(?:/.*)?$`)
	return b.String()
}

// classRegexp translates what stands between the brackets of a class.
func classRegexp(inner string) string {
	var b strings.Builder
	b.WriteString(`[`)
	if inner != "" && (inner[0] == '^' || inner[0] == '!') {
		b.WriteString(`^`)
		inner = inner[1:]
	}
	for inner != "" {
		r := firstRune(inner)
		inner = inner[len(r):]
		switch {
		case r == `\` && inner != "":
			r = firstRune(inner)
			inner = inner[len(r):]
			b.WriteString(`\x{` + fmt.Sprintf("%x", []rune(r)[0]) + `}`)
		case r == `-` && inner != "":
			b.WriteString(`-`)
		default:
			b.WriteString(`\x{` + fmt.Sprintf("%x", []rune(r)[0]) + `}`)
		}
	}
	b.WriteString(`]`)
	return b.String()
}

func firstRune(text string) string {
	for i := range text {
		if i > 0 {
			return text[:i]
		}
	}
	return text
}

// globTouches tells whether a clean pattern could match something in the folder
// dir, dir itself or a folder above it, on some volume. It errs towards yes.
func globTouches(pattern, dir string) bool {
	names := components(dir)
	for i, part := range strings.Split(pattern[1:], "/") {
		switch {
		case i == len(names):
			return true // the rest of the pattern matches inside dir
		case strings.Contains(part, "**"), strings.ContainsAny(part, "[{"), !isASCII(part), !isASCII(names[i]):
			return true // may span components, or is not worth the trouble
		case !doublestar.MatchUnvalidated(foldKey(part), foldKey(names[i])):
			return false
		}
	}
	return true
}
