package permission

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

//go:embed profile.schema.json
var schema []byte

// Schema is the JSON Schema (draft 7) of a profile as it is marshalled. Profiles
// are also read in older and shorter spellings that it does not describe; see
// [Profile.UnmarshalJSON].
func Schema() json.RawMessage { return append(json.RawMessage(nil), schema...) }

// MarshalJSON writes p in its one canonical form: sorted, without repetitions
// and without empty parts. The literal paths are written twice, as entries and
// in the lists "read", "write" and "deny" for readers that know only those. A
// profile that could not be read back is an error.
func (p Profile) MarshalJSON() ([]byte, error) {
	s := p.sorted()
	var out struct {
		Network    *Network    `json:"network,omitempty"`
		FileSystem *FileSystem `json:"file_system,omitempty"`
	}
	if s.Network.All || len(s.Network.Hosts) > 0 {
		out.Network = &s.Network
	}
	if len(s.FileSystem.Entries) > 0 {
		out.FileSystem = &s.FileSystem
	}
	return json.Marshal(out)
}

// MarshalJSON writes n as described at [Network].
func (n Network) MarshalJSON() ([]byte, error) {
	s := Profile{Network: n}.sorted().Network
	switch {
	case s.All:
		return []byte(`{"enabled":true}`), nil
	case len(s.Hosts) == 0:
		return []byte(`{}`), nil
	}
	for _, host := range s.Hosts {
		if !utf8.ValidString(host) {
			return nil, &PathError{host, ErrHost}
		}
	}
	return json.Marshal(map[string][]string{"hosts": s.Hosts})
}

// MarshalJSON writes f as described at [Profile.MarshalJSON].
func (f FileSystem) MarshalJSON() ([]byte, error) {
	s := Profile{FileSystem: f}.sorted().FileSystem
	out := struct {
		Entries          []Entry  `json:"entries,omitempty"`
		Read             []string `json:"read,omitempty"`
		Write            []string `json:"write,omitempty"`
		Deny             []string `json:"deny,omitempty"`
		GlobScanMaxDepth int      `json:"glob_scan_max_depth,omitempty,omitzero"`
	}{Entries: s.Entries, GlobScanMaxDepth: s.GlobScanMaxDepth}
	if s.GlobScanMaxDepth < 0 {
		return nil, fmt.Errorf("%w: glob_scan_max_depth %d is negative", ErrInvalid, s.GlobScanMaxDepth)
	}
	for _, e := range s.Entries {
		if e.Path.Type != TypePath {
			continue
		}
		switch e.Access {
		case Read:
			out.Read = append(out.Read, e.Path.Path)
		case Write:
			out.Write = append(out.Write, e.Path.Path)
		case Deny:
			out.Deny = append(out.Deny, e.Path.Path)
		}
	}
	return json.Marshal(out)
}

// MarshalJSON writes e with both its fields. A pattern that allows is an error.
func (e Entry) MarshalJSON() ([]byte, error) {
	if err := e.valid(); err != nil {
		return nil, err
	}
	type plain Entry
	return json.Marshal(plain{e.Path.only(), e.Access})
}

// valid tells whether e has a shape that can be written and read back.
func (e Entry) valid() error {
	switch e.Access {
	case Read, Write:
		if e.Path.Type == TypeGlob {
			return &PathError{e.Path.Pattern, ErrPattern}
		}
	case Deny:
	default:
		return fmt.Errorf("%w: access %q is not read, write or deny", ErrInvalid, e.Access)
	}
	return nil
}

// MarshalJSON writes the type of p and the one field that belongs to it.
func (p Path) MarshalJSON() ([]byte, error) {
	for _, text := range []string{p.Path, p.Pattern, p.Special.Path, p.Special.Subpath} {
		// encoding/json would put U+FFFD in place of such bytes, and so name
		// another file.
		if !utf8.ValidString(text) {
			return nil, &PathError{text, ErrBadPath}
		}
	}
	switch p.Type {
	case TypePath:
		return json.Marshal(struct {
			Type PathType `json:"type"`
			Path string   `json:"path"`
		}{p.Type, p.Path})
	case TypeGlob:
		return json.Marshal(struct {
			Type    PathType `json:"type"`
			Pattern string   `json:"pattern"`
		}{p.Type, p.Pattern})
	case TypeSpecial:
		if err := p.Special.valid(); err != nil {
			return nil, err
		}
		return json.Marshal(struct {
			Type  PathType    `json:"type"`
			Value specialJSON `json:"value"`
		}{p.Type, specialJSON(p.Special)})
	default:
		return nil, fmt.Errorf("%w: path type %q is not path, glob_pattern or special", ErrInvalid, p.Type)
	}
}

type specialJSON struct {
	Kind    Kind   `json:"kind"`
	Path    string `json:"path,omitempty"`
	Subpath string `json:"subpath,omitempty"`
}

// valid tells whether s is a known kind with only the fields of that kind.
func (s Special) valid() error {
	switch s.Kind {
	case KindUnknown:
		if s.Path != "" {
			return nil
		}
		return fmt.Errorf("%w: a special path of kind %q needs a path", ErrInvalid, s.Kind)
	case KindProjectRoots:
		if s.Path == "" {
			return nil
		}
	case KindRoot, KindMinimal, KindTmpdir, KindSlashTmp:
		if s.Path == "" && s.Subpath == "" {
			return nil
		}
	default:
		return fmt.Errorf("%w: kind %q is not one of %s", ErrInvalid, s.Kind, strings.Join(kinds, ", "))
	}
	return fmt.Errorf("%w: a special path of kind %q takes no such path or subpath", ErrInvalid, s.Kind)
}

var kinds = []string{
	string(KindRoot), string(KindMinimal), string(KindProjectRoots),
	string(KindTmpdir), string(KindSlashTmp), string(KindUnknown),
}
