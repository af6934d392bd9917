package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// maxText is the longest text, in bytes, that one value or key may hold.
const maxText = 4096

// MaxGuidance is the longest guidance that a reviewer may have, in bytes.
const MaxGuidance = 16 << 10

// enum is a closed set of words.
type enum interface{ values() []string }

// decoder copies a YAML tree into a Config field by field. The keys are the
// json tags of the fields, so that the file, its JSON form and the reference
// cannot differ.
type decoder struct {
	file string
	keys map[string]KeyPos
}

// at returns an error at pos.
func (d *decoder) at(pos KeyPos, message, hint string) *Error {
	return &Error{File: d.file, Line: pos.Line, Column: pos.Column, Path: pos.Path, Message: message, Hint: hint}
}

// value decodes n, which belongs at pos, into v. The tag is that of the field
// v is, or is an item of.
func (d *decoder) value(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	if err := d.written(pos, n); err != nil {
		return err
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return d.at(pos, "has no value", "give it one or remove the key")
	}
	d.keys[pos.Path] = pos
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(pos, n, v.Elem(), tag)
	case reflect.Struct:
		if word, ok := textForm(v); ok {
			if n.Kind == yaml.ScalarNode {
				return d.text(pos, n, word, tag)
			}
			word.SetZero() // the mapping takes the place of the default
		}
		return d.object(pos, n, v)
	case reflect.Map:
		return d.entries(pos, n, v, tag)
	case reflect.Slice:
		return d.items(pos, n, v, tag)
	case reflect.String:
		return d.text(pos, n, v, tag)
	case reflect.Int:
		return d.number(pos, n, v, tag)
	case reflect.Float64:
		return d.decimal(pos, n, v, tag)
	case reflect.Bool:
		return d.truth(pos, n, v, tag)
	default:
		panic("config: no way to decode " + v.Type().String())
	}
}

