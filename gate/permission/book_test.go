package permission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate/permission"
)

var (
	turn1   = permission.Owner{Session: "s1", Turn: "t1"}
	turn2   = permission.Owner{Session: "s1", Turn: "t2"}
	foreign = permission.Owner{Session: "s2", Turn: "t1"}
)

// newBook has turn1, turn2 and foreign open.
func newBook() *permission.Book {
	b := new(permission.Book)
	for _, o := range []permission.Owner{turn1, turn2, foreign} {
		b.OpenTurn(o)
	}
	return b
}

// to is a grant to o in the environment local.
func to(t testing.TB, o permission.Owner, scope permission.Scope, profile string) permission.Grant {
	t.Helper()
	return permission.Grant{
		Session: o.Session, Turn: o.Turn, Call: "c1", Environment: "local", Scope: scope, Permissions: parse(t, profile),
	}
}

func record(t testing.TB, b *permission.Book, g permission.Grant) permission.Grant {
	t.Helper()
	got, err := b.Record(g)
	if err != nil {
		t.Fatalf("Record(%+v): %v", g, err)
	}
	return got
}

func ids(grants ...permission.Grant) []string {
	var out []string
	for _, g := range grants {
		out = append(out, g.ID)
	}
	return out
}

const (
	none     = `{}`
	writeW   = `{"file_system":{"write":["/w"]}}`
	readX    = `{"file_system":{"read":["/x"]}}`
	writeX   = `{"file_system":{"write":["/x"]}}`
	online   = `{"network":{"enabled":true}}`
	guardedW = `{"file_system":{"read":["/w"],"deny":["/w/keys"]}}`
)

