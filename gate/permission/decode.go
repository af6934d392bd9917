package permission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// UnmarshalJSON reads a profile strictly: an unknown field, a field given
// twice, a wrong type, a wrong value or a pattern that allows is a [DecodeError]
// that says where. A null counts as absent.
//
// Beside the canonical spelling it takes what other programs write: fileSystem
// and globScanMaxDepth; the lists "read", "write", "deny" and "deny_glob", which
// are added to the entries; a bare string as the path of an entry; and
// {"glob": PATTERN, "access": "deny"}.
//
// On error p is unchanged.
func (p *Profile) UnmarshalJSON(data []byte) error {
	var out Profile
	if err := decode(data, out.decode); err != nil {
		return err
	}
	if n := len(out.FileSystem.Entries); n > MaxEntries {
		return &DecodeError{"file_system", fmt.Errorf("%d entries are more than %d", n, MaxEntries)}
	}
	if n := len(out.Network.Hosts); n > MaxEntries {
		return &DecodeError{"network.hosts", fmt.Errorf("%d hosts are more than %d", n, MaxEntries)}
	}
	// An entry may be there in its older form, too, as this package writes it.
	var once []Entry
	for _, e := range out.FileSystem.Entries {
		if !slices.Contains(once, e) {
			once = append(once, e)
		}
	}
	out.FileSystem.Entries = once
	*p = out
	return nil
}

// UnmarshalJSON reads what [Profile.UnmarshalJSON] takes as its "network".
func (n *Network) UnmarshalJSON(data []byte) error {
	var out Network
	if err := decode(data, out.decode); err != nil {
		return err
	}
	*n = out
	return nil
}

// UnmarshalJSON reads what [Profile.UnmarshalJSON] takes as its "file_system".
func (f *FileSystem) UnmarshalJSON(data []byte) error {
	var out FileSystem
	if err := decode(data, out.decode); err != nil {
		return err
	}
	*f = out
	return nil
}

// UnmarshalJSON reads what [Profile.UnmarshalJSON] takes as one of its entries.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var out Entry
	if err := decode(data, out.decode); err != nil {
		return err
	}
	*e = out
	return nil
}

func (p *Profile) decode(d *decoder, at string) error {
	return d.object(at, func(name, at string) error {
		switch name {
		case "network":
			return p.Network.decode(d, at)
		case "file_system":
			return p.FileSystem.decode(d, at)
		default:
			return unknownField(at)
		}
	})
}

func (n *Network) decode(d *decoder, at string) error {
	var (
		enabled *bool
		hosts   []string
		limited bool
	)
	err := d.object(at, func(name, at string) (err error) {
		switch name {
		case "enabled":
			enabled, err = d.flag(at)
			return err
		case "hosts":
			hosts, limited, err = d.texts(at)
			return err
		default:
			return unknownField(at)
		}
	})
	if err != nil {
		return err
	}
	switch {
	case enabled != nil && !*enabled:
		*n = Network{}
	case limited:
		// An empty list is a list that came out empty, and must not turn into
		// every host.
		*n = Network{Hosts: hosts}
	default:
		*n = Network{All: enabled != nil}
	}
	return nil
}

func (f *FileSystem) decode(d *decoder, at string) error {
	list := func(at string, entry func(string) Entry) error {
		texts, _, err := d.texts(at)
		for _, text := range texts {
			f.Entries = append(f.Entries, entry(text))
		}
		return err
	}
	literal := func(access Access) func(string) Entry {
		return func(path string) Entry { return Literal(path, access) }
	}
	return d.object(at, func(name, at string) error {
		switch name {
		case "entries":
			_, err := d.array(at, func(at string) error {
				var e Entry
				if err := e.decode(d, at); err != nil {
					return err
				}
				f.Entries = append(f.Entries, e)
				return nil
			})
			return err
		case "read":
			return list(at, literal(Read))
		case "write":
			return list(at, literal(Write))
		case "deny":
			return list(at, literal(Deny))
		case "deny_glob":
			return list(at, DenyGlob)
		case "glob_scan_max_depth":
			depth, err := d.positive(at)
			f.GlobScanMaxDepth = depth
			return err
		default:
			return unknownField(at)
		}
	})
}

