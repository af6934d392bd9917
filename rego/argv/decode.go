package argv

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"gopkg.in/yaml.v3"
)

// Load reads every *.yaml file at the top of fsys as one catalogue. Anything that
// is not understood is an error naming file and line; all errors are reported
// together.
//
// A file has up to four keys. shared is a place for lists of options with YAML
// anchors, which entries refer to. commands maps program names (several, separated by
// commas, share an entry) to:
//
//	names       program names in place of the key
//	effects     what a call does at least: words out of read, write, process,
//	            network and unknown
//	style       gnu (the default), posix, exact, go, words, bundle, keys
//	options     from effects, or inert, files, reads, opens, to options: -x, --long, a value as
//	            -x=KIND, a glued optional value as --long[=KIND], spellings that
//	            mean the same joined by a slash: -n/--lines=num; two values that
//	            are words of their own as -x=KIND,KIND. Files that a value names
//	            count by themselves as read or written, for which files is there;
//	            options under reads make a call read whatever the program does else
//	operands    KIND with ?, * or + in order, with effects as KIND=write;
//	            none for no operands. Default: text*, and none where effects are
//	            read alone
//	opened      operands where an option opened a command or made the call read
//	supplants   options that bring what would be the first operand
//	recursive   options that make paths mean all below them
//	rewrites    options that make the program write what it else reads
//	closes      options that make operands of opens plain text
//	lists       options with which operands have no effects of their own
//	feeds       options that make the program print names of files below its
//	            operands, or true
//	unfeeds     options that make it print something else than names or whole lines
//	here        always or recursive: when the current folder is read for want of a
//	            path
//	numeric     -5 is an inert option
//	harmless    no option at all does more than read
//	loose       options that are not listed add nothing to the effects
//	responses   an operand @FILE holds more arguments
//	opens       the operands are a command listed by itself
//	interprets  the program runs code that its words are or name
//	gate        git: repository configuration may start programs
//	reaches     effects where a host or a URL is named
//	probes      whole argument lists that only tell about the program
//	script      from effects to what the reader of the operand may find
//	open_script words that are data of the shell may stand in place of the script
//	inherit     sub-commands take the options of this entry too
//	commands    sub-commands, in the same form; with operands written out beside
//	            them, another word is an operand
//	simple      sub-commands by effects alone, as below
//
// simple maps effects to names of programs that have them whatever they are given.
// probes maps whole argument lists to programs that only tell about themselves when
// given just these; programs not listed elsewhere are taken to start others.
//
// KIND is one of text, num, in, tree, out, out-, outtree, dir, prog, host, url,
// remote, remoteout, repo, archive, cmd, script, assign, or the name of a reader: sed, awk, jq, date, ...
func Load(fsys fs.FS) (*Table, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list command tables: %w", err)
	}
	if len(names) == 0 {
		return nil, errors.New("no command tables found")
	}
	d := decoder{table: &Table{programs: map[string]*spec{}, data: map[string]any{}}, seen: map[string]place{}, parsed: map[string]*parsedOption{}}
	d.key(&yaml.Node{}, probeUse, Read)
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read command table: %w", err)
		}
		d.file = path.Base(name)
		d.decodeFile(text)
	}
	for _, p := range d.shared {
		d.file = p.file
		d.sharedProbes(p.node)
	}
	if err := errors.Join(d.errs...); err != nil {
		return nil, err
	}
	return d.table, nil
}

type decoder struct {
	table *Table
	file  string
	errs  []error
	// seen tells where a key of the data was first made.
	seen map[string]place
	// parsed are options by the word that lists them.
	parsed map[string]*parsedOption
	// shared are probes of many programs, which are read when all are known.
	shared []sharedProbes
}

type sharedProbes struct {
	file string
	node *yaml.Node
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("%s:%d: %s", d.file, n.Line, fmt.Sprintf(format, args...)))
}

func (d *decoder) decodeFile(text []byte) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		d.errs = append(d.errs, fmt.Errorf("%s: %w", d.file, err))
		return
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		d.errs = append(d.errs, fmt.Errorf("%s: empty", d.file))
		return
	}
	d.mapping(doc.Content[0], func(key, value *yaml.Node) {
		switch key.Value {
		case "shared":
			// Only a place for anchors.
			d.mapping(value, func(_, value *yaml.Node) { d.words(value) })
		case "commands":
			d.commands(value, nil, d.table.programs)
		case "simple":
			d.simple(value, nil, d.table.programs)
		case "probes":
			d.shared = append(d.shared, sharedProbes{d.file, value})
		default:
			d.fail(key, "unknown key %q", key.Value)
		}
	})
}