func TestBookHolds(t *testing.T) {
	type look struct {
		owner       permission.Owner
		environment string
		want        string
	}
	of := func(o permission.Owner, want string) look { return look{o, "local", want} }
	tests := map[string]struct {
		do    func(t *testing.T, b *permission.Book)
		looks []look
	}{
		"nothing, if nothing was granted": {
			func(*testing.T, *permission.Book) {},
			[]look{of(turn1, none), of(permission.Owner{}, none), of(permission.Owner{Session: "elsewhere", Turn: "t1"}, none)},
		},
		"a turn grant for the turn that asked, though another has begun since": {
			func(t *testing.T, b *permission.Book) {
				b.OpenTurn(permission.Owner{Session: "s1", Turn: "newest"})
				record(t, b, to(t, turn1, permission.Turn, writeW))
			},
			[]look{of(turn1, writeW), of(turn2, none), of(permission.Owner{Session: "s1", Turn: "newest"}, none)},
		},
		"a session grant for each of its turns, also a later one, and for calls of no turn": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Session, writeW))
				b.EndTurn(turn1)
				b.OpenTurn(permission.Owner{Session: "s1", Turn: "later"})
			},
			[]look{
				of(turn2, writeW), of(permission.Owner{Session: "s1", Turn: "later"}, writeW),
				of(permission.Owner{Session: "s1"}, writeW),
			},
		},
		"a session grant though the turn that asked has ended": {
			func(t *testing.T, b *permission.Book) {
				b.EndTurn(turn1)
				record(t, b, to(t, turn1, permission.Session, writeW))
			},
			[]look{of(turn2, writeW), of(turn1, writeW)},
		},
		"a session grant in a session that has no turn yet": {
			func(t *testing.T, b *permission.Book) {
				b.OpenSession("s3")
				record(t, b, to(t, permission.Owner{Session: "s3"}, permission.Session, writeW))
			},
			[]look{of(permission.Owner{Session: "s3", Turn: "t1"}, writeW), of(permission.Owner{Session: "s3"}, writeW)},
		},
		"nothing of another session, even for a turn of the same name": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, writeW))
				record(t, b, to(t, turn1, permission.Session, readX))
				record(t, b, to(t, turn1, permission.Once, online))
			},
			[]look{of(foreign, none)},
		},
		"each environment by itself": {
			func(t *testing.T, b *permission.Book) {
				for _, scope := range []permission.Scope{permission.Once, permission.Turn, permission.Session} {
					remote := to(t, turn1, scope, writeW)
					remote.Environment = "remote"
					record(t, b, remote)
				}
				record(t, b, to(t, turn1, permission.Turn, readX))
			},
			[]look{{turn1, "remote", writeW}, {turn2, "remote", writeW}, of(turn1, readX), {turn1, "", none}, {turn1, "Remote", none}},
		},
		"several grants together": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, readX))
				record(t, b, to(t, turn1, permission.Session, online))
				record(t, b, to(t, turn1, permission.Once, writeW))
				record(t, b, to(t, turn1, permission.Turn, writeX))
			},
			[]look{
				of(turn1, `{"network":{"enabled":true},"file_system":{"write":["/w","/x"]}}`),
				of(turn2, online),
			},
		},
		"denies that came with one grant, against the others": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, guardedW))
				record(t, b, to(t, turn1, permission.Session, writeW))
				record(t, b, to(t, turn1, permission.Turn, `{"file_system":{"write":["/w/keys"]}}`))
			},
			[]look{of(turn1, `{"file_system":{"write":["/w"],"deny":["/w/keys"]}}`), of(turn2, writeW)},
		},
		"denies alone": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Session, writeW))
				record(t, b, to(t, turn1, permission.Turn, `{"file_system":{"deny":["/w/keys"]}}`))
			},
			[]look{of(turn1, `{"file_system":{"write":["/w"],"deny":["/w/keys"]}}`)},
		},
		"nothing of a turn that has ended, also when it is opened again": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, writeW))
				record(t, b, to(t, turn1, permission.Once, online))
				record(t, b, to(t, turn2, permission.Turn, readX))
				b.EndTurn(turn1)
				b.OpenTurn(turn1)
			},
			[]look{of(turn1, none), of(turn2, readX)},
		},
		"nothing of a session that has ended, also when it is opened again": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Session, writeW))
				record(t, b, to(t, turn1, permission.Turn, readX))
				record(t, b, to(t, foreign, permission.Session, online))
				b.EndSession("s1")
				b.OpenTurn(turn1)
			},
			[]look{of(turn1, none), of(turn2, none), of(foreign, online)},
		},
		"what it held, if a turn is opened twice": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, writeW))
				b.OpenTurn(turn1)
				b.OpenSession("s1")
			},
			[]look{of(turn1, writeW)},
		},
		"what it held, if something else ends": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, writeW))
				b.EndTurn(turn2)
				b.EndTurn(foreign)
				b.EndTurn(permission.Owner{Session: "s1"})
				b.EndTurn(permission.Owner{Session: "s9", Turn: "t1"})
				b.EndSession("s2")
				b.EndSession("s9")
			},
			[]look{of(turn1, writeW)},
		},
		"once for a turn until it is taken": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Once, writeW))
				b.Held(turn1, "local")
				b.Take(turn2, "local")
				b.Take(turn1, "remote")
				b.Take(permission.Owner{Session: "s1"}, "local")
			},
			[]look{of(turn1, writeW), of(turn2, none)},
		},
		"what is for longer when once is used up": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Session, readX))
				record(t, b, to(t, turn1, permission.Once, writeW))
				record(t, b, to(t, turn1, permission.Turn, online))
				b.Take(turn1, "local")
			},
			[]look{of(turn1, `{"network":{"enabled":true},"file_system":{"read":["/x"]}}`)},
		},
		"once for another environment or turn when one is used up": {
			func(t *testing.T, b *permission.Book) {
				elsewhere := to(t, turn1, permission.Once, writeW)
				elsewhere.Environment = "remote"
				record(t, b, elsewhere)
				record(t, b, to(t, turn2, permission.Once, readX))
				record(t, b, to(t, turn1, permission.Once, online))
				b.Take(turn1, "local")
			},
			[]look{of(turn1, none), of(turn2, readX), {turn1, "remote", writeW}},
		},
		"what is left after a revocation": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Turn, readX))
				gone := record(t, b, to(t, turn1, permission.Session, `{"network":{"enabled":true},"file_system":{"write":["/x"]}}`))
				b.Held(turn1, "local") // what was worked out before counts no longer
				b.Revoke(gone.ID)
			},
			[]look{of(turn1, readX), of(turn2, none)},
		},
		"what a grant gives without another that denied a part of it": {
			func(t *testing.T, b *permission.Book) {
				record(t, b, to(t, turn1, permission.Session, writeW))
				b.Revoke(record(t, b, to(t, turn1, permission.Turn, guardedW)).ID)
			},
			[]look{of(turn1, writeW)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			tt.do(t, b)
			for _, l := range tt.looks {
				// The second look is at what the first has kept.
				for range 2 {
					if diff := cmp.Diff(parse(t, l.want).String(), b.Held(l.owner, l.environment).String()); diff != "" {
						t.Errorf("held by %v in %q (-want +got):\n%s", l.owner, l.environment, diff)
					}
				}
			}
		})
	}
}

