package rego

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego/argv"
	"github.com/regent-policy/regent/rego/catalog"
	"github.com/regent-policy/regent/rego/shell"
)

// sealed is what no call may reach at all: the files by which decisions are
// given, and the addresses at which they are taken. Everything here is compared
// in lower case, since some file systems do so too and a name that differs in
// nothing else is hardly an accident.
type sealed struct {
	// named are the paths as they were given, where their links lead.
	named []string
	// paths are files and folders, absolute and clean, each as it is named and
	// where its links lead.
	paths []string
	// parts are the paths' components.
	parts [][]string
	// marks are the last two components of paths: a word that is to mean one of
	// them, or the folder it is in, has one of these.
	marks []string
	hosts []endpoint
}

// endpoint is an address that Regent listens on.
type endpoint struct {
	shown, host, port string
	// local is true where every name of this machine's loopback leads there.
	local bool
}

func newSealed(paths, hosts []string) sealed {
	var s sealed
	for _, name := range paths {
		absolute, err := filepath.Abs(name)
		if err != nil {
			continue // without a working folder only absolute names mean anything
		}
		s.paths = append(s.paths, strings.ToLower(absolute))
		// A file that is not there yet has a folder that may be.
		resolved, err := permission.Environment{}.Resolve(absolute, permission.OS())
		if err != nil {
			resolved = absolute
		}
		s.named = append(s.named, resolved)
		s.paths = append(s.paths, strings.ToLower(resolved))
	}
	s.named = sorted(s.named)
	s.paths = sorted(s.paths)
	for _, p := range s.paths {
		s.parts = append(s.parts, strings.Split(p[1:], "/"))
		s.marks = append(s.marks, path.Base(p), path.Base(path.Dir(p)))
	}
	s.marks = sorted(s.marks)
	s.marks = slices.DeleteFunc(slices.Clone(s.marks), func(mark string) bool {
		// What holds runtime.db holds runtime too.
		return slices.ContainsFunc(s.marks, func(part string) bool { return part != mark && strings.Contains(mark, part) })
	})
	for _, address := range hosts {
		host, port, err := net.SplitHostPort(address)
		if err != nil || port == "" {
			continue // nothing listens on such an address
		}
		e := endpoint{shown: address, port: plainPort(port)}
		e.host, e.local = canonicalHost(host)
		e.local = e.local || host == ""
		s.hosts = append(s.hosts, e)
	}
	return s
}

// holds reports whether name, absolute, is sealed: by itself or with a folder
// that it is in. A name may hold patterns.
func (s *sealed) holds(name string, pattern bool) bool {
	name = strings.ToLower(name)
	if slices.ContainsFunc(s.paths, func(p string) bool { return below(name, p) }) {
		return true
	}
	if !pattern {
		return false
	}
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	return slices.ContainsFunc(s.parts, func(p []string) bool {
		return len(parts) >= len(p) && fits(parts[:len(p)], p)
	})
}

// contains reports whether there is anything sealed below name, a folder.
func (s *sealed) contains(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(s.paths, func(p string) bool { return below(p, name) })
}

// encloses reports whether name is the very folder that something sealed is in.
func (s *sealed) encloses(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(s.paths, func(p string) bool { return path.Dir(p) == name })
}

// fits reports whether the patterns match the components one by one. As in a
// shell, a pattern that begins with a wildcard matches no hidden name.
func fits(patterns, components []string) bool {
	for i, p := range patterns {
		if p == components[i] {
			continue
		}
		matched, err := path.Match(p, components[i])
		if err != nil || !matched || components[i][0] == '.' && p[0] != '.' {
			return false
		}
	}
	return true
}

// mayMean reports whether a name that cannot be resolved ends, from some part on,
// as a sealed one does: in its last component, or for a plain word such as
// runtime in its last two. A part with an expansion in it stands for anything.
func (s *sealed) mayMean(name string) bool {
	parts := strings.Split(strings.ToLower(name), "/")
	for _, p := range s.parts {
		n := 1
		if last := p[len(p)-1]; len(p) > 1 && !strings.ContainsAny(last, "._-") {
			n = 2
		}
		tail := p[len(p)-n:]
		for at := 0; at+n <= len(parts); at++ {
			if !unknownPart(parts[at+n-1]) && slices.EqualFunc(parts[at:at+n], tail, func(part, component string) bool {
				return unknownPart(part) || part != "" && part != "*" && fits([]string{part}, []string{component})
			}) {
				return true
			}
		}
	}
	return false
}

