package permission

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What one session may hold at a time, all its turns and environments together.
// They bound the memory of a [Book] and the time that a merge takes.
const (
	// MaxGrants is how many grants, and how many turns under strict review.
	MaxGrants = 1024
	// MaxGrantEntries is how many file system entries and hosts. With patterns
	// that are slow to match, a merge of so many takes about a second.
	MaxGrantEntries = 2 * MaxEntries
)

// Why a [Book] records nothing. Nothing was changed then, and nothing more may
// be done than before.
var (
	// ErrEnded means that the turn or the session that would hold a grant has
	// ended, or was never opened. The answer came too late: drop it, and say so.
	ErrEnded = errors.New("the turn or session is not open")
	// ErrTooManyGrants means that the session holds as much as it may. Revoke
	// what is no longer needed, or end the turn.
	ErrTooManyGrants = errors.New("the session holds too many grants")
	// ErrStrictSession means that strict review was to come with a grant for the
	// session. The two contradict each other.
	ErrStrictSession = invalid("strict review goes with a turn, not with a session")
)

// Owner is a session and one of its turns, by keys that the caller makes unique
// among all hosts. Where a call belongs to no turn, Turn is empty.
type Owner struct{ Session, Turn string }

// Grant is permissions that a session or a turn holds in one environment.
type Grant struct {
	// ID is random, and given by [Book.Record].
	ID      string `json:"id"`
	Session string `json:"session_id"`
	// Turn and Call are what asked, whatever the scope.
	Turn string `json:"turn_id,omitempty"`
	Call string `json:"call_id,omitempty"`
	// Environment is where it holds. The empty name is one like any other.
	Environment string `json:"environment_id"`
	Scope       Scope  `json:"scope"`
	// Permissions are normalised in the environment.
	Permissions Profile `json:"permissions"`
	// Strict has every later call of the turn reviewed.
	Strict bool `json:"strict_auto_review,omitempty,omitzero"`
	// By is who granted it, and Record the approval in which that stands.
	By     string    `json:"by,omitempty"`
	Record string    `json:"record_id,omitempty"`
	At     time.Time `json:"at"`
}

// Book holds what was granted to sessions and turns, in memory alone. Each grant
// counts in its own environment: [Turn] for the turn that asked, even if a newer
// one is running, [Once] for the next [Book.Take] of that turn, [Session] for
// every turn of the session.
//
// The zero Book is empty and ready for use. It is safe for concurrent use and
// must not be copied.
type Book struct {
	mu       sync.RWMutex
	sessions map[string]*holding
	// last numbers the grants in the order in which they were recorded.
	last atomic.Uint64
}

// holding is what one session holds. Each has a lock of its own, so that no
// session waits while the grants of another are merged.
type holding struct {
	mu     sync.Mutex
	turns  map[string]bool
	strict map[string]bool
	// grants are in the order in which they were recorded.
	grants  []held
	entries int
	// merged is what was worked out since the last change. Its profiles are never
	// handed out.
	merged map[place]Profile
}

type held struct {
	Grant
	number uint64
}

// place is where merged permissions hold. No turn grant is held by the empty
// turn, nor by one that is not open.
type place struct{ turn, environment string }

// maxMerged bounds the merges that are kept: callers may name any turn and
// environment.
const maxMerged = 64

// OpenSession lets session hold grants. It changes nothing if it is open, and
// nothing if the key is empty: calls that name no session have none in common.
func (b *Book) OpenSession(session string) { b.open(session) }

// OpenTurn lets the turn hold grants, and opens its session if need be. It
// changes nothing if the turn is open or either key is empty. A turn that ended
// holds nothing when it is opened again, but is still under strict review.
func (b *Book) OpenTurn(o Owner) {
	if o.Turn == "" {
		return
	}
	s := b.open(o.Session)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns[o.Turn] = true
}

func (b *Book) open(session string) *holding {
	if session == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[session]
	if s == nil {
		s = &holding{turns: make(map[string]bool), strict: make(map[string]bool), merged: make(map[place]Profile)}
		if b.sessions == nil {
			b.sessions = make(map[string]*holding)
		}
		b.sessions[session] = s
	}
	return s
}

// EndTurn drops the turn and what it holds. Whether it is under strict review
// outlives it until the session ends, for calls that are still on their way.
func (b *Book) EndTurn(o Owner) {
	s := b.session(o.Session)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.turns, o.Turn)
	s.drop(func(g Grant) bool { return g.Turn == o.Turn && g.Scope != Session })
}

// EndSession drops the session, its turns, and all that they hold.
func (b *Book) EndSession(session string) {
	// Whoever has looked it up already was first, and changes what nobody finds
	// any more: a session of this key that is opened later is another one.
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, session)
}

