package approval

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// mask stands for what is not shown.
const mask = "[redacted]"

// maxDepth bounds the nesting that Redact looks into. What lies deeper is masked
// as a whole: what cannot be looked at is not stored.
const maxDepth = 64

// Redact returns a copy of r for people and for the disk, with secrets masked,
// and the JSON Pointers of what was masked. r itself, which is what runs and
// what [Digest] names, stays as it is.
//
// It is best effort: it knows values by the name they are given (key=value,
// JSON members, headers, options such as --token and curl's -u), the user part
// of URLs, private keys, and the shapes of well-known tokens. A secret without
// a name or shape stays. On the other hand it must not hide what a call does
// from the one who has to allow it, so in text a mask never spans separators or
// substitutions of a shell. Paths, hosts, ids and permissions are never masked.
//
// Arguments or options that have no single reading are an [ErrRequest].
func Redact(r *Request) (*Request, []string, error) {
	out := *r
	var where []string
	text := func(s, pointer string) string {
		masked := RedactText(s)
		if masked != s {
			where = append(where, pointer)
		}
		return masked
	}
	if r.Tool != nil {
		t := *r.Tool
		if len(t.Arguments) > 0 {
			v, err := redactJSON(jsontext.Value(t.Arguments), "/tool/arguments", false, 0, &where)
			if err != nil {
				return nil, nil, &RequestError{Pointer: "/tool/arguments", Message: plain(err)}
			}
			t.Arguments = json.RawMessage(v)
		}
		t.Description = text(t.Description, "/tool/description")
		out.Tool = &t
	}
	if r.Command != nil {
		c := *r.Command
		c.Text = text(c.Text, "/command/text")
		c.Argv = redactArgv(c.Argv)
		for i := range c.Argv {
			if c.Argv[i] != r.Command.Argv[i] {
				where = append(where, "/command/argv/"+strconv.Itoa(i))
			}
		}
		out.Command = &c
	}
	out.Changes = slices.Clone(r.Changes)
	for i := range out.Changes {
		out.Changes[i].Diff = text(out.Changes[i].Diff, fmt.Sprintf("/changes/%d/diff", i))
	}
	out.Reason = text(r.Reason, "/reason")
	out.Options = slices.Clone(r.Options)
	for i, o := range out.Options {
		pointer := fmt.Sprintf("/options/%d", i)
		v, err := redactJSON(jsontext.Value(o), pointer, false, 0, &where)
		if err != nil {
			return nil, nil, &RequestError{Pointer: pointer, Message: plain(err)}
		}
		out.Options[i] = json.RawMessage(v)
	}
	return &out, where, nil
}

// redactRuling masks the texts of a ruling: messages of rules quote the call.
func redactRuling(r Ruling) Ruling {
	texts := func(in []string) []string {
		out := slices.Clone(in)
		for i := range out {
			out[i] = RedactText(out[i])
		}
		return out
	}
	r.Rules, r.Observed = redactMatches(r.Rules), redactMatches(r.Observed)
	r.Reasons, r.Context = texts(r.Reasons), texts(r.Context)
	r.Verdicts = redactVerdicts(r.Verdicts)
	if r.Failure != nil {
		f := *r.Failure
		f.Message = RedactText(f.Message)
		r.Failure = &f
	}
	return r
}

// redactMatches masks what rules say: their messages quote the call.
func redactMatches(in []Match) []Match {
	out := slices.Clone(in)
	for i := range out {
		out[i].Message = RedactText(out[i].Message)
	}
	return out
}

// redactVerdicts masks what reviewers say: it is written from the call, and is
// likely to quote it.
func redactVerdicts(in []Verdict) []Verdict {
	out := slices.Clone(in)
	for i := range out {
		out[i].Rationale = RedactText(out[i].Rationale)
		out[i].Members = redactVerdicts(out[i].Members)
	}
	return out
}

func redactValue(v jsontext.Value) (masked jsontext.Value, touched bool, err error) {
	var where []string
	masked, err = redactJSON(v, "", false, 0, &where)
	return masked, len(where) > 0, err
}