// mapping calls f for each pair of n, refusing duplicate keys.
func (d *decoder) mapping(n *yaml.Node, f func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "want a mapping")
		return
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			d.fail(key, "duplicate key %q", key.Value)
			continue
		}
		seen[key.Value] = true
		f(key, value)
	}
}

// words splits the text of a scalar at white space, or of each scalar in a list.
// Anchors and aliases let entries share words.
func (d *decoder) words(n *yaml.Node) []string {
	switch n.Kind {
	case yaml.ScalarNode:
		return strings.Fields(n.Value)
	case yaml.AliasNode:
		return d.words(n.Alias)
	case yaml.SequenceNode:
		var words []string
		for _, item := range n.Content {
			words = append(words, d.words(item)...)
		}
		return words
	default:
		d.fail(n, "want words separated by spaces")
		return nil
	}
}

func (d *decoder) bool(n *yaml.Node) bool {
	var b bool
	if err := n.Decode(&b); err != nil {
		d.fail(n, "want true or false")
	}
	return b
}

func (d *decoder) effects(n *yaml.Node, text string) Effects {
	set, err := parseEffects(text)
	if err != nil {
		d.fail(n, "%v", err)
	}
	return set
}

// place is where a key was first listed.
type place struct {
	file string
	line int
}

// entries are the values of the data by effects; keys with the same effects share
// them.
var entries = func() (values [Read | Write | Process | Network | Unknown + 1]map[string]any) {
	for set := range values {
		names := Effects(set).Names()
		list := make([]any, len(names))
		for i, n := range names {
			list[i] = n
		}
		values[set] = map[string]any{"effects": list}
	}
	return values
}()

// key adds an entry to the data. The same key twice is an error.
func (d *decoder) key(n *yaml.Node, name string, effects Effects) string {
	if at, ok := d.seen[name]; ok {
		d.fail(n, "%q is listed already at %s:%d", name, at.file, at.line)
		return name
	}
	d.seen[name] = place{d.file, n.Line}
	d.table.data[name] = entries[effects]
	return name
}

func (d *decoder) add(n *yaml.Node, name string, s *spec, into map[string]*spec) {
	if into[name] != nil {
		d.fail(n, "%q is listed already", name)
		return
	}
	into[name] = s
}

func (d *decoder) commands(n *yaml.Node, parent *spec, into map[string]*spec) {
	d.mapping(n, func(key, value *yaml.Node) {
		names := splitNames(key.Value)
		if list := child(value, "names"); list != nil {
			// Keys have to be short in YAML; then the key is just a heading.
			names = splitNames(list.Value)
		}
		if len(names) == 0 {
			d.fail(key, "no name")
			return
		}
		s := &spec{name: fullName(parent, names[0]), parent: parent}
		d.spec(key, value, s)
		d.add(key, names[0], s, into)
		for _, name := range names[1:] {
			alias := *s
			alias.name = d.key(key, fullName(parent, name), s.effects)
			d.add(key, name, &alias, into)
		}
	})
}

func splitNames(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// child returns the value of a key of n, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func fullName(parent *spec, name string) string {
	if parent == nil {
		return name
	}
	return parent.name + " " + name
}

func (d *decoder) simple(n *yaml.Node, parent *spec, into map[string]*spec) {
	d.mapping(n, func(key, value *yaml.Node) {
		effects := d.effects(key, key.Value)
		if effects == 0 {
			d.fail(key, "a program cannot be inert")
		}
		for _, name := range d.words(value) {
			s := &spec{
				name: fullName(parent, name), parent: parent, effects: effects, loose: true,
				operands: []operand{{count: any0}},
			}
			d.key(value, s.name, effects)
			d.add(value, name, s, into)
		}
	})
}