// Record adds g and returns it with its ID. The caller has settled what is
// granted, see [Settle]. Permissions that say nothing add no grant, and what is
// returned has no ID; strict review they may bring along all the same. With an
// error, which is [ErrScope], [ErrStrictSession], [ErrEnded] or
// [ErrTooManyGrants], nothing is changed.
func (b *Book) Record(g Grant) (Grant, error) {
	g.ID = ""
	if _, err := ParseScope(string(g.Scope)); err != nil {
		return Grant{}, fmt.Errorf("record a grant: %w", err)
	}
	if g.Strict && g.Scope == Session {
		return Grant{}, fmt.Errorf("record a grant: %w", ErrStrictSession)
	}
	s := b.session(g.Session)
	if s == nil {
		return Grant{}, fmt.Errorf("record a grant for session %q: %w", g.Session, ErrEnded)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.Scope != Session && !s.turns[g.Turn] {
		return Grant{}, fmt.Errorf("record a grant for turn %q of session %q: %w", g.Turn, g.Session, ErrEnded)
	}
	adds := !g.Permissions.IsEmpty()
	size := g.Permissions.size()
	marks := g.Strict && !s.strict[g.Turn]
	if adds && (len(s.grants) >= MaxGrants || size > MaxGrantEntries-s.entries) || marks && len(s.strict) >= MaxGrants {
		return Grant{}, fmt.Errorf("record a grant for session %q: %w", g.Session, ErrTooManyGrants)
	}
	if marks {
		s.strict[g.Turn] = true
	}
	if !adds {
		return g, nil
	}
	g.ID = strings.ToLower(rand.Text())
	s.grants = append(s.grants, held{g.clone(), b.last.Add(1)})
	s.entries += size
	clear(s.merged)
	return g.clone(), nil
}

// Held returns what o holds in environment, as [Merge] has it: the grants of its
// session and of its turn, also those for once. A turn that is not open has what
// its session has, and a session that is not open has nothing.
//
// To let a call run on it, use [Book.Take]: a grant that Held has seen may be
// used up by then.
func (b *Book) Held(o Owner, environment string) Profile {
	s := b.session(o.Session)
	if s == nil {
		return Profile{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held(place{o.Turn, environment}).clone()
}

// Take returns what [Book.Held] does, with the ids of the grants that make it
// up, oldest first, and uses up those that are for once: no other caller gets
// them.
func (b *Book) Take(o Owner, environment string) (Profile, []string) {
	s := b.session(o.Session)
	if s == nil {
		return Profile{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{o.Turn, environment}
	var ids []string
	once := false
	for _, g := range s.grants {
		if g.holds(at) {
			ids = append(ids, g.ID)
			once = once || g.Scope == Once
		}
	}
	if len(ids) == 0 {
		return Profile{}, nil
	}
	taken := s.held(at).clone()
	if once {
		s.drop(func(g Grant) bool { return g.Scope == Once && g.holds(at) })
	}
	return taken, ids
}

// Strict tells whether every call of the turn is to be reviewed. Once it is
// true, it stays so until the session ends.
func (b *Book) Strict(o Owner) bool {
	s := b.session(o.Session)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strict[o.Turn]
}

// List returns the grants of a session, or of all if session is empty, in the
// order in which they were recorded. Grants that are used up are not among them.
func (b *Book) List(session string) []Grant {
	var all []held
	for _, s := range b.some(session) {
		s.mu.Lock()
		for _, g := range s.grants {
			all = append(all, held{g.clone(), g.number})
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(one, other held) int { return cmp.Compare(one.number, other.number) })
	grants := make([]Grant, len(all))
	for i, g := range all {
		grants[i] = g.Grant
	}
	return grants
}

// Revoke drops the grant with this id and returns it, or false if none is held.
// Every Held and Take from then on is as if it had never been recorded, which
// means that denies which came with it go as well. A turn under strict review
// stays so.
func (b *Book) Revoke(id string) (Grant, bool) {
	for _, s := range b.some("") {
		if g, ok := s.revoke(id); ok {
			return g, true
		}
	}
	return Grant{}, false
}

func (b *Book) session(key string) *holding {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.sessions[key]
}

// some returns the session of this key, or all if it is empty.
func (b *Book) some(key string) []*holding {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if key == "" {
		return slices.Collect(maps.Values(b.sessions))
	}
	if s := b.sessions[key]; s != nil {
		return []*holding{s}
	}
	return nil
}

func (s *holding) revoke(id string) (Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.grants, func(g held) bool { return g.ID == id })
	if i < 0 {
		return Grant{}, false
	}
	g := s.grants[i].Grant
	s.drop(func(other Grant) bool { return other.ID == id })
	return g, true
}

// held returns a profile that must not leave the package as it is.
func (s *holding) held(at place) Profile {
	if len(s.grants) == 0 {
		return Profile{}
	}
	if p, ok := s.merged[at]; ok {
		return p
	}
	var profiles []Profile
	for _, g := range s.grants {
		if g.holds(at) {
			profiles = append(profiles, g.Permissions)
		}
	}
	p := mergeAll(profiles)
	if len(s.merged) >= maxMerged {
		clear(s.merged)
	}
	s.merged[at] = p
	return p
}

// drop takes out the grants that gone picks.
func (s *holding) drop(gone func(Grant) bool) {
	before := len(s.grants)
	s.grants = slices.DeleteFunc(s.grants, func(g held) bool {
		if !gone(g.Grant) {
			return false
		}
		s.entries -= g.Permissions.size()
		return true
	})
	if len(s.grants) < before {
		clear(s.merged)
	}
}

func (g Grant) holds(at place) bool {
	return g.Environment == at.environment && (g.Scope == Session || g.Turn == at.turn)
}

func (g Grant) clone() Grant {
	g.Permissions = g.Permissions.clone()
	return g
}

func (p Profile) clone() Profile {
	p.Network.Hosts = slices.Clone(p.Network.Hosts)
	p.FileSystem.Entries = slices.Clone(p.FileSystem.Entries)
	return p
}

// size counts what takes memory in p.
func (p Profile) size() int { return len(p.FileSystem.Entries) + len(p.Network.Hosts) }

// mergeAll is [Merge] of all profiles. It goes by halves, since to add one after
// the other would read the first of n profiles n times.
func mergeAll(profiles []Profile) Profile {
	switch len(profiles) {
	case 0:
		return Profile{}
	case 1:
		return Merge(Profile{}, profiles[0])
	}
	half := len(profiles) / 2
	return Merge(mergeAll(profiles[:half]), mergeAll(profiles[half:]))
}