// redactJSON masks a value; secret says that its name calls for it. The order of
// members and the spelling of numbers stay.
func redactJSON(v jsontext.Value, pointer string, secret bool, depth int, where *[]string) (jsontext.Value, error) {
	touch := func(s string) jsontext.Value {
		*where = append(*where, pointer)
		return quoted(s)
	}
	switch v.Kind() {
	case '"':
		s, err := unquoted(v)
		if err != nil {
			return nil, err
		}
		if secret && s != "" {
			return touch(mask), nil
		}
		if masked := RedactText(s); masked != s {
			return touch(masked), nil
		}
		return compact(v)
	case '0':
		if secret {
			return touch(mask), nil
		}
		return compact(v)
	case '{', '[':
		if depth == maxDepth {
			if !v.IsValid() {
				return nil, fmt.Errorf("not valid JSON below %s", pointer)
			}
			return touch(mask), nil
		}
		names, parts, err := split(v)
		if err != nil {
			return nil, err
		}
		if names == nil {
			return redactArray(parts, pointer, secret, depth, where)
		}
		return redactObject(names, parts, pointer, secret, depth, where)
	default:
		return compact(v)
	}
}

func redactObject(names []string, parts []jsontext.Value, pointer string, secret bool, depth int, where *[]string) (jsontext.Value, error) {
	// {"name": "API_KEY", "value": "..."}, as lists of headers and variables have it.
	named := false
	for i, n := range names {
		if n = strings.ToLower(n); (n == "name" || n == "key") && parts[i].Kind() == '"' {
			if s, err := unquoted(parts[i]); err == nil && secretName(s) {
				named = true
			}
		}
	}
	out := jsontext.Value("{")
	for i, n := range names {
		if i > 0 {
			out = append(out, ',')
		}
		isSecret := secret || secretName(n) || named && strings.EqualFold(n, "value")
		v, err := redactJSON(parts[i], pointer+"/"+pointerToken(n), isSecret, depth+1, where)
		if err != nil {
			return nil, err
		}
		out = append(out, quoted(n)...)
		out = append(append(out, ':'), v...)
	}
	return append(out, '}'), nil
}

func redactArray(parts []jsontext.Value, pointer string, secret bool, depth int, where *[]string) (jsontext.Value, error) {
	// A list of strings may be the words of a command.
	words := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Kind() != '"' {
			break
		}
		s, err := unquoted(p)
		if err != nil {
			return nil, err
		}
		words = append(words, s)
	}
	var masked []string
	if !secret && len(words) == len(parts) {
		masked = redactArgv(words)
	}
	out := jsontext.Value("[")
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		place := pointer + "/" + strconv.Itoa(i)
		if masked != nil && masked[i] != words[i] {
			*where = append(*where, place)
			out = append(out, quoted(masked[i])...)
			continue
		}
		v, err := redactJSON(p, place, secret, depth+1, where)
		if err != nil {
			return nil, err
		}
		out = append(out, v...)
	}
	return append(out, ']'), nil
}

// split returns the members of an object, or the elements of an array and no
// names.
func split(v jsontext.Value) (names []string, parts []jsontext.Value, err error) {
	d := jsontext.NewDecoder(strings.NewReader(string(v)))
	open, err := d.ReadToken()
	if err != nil {
		return nil, nil, err
	}
	object := open.Kind() == '{'
	if object {
		names = []string{}
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if object {
			name, err := d.ReadToken()
			if err != nil {
				return nil, nil, err
			}
			names = append(names, name.String())
		}
		part, err := d.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part.Clone())
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, err
	}
	return names, parts, nil
}

func compact(v jsontext.Value) (jsontext.Value, error) {
	v = v.Clone()
	err := v.Compact()
	return v, err
}

func unquoted(v jsontext.Value) (string, error) {
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err
}

func quoted(s string) jsontext.Value {
	// The text comes from a valid JSON string, so it cannot fail.
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}

func pointerToken(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(s)
}

