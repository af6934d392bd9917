package permission

import (
	"errors"
	"fmt"
	"path"
	"slices"
)

// Normalise says what p means in env: every path absolute, shortened, with the
// links followed in the part that exists; "~" and special places replaced by
// their folders; hosts as [ParseHost] returns them; sorted, and without entries
// that others include. It is idempotent as long as the file system stays as it
// is. A nil fsys is [OS].
//
// Whatever cannot be normalised is an error, and nothing is granted then, with
// these exceptions. They never widen what p grants:
//
//   - An allow for a special place that env does not know grants nothing; it is
//     reported as dropped. A deny for such a place stays as it is and denies every
//     path from then on, because nobody can tell what it was to protect.
//   - A host that cannot be read is an error in a request or a ceiling, but only
//     falls away from a grant and is reported as dropped.
//   - A deny keeps both the path as it is spelled and the place to which it leads,
//     so that it still holds when a link changes. If the file system cannot say
//     where a denied path leads, the spelling, followed as far as possible, is
//     denied.
func Normalise(p Profile, side Side, env Environment, fsys FS) (Profile, []Dropped, error) {
	fsys = orOS(fsys)
	var dropped []Dropped
	note := func(d Dropped) {
		d.Side = side
		dropped = append(dropped, d.said())
	}
	out := Profile{Network: Network{All: p.Network.All}}
	for _, text := range p.Network.Hosts {
		host, err := ParseHost(text)
		switch {
		case err == nil:
			out.Network.Hosts = append(out.Network.Hosts, host)
		case side == SideGranted:
			note(Dropped{Network: &Network{Hosts: []string{text}}, Reason: BadHost})
		default:
			return Profile{}, nil, err
		}
	}
	for _, e := range p.FileSystem.Entries {
		if err := e.valid(); err != nil {
			return Profile{}, nil, err
		}
		entries, err := env.normaliseEntry(Entry{e.Path.only(), e.Access}, fsys)
		if err != nil {
			return Profile{}, nil, err
		}
		if len(entries) == 0 {
			note(Dropped{Entry: &e, Reason: NowhereHere})
		}
		out.FileSystem.Entries = append(out.FileSystem.Entries, entries...)
	}
	if p.FileSystem.GlobScanMaxDepth < 0 {
		return Profile{}, nil, fmt.Errorf("%w: glob_scan_max_depth is negative", ErrInvalid)
	}
	out.FileSystem.GlobScanMaxDepth = p.FileSystem.GlobScanMaxDepth
	rules := compile(out).collapse()
	var cost int
	for pattern := range rules.globs {
		cost += globCost(pattern)
	}
	if cost > maxCost {
		return Profile{}, nil, fmt.Errorf("%w: all patterns together cost too much to match", ErrBadPattern)
	}
	slices.SortStableFunc(dropped, compareDropped)
	return rules.profile(), dropped, nil
}

// normaliseEntry returns what e stands for, which may be nothing for an allow.
func (env Environment) normaliseEntry(e Entry, fsys FS) ([]Entry, error) {
	switch e.Path.Type {
	case TypePath:
		return env.normalisePath(e.Path.Path, e.Access, fsys)
	case TypeGlob:
		entries, err := env.normaliseGlob(e.Path.Pattern, fsys)
		if err != nil {
			return nil, wrapPath(e.Path.Pattern, err)
		}
		return entries, nil
	case TypeSpecial:
		return env.normaliseSpecial(e, fsys)
	default:
		return nil, fmt.Errorf("%w: path type %q is not path, glob_pattern or special", ErrInvalid, e.Path.Type)
	}
}

func (env Environment) normalisePath(text string, access Access, fsys FS) ([]Entry, error) {
	if access != Deny {
		place, err := env.Resolve(text, fsys)
		if err != nil {
			return nil, err
		}
		return []Entry{Literal(place, access)}, nil
	}
	places, err := env.spellings(text, fsys)
	if err != nil {
		return nil, wrapPath(text, err)
	}
	entries := make([]Entry, len(places))
	for i, place := range places {
		entries[i] = Literal(place, Deny)
	}
	return entries, nil
}

// wrapPath adds the text at fault, unless err tells it already.
func wrapPath(text string, err error) error {
	if known := (*PathError)(nil); errors.As(err, &known) {
		return err
	}
	return &PathError{text, err}
}

// spellings returns every place a deny of text is to hold at: the text made
// absolute, and where it leads.
func (env Environment) spellings(text string, fsys FS) ([]string, error) {
	raw, err := env.absolute(text)
	if err != nil {
		return nil, err
	}
	spelled := path.Clean(raw)
	if len(spelled) > maxPath {
		return nil, ErrBadPath
	}
	places := []string{spelled}
	for _, way := range []string{raw, spelled} {
		place, err := walk(way, fsys)
		switch {
		case err == nil:
		case errors.Is(err, ErrProcess), errors.Is(err, errLoop):
			// It leads nowhere in particular, so the spelling is all there is.
			continue
		case errors.Is(err, ErrUnresolved):
			// place is as far as could be seen.
		default:
			return nil, err
		}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places, nil
}

// normaliseSpecial replaces a special place by its folders where env knows them.
func (env Environment) normaliseSpecial(e Entry, fsys FS) ([]Entry, error) {
	special := e.Path.Special
	if err := special.valid(); err != nil {
		return nil, err
	}
	var folders []string
	switch special.Kind {
	case KindMinimal:
		return []Entry{e}, nil
	case KindRoot:
		folders = []string{"/"}
	case KindSlashTmp:
		folders = []string{"/tmp"}
	case KindTmpdir:
		if env.TmpDir != "" {
			folders = []string{env.TmpDir}
		}
	case KindProjectRoots:
		sub, err := subpath(special.Subpath)
		if err != nil {
			return nil, &PathError{special.Subpath, err}
		}
		for _, root := range env.ProjectRoots {
			folders = append(folders, root+sub)
		}
	case KindUnknown:
	}
	if len(folders) == 0 && e.Access == Deny {
		return []Entry{e}, nil
	}
	var out []Entry
	for _, folder := range folders {
		if _, err := base(folder, string(special.Kind)); err != nil {
			return nil, &PathError{folder, err}
		}
		entries, err := env.normalisePath(folder, e.Access, fsys)
		if err != nil {
			return nil, err
		}
		out = append(out, entries...)
	}
	return out, nil
}

// subpath checks a path that is to stay below a project root, and gives it a
// slash in front.
func subpath(text string) (string, error) {
	switch {
	case text == "":
		return "", nil
	case !isText(text), len(text) > maxPath, path.IsAbs(text), hasDotDot("/" + text):
		return "", fmt.Errorf("%w: not a path below a project root", ErrBadPath)
	case foreignPath(text):
		return "", ErrForeign
	default:
		return "/" + text, nil
	}
}