func (e *Entry) decode(d *decoder, at string) error {
	var glob *string
	err := d.filled(at, func(name, at string) (err error) {
		switch name {
		case "path":
			return e.Path.decode(d, at)
		case "glob":
			glob, err = d.text(at)
			return err
		case "access":
			text, err := d.text(at)
			if err != nil || text == nil {
				return err
			}
			switch a := Access(*text); a {
			case Read, Write, Deny:
				e.Access = a
				return nil
			default:
				return &DecodeError{at, fmt.Errorf("%q is not read, write or deny", *text)}
			}
		default:
			return unknownField(at)
		}
	})
	if err != nil {
		return err
	}
	if glob != nil {
		if e.Path.Type != "" {
			return &DecodeError{at, errors.New(`"path" and "glob" exclude each other`)}
		}
		e.Path = Path{Type: TypeGlob, Pattern: *glob}
	}
	switch {
	case e.Path.Type == "":
		return &DecodeError{at, errors.New(`"path" is missing`)}
	case e.Access == "":
		return &DecodeError{at, errors.New(`"access" is missing`)}
	case e.Path.Type == TypeGlob && e.Access != Deny:
		return &DecodeError{at, ErrPattern}
	}
	return nil
}

func (p *Path) decode(d *decoder, at string) error {
	start, err := d.token(at)
	if err != nil {
		return err
	}
	if text, ok := start.(string); ok {
		*p = Path{Type: TypePath, Path: text}
		return nil
	}
	if start == nil {
		return nil
	}
	var path, pattern *string
	var special *Special
	err = d.members(start, at, func(name, at string) (err error) {
		switch name {
		case "type":
			text, err := d.text(at)
			if err != nil || text == nil {
				return err
			}
			switch t := PathType(*text); t {
			case TypePath, TypeGlob, TypeSpecial:
				p.Type = t
				return nil
			default:
				return &DecodeError{at, fmt.Errorf("%q is not path, glob_pattern or special", *text)}
			}
		case "path":
			path, err = d.text(at)
			return err
		case "pattern":
			pattern, err = d.text(at)
			return err
		case "value":
			special, err = decodeSpecial(d, at)
			return err
		default:
			return unknownField(at)
		}
	})
	if err != nil {
		return err
	}
	wanted, given := map[PathType]string{TypePath: "path", TypeGlob: "pattern", TypeSpecial: "value"}[p.Type], ""
	if path != nil {
		p.Path, given = *path, given+"path"
	}
	if pattern != nil {
		p.Pattern, given = *pattern, given+"pattern"
	}
	if special != nil {
		p.Special, given = *special, given+"value"
	}
	switch {
	case p.Type == "":
		return &DecodeError{at, errors.New(`"type" is missing`)}
	case given != wanted:
		return &DecodeError{at, fmt.Errorf("a path of type %s takes %q and nothing else", p.Type, wanted)}
	}
	return nil
}

