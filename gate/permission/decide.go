package permission

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
)

// Outcome is what a profile says about one access.
type Outcome string

// The outcomes. NotCovered is neither permission nor refusal: the profile has
// nothing to say, and whoever asks must go on to ask elsewhere.
const (
	Allowed    Outcome = "allow"
	Denied     Outcome = "deny"
	NotCovered Outcome = "not covered"
)

// Ruling is an outcome and the entry it comes from. By is nil for NotCovered.
type Ruling struct {
	Outcome Outcome `json:"outcome"`
	By      *Entry  `json:"by,omitempty"`
}

// Decide tells whether p lets name, a path as [Environment.Resolve] returns it,
// be accessed for Read or Write. A deny decides before any allow. Any other
// access, or a path in another form, is never Allowed.
//
// Of fsys only SameName is used, and only where a deny differs from name in
// nothing but spelling. A nil fsys is [OS].
func Decide(p Profile, access Access, name string, fsys FS) Ruling {
	return compile(p).decide(access, name, orOS(fsys))
}

// DecideTree is Decide for an access that reaches everything in the folder name,
// such as removing or searching it: a deny of anything below denies it.
func DecideTree(p Profile, access Access, name string, fsys FS) Ruling {
	r := compile(p)
	ruling := r.decide(access, name, orOS(fsys))
	if ruling.Outcome == Denied || !isClean(name) {
		return ruling
	}
	for _, e := range r.profile().FileSystem.Entries {
		if e.Access != Deny {
			continue
		}
		if e.Path.Type == TypePath && r.reaches(name, e.Path.Path, orOS(fsys)) ||
			e.Path.Type == TypeGlob && globTouches(e.Path.Pattern, name) {
			return Ruling{Denied, &e}
		}
	}
	return ruling
}

// Check tells whether p lets the path text be accessed, as it is typed in env. It
// denies if either the spelling or the place it leads to is denied, and allows
// only if all places are allowed at which different programs would arrive.
//
// With an error, which says why the path could not be resolved, the ruling is
// Denied if that is certain all the same, and NotCovered otherwise.
func Check(p Profile, access Access, text string, env Environment, fsys FS) (Ruling, error) {
	fsys = orOS(fsys)
	raw, err := env.absolute(text)
	if err != nil {
		return Ruling{Outcome: NotCovered}, &PathError{text, err}
	}
	r := compile(p)
	spelled := path.Clean(raw)
	if ruling := r.decide(access, spelled, fsys); ruling.Outcome == Denied {
		return ruling, nil
	}
	places := []string{raw}
	if hasDotDot(raw) {
		places = append(places, spelled)
	}
	ruling := Ruling{Outcome: NotCovered}
	var covered int
	var failed error
	for _, place := range places {
		real, err := walk(place, fsys)
		if err != nil {
			failed = errors.Join(failed, &PathError{text, err})
			continue
		}
		switch at := r.decide(access, real, fsys); at.Outcome {
		case Denied:
			return at, nil
		case Allowed:
			covered++
			ruling.By = at.By
		}
	}
	if covered < len(places) {
		return Ruling{Outcome: NotCovered}, failed
	}
	ruling.Outcome = Allowed
	return ruling, nil
}

func (r *rules) decide(access Access, name string, fsys FS) Ruling {
	for _, place := range r.opaquePlaces() {
		return Ruling{Denied, &Entry{place, Deny}}
	}
	if !isClean(name) {
		return Ruling{Outcome: NotCovered}
	}
	if by, denied := r.denied(name); denied {
		return Ruling{Denied, &by}
	}
	if by, denied := r.deniedAlike(name, fsys); denied {
		return Ruling{Denied, &by}
	}
	if access != Read && access != Write {
		return Ruling{Outcome: NotCovered}
	}
	for dir := range ancestors(name) {
		if has := r.allows[dir]; level(has) >= level(access) {
			by := Literal(dir, has)
			return Ruling{Allowed, &by}
		}
	}
	return Ruling{Outcome: NotCovered}
}

// deniedAlike returns the entry that denies another spelling of name.
func (r *rules) deniedAlike(name string, fsys FS) (Entry, bool) {
	if len(r.denies) == 0 && len(r.globs) == 0 {
		return Entry{}, false
	}
	names := components(name)
	for _, d := range slices.Sorted(maps.Keys(r.denies)) {
		if depth := components(d); len(depth) <= len(names) && alike(names[:len(depth)], depth, fsys) {
			return Literal(d, Deny), true
		}
	}
	folded := foldKey(name)
	for _, pattern := range slices.Sorted(maps.Keys(r.globs)) {
		if matchGlobFolded(pattern, name, folded) && foldsSomewhere(names, fsys) {
			return DenyGlob(pattern), true
		}
	}
	return Entry{}, false
}

// alike tells whether two paths of equal length are spellings of one.
func alike(names, others []string, fsys FS) bool {
	for i := range names {
		if !maybeSame(names[i], others[i]) {
			return false
		}
	}
	for i := range names {
		if names[i] == others[i] {
			continue
		}
		same, err := fsys.SameName("/"+strings.Join(names[:i], "/"), names[i], others[i])
		if err == nil && !same {
			return false
		}
	}
	return true
}

// foldsSomewhere tells whether any name on a path has another spelling. If no name
// has a letter to ask about, it may.
func foldsSomewhere(names []string, fsys FS) bool {
	asked := false
	for i, name := range names {
		flipped := flipCase(name)
		if flipped == name {
			continue
		}
		asked = true
		if same, err := fsys.SameName("/"+strings.Join(names[:i], "/"), name, flipped); same || err != nil {
			return true
		}
	}
	return !asked
}

// reaches tells whether denied may be in the folder name, or the same.
func (r *rules) reaches(name, denied string, fsys FS) bool {
	if under(name, denied) {
		return true
	}
	names, others := components(name), components(denied)
	return len(names) <= len(others) && alike(names, others[:len(names)], fsys)
}