func unknownPart(part string) bool { return strings.ContainsAny(part, "$`{") }

// marked reports whether text holds one of the marks.
func (s *sealed) marked(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(s.marks, func(mark string) bool { return strings.Contains(text, mark) })
}

// reach finds out what a call reaches.
type reach struct {
	*sealed
	facts *GuardFacts
	at    *place
	home  *strings.Replacer
	// dir is the folder looked at last, and inside where it leads if that is sealed.
	dir, inside string
	// assigned are the values of the variables up to here.
	assigned []string
	// looked is how many names were looked up.
	looked int
	// folders are those that something sealed is in, among the words of a command.
	folders []string
}

func (s *sealed) reach(facts *GuardFacts, at *place) *reach {
	return &reach{sealed: s, facts: facts, at: at}
}

// spelled is text with the home in place of what stands for it. Scripts in other
// languages write these too, where no shell replaces them.
func (r *reach) spelled(text string) string {
	if r.at.env.Home == "" || !strings.Contains(text, "~/") && !strings.Contains(text, "HOME") {
		return text
	}
	if r.home == nil {
		home := r.at.env.Home
		r.home = strings.NewReplacer("${HOME}", home, "$HOME/", home+"/", "~/", home+"/")
	}
	return r.home.Replace(text)
}

func (r *reach) found(name string) { r.facts.Reaches = append(r.facts.Reaches, name) }
func (r *reach) maybe(name string) { r.facts.MayReach = append(r.facts.MayReach, name) }

// pathFacts looks at the files that the call is known to name; trees are folders
// of which it reads all that is below.
func (r *reach) pathFacts(p PathFacts, trees []string) {
	for _, list := range [][]string{p.Read, p.Write} {
		for _, name := range list {
			if r.holds(name, strings.ContainsAny(name, "*?[")) {
				r.found(name)
			}
		}
	}
	for _, name := range trees {
		if r.contains(name) {
			r.maybe(name)
		}
	}
	for _, name := range p.Unresolved {
		r.unclear(name)
	}
}

// unclear looks at a name that cannot be resolved.
func (r *reach) unclear(name string) {
	if rest, ok := throughProcess(name); ok && r.holds(path.Clean(rest), false) {
		r.found(name)
		return
	}
	if r.mayMean(name) {
		r.maybe(name)
	}
}

// throughProcess is what a path such as /proc/1/root/etc means outside /proc.
func throughProcess(name string) (string, bool) {
	rest, ok := strings.CutPrefix(path.Clean(name), "/proc/")
	for ok {
		_, rest, ok = strings.Cut(rest, "/")
		if after, root := strings.CutPrefix(rest, "root/"); ok && root {
			after = "/" + after
			if again, nested := strings.CutPrefix(after, "/proc/"); nested {
				rest = again
				continue
			}
			return after, true
		}
	}
	return "", false
}

// command looks at every word of a command, whatever its program does with it.
func (r *reach) command(n *argv.Node) {
	dir := n.Dir
	if n.DirUnknown {
		dir = ""
	}
	if dir != "" && dir != r.dir {
		r.dir, r.inside = dir, ""
		if resolved, ok := r.at.resolve(dir, "."); ok && r.holds(resolved, false) {
			r.inside = resolved
		}
	}
	if dir != "" && r.inside != "" {
		r.found(r.inside)
	}
	// What a listed program reads and writes is among the paths, with its links
	// followed. The words of any other may be anything.
	all := n.Standing != "" || len(n.Problems) > 0 || n.Loose
	words := n.Args
	if n.Name != "" {
		words = append([]string{n.Name}, words...)
	}
	r.folders = r.folders[:0]
	for _, w := range words {
		r.word(dir, w, all || strings.ContainsAny(w, "~*?[$`{"))
	}
	// A program may be told the folder and the name apart: tar -C, find -name.
	for _, folder := range r.folders {
		for _, w := range words {
			r.word(folder, w, true)
		}
	}
	words = slices.Clip(words)
	for _, a := range n.Assigns {
		r.word(dir, a.Value, true)
		words = append(words, a.Value)
		r.assigned = append(r.assigned, a.Value)
	}
	if len(r.assigned) > 0 && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "$") }) {
		words = append(words, r.assigned...)
	}
	for _, d := range n.Redirects {
		if d.Socket {
			words = append(words, strings.ReplaceAll(d.Target, "/", " "))
		}
	}
	r.addresses(words)
}