// Words of names. A name is secret if it has one of secretWords, or one of
// keyWords before "key", and does not end in one of harmlessEnds.
var (
	secretWords = wordSet(`password passwd passphrase pass secret secrets token credential credentials authorization cookie cookies
		apikey accesskey secretkey privatekey authtoken accesstoken refreshtoken bearer jwt signature otp totp pwd passcode clientsecret`)
	keyWords     = wordSet(`api access secret private auth signing encryption master ssh account storage subscription service license deploy`)
	harmlessEnds = wordSet(`file path dir directory stdin env name arn url uri endpoint length len count limit ttl type policy expiry
		expires lifetime budget usage helper required enabled`)
)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// secretName says whether what bears this name is a secret.
func secretName(name string) bool {
	if name == "PWD" || name == "OLDPWD" || len(name) > 200 {
		return false
	}
	words := nameWords(name)
	if len(words) == 0 || harmlessEnds[words[len(words)-1]] {
		return false
	}
	for i, w := range words {
		if secretWords[w] || w == "key" && i > 0 && keyWords[words[i-1]] {
			return true
		}
	}
	return false
}

// nameWords splits api-key, API_KEY, apiKey and APIKey2 into words.
func nameWords(name string) []string {
	var words []string
	var w []rune
	flush := func() {
		if len(w) > 0 {
			words = append(words, strings.ToLower(string(w)))
			w = w[:0]
		}
	}
	runes := []rune(name)
	for i, c := range runes {
		switch {
		case !unicode.IsLetter(c):
			flush()
			continue
		case unicode.IsUpper(c) && i > 0 && (unicode.IsLower(runes[i-1]) ||
			unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
		}
		w = append(w, c)
	}
	flush()
	return words
}

const (
	// bare is a value without quotes: a mask must not hide a second command.
	bare = "[^\\s\"'`;|&<>()\\\\]+"
	// value is one in quotes, in quotes within a JSON text, or bare.
	value = `\\+"[^"\\]*\\+"|"(?:[^"\\]|\\.)*"|'[^']*'|` + bare
)

var (
	// The short last line of a key counts only with its padding: words that follow are no part of it.
	privateKey    = regexp.MustCompile(`-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----(?:(?:\s|\\[nr])*(?:[A-Za-z0-9+/=]{20,}|[A-Za-z0-9+/]{1,20}={1,2}))+`)
	authorization = regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization\\*["']?[ \t]*[:=][ \t]*\\*["']?(?:(?:basic|bearer|token|digest|negotiate|apikey)[ \t]+)?)(` + bare + `)`)
	bearer        = regexp.MustCompile(`(?i)(\bbearer[ \t]+)([a-z0-9._~+/=-]{8,})`)
	cookieHeader  = regexp.MustCompile("(?i)\\bcookie:[^\"'`\\r\\n$|&<>()]+")
	cookiePair    = regexp.MustCompile(`=[^;\s]+`)
	urlUser       = regexp.MustCompile("(?i)([a-z][a-z0-9+.-]*://)([^\\s/\"'`;|&<>()?#\\\\]+)@")
	named         = regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:passw|passphrase|passcode|pass|pwd|secret|token|key|credential|cookie|jwt|signature|otp)[a-z0-9_.-]*)` +
		`(\\*["']?[ \t]*(?:=>|[:=]=?)[ \t]*)(` + value + `)`)
	shapes = regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl(?:pat|rt|dt|cbt|ptt)-[A-Za-z0-9_.-]{16,}` +
		`|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{20,}|(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}` +
		`|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,}` +
		`|pypi-[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{30,}|dckr_pat_[A-Za-z0-9_-]{20,}|hv[sbr]\.[A-Za-z0-9_-]{20,}|do[opr]_v1_[a-f0-9]{32,}` +
		`|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|lin_api_[A-Za-z0-9]{30,}|AGE-SECRET-KEY-1[A-Z0-9]{50,}` +
		`|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)
)

// maskers are put to a text one after the other.
var maskers = []masker{
	{[][]string{{"://"}}, maskWholeURL},
	{[][]string{{"-"}}, redactFlags},
	{[][]string{{"private key-----"}}, func(s string) string {
		return privateKey.ReplaceAllString(s, "-----BEGIN ${1}PRIVATE KEY-----"+mask)
	}},
	{[][]string{{"authorization"}}, func(s string) string {
		return authorization.ReplaceAllStringFunc(s, func(m string) string {
			p := authorization.FindStringSubmatch(m)
			if p == nil || substitutes(p[2]) {
				return m
			}
			return p[1] + mask
		})
	}},
	{[][]string{{"bearer"}}, func(s string) string { return bearer.ReplaceAllString(s, "${1}"+mask) }},
	{[][]string{{"cookie:"}}, func(s string) string {
		return cookieHeader.ReplaceAllStringFunc(s, func(m string) string { return cookiePair.ReplaceAllString(m, "="+mask) })
	}},
	{[][]string{{"://"}, {"@"}}, func(s string) string {
		return urlUser.ReplaceAllStringFunc(s, func(m string) string {
			p := urlUser.FindStringSubmatch(m)
			if p == nil || substitutes(p[2]) {
				return m
			}
			return p[1] + mask + "@"
		})
	}},
	{[][]string{{":", "="}, {"pass", "pwd", "secret", "token", "key", "credential", "cookie", "jwt", "signature", "otp"}}, func(s string) string {
		return named.ReplaceAllStringFunc(s, func(m string) string {
			p := named.FindStringSubmatch(m)
			if p == nil || !secretName(p[1]) || strings.HasPrefix(p[3], mask) {
				return m
			}
			return p[1] + p[2] + maskWord(p[3])
		})
	}},
	{[][]string{{
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glrt-", "gldt-", "glcbt-", "glptt-", "xox", "xapp-",
		"sk-", "sk_", "rk_", "whsec_", "akia", "asia", "aiza", "ya29.", "gocspx-", "npm_", "pypi-", "hf_", "dckr_pat_",
		"hvs.", "hvb.", "hvr.", "_v1_", "shp", "sg.", "lin_api_", "age-secret-key-1", "eyj",
	}}, func(s string) string { return shapes.ReplaceAllString(s, mask) }},
}

// masker masks one kind of secret. A text can hold one only if, in lower case, it
// has a word of each group: most texts have none, and expressions are dear.
type masker struct {
	needs [][]string
	mask  func(string) string
}

// wanted tells whether a text may hold what the masker masks. lower is the text
// in lower case; "" if letters beyond ASCII may stand for others in expressions
// that do not tell cases apart.
func (m masker) wanted(lower string) bool {
	if lower == "" {
		return true
	}
	for _, group := range m.needs {
		if !slices.ContainsFunc(group, func(word string) bool { return strings.Contains(lower, word) }) {
			return false
		}
	}
	return true
}

// RedactText masks secrets in a text, which may be a command line, with the same
// limits as [Redact]. Masking twice is masking once.
func RedactText(s string) string {
	lower := lowerASCII(s)
	for _, m := range maskers {
		// A mask takes away and adds nothing that another masker needs.
		if m.wanted(lower) {
			s = m.mask(s)
		}
	}
	return s
}

// lowerASCII is s in lower case, or "" if it is not ASCII alone.
func lowerASCII(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return ""
		}
	}
	return strings.ToLower(s)
}