func (d *decoder) spec(at, n *yaml.Node, s *spec) {
	var options, operands, opened, probes, reaches, script, commands, simple, effects *yaml.Node
	var inherit bool
	var marked []markedOptions
	d.mapping(n, func(key, value *yaml.Node) {
		switch key.Value {
		case "names":
		case "effects":
			effects = value
		case "style":
			st, ok := styles[value.Value]
			if !ok {
				d.fail(value, "unknown style %q", value.Value)
			}
			s.style = st
		case "options":
			options = value
		case "operands":
			operands = value
		case "opened":
			opened = value
		case "supplants", "recursive", "rewrites", "closes", "feeds", "unfeeds", "lists":
			marked = append(marked, markedOptions{markNames[key.Value], value})
		case "here":
			switch value.Value {
			case "always":
				s.here = hereAlways
			case "recursive":
				s.here = hereRecursive
			default:
				d.fail(value, "here is always or recursive")
			}
		case "open_script":
			s.openScript = d.bool(value)
		case "numeric":
			s.numeric = d.bool(value)
		case "harmless":
			s.harmless = d.bool(value)
		case "loose":
			s.loose = d.bool(value)
		case "responses":
			s.responses = d.bool(value)
		case "opens":
			s.opens = d.bool(value)
		case "interprets":
			s.interprets = d.bool(value)
		case "gate":
			s.gate = value.Value
			if s.gate != "git" {
				d.fail(value, "unknown gate %q", s.gate)
			}
		case "probes":
			probes = value
		case "script":
			script = value
		case "reaches":
			reaches = value
		case "inherit":
			inherit = d.bool(value)
		case "commands":
			commands = value
		case "simple":
			simple = value
		default:
			d.fail(key, "unknown key %q", key.Value)
		}
	})
	switch {
	case effects != nil:
		s.effects = d.effects(effects, effects.Value)
	case s.parent != nil:
		s.effects = s.parent.effects
	}
	if s.effects == 0 {
		d.fail(at, "%s: no effects", s.name)
	}
	d.key(at, s.name, s.effects)
	if options != nil {
		d.options(options, s)
	}
	if s.parent != nil && s.parent.options != nil && s.parent.inherit {
		for name, o := range s.parent.options {
			if s.options[name] == nil {
				if s.options == nil {
					s.options = make(map[string]*option, len(s.parent.options))
				}
				s.options[name] = o
			}
		}
	}
	if inherit {
		s.inherit = true
	}
	s.operands = d.operands(operands, s)
	if opened != nil {
		s.opened = d.operands(opened, s)
	}
	for _, m := range marked {
		d.mark(m.list, s, m.mark)
	}
	if probes != nil {
		d.probes(probes, s)
	}
	if reaches != nil {
		s.reachUse = d.key(reaches, s.name+" REACHES", d.effects(reaches, reaches.Value))
	}
	if script != nil {
		d.script(script, s)
	}
	if s.harmless {
		s.pathless = true
		for _, o := range s.options {
			if o.effects&^Read != 0 || o.marks&(rewrites|opens) != 0 {
				d.fail(at, "%s is called harmless but %s is %s", s.name, o.name, o.effects)
			}
			for _, v := range o.values {
				if v.kind.isPath() {
					s.pathless = false
				}
				if v.kind.writes() || v.kind == kindProgram {
					d.fail(at, "%s is called harmless but %s is not", s.name, o.name)
				}
			}
		}
		if s.loose {
			d.fail(at, "%s: harmless and loose exclude each other", s.name)
		}
	}
	if s.loose && s.effects == Read {
		d.fail(at, "%s: loose is for programs that do more than read", s.name)
	}
	if commands != nil || simple != nil {
		s.subs = map[string]*spec{}
		s.mixed = operands != nil
	}
	if commands != nil {
		d.commands(commands, s, s.subs)
	}
	if simple != nil {
		d.simple(simple, s, s.subs)
	}
}

// markedOptions are the options that get a mark.
type markedOptions struct {
	mark marks
	list *yaml.Node
}

var markNames = map[string]marks{
	"supplants": supplants, "recursive": recursive, "rewrites": rewrites, "closes": closes, "feeds": feeds,
	"unfeeds": unfeeds,
	"lists":   lists,
}

func (d *decoder) options(n *yaml.Node, s *spec) {
	d.mapping(n, func(key, value *yaml.Node) {
		var set Effects
		var mode marks
		switch key.Value {
		case "opens":
			mode = opens
		case "reads":
			mode = reads
		case "files":
		default:
			set = d.effects(key, key.Value)
		}
		words := d.words(value)
		// Most entries have one list that is longer than all others.
		if len(s.options) == 0 {
			s.options = make(map[string]*option, len(words)*5/4)
		}
		made := make([]option, 0, len(words)*5/4)
		for _, word := range words {
			p := d.parsed[word]
			if p == nil {
				var err error
				if p, err = parseOption(word); err != nil {
					d.fail(value, "%s: %v", s.name, err)
					continue
				}
				d.parsed[word] = p
			}
			for _, name := range p.names {
				if s.options[name] != nil {
					d.fail(value, "%s: option %s is listed twice", s.name, name)
					continue
				}
				made = append(made, option{name: name, effects: set, value: p.takes, values: p.values, marks: mode})
				o := &made[len(made)-1]
				if set != 0 {
					o.use = d.key(value, s.name+" "+name, set)
				}
				if mode != 0 && s.openedUse == "" {
					s.openedUse = d.key(value, s.name+" opened", Read)
				}
				s.options[name] = o
			}
		}
	})
}

// parsedOption is what a word of a list of options says.
type parsedOption struct {
	names  []string
	takes  valueMode
	values []param
}