// isSeparator is true for what ends a path inside a word: UNIX-CONNECT:path, file:path?mode=ro,
// open('path').
func isSeparator(c rune) bool { return strings.ContainsRune(" \t\r\n\"'=,;:()[]{}<>|&@?#!", c) }

// word looks at a word, and at each part of it that may be a path. Without all,
// only at one that holds a mark.
func (r *reach) word(dir, word string, all bool) {
	if len(r.sealed.paths) == 0 || word == "" || !all && !r.marked(word) {
		return
	}
	// Long words are texts, of which only parts that look the same are worth it.
	all = all && len(word) <= maxWord
	word = r.spelled(word)
	if name := r.quoted(word); name != "" {
		r.found(name)
		return
	}
	r.path(dir, word)
	for part := range strings.FieldsFuncSeq(word, isSeparator) {
		if !all && !r.marked(part) {
			continue
		}
		if part != word {
			r.path(dir, part)
		}
		// An option with its value in one word: -f../runtime.
		if len(part) > 2 && part[0] == '-' {
			r.path(dir, part[2:])
		}
	}
	r.pieces(word)
}

// pieces looks for text that names a sealed file and its folder apart, as in
// join(home, '.regent', 'tokens.json').
func (r *reach) pieces(word string) {
	if !strings.ContainsFunc(word, isSeparator) {
		return
	}
	parts := strings.FieldsFunc(strings.ToLower(word), isSeparator)
	for i, p := range r.parts {
		if n := len(p); n > 1 && slices.Contains(parts, p[n-1]) && slices.Contains(parts, p[n-2]) {
			r.maybe(r.sealed.paths[i])
		}
	}
}

// maxLooked is how many names of one request are looked up in the file system.
const maxLooked = 16384

// maxWord is how long a word may be of which every part is taken for a path.
const maxWord = 1024

// text looks at what a script says outside the words of its commands: in a
// heredoc, which another program reads.
func (r *reach) text(text string) {
	text = r.spelled(text)
	if name := r.quoted(text); name != "" {
		r.facts.Named = append(r.facts.Named, name)
	}
	for i := range r.hosts {
		if e := &r.hosts[i]; strings.Contains(text, e.port) && e.within(text) {
			r.facts.Named = append(r.facts.Named, e.shown)
		}
	}
}

// quoted is the first sealed path that stands in text as it is; empty for none.
func (r *reach) quoted(text string) string {
	lower := strings.ToLower(text)
	for _, p := range r.sealed.paths {
		for rest := lower; ; {
			_, after, ok := strings.Cut(rest, p)
			if !ok {
				break
			}
			if after == "" || !inName(after[0]) {
				return p
			}
			rest = after
		}
	}
	return ""
}

// path looks at a name that may be a path.
func (r *reach) path(dir, name string) {
	if !r.marked(name) && r.nowhere(dir, name) {
		return
	}
	if r.looked++; r.looked > maxLooked {
		if r.looked == maxLooked+1 {
			r.maybe("more names than are looked at")
		}
		return
	}
	if at := strings.IndexAny(name, "$`{"); at >= 0 {
		// Up to here it is known, and below the folder of a sealed file it may be
		// that file.
		folder, ok := r.at.resolve(dir, cmp.Or(name[:strings.LastIndexByte(name[:at], '/')+1], "."))
		switch {
		case ok && r.holds(folder, false):
			r.found(folder)
		case ok && r.encloses(folder):
			r.maybe(name)
		}
	}
	resolved, ok := r.at.resolve(dir, name)
	if !ok || strings.ContainsAny(name, "$`") {
		r.unclear(name)
		return
	}
	if r.holds(resolved, strings.ContainsAny(name, "*?[")) {
		r.found(resolved)
	}
	if r.encloses(resolved) && !slices.Contains(r.folders, resolved) {
		r.folders = append(r.folders, resolved)
	}
}

// nowhere reports whether name, which is no sealed path by its text, is not there
// at all, so that no link can make it one. Most words are like that.
func (r *reach) nowhere(dir, name string) bool {
	if dir == "" || strings.ContainsAny(name, "~$`") || strings.Contains(name, "..") || path.IsAbs(name) {
		return false
	}
	if _, err := r.at.fsys.Readlink(dir); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	for strings.HasPrefix(name, "./") {
		name = strings.TrimLeft(name[1:], "/")
	}
	first, _, _ := strings.Cut(name, "/")
	if first == "" || first == "." || strings.ContainsAny(first, "*?[") {
		return false
	}
	_, err := r.at.fsys.Readlink(dir + "/" + first)
	return errors.Is(err, fs.ErrNotExist)
}