// maskWholeURL masks the user part of a text that is one URL. That is no command,
// so the user part may hold any character.
func maskWholeURL(s string) string {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.User == nil || u.Host == "" || strings.ContainsAny(s, " \t\n") {
		return s
	}
	if at, start := strings.LastIndexByte(s[:len(s)-len(afterAuthority(s))], '@'), strings.Index(s, "://"); start >= 0 && at > start {
		return s[:start+3] + mask + s[at:]
	}
	return s
}

// afterAuthority is what follows user, host and port in a URL.
func afterAuthority(s string) string {
	_, rest, _ := strings.Cut(s, "://")
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		return rest[i:]
	}
	return ""
}

// substitutes says whether a shell would put something else in place of s, or
// run it. That is no secret, and has to be seen.
func substitutes(s string) bool {
	return strings.HasPrefix(s, "$") || strings.Contains(s, "$(") || strings.Contains(s, "${") || strings.Contains(s, "`") ||
		strings.Contains(s, "<(") || strings.Contains(s, ">(")
}

// maskWord masks what is inside the quotes of a word, if it has any.
func maskWord(w string) string {
	inside := strings.TrimLeft(w, `\`)
	slashes := w[:len(w)-len(inside)]
	quote := ""
	if inside != "" && (inside[0] == '"' || inside[0] == '\'') {
		quote = inside[:1]
	}
	content := strings.Trim(inside, `"'\`)
	if content == "" || content == mask || substitutes(content) {
		return w
	}
	if quote == "" {
		return mask
	}
	return slashes + quote + mask + slashes + quote
}

// span is a part of a text.
type span struct{ from, to int }

// redactFlags masks the values of options in a command line.
func redactFlags(s string) string {
	if !strings.Contains(s, "-") {
		return s
	}
	var out strings.Builder
	done := 0
	for _, segment := range segments(s) {
		words := make([]string, len(segment))
		for i, w := range segment {
			words[i] = s[w.from:w.to]
		}
		for i, masked := range flagValues(words) {
			if masked != words[i] {
				out.WriteString(s[done:segment[i].from])
				out.WriteString(masked)
				done = segment[i].to
			}
		}
	}
	out.WriteString(s[done:])
	return out.String()
}

// segments splits a command line into simple commands and those into words, each
// with its quotes. It need not be exact: what it gets wrong is shown.
func segments(s string) [][]span {
	var all [][]span
	var words []span
	start := -1
	endWord := func(at int) {
		if start >= 0 {
			words = append(words, span{start, at})
			start = -1
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\r':
			endWord(i)
		case '\n', ';', '|', '&', '(', ')', '<', '>', '`':
			endWord(i)
			all, words = append(all, words), nil
		case '\'', '"':
			if start < 0 {
				start = i
			}
			if end := strings.IndexByte(s[i+1:], c); end >= 0 {
				i += end + 1
			}
		default:
			if start < 0 {
				start = i
			}
		}
	}
	endWord(len(s))
	return append(all, words)
}

// redactArgv masks the words of one command.
func redactArgv(argv []string) []string {
	if argv == nil {
		return nil
	}
	out := flagValues(argv)
	for i := range out {
		if out[i] == argv[i] {
			out[i] = RedactText(argv[i])
		}
	}
	return out
}

// Programs whose -p is a password, glued to it or as the next word. With others
// -p is a port, a path or a switch that people have to see.
var (
	gluedPassword = wordSet(`mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mariadb mariadb-dump mariadb-admin sshpass 7z 7za 7zz`)
	nextPassword  = wordSet(`sshpass mongo mongosh mongodump mongorestore mongoimport mongoexport`)
)

// flagValues masks the words that are values of options for secrets: long options
// by their names, -u and -U with a colon, -p where it is a password.
func flagValues(words []string) []string {
	out := slices.Clone(words)
	glued, next, login, git := false, false, false, false
	for i, w := range words {
		name := path.Base(w)
		glued, next = glued || gluedPassword[name], next || nextPassword[name]
		// docker login -u me -p secret; and any tool that takes both.
		login = login || w == "login" || w == "-u" || w == "--user" || w == "--username"
		git = git || i == 0 && name == "git"
	}
	for i, w := range words {
		after := i+1 < len(words)
		switch {
		case strings.HasPrefix(w, "--"):
			if name := w[2:]; after && !strings.Contains(name, "=") && secretName(name) && !strings.HasPrefix(words[i+1], "-") {
				out[i+1] = maskWord(words[i+1])
			} else if after && (name == "user" || name == "proxy-user") {
				out[i+1] = maskPair(words[i+1])
			} else if name, v, ok := strings.Cut(w[2:], "="); ok && (name == "user" || name == "proxy-user") {
				out[i] = "--" + name + "=" + maskPair(v)
			}
		case len(w) < 2 || w[0] != '-' || git:
		case w[len(w)-1] == 'u' || w == "-U":
			if after {
				out[i+1] = maskPair(words[i+1])
			}
		case w[1] == 'u':
			out[i] = "-u" + maskPair(w[2:])
		case w == "-p" && after && (next || login) && !strings.HasPrefix(words[i+1], "-"):
			out[i+1] = maskWord(words[i+1])
		case w[1] == 'p' && len(w) > 2 && glued:
			out[i] = "-p" + maskWord(w[2:])
		}
	}
	return out
}

// maskPair masks user:password, and the user too, since API keys stand there. A
// pair of numbers is a user and a group.
func maskPair(w string) string {
	user, password, ok := strings.Cut(strings.Trim(w, `"'`), ":")
	if !ok || user == "" && password == "" || number(user) && number(password) || strings.Contains(w, "://") {
		return w
	}
	return maskWord(w)
}

func number(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}