func decodeSpecial(d *decoder, at string) (*Special, error) {
	start, err := d.token(at)
	if err != nil || start == nil {
		return nil, err
	}
	var s Special
	err = d.members(start, at, func(name, at string) error {
		var field *string
		switch name {
		case "kind":
			field = (*string)(&s.Kind)
		case "path":
			field = &s.Path
		case "subpath":
			field = &s.Subpath
		default:
			return unknownField(at)
		}
		text, err := d.text(at)
		if text != nil {
			*field = *text
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.valid(); err != nil {
		return nil, &DecodeError{at, err}
	}
	return &s, nil
}

// aliases are the spellings of other programs for the names used here.
var aliases = map[string]string{
	"fileSystem":       "file_system",
	"globScanMaxDepth": "glob_scan_max_depth",
	"denyGlob":         "deny_glob",
}

// decoder reads JSON token by token, because encoding/json itself lets repeated
// keys and keys of another letter case pass.
type decoder struct{ json *json.Decoder }

func decode(data []byte, value func(d *decoder, at string) error) error {
	if !utf8.Valid(data) {
		return &DecodeError{"", errors.New("not UTF-8 text")}
	}
	d := &decoder{json.NewDecoder(bytes.NewReader(data))}
	d.json.UseNumber()
	return value(d, "")
}

func (d *decoder) token(at string) (json.Token, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, &DecodeError{at, err}
	}
	return token, nil
}

// object reads an object or null.
func (d *decoder) object(at string, member func(name, at string) error) error {
	start, err := d.token(at)
	if err != nil || start == nil {
		return err
	}
	return d.members(start, at, member)
}

// filled reads an object that may not be null.
func (d *decoder) filled(at string, member func(name, at string) error) error {
	start, err := d.token(at)
	if err != nil {
		return err
	}
	return d.members(start, at, member)
}

// members reads the rest of an object whose first token is start. member must
// read one value.
func (d *decoder) members(start json.Token, at string, member func(name, at string) error) error {
	if start != json.Delim('{') {
		return wrongType(at, start, "an object")
	}
	seen := make(map[string]bool)
	for d.json.More() {
		key, err := d.token(at)
		if err != nil {
			return err
		}
		text := key.(string) // the JSON grammar has nothing else here
		name := text
		if long, ok := aliases[text]; ok {
			name = long
		}
		below := join(at, text)
		if seen[name] {
			return &DecodeError{below, errors.New("field is given twice")}
		}
		seen[name] = true
		if err := member(name, below); err != nil {
			return err
		}
	}
	_, err := d.token(at)
	return err
}

// array reads an array or null, and tells whether it was an array. element must
// read one value.
func (d *decoder) array(at string, element func(at string) error) (bool, error) {
	start, err := d.token(at)
	if err != nil || start == nil {
		return false, err
	}
	if start != json.Delim('[') {
		return false, wrongType(at, start, "an array")
	}
	for i := 0; d.json.More(); i++ {
		if i == MaxEntries {
			return false, &DecodeError{at, fmt.Errorf("more than %d elements", MaxEntries)}
		}
		if err := element(at + "[" + strconv.Itoa(i) + "]"); err != nil {
			return false, err
		}
	}
	_, err = d.token(at)
	return true, err
}

// texts reads an array of strings or null, and tells whether it was an array.
func (d *decoder) texts(at string) ([]string, bool, error) {
	var texts []string
	present, err := d.array(at, func(at string) error {
		text, err := d.text(at)
		if err != nil {
			return err
		}
		if text == nil {
			return wrongType(at, nil, "a string")
		}
		texts = append(texts, *text)
		return nil
	})
	return texts, present, err
}

// text reads a string, or nil for null.
func (d *decoder) text(at string) (*string, error) {
	token, err := d.token(at)
	if err != nil || token == nil {
		return nil, err
	}
	text, ok := token.(string)
	if !ok {
		return nil, wrongType(at, token, "a string")
	}
	return &text, nil
}

// flag reads a boolean, or nil for null.
func (d *decoder) flag(at string) (*bool, error) {
	token, err := d.token(at)
	if err != nil || token == nil {
		return nil, err
	}
	flag, ok := token.(bool)
	if !ok {
		return nil, wrongType(at, token, "true or false")
	}
	return &flag, nil
}

// positive reads a whole number from 1, or 0 for null.
func (d *decoder) positive(at string) (int, error) {
	token, err := d.token(at)
	if err != nil || token == nil {
		return 0, err
	}
	number, ok := token.(json.Number)
	if !ok {
		return 0, wrongType(at, token, "a whole number")
	}
	n, err := strconv.ParseInt(number.String(), 10, 32)
	if err != nil || n < 1 {
		return 0, &DecodeError{at, fmt.Errorf("%s is not a whole number from 1", number)}
	}
	return int(n), nil
}

func unknownField(at string) error { return &DecodeError{at, errors.New("unknown field")} }

func wrongType(at string, got json.Token, want string) error {
	var is string
	switch got := got.(type) {
	case nil:
		is = "null"
	case bool:
		is = strconv.FormatBool(got)
	case string:
		is = "a string"
	case json.Number:
		is = "a number"
	case json.Delim:
		is = map[json.Delim]string{'{': "an object", '[': "an array"}[got]
	}
	return &DecodeError{at, fmt.Errorf("want %s, not %s", want, is)}
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// join extends a path by a key, quoted where it could be misread.
func join(at, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return at + "[" + strconv.Quote(key) + "]"
	case at == "":
		return key
	default:
		return strings.Join([]string{at, key}, ".")
	}
}