// parseOption reads -x, --long, -n/--lines=num, --color[=text], --arg=text,text.
func parseOption(word string) (*parsedOption, error) {
	var p parsedOption
	spelling, kindNames := word, ""
	if head, rest, ok := strings.Cut(word, "[="); ok && strings.HasSuffix(rest, "]") {
		spelling, kindNames, p.takes = head, strings.TrimSuffix(rest, "]"), valueOptional
	} else if head, rest, ok := strings.Cut(word, "="); ok && head != "" {
		spelling, kindNames, p.takes = head, rest, valueRequired
	}
	if p.takes != valueNone {
		for _, name := range strings.Split(kindNames, ",") {
			v, err := parseKind(name)
			if err != nil {
				return nil, fmt.Errorf("option %s: %w", word, err)
			}
			p.values = append(p.values, v)
		}
	}
	p.names = strings.Split(spelling, "/")
	for _, name := range p.names {
		if name == "" || name == "-" || name == "--" {
			return nil, fmt.Errorf("option %s: no name", word)
		}
	}
	return &p, nil
}

func parseKind(name string) (param, error) {
	if k, ok := kinds[name]; ok {
		return param{kind: k}, nil
	}
	if r, ok := readers[name]; ok {
		return param{kind: kindReader, reader: r}, nil
	}
	return param{}, fmt.Errorf("unknown kind %q", name)
}

func (d *decoder) operands(n *yaml.Node, s *spec) []operand {
	if n == nil {
		if s.effects == Read {
			return nil
		}
		return []operand{{count: any0}}
	}
	words := d.words(n)
	if len(words) == 1 && words[0] == "none" {
		return nil
	}
	var list []operand
	many := false
	for _, word := range words {
		name, effects, hasEffects := strings.Cut(word, "=")
		var o operand
		switch last := name[len(name)-1]; last {
		case '?':
			o.count = oneOrNone
		case '*':
			o.count = any0
		case '+':
			o.count = any1
		}
		if o.count != exactlyOne {
			name = name[:len(name)-1]
		}
		if o.count == any0 || o.count == any1 {
			if many {
				d.fail(n, "%s: only one operand may repeat", s.name)
			}
			many = true
		}
		var err error
		if o.param, err = parseKind(name); err != nil {
			d.fail(n, "%s: operand %s: %v", s.name, word, err)
			continue
		}
		if hasEffects {
			o.effects = d.effects(n, effects)
			o.use = d.key(n, fmt.Sprintf("%s OPERAND %d", s.name, len(list)+1), o.effects)
		}
		list = append(list, o)
	}
	return list
}

// mark sets m on the options that n lists, or on the program itself for "true".
func (d *decoder) mark(n *yaml.Node, s *spec, m marks) {
	if n.Value == "true" && m == feeds {
		s.marks |= m
		return
	}
	for _, name := range d.words(n) {
		o := s.options[name]
		if o == nil {
			d.fail(n, "%s: option %s is not listed", s.name, name)
			continue
		}
		o.marks |= m
	}
}

func (d *decoder) probes(n *yaml.Node, s *spec) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "want a list of argument lists")
		return
	}
	s.probes = make(map[string]bool, len(n.Content))
	for _, item := range n.Content {
		args := strings.Join(strings.Fields(item.Value), probeSep)
		if s.probes[args] {
			d.fail(item, "%s: probe %q is listed twice", s.name, args)
		}
		s.probes[args] = true
	}
}

// sharedProbes reads argument lists by the programs they are for.
func (d *decoder) sharedProbes(n *yaml.Node) {
	d.mapping(n, func(key, value *yaml.Node) {
		args := strings.Join(strings.Fields(key.Value), probeSep)
		for _, name := range d.words(value) {
			s := d.table.programs[name]
			if s == nil {
				s = &spec{name: name, effects: Process, loose: true, operands: []operand{{count: any0}}}
				d.key(value, name, Process)
				d.table.programs[name] = s
			}
			if s.probes[args] {
				d.fail(value, "%s: probe %q is listed twice", name, args)
			}
			// Names of one entry share what it lists, but not this.
			probes := maps.Clone(s.probes)
			if probes == nil {
				probes = map[string]bool{}
			}
			probes[args] = true
			s.probes = probes
		}
	})
}

func (d *decoder) script(n *yaml.Node, s *spec) {
	s.script = map[string]string{}
	d.mapping(n, func(key, value *yaml.Node) {
		set := d.effects(key, key.Value)
		for _, word := range d.words(value) {
			if _, ok := s.script[word]; ok {
				d.fail(value, "%s: script word %s is listed twice", s.name, word)
				continue
			}
			use := ""
			if set != 0 {
				use = d.key(value, s.name+" using "+word, set)
			}
			s.script[word] = use
		}
	})
}