// canonicalHost is a host in the one form that is compared, and whether it is a
// name of this machine's loopback. Addresses are read in every form that
// inet_aton takes.
func canonicalHost(host string) (string, bool) {
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	host = strings.ToLower(strings.Trim(strings.TrimRight(host, "."), "[]"))
	host, _, _ = strings.Cut(host, "%")
	addr, err := netip.ParseAddr(host)
	if err != nil {
		var ok bool
		if addr, ok = looseAddr(host); !ok {
			local := host == "localhost" || strings.HasSuffix(host, ".localhost") ||
				host == "localhost.localdomain" || host == "ip6-localhost" || host == "ip6-loopback"
			return host, local
		}
	}
	addr = addr.Unmap()
	return addr.String(), addr.IsLoopback() || addr.IsUnspecified()
}

// plainPort is a port without the zeros that some clients take before it.
func plainPort(port string) string { return strings.TrimLeft(port, "0") }

// looseAddr reads an IPv4 address of one to four numbers, each decimal, octal or
// hexadecimal, the last of which fills what is left.
func looseAddr(text string) (netip.Addr, bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		if part == "" || part[0] == '+' || part[0] == '-' || strings.Contains(part, "_") {
			return netip.Addr{}, false
		}
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		if last := i == len(parts)-1; last {
			if n >= 1<<(8*(5-len(parts))) {
				return netip.Addr{}, false
			}
			value |= n
		} else if n > 255 {
			return netip.Addr{}, false
		} else {
			value |= n << (8 * (3 - i))
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// leads reports whether host is where e listens.
func (e *endpoint) leads(host string) bool {
	canonical, local := canonicalHost(host)
	return canonical == e.host || e.local && local
}

// addresses looks for a host and a port among words: host:port, an address, or
// both by themselves as nc takes them.
func (r *reach) addresses(words []string) {
	for i := range r.hosts {
		e := &r.hosts[i]
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, e.port) || strings.Contains(w, "://") }) {
			continue
		}
		host, port := false, false
		for _, w := range words {
			if e.within(w) {
				host, port = true, true
				break
			}
			for token := range strings.FieldsFuncSeq(w, func(c rune) bool { return c != '.' && c < 0x80 && !inWord(byte(c)) }) {
				port = port || plainPort(token) == e.port
				host = host || notable(token) && e.leads(token)
			}
			for token := range strings.FieldsFuncSeq(w, func(c rune) bool { return strings.ContainsRune(" \t\n\"'=,/()[]<>", c) }) {
				host = host || strings.Contains(token, "::") && e.leads(token)
			}
		}
		if host && port {
			r.found(e.shown)
		}
	}
}

// notable keeps small numbers, which inet_aton takes for addresses too, from
// being taken for hosts where they stand by themselves.
func notable(token string) bool {
	n, err := strconv.ParseUint(token, 0, 64)
	return err != nil || n >= 1<<24
}

// within reports whether a word is, or has in it, the address of e.
func (e *endpoint) within(word string) bool {
	for part := range strings.FieldsFuncSeq(word, func(c rune) bool { return strings.ContainsRune(" \t\n\"'<>(),", c) }) {
		if at := strings.Index(part, "://"); at >= 0 {
			start := strings.LastIndexFunc(part[:at], func(c rune) bool { return c >= 0x80 || !inWord(byte(c)) }) + 1
			if e.url(part[start:]) {
				return true
			}
			continue
		}
		// curl takes an address without a scheme, and path and all.
		authority, _, _ := strings.Cut(part, "/")
		if host, port, err := net.SplitHostPort(authority[strings.LastIndexByte(authority, '@')+1:]); err == nil && plainPort(port) == e.port && e.leads(host) {
			return true
		}
	}
	return false
}

// url reports whether an address leads to e.
func (e *endpoint) url(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		// Clients decode more than the standard lets them.
		plain, _ := url.PathUnescape(address)
		if u, err = url.Parse(plain); err != nil {
			return false
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[strings.ToLower(u.Scheme)]
	}
	return plainPort(port) == e.port && e.leads(u.Hostname())
}