func TestBookRefuses(t *testing.T) {
	strict := func(g permission.Grant) permission.Grant {
		g.Strict = true
		return g
	}
	nobody := permission.Owner{}
	tests := map[string]struct {
		grant permission.Grant
		want  error
	}{
		"a turn that has ended":                             {to(t, turn1, permission.Turn, writeW), permission.ErrEnded},
		"once for a turn that has ended":                    {to(t, turn1, permission.Once, writeW), permission.ErrEnded},
		"strict review of a turn that has ended":            {strict(to(t, turn1, permission.Turn, none)), permission.ErrEnded},
		"an empty grant to a turn that has ended":           {to(t, turn1, permission.Turn, none), permission.ErrEnded},
		"a turn that was never opened":                      {to(t, permission.Owner{Session: "s1", Turn: "t9"}, permission.Turn, writeW), permission.ErrEnded},
		"a turn grant without a turn":                       {to(t, permission.Owner{Session: "s1"}, permission.Turn, writeW), permission.ErrEnded},
		"a session that has ended":                          {to(t, foreign, permission.Session, writeW), permission.ErrEnded},
		"a turn of a session that has ended":                {to(t, foreign, permission.Turn, writeW), permission.ErrEnded},
		"a session that was never opened":                   {to(t, permission.Owner{Session: "s9", Turn: "t1"}, permission.Session, writeW), permission.ErrEnded},
		"nobody":                                            {to(t, nobody, permission.Session, writeW), permission.ErrEnded},
		"a scope that is none":                              {to(t, turn2, "forever", writeW), permission.ErrScope},
		"no scope":                                          {to(t, turn2, "", writeW), permission.ErrScope},
		"strict review of a session":                        {strict(to(t, turn2, permission.Session, writeW)), permission.ErrStrictSession},
		"strict review of a session, also without a grant":  {strict(to(t, turn2, permission.Session, none)), permission.ErrStrictSession},
		"more entries than a session may hold in one grant": {wide(turn2, permission.MaxGrantEntries+1), permission.ErrTooManyGrants},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			b.OpenTurn(nobody)
			b.OpenTurn(permission.Owner{Turn: "t1"})
			b.OpenTurn(permission.Owner{Session: "s1"})
			b.OpenSession("")
			b.EndTurn(turn1)
			b.EndSession(foreign.Session)
			got, err := b.Record(tt.grant)
			if !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
			if diff := cmp.Diff(permission.Grant{}, got); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if all := b.List(""); len(all) > 0 {
				t.Errorf("the book has %+v", all)
			}
			o := permission.Owner{Session: tt.grant.Session, Turn: tt.grant.Turn}
			if held := b.Held(o, "local"); !held.IsEmpty() || b.Strict(o) {
				t.Errorf("held %v, strict %v after a refusal", held, b.Strict(o))
			}
		})
	}
	if !errors.Is(permission.ErrStrictSession, permission.ErrInvalid) || errors.Is(permission.ErrEnded, permission.ErrInvalid) {
		t.Error("a contradiction is invalid, and being late is not")
	}
}

// wide is a grant of n entries, half of them hosts.
func wide(o permission.Owner, n int) permission.Grant {
	g := permission.Grant{Session: o.Session, Turn: o.Turn, Environment: "local", Scope: permission.Turn}
	for i := range n {
		if i%2 == 0 {
			g.Permissions.Network.Hosts = append(g.Permissions.Network.Hosts, fmt.Sprintf("h%d.example", i))
		} else {
			g.Permissions.FileSystem.Entries = append(g.Permissions.FileSystem.Entries,
				permission.Literal(fmt.Sprintf("/w/%d", i), permission.Write))
		}
	}
	return g
}

func TestBookHoldsManyGrantsAndNoMore(t *testing.T) {
	b := newBook()
	var first permission.Grant
	for i := range permission.MaxGrants {
		o := turn1
		if i%2 == 0 {
			o = turn2
		}
		g := record(t, b, to(t, o, permission.Turn, writeW))
		if i == 0 {
			first = g
		}
	}
	more := to(t, turn1, permission.Session, online)
	if _, err := b.Record(more); !errors.Is(err, permission.ErrTooManyGrants) {
		t.Fatalf("error = %v after %d grants, want %v", err, permission.MaxGrants, permission.ErrTooManyGrants)
	}
	marking := to(t, turn1, permission.Turn, none)
	marking.Strict = true
	if record(t, b, marking); !b.Strict(turn1) {
		t.Error("a full book has no room for what only tightens")
	}
	record(t, b, to(t, foreign, permission.Session, online)) // another session has its own room
	if _, ok := b.Revoke(first.ID); !ok {
		t.Fatal("the first grant is not held")
	}
	record(t, b, more)
	if _, err := b.Record(more); !errors.Is(err, permission.ErrTooManyGrants) {
		t.Errorf("error = %v once the room is used, want %v", err, permission.ErrTooManyGrants)
	}
	b.EndTurn(turn2)
	record(t, b, more)
}