// textForm returns the field of v that stands for the whole of it when a word
// is written in place of a mapping.
func textForm(v reflect.Value) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("text") == "true" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// written refuses the parts of YAML that make a file say something other than
// what its reader sees.
func (d *decoder) written(pos KeyPos, n *yaml.Node) *Error {
	switch {
	case n.Kind == yaml.AliasNode:
		return d.at(pos, "aliases are not allowed", "write out what *"+readable(n.Value)+" stands for")
	case n.Tag == "!!merge":
		return d.at(pos, "merge keys (<<) are not allowed", "write the keys out")
	case n.Anchor != "":
		return d.at(pos, "anchors are not allowed", "remove &"+readable(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0:
		return d.at(pos, "tags such as "+readable(n.Tag)+" are not allowed", "write the value alone, in quotes where it is text")
	}
	return nil
}

// pairs calls each for the keys of a mapping in the order of the file.
func (d *decoder) pairs(pos KeyPos, n *yaml.Node, each func(key string, pos KeyPos, value *yaml.Node) *Error) *Error {
	if n.Kind != yaml.MappingNode {
		return d.at(pos, "wants a mapping of keys to values, not "+describe(n), "")
	}
	first := make(map[string]KeyPos, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := KeyPos{Path: join(pos.Path, readable(key.Value)), Line: key.Line, Column: key.Column}
		if key.Kind != yaml.ScalarNode && key.Kind != yaml.AliasNode {
			at.Path = pos.Path
			return d.at(at, "a key has to be text, not "+describe(key), "")
		}
		if err := d.written(at, key); err != nil {
			return err
		}
		if key.Tag != "!!str" {
			return d.at(at, "a key has to be text, not "+describe(key), "put it in quotes")
		}
		if before, ok := first[key.Value]; ok {
			return d.at(at, "is written twice", fmt.Sprintf("the first is at line %d", before.Line))
		}
		first[key.Value] = at
		if err := each(key.Value, at, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func join(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

func (d *decoder) object(pos KeyPos, n *yaml.Node, v reflect.Value) *Error {
	fields := make(map[string]int, v.NumField())
	var names []string
	for i := range v.NumField() {
		if name, ok := keyOf(v.Type().Field(i)); ok {
			fields[name] = i
			names = append(names, name)
		}
	}
	err := d.pairs(pos, n, func(key string, at KeyPos, value *yaml.Node) *Error {
		i, ok := fields[key]
		if !ok {
			return d.at(at, "unknown key", d.otherKey(key, pos.Path, names))
		}
		return d.value(at, value, v.Field(i), v.Type().Field(i).Tag)
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		path := join(pos.Path, name)
		if _, ok := d.keys[path]; !ok && v.Type().Field(fields[name]).Tag.Get("required") == "true" {
			return d.at(KeyPos{Path: path, Line: pos.Line, Column: pos.Column}, "is missing", "every "+bearer(pos.Path)+" needs it")
		}
	}
	if v.Type() == reflect.TypeFor[Granular]() && len(n.Content) == 0 {
		return d.at(pos, "is empty", "write at least one of "+list(names)+", or never in its place")
	}
	return nil
}

// bearer names what stands at path, as in "every reviewer needs it".
func bearer(path string) string {
	switch {
	case path == "":
		return FileName
	case strings.HasPrefix(path, "reviewers.") && strings.HasSuffix(path, ".price"):
		return "price"
	case strings.HasPrefix(path, "reviewers."):
		return "reviewer"
	case strings.HasPrefix(path, "plugins."):
		return "plugin"
	case strings.HasPrefix(path, "notifiers."):
		return "notifier"
	default:
		return path
	}
}

// keyOf returns the key that a field is decoded from, and false for a field
// that no key fills.
func keyOf(f reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, f.IsExported() && name != "-" && name != ""
}

// otherKey says what to write in place of a key that is not known.
func (d *decoder) otherKey(key, parent string, siblings []string) string {
	switch reduce(key) {
	case "apikey", "token", "secret", "password":
		if strings.HasPrefix(parent, "notifiers.") {
			return "no secret stands in this file: use secret_env or secret_file"
		}
		return "no secret stands in this file: use api_key_env or api_key_file"
	}
	if meant, ok := nearest(key, siblings); ok {
		return "did you mean " + meant + "?"
	}
	for _, k := range Keys() {
		above, last := "", k.Path
		if i := strings.LastIndexByte(k.Path, '.'); i >= 0 {
			above, last = k.Path[:i], k.Path[i+1:]
		}
		if last == key && above != parent && !strings.ContainsAny(above, "<[") {
			if above == "" {
				return key + " belongs at the top of the file"
			}
			return key + " belongs below " + above
		}
	}
	return "the keys here are " + list(siblings)
}

func (d *decoder) entries(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	v.Set(reflect.MakeMap(v.Type()))
	return d.pairs(pos, n, func(key string, at KeyPos, value *yaml.Node) *Error {
		if why := nameFault(tag.Get("name"), key); why != "" {
			return d.at(at, "is no name to use here", why)
		}
		entry := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(at, value, entry, tag); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), entry)
		return nil
	})
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	spaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9_-]*$`)
)

// nameFault says what a name of the given form has to look like when key does
// not, and is empty when it does.
func nameFault(form, key string) string {
	if len(key) > 128 {
		return "use at most 128 characters"
	}
	switch form {
	case "name":
		if !plainName.MatchString(key) {
			return "use letters, digits, hyphens and underscores"
		}
	case "namespace/name":
		if !spaceName.MatchString(key) {
			return "use two parts of letters, digits, hyphens and underscores, as in acme/risk"
		}
	case "principal":
		return principalFault(key)
	default:
		panic("config: no such form of name: " + form)
	}
	return ""
}

// principalFault says what is wrong with the name of a principal, and is empty
// when nothing is.
func principalFault(name string) string {
	for _, r := range name {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return "a principal's name holds no spaces, as in user:sam"
		}
		if r == '*' {
			return "name each principal in full"
		}
	}
	if name == "" {
		return "a principal's name is not empty"
	}
	return ""
}

func (d *decoder) items(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	if n.Kind != yaml.SequenceNode && v.Type().Elem().Kind() == reflect.Struct {
		hint := "start each mapping with a hyphen"
		if n.Kind != yaml.MappingNode {
			hint += ", as in - {key: value}"
		}
		return d.at(pos, "wants a list of mappings, not "+d.describe(n, tag), hint)
	}
	if n.Kind != yaml.SequenceNode {
		hint := "write a list, as in [first, second]"
		if n.Kind == yaml.ScalarNode && tag.Get("secret") == "" && plainName.MatchString(n.Value) {
			hint = "write [" + n.Value + "]"
		}
		return d.at(pos, "wants a list of text, not "+d.describe(n, tag), hint)
	}
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	first := make(map[string]int, len(n.Content))
	for i, item := range n.Content {
		at := KeyPos{Path: fmt.Sprintf("%s[%d]", pos.Path, i), Line: item.Line, Column: item.Column}
		if err := d.value(at, item, items.Index(i), tag); err != nil {
			return err
		}
		if tag.Get("unique") != "true" {
			continue
		}
		text := items.Index(i).String()
		if before, ok := first[text]; ok {
			return d.at(at, quoted(text)+" is listed twice", fmt.Sprintf("the first is at line %d", n.Content[before].Line))
		}
		first[text] = i
	}
	v.Set(items)
	return nil
}

func (d *decoder) text(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	if closed, ok := v.Interface().(enum); ok {
		return d.word(pos, n, v, closed.values())
	}
	if n.Kind != yaml.ScalarNode {
		return d.at(pos, "wants text, not "+d.describe(n, tag), "")
	}
	if n.Tag != "!!str" {
		return d.at(pos, "wants text, not "+d.describe(n, tag), "put it in quotes")
	}
	if strings.TrimSpace(n.Value) == "" {
		return d.at(pos, "is empty", "give it a value or remove it")
	}
	limit, lines := maxText, tag.Get("lines") == "true"
	if lines {
		limit = MaxGuidance
	}
	if len(n.Value) > limit {
		return d.at(pos, fmt.Sprintf("is longer than %d bytes", limit), "")
	}
	for _, r := range n.Value {
		if lines && (r == '\n' || r == '\t') {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError {
			return d.at(pos, fmt.Sprintf("holds the character %U", r), "leave out what cannot be seen")
		}
	}
	v.SetString(n.Value)
	return nil
}

func (d *decoder) word(pos KeyPos, n *yaml.Node, v reflect.Value, words []string) *Error {
	hint := "use " + list(words)
	if len(words) > 1 {
		hint = "use one of " + list(words)
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return d.at(pos, "wants a word, not "+describe(n), hint)
	}
	if !slices.Contains(words, n.Value) {
		if _, ok := oldTruth[strings.ToLower(n.Value)]; ok {
			hint += " (this is not a switch)"
		} else if n.Value == "granular" && v.Type() == reflect.TypeFor[ApprovalName]() {
			hint = "write it as a mapping: {granular: {request_permissions: true}}"
		} else if meant, ok := nearest(n.Value, words); ok {
			hint += " (did you mean " + meant + "?)"
		}
		return d.at(pos, "unknown value "+quoted(n.Value), hint)
	}
	v.SetString(n.Value)
	return nil
}

// plainNumber is how whole numbers are written here. YAML has more: 010 is
// eight to it, and 1_000 and 0x10 are numbers too.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

var unitNumber = regexp.MustCompile(`^([0-9]+)\s*(ms|s|sec|seconds|m|min|h)$`)

func (d *decoder) number(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	low, high := bounds(tag)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		hint := fmt.Sprintf("write a number from %d to %d", low, high)
		if low == high {
			hint = fmt.Sprintf("write %d", low)
		}
		if n.Kind == yaml.ScalarNode {
			if plainNumber.MatchString(n.Value) && n.Tag == "!!str" {
				hint = "remove the quotes"
			} else if unitNumber.MatchString(n.Value) {
				hint = "write the number alone: the key names the unit"
			}
		}
		return d.at(pos, "wants a whole number, not "+d.describe(n, tag), hint)
	}
	if !plainNumber.MatchString(n.Value) {
		return d.at(pos, quoted(n.Value)+" is not written as a plain decimal number", "use the digits 0 to 9 alone, without leading zeros")
	}
	number, err := strconv.Atoi(n.Value)
	if err != nil || number < low || number > high {
		if pos.Path == "version" {
			return d.at(pos, "version "+quoted(n.Value)+" is not known", "this program reads version 1")
		}
		return d.at(pos, readable(n.Value)+" is out of range", fmt.Sprintf("use %d to %d", low, high))
	}
	v.SetInt(int64(number))
	return nil
}

// plainDecimal is how amounts are written here.
var plainDecimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

func (d *decoder) decimal(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	low, high := bounds(tag)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" {
		hint := fmt.Sprintf("write a number from %d to %d", low, high)
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && plainDecimal.MatchString(n.Value) {
			hint = "remove the quotes"
		}
		return d.at(pos, "wants a number, not "+d.describe(n, tag), hint)
	}
	if !plainDecimal.MatchString(n.Value) {
		return d.at(pos, quoted(n.Value)+" is not written as a plain decimal number", "use digits and at most one point, as in 0.25")
	}
	number, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || number < float64(low) || number > float64(high) {
		return d.at(pos, readable(n.Value)+" is out of range", fmt.Sprintf("use %d to %d", low, high))
	}
	v.SetFloat(number)
	return nil
}

// bounds returns the smallest and largest number that a field takes.
func bounds(tag reflect.StructTag) (low, high int) {
	from, to, _ := strings.Cut(tag.Get("range"), "..")
	low, lowErr := strconv.Atoi(from)
	high, highErr := strconv.Atoi(to)
	if lowErr != nil || highErr != nil {
		panic("config: a number without a range")
	}
	return low, high
}

// oldTruth is what YAML 1.1 read as true and false.
var oldTruth = map[string]string{
	"y": "true", "yes": "true", "on": "true",
	"n": "false", "no": "false", "off": "false",
}

func (d *decoder) truth(pos KeyPos, n *yaml.Node, v reflect.Value, tag reflect.StructTag) *Error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			word := strings.ToLower(n.Value)
			if meant, ok := oldTruth[word]; ok {
				hint = "write " + meant
			} else if word == "true" || word == "false" {
				hint = "remove the quotes"
			}
		}
		return d.at(pos, "wants true or false, not "+d.describe(n, tag), hint)
	}
	v.SetBool(strings.EqualFold(n.Value, "true"))
	return nil
}

// describe says what n is, without its value where that could be a secret.
func (d *decoder) describe(n *yaml.Node, tag reflect.StructTag) string {
	if tag.Get("secret") == "true" && n.Kind == yaml.ScalarNode {
		return "a value of another type"
	}
	return describe(n)
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "the truth value " + readable(n.Value)
	case "!!int", "!!float":
		return "the number " + readable(n.Value)
	case "!!timestamp":
		return "the date " + readable(n.Value)
	default:
		return "the text " + quoted(n.Value)
	}
}