// host looks at a host that a request names by itself. Port 0 is any port.
func (r *reach) host(host string, port int) {
	for i := range r.hosts {
		e := &r.hosts[i]
		switch {
		case !e.leads(host):
		case port == 0:
			r.maybe(host)
		case strconv.Itoa(port) == e.port:
			r.found(e.shown)
		}
	}
}

// profile looks at requested permissions: an entry for what is sealed is nothing
// that anyone may grant. A wider one loses that part; see GuardFacts.Opens.
func (r *reach) profile(p *permission.Profile) {
	if p == nil {
		return
	}
	profile, _, err := permission.Normalise(*p, permission.SideRequested, r.at.env, r.at.fsys)
	if err != nil {
		return // asked about for that reason
	}
	for _, e := range profile.FileSystem.Entries {
		if e.Access == permission.Deny {
			continue
		}
		name := e.Path.Path
		if e.Path.Type == permission.TypeGlob {
			name = e.Path.Pattern
		}
		if strings.HasPrefix(name, "/") && r.holds(name, e.Path.Type == permission.TypeGlob) {
			r.found(name)
		}
	}
	for _, h := range profile.Network.Hosts {
		r.host(h, 0)
	}
	r.facts.Opens = r.opened(&profile, r.at.fsys)
}

// opened are the sealed paths that a profile, normalised, would give access to by
// an entry that is wider than they are.
func (s *sealed) opened(p *permission.Profile, fsys permission.FS) []string {
	opened := []string{}
	for _, name := range s.named {
		for _, access := range []permission.Access{permission.Read, permission.Write} {
			tree := permission.Profile{FileSystem: p.FileSystem}
			if permission.Decide(tree, access, name, fsys).Outcome == permission.Allowed ||
				slices.ContainsFunc(p.FileSystem.Entries, func(e permission.Entry) bool {
					return e.Path.Type == permission.TypeGlob && e.Access == access
				}) {
				opened = append(opened, name)
				break
			}
		}
	}
	return opened
}

// request looks at the parts of a request besides its commands and paths.
func (r *reach) request(of *approval.Request, call *catalog.Call, table *argv.Table) {
	if of.GrantRoot != "" {
		if root, ok := r.at.resolve(r.at.env.Cwd, of.GrantRoot); ok && r.contains(root) {
			r.found(root)
		}
	}
	if of.Network != nil && of.Kind == approval.KindNetwork {
		r.host(of.Network.Host, of.Network.Port)
	}
	r.addresses(call.URLs)
	r.profile(of.Permissions)
	if of.Tool != nil && (call.MCP || !call.Listed || len(call.Problems) > 0) {
		r.arguments(of.Tool.Arguments, table)
	}
}

// arguments looks at the arguments of a tool whose meaning the tables do not tell.
func (r *reach) arguments(raw json.RawMessage, table *argv.Table) {
	values := scalars(raw)
	for _, v := range values {
		r.word(r.at.env.Cwd, v, true)
	}
	r.addresses(values)
	scripts := 0
	for _, v := range values {
		if !namesProgram(v) {
			continue
		}
		if scripts++; scripts > maxScripts {
			r.facts.MayDecide = append(r.facts.MayDecide, "more commands than are looked at")
			break
		}
		parsed := shell.Parse(shell.Bash, v)
		nodes := table.ReadAll(&parsed)
		for i := range parsed.Commands {
			// Text for people has commands in backquotes.
			if !slices.Contains(nodes[i].Via, "substitution") && !slices.Contains(nodes[i].Via, "unparsed") {
				r.facts.decision(&parsed.Commands[i], &nodes[i], r.at)
			}
		}
	}
	if command := spoken(strings.Join(values, " ")); command != "" {
		r.facts.Named = append(r.facts.Named, program+" "+command)
	}
}

// maxScripts is how many texts in the arguments of one call are read as shell.
const maxScripts = 100

// scalars are all texts and numbers in a JSON value, in order, without the names
// of members. What is no JSON is one text.
func scalars(raw json.RawMessage) []string {
	var found []string
	for d := jsontext.NewDecoder(bytes.NewReader(raw)); ; {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return found
		case err != nil:
			return append(found, string(raw))
		}
		in, count := d.StackIndex(d.StackDepth())
		if name := in == '{' && count%2 == 1; !name && (token.Kind() == '"' || token.Kind() == '0') {
			found = append(found, token.String())
		}
	}
}