func TestBookHoldsManyEntriesAndNoMore(t *testing.T) {
	b := newBook()
	once := wide(turn1, permission.MaxGrantEntries-1)
	once.Scope = permission.Once
	record(t, b, once)
	record(t, b, wide(turn2, 1))
	one := wide(turn1, 1)
	if _, err := b.Record(one); !errors.Is(err, permission.ErrTooManyGrants) {
		t.Fatalf("error = %v, want %v", err, permission.ErrTooManyGrants)
	}
	b.Take(turn1, "local")
	record(t, b, wide(turn1, permission.MaxGrantEntries-1))
	if _, err := b.Record(one); !errors.Is(err, permission.ErrTooManyGrants) {
		t.Fatalf("error = %v once the room is used, want %v", err, permission.ErrTooManyGrants)
	}
	b.EndTurn(turn1)
	b.OpenTurn(turn1)
	record(t, b, wide(turn1, permission.MaxGrantEntries-1))
}

func TestBookMarksManyTurnsStrictAndNoMore(t *testing.T) {
	b := newBook()
	mark := func(turn string) error {
		o := permission.Owner{Session: "s1", Turn: turn}
		b.OpenTurn(o)
		g := to(t, o, permission.Turn, none)
		g.Strict = true
		_, err := b.Record(g)
		b.EndTurn(o)
		return err
	}
	for i := range permission.MaxGrants {
		if err := mark(fmt.Sprint("strict", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mark("one more"); !errors.Is(err, permission.ErrTooManyGrants) {
		t.Errorf("error = %v, want %v", err, permission.ErrTooManyGrants)
	}
	if err := mark("strict0"); err != nil {
		t.Errorf("a turn that is strict already: %v", err)
	}
}

func TestBookIsStrict(t *testing.T) {
	strict := func(t *testing.T, b *permission.Book, scope permission.Scope, profile string) permission.Grant {
		g := to(t, turn1, scope, profile)
		g.Strict = true
		return record(t, b, g)
	}
	tests := map[string]struct {
		do   func(t *testing.T, b *permission.Book)
		want bool
	}{
		"not without being told": {func(t *testing.T, b *permission.Book) {
			record(t, b, to(t, turn1, permission.Turn, writeW))
			record(t, b, to(t, turn1, permission.Session, writeW))
		}, false},
		"with a grant for a turn":                {func(t *testing.T, b *permission.Book) { strict(t, b, permission.Turn, writeW) }, true},
		"without any permission":                 {func(t *testing.T, b *permission.Book) { strict(t, b, permission.Turn, none) }, true},
		"if the grant was shortened to one call": {func(t *testing.T, b *permission.Book) { strict(t, b, permission.Once, writeW) }, true},
		"though a later grant says nothing of it": {func(t *testing.T, b *permission.Book) {
			strict(t, b, permission.Turn, writeW)
			record(t, b, to(t, turn1, permission.Turn, readX))
		}, true},
		"though the grant was revoked":       {func(t *testing.T, b *permission.Book) { b.Revoke(strict(t, b, permission.Turn, writeW).ID) }, true},
		"though the grant was used up":       {func(t *testing.T, b *permission.Book) { strict(t, b, permission.Once, writeW); b.Take(turn1, "local") }, true},
		"for calls of a turn that has ended": {func(t *testing.T, b *permission.Book) { strict(t, b, permission.Turn, writeW); b.EndTurn(turn1) }, true},
		"in a turn that is opened again": {func(t *testing.T, b *permission.Book) {
			strict(t, b, permission.Turn, writeW)
			b.EndTurn(turn1)
			b.OpenTurn(turn1)
		}, true},
		"not in a new session": {func(t *testing.T, b *permission.Book) {
			strict(t, b, permission.Turn, writeW)
			b.EndSession("s1")
			b.OpenTurn(turn1)
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook()
			tt.do(t, b)
			if got := b.Strict(turn1); got != tt.want {
				t.Errorf("Strict = %v, want %v", got, tt.want)
			}
			for _, o := range []permission.Owner{turn2, foreign, {Session: "s1"}, {}} {
				if b.Strict(o) {
					t.Errorf("%v is strict as well", o)
				}
			}
		})
	}
}

func TestBookEmptyGrantIsNone(t *testing.T) {
	for _, scope := range []permission.Scope{permission.Once, permission.Turn, permission.Session} {
		b := newBook()
		want := to(t, turn1, scope, none)
		want.Strict = scope == permission.Turn
		given := want
		given.ID = "mine"
		if diff := cmp.Diff(want, record(t, b, given)); diff != "" {
			t.Errorf("%s: recorded (-want +got):\n%s", scope, diff)
		}
		if all := b.List(""); len(all) > 0 {
			t.Errorf("%s: the book has %+v", scope, all)
		}
	}
}

func TestBookTakesWhatIsForOnceOnce(t *testing.T) {
	b := newBook()
	session := record(t, b, to(t, turn2, permission.Session, readX))
	once := record(t, b, to(t, turn1, permission.Once, writeW))
	record(t, b, to(t, turn2, permission.Turn, writeX))
	again := record(t, b, to(t, turn1, permission.Once, online))
	turn := record(t, b, to(t, turn1, permission.Turn, writeX))

	steps := []struct {
		owner permission.Owner
		want  string
		ids   []string
	}{
		{turn1, `{"network":{"enabled":true},"file_system":{"write":["/w","/x"]}}`, ids(session, once, again, turn)},
		{turn1, writeX, ids(session, turn)},
		{permission.Owner{Session: "s1"}, readX, ids(session)},
		{foreign, none, nil},
		{permission.Owner{Session: "s9"}, none, nil},
	}
	for i, s := range steps {
		got, took := b.Take(s.owner, "local")
		if diff := cmp.Diff(parse(t, s.want).String(), got.String()); diff != "" {
			t.Errorf("step %d: took (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(s.ids, took); diff != "" {
			t.Errorf("step %d: ids (-want +got):\n%s", i, diff)
		}
	}
	if _, ok := b.Revoke(once.ID); ok {
		t.Error("a grant that is used up can be revoked")
	}
}

func TestBookListsInOrder(t *testing.T) {
	b := newBook()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	given := []permission.Grant{
		to(t, turn2, permission.Turn, writeW), to(t, foreign, permission.Once, online),
		to(t, turn1, permission.Session, guardedW), to(t, foreign, permission.Session, readX), to(t, turn1, permission.Once, writeW),
	}
	var all []permission.Grant
	for i, g := range given {
		// Grants of one moment keep their order as well, and a clock may be set back.
		g.At, g.By, g.Record = at.Add(-time.Duration(i/2)*time.Second), "user:sam", fmt.Sprint("r", i)
		got := record(t, b, g)
		if len(got.ID) < 26 || got.ID != strings.ToLower(got.ID) || slices.Contains(ids(all...), got.ID) {
			t.Errorf("id %q of grant %d", got.ID, i)
		}
		g.ID = got.ID
		if diff := cmp.Diff(g, got); diff != "" {
			t.Errorf("recorded (-want +got):\n%s", diff)
		}
		all = append(all, got)
	}
	for session, want := range map[string][]permission.Grant{
		"": all, "s1": {all[0], all[2], all[4]}, "s2": {all[1], all[3]}, "s9": {},
	} {
		if diff := cmp.Diff(want, b.List(session)); diff != "" {
			t.Errorf("List(%q) (-want +got):\n%s", session, diff)
		}
	}
	got, ok := b.Revoke(all[2].ID)
	if diff := cmp.Diff(all[2], got); diff != "" || !ok {
		t.Errorf("revoked %v (-want +got):\n%s", ok, diff)
	}
	if got, ok := b.Revoke(all[2].ID); ok {
		t.Errorf("revoked twice: %+v", got)
	}
	if got, ok := b.Revoke(""); ok {
		t.Errorf("revoked without an id: %+v", got)
	}
	b.Take(foreign, "local")
	b.EndTurn(turn2)
	if diff := cmp.Diff([]permission.Grant{all[3], all[4]}, b.List("")); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

func TestBookSharesNoMemory(t *testing.T) {
	profile := `{"network":{"hosts":["one.example"]},"file_system":{"read":["/x"]}}`
	given := to(t, turn1, permission.Turn, profile)
	spoil := func(p permission.Profile) {
		p.Network.Hosts[0] = "other.example"
		p.FileSystem.Entries[0] = permission.Literal("/", permission.Write)
	}
	b := newBook()
	got := record(t, b, given)
	spoil(given.Permissions)
	if diff := cmp.Diff(profile, profileAsWritten(t, got.Permissions)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	spoil(got.Permissions)
	spoil(b.Held(turn1, "local"))
	spoil(b.Held(turn1, "local"))
	taken, _ := b.Take(turn1, "local")
	spoil(taken)
	spoil(b.List("s1")[0].Permissions)
	if diff := cmp.Diff(profile, profileAsWritten(t, b.Held(turn1, "local"))); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	b.Revoke(record(t, b, to(t, turn1, permission.Turn, writeW)).ID)
	if diff := cmp.Diff(profile, profileAsWritten(t, b.Held(turn1, "local"))); diff != "" {
		t.Errorf("held after a change (-want +got):\n%s", diff)
	}
}

// profileAsWritten is p in the short spelling of this file's constants.
func profileAsWritten(t testing.TB, p permission.Profile) string {
	t.Helper()
	var out struct {
		Network    json.RawMessage `json:"network"`
		FileSystem struct {
			Read json.RawMessage `json:"read"`
		} `json:"file_system"`
	}
	if err := json.Unmarshal([]byte(p.String()), &out); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"network":%s,"file_system":{"read":%s}}`, out.Network, out.FileSystem.Read)
}

func TestGrantJSON(t *testing.T) {
	g := to(t, turn1, permission.Turn, online)
	g.ID, g.Strict, g.By, g.Record, g.At = "g1", true, "user:sam", "r1", time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	want := `{"id":"g1","session_id":"s1","turn_id":"t1","call_id":"c1","environment_id":"local","scope":"turn",` +
		`"permissions":{"network":{"enabled":true}},"strict_auto_review":true,"by":"user:sam","record_id":"r1","at":"2026-05-01T12:00:00Z"}`
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var back permission.Grant
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g, back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// modelBook is what a Book is by its rules: a list of grants, read anew each time.
type modelBook struct {
	sessions map[string]bool
	turns    map[permission.Owner]bool
	strict   map[permission.Owner]bool
	grants   []permission.Grant
}

func (m *modelBook) takes(g permission.Grant) bool {
	if g.Scope == permission.Session {
		return m.sessions[g.Session] && !g.Strict
	}
	return m.turns[permission.Owner{Session: g.Session, Turn: g.Turn}]
}

func (m *modelBook) held(o permission.Owner, environment string) (permission.Profile, []string) {
	var p permission.Profile
	var took []string
	for _, g := range m.grants {
		if g.Session == o.Session && g.Environment == environment && (g.Scope == permission.Session || g.Turn == o.Turn) {
			p = permission.Merge(p, g.Permissions)
			took = append(took, g.ID)
		}
	}
	return p, took
}

func (m *modelBook) drop(gone func(permission.Grant) bool) {
	m.grants = slices.DeleteFunc(m.grants, gone)
}

func TestBookIsItsModel(t *testing.T) {
	// Names repeat so that grants meet each other often.
	sessions := rapid.SampledFrom([]string{"s1", "s1", "s1", "s1", "s1", "s2", ""})
	turns := rapid.SampledFrom([]string{"t1", "t1", "t1", "t1", "t2", "t2", "t3", ""})
	environments := rapid.SampledFrom([]string{"local", "local", "local", "local", "local", "local", "remote", ""})
	scopes := rapid.SampledFrom([]permission.Scope{permission.Once, permission.Turn, permission.Session})
	// A number in a range would be the smallest more often than not.
	seldom := rapid.SampledFrom([]bool{false, false, false, false, false, true})
	owner := func(t *rapid.T) permission.Owner {
		return permission.Owner{Session: sessions.Draw(t, "session"), Turn: turns.Draw(t, "turn")}
	}
	tried := make(map[string]int)
	rapid.Check(t, func(t *rapid.T) {
		b := new(permission.Book)
		m := &modelBook{sessions: map[string]bool{}, turns: map[permission.Owner]bool{}, strict: map[permission.Owner]bool{}}
		var seen []string
		open := func(o permission.Owner) {
			b.OpenTurn(o)
			if o.Session != "" && o.Turn != "" {
				m.sessions[o.Session], m.turns[o] = true, true
			}
		}
		for _, o := range []permission.Owner{turn1, turn2, foreign} {
			open(o)
		}
		grant := func(t *rapid.T) {
			o := owner(t)
			g := permission.Grant{
				Session: o.Session, Turn: o.Turn, Environment: environments.Draw(t, "environment"),
				Scope: scopes.Draw(t, "scope"), Strict: seldom.Draw(t, "strict"),
			}
			if !seldom.Draw(t, "empty") {
				g.Permissions = everyShape.draw(t, "permissions")
			}
			got, err := b.Record(g)
			if (err == nil) != m.takes(g) {
				t.Fatalf("Record(%+v): %v, want it to be taken: %v", g, err, m.takes(g))
			}
			if err != nil {
				return
			}
			m.strict[o] = m.strict[o] || g.Strict
			if (got.ID != "") == g.Permissions.IsEmpty() {
				t.Fatalf("Record(%+v) has id %q", g, got.ID)
			}
			if got.ID != "" {
				m.grants = append(m.grants, got)
				seen = append(seen, got.ID)
				tried["grant"]++
			}
		}
		// Steps that do nothing are not skipped, since rapid ends a run with many of
		// those early.
		rarely := func(t *rapid.T) bool { return seldom.Draw(t, "rare") }
		t.Repeat(map[string]func(*rapid.T){
			"record": grant, "record more": grant, "record yet more": grant, "record still more": grant,
			"open turn": func(t *rapid.T) { open(owner(t)) },
			"open session": func(t *rapid.T) {
				s := sessions.Draw(t, "session")
				b.OpenSession(s)
				if s != "" {
					m.sessions[s] = true
				}
			},
			"end turn": func(t *rapid.T) {
				if !rarely(t) {
					return
				}
				o := owner(t)
				b.EndTurn(o)
				delete(m.turns, o)
				m.drop(func(g permission.Grant) bool {
					return g.Session == o.Session && g.Turn == o.Turn && g.Scope != permission.Session
				})
			},
			"end session": func(t *rapid.T) {
				if !rarely(t) {
					return
				}
				s := sessions.Draw(t, "session")
				b.EndSession(s)
				delete(m.sessions, s)
				for _, turn := range []string{"t1", "t2", "t3", ""} {
					delete(m.turns, permission.Owner{Session: s, Turn: turn})
					delete(m.strict, permission.Owner{Session: s, Turn: turn})
				}
				m.drop(func(g permission.Grant) bool { return g.Session == s })
			},
			"take": func(t *rapid.T) {
				o, environment := owner(t), environments.Draw(t, "environment")
				want, wantIDs := m.held(o, environment)
				if len(wantIDs) > 1 {
					tried["merge"]++
				}
				got, gotIDs := b.Take(o, environment)
				if !got.Equal(want) || !slices.Equal(gotIDs, wantIDs) {
					t.Fatalf("Take(%v, %q) = %v, %v, want %v, %v", o, environment, got, gotIDs, want, wantIDs)
				}
				m.drop(func(g permission.Grant) bool { return g.Scope == permission.Once && slices.Contains(wantIDs, g.ID) })
			},
			"revoke": func(t *rapid.T) {
				if len(seen) == 0 || !rarely(t) {
					return
				}
				id := rapid.SampledFrom(seen).Draw(t, "id")
				want := slices.Contains(ids(m.grants...), id)
				if want {
					tried["revocation"]++
				}
				if got, ok := b.Revoke(id); ok != want || ok && got.ID != id {
					t.Fatalf("Revoke(%q) = %+v, %v, want %v", id, got, ok, want)
				}
				m.drop(func(g permission.Grant) bool { return g.ID == id })
			},
			// After every step.
			"": func(t *rapid.T) {
				for _, s := range []string{"s1", "s2", ""} {
					for _, turn := range []string{"t1", "t2", "t3", ""} {
						o := permission.Owner{Session: s, Turn: turn}
						for _, environment := range []string{"local", "remote", ""} {
							want, _ := m.held(o, environment)
							if got := b.Held(o, environment); !got.Equal(want) {
								t.Fatalf("Held(%v, %q) = %v, want %v", o, environment, got, want)
							}
						}
						if got, want := b.Strict(o), m.strict[o]; got != want {
							t.Fatalf("Strict(%v) = %v, want %v", o, got, want)
						}
					}
				}
				if diff := cmp.Diff(ids(m.grants...), ids(b.List("")...)); diff != "" {
					t.Fatalf("List (-want +got):\n%s", diff)
				}
			},
		})
	})
	for _, what := range []string{"grant", "merge", "revocation"} {
		if tried[what] == 0 {
			t.Errorf("the model was tried without a %s", what)
		}
	}
	t.Logf("tried: %v", tried)
}

// together runs all of them at once and waits for them.
func together(all ...func()) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for _, f := range all {
		wg.Go(func() {
			<-start
			f()
		})
	}
	close(start)
	wg.Wait()
}

func TestBookGivesWhatIsForOnceToOneCaller(t *testing.T) {
	const grants, callers = 100, 8
	b := newBook()
	var all []string
	for range grants {
		all = append(all, record(t, b, to(t, turn1, permission.Once, writeW)).ID)
	}
	lasting := record(t, b, to(t, turn1, permission.Turn, readX)).ID
	var mu sync.Mutex
	var got []string
	race := make([]func(), 0, callers+1)
	for range callers {
		race = append(race, func() {
			for range 5 {
				_, took := b.Take(turn1, "local")
				mu.Lock()
				got = append(got, slices.DeleteFunc(took, func(id string) bool { return id == lasting })...)
				mu.Unlock()
			}
		})
	}
	race = append(race, func() {
		for _, id := range all[:grants/2] {
			if _, ok := b.Revoke(id); ok {
				mu.Lock()
				got = append(got, id)
				mu.Unlock()
			}
		}
	})
	together(race...)
	slices.Sort(all)
	slices.Sort(got)
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("grants that were taken or revoked (-want +got):\n%s", diff)
	}
}

func TestBookKeepsNothingOfASessionThatEndsMeanwhile(t *testing.T) {
	for range 200 {
		b := newBook()
		given := to(t, turn1, permission.Session, writeW)
		together(
			func() { b.EndSession("s1") },
			func() { b.OpenTurn(turn2) },
			func() { b.EndTurn(turn1) },
			func() {
				if _, err := b.Record(given); err != nil && !errors.Is(err, permission.ErrEnded) {
					t.Errorf("Record: %v", err)
				}
			},
			func() { b.Held(turn1, "local"); b.Take(turn1, "local"); b.Strict(turn1); b.List("s1") },
		)
		// The turn may have opened the session anew, and the grant have come after.
		b.EndSession("s1")
		if _, err := b.Record(given); !errors.Is(err, permission.ErrEnded) {
			t.Fatalf("Record after the end: %v", err)
		}
		if all := b.List(""); len(all) > 0 {
			t.Fatalf("the book has %+v", all)
		}
	}
}

func TestBookHeldIsFreeWhereNothingIs(t *testing.T) {
	b := newBook()
	record(t, b, to(t, turn2, permission.Turn, writeW))
	record(t, b, to(t, turn2, permission.Session, writeW))
	tests := map[string]struct {
		owner       permission.Owner
		environment string
	}{
		"no such session":            {permission.Owner{Session: "s9", Turn: "t1"}, "local"},
		"a session without grants":   {foreign, "local"},
		"grants elsewhere":           {turn1, "remote"},
		"elsewhere, for a take":      {turn2, "remote"},
		"a call that has no session": {permission.Owner{}, "local"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			allocs := testing.AllocsPerRun(100, func() {
				b.Held(tt.owner, tt.environment)
				b.Take(tt.owner, tt.environment)
				b.Strict(tt.owner)
			})
			if allocs != 0 {
				t.Errorf("%v allocations, want none", allocs)
			}
		})
	}
}

func TestBookKeepsWhatItWorkedOut(t *testing.T) {
	b := newBook()
	record(t, b, to(t, turn1, permission.Turn, guardedW))
	copying := testing.AllocsPerRun(100, func() { b.Held(turn1, "local") })
	if copying > 1 {
		t.Errorf("%v allocations for what is known, want those of a copy", copying)
	}
	var many []string
	for i := range 64 {
		many = append(many, fmt.Sprint("environment", i))
	}
	crowded := testing.AllocsPerRun(20, func() {
		for _, environment := range many {
			b.Held(turn1, environment)
		}
		b.Held(turn1, "local")
	})
	if crowded <= copying {
		t.Error("what was worked out is kept without bounds")
	}
}

func ExampleBook() {
	var book permission.Book
	first := permission.Owner{Session: "s1", Turn: "t1"}
	next := permission.Owner{Session: "s1", Turn: "t2"}
	book.OpenTurn(first)
	for scope, entry := range map[permission.Scope]permission.Entry{
		permission.Session: permission.Literal("/workspace/docs", permission.Read),
		permission.Turn:    permission.Literal("/workspace/app", permission.Write),
		permission.Once:    permission.Literal("/workspace/build", permission.Write),
	} {
		_, err := book.Record(permission.Grant{
			Session: first.Session, Turn: first.Turn, Environment: "local", Scope: scope,
			Permissions: permission.Profile{FileSystem: permission.FileSystem{Entries: []permission.Entry{entry}}},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	book.OpenTurn(next)
	for _, owner := range []permission.Owner{first, first, next} {
		taken, ids := book.Take(owner, "local")
		fmt.Println(owner.Turn, len(ids), taken.FileSystem.Entries)
	}
	// Output:
	// t1 3 [write /workspace/app write /workspace/build read /workspace/docs]
	// t1 2 [write /workspace/app read /workspace/docs]
	// t2 1 [read /workspace/docs]
}

func BenchmarkBookHeld(b *testing.B) {
	for _, n := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("grants=%d", n), func(b *testing.B) {
			book := newBook()
			for i := range n {
				record(b, book, to(b, turn1, permission.Turn, fmt.Sprintf(`{"file_system":{"write":["/w/%d"]}}`, i%5)))
			}
			b.ReportAllocs()
			for b.Loop() {
				book.Held(turn1, "local")
			}
		})
	}
	// The first look after a change is the dear one.
	b.Run("changed", func(b *testing.B) {
		book := newBook()
		for i := range 100 {
			record(b, book, to(b, turn1, permission.Turn, fmt.Sprintf(`{"file_system":{"write":["/w/%d"]}}`, i)))
		}
		once := to(b, turn1, permission.Once, readX)
		b.ReportAllocs()
		for b.Loop() {
			record(b, book, once)
			book.Take(turn1, "local")
		}
	})
}
