package permission_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/gate/permission/permissiontest"
)

func everywhere() []string { return slices.Concat(plain, otherPoints()) }

// lawful checks that got says at every point what want works out from the meanings
// of the operands.
func lawful(t *rapid.T, law string, got permission.Profile, want func(of ...answer) answer, operands ...permission.Profile) {
	t.Helper()
	for _, point := range everywhere() {
		of := make([]answer, len(operands))
		for i, p := range operands {
			of[i] = meaning(p, point, exactly)
		}
		if is := meaning(got, point, exactly); is.permits() != want(of...).permits() {
			failed(t, law, point, is, want(of...), append(operands, got)...)
		}
	}
}

func least(of ...answer) answer {
	out := denied
	for _, a := range of {
		out = min(out, a.permits())
	}
	return out
}

func greatest(of ...answer) answer { return slices.Max(of) }

func TestIntersectAllowsExactlyWhatBothAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := everyShape.draw(t, "requested"), everyShape.draw(t, "granted")
		lawful(t, "p ∩ q", permission.Intersect(p, q), least, p, q)
	})
}

func TestIntersectIsCoveredByBothSides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := everyShape.draw(t, "requested"), everyShape.draw(t, "granted")
		got := permission.Intersect(p, q)
		if !permission.Covers(p, got) || !permission.Covers(q, got) {
			t.Fatalf("Intersect(%v, %v) = %v, which is not covered by both", p, q, got)
		}
	})
}

func TestIntersectIsIdempotentCommutativeAssociativeMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q, r := everyShape.draw(t, "p"), everyShape.draw(t, "q"), everyShape.draw(t, "r")
		once := permission.Intersect(p, p)
		lawful(t, "p ∩ p", once, least, p)
		if again := permission.Intersect(once, once); !again.Equal(once) {
			t.Fatalf("Intersect(%v) with itself = %v", once, again)
		}
		if one, two := permission.Intersect(p, q), permission.Intersect(q, p); !one.Equal(two) {
			t.Fatalf("Intersect depends on the order: %v and %v", one, two)
		}
		left := permission.Intersect(permission.Intersect(p, q), r)
		right := permission.Intersect(p, permission.Intersect(q, r))
		lawful(t, "(p ∩ q) ∩ r", left, least, right)
		lawful(t, "all of it", left, least, p, q, r)
		// p ∩ q ⊆ p, so meeting r keeps that order.
		if !permission.Covers(permission.Intersect(p, r), left) {
			t.Fatalf("Intersect is not monotone: %v ∩ %v does not cover %v", p, r, left)
		}
	})
}

func TestEverythingLimitsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := everyShape.draw(t, "p")
		lawful(t, "p ∩ everything", permission.Intersect(p, permission.Everything()), least, p)
		if !permission.Covers(permission.Everything(), p) {
			t.Fatalf("everything does not cover %v", p)
		}
		if got := permission.Intersect(p, permission.Profile{}); !got.IsEmpty() {
			t.Fatalf("%v ∩ nothing = %v", p, got)
		}
	})
}

// A deny that is left must cut something that is left; so none is left alone.
func TestIntersectKeepsDeniesOnlyWithWhatTheyCut(t *testing.T) {
	within := shape{points: plain}
	rapid.Check(t, func(t *rapid.T) {
		p, q := within.draw(t, "requested"), within.draw(t, "granted")
		got := permission.Intersect(p, q)
		for _, d := range got.FileSystem.Entries {
			if d.Access != permission.Deny {
				continue
			}
			cuts := slices.ContainsFunc(got.FileSystem.Entries, func(e permission.Entry) bool {
				return e.Access != permission.Deny && holds(names(e.Path.Path), names(d.Path.Path), exactly)
			})
			if !cuts {
				t.Fatalf("Intersect(%v, %v) = %v: deny of %s cuts nothing", p, q, got, d.Path.Path)
			}
		}
	})
}

func TestMergeIsTheLeastUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := everyShape.draw(t, "held"), everyShape.draw(t, "added")
		got := permission.Merge(p, q)
		for _, point := range everywhere() {
			// The denies themselves must be there too, so no permits() here.
			want := greatest(meaning(p, point, exactly), meaning(q, point, exactly))
			if is := meaning(got, point, exactly); is != want {
				failed(t, "p ∪ q", point, is, want, p, q, got)
			}
		}
	})
}

func TestMergeIsIdempotentCommutativeAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q, r := everyShape.draw(t, "p"), everyShape.draw(t, "q"), everyShape.draw(t, "r")
		once := permission.Merge(p, p)
		if again := permission.Merge(once, p); !again.Equal(once) {
			t.Fatalf("Merge(%v, %v) = %v", once, p, again)
		}
		if one, two := permission.Merge(p, q), permission.Merge(q, p); !one.Equal(two) {
			t.Fatalf("Merge depends on the order: %v and %v", one, two)
		}
		left := permission.Merge(permission.Merge(p, q), r)
		right := permission.Merge(p, permission.Merge(q, r))
		if !left.Equal(right) {
			t.Fatalf("Merge depends on the grouping: %v and %v", left, right)
		}
	})
}

// covered tells by brute force whether limit allows all that p allows.
func covered(limit, p permission.Profile) bool {
	for _, point := range everywhere() {
		if meaning(p, point, exactly).permits() > meaning(limit, point, exactly).permits() {
			return false
		}
	}
	return true
}

func TestCoversIsInclusion(t *testing.T) {
	// Patterns and minimal are compared with caution only; see the next law.
	within := shape{points: plain}
	var yes, no int
	rapid.Check(t, func(t *rapid.T) {
		limit, p := within.draw(t, "limit"), within.draw(t, "p")
		if rapid.Bool().Draw(t, "related") {
			p = permission.Intersect(limit, p)
		}
		got, want := permission.Covers(limit, p), covered(limit, p)
		if got != want {
			t.Fatalf("Covers(%v, %v) = %v, want %v", limit, p, got, want)
		}
		if got {
			yes++
		} else {
			no++
		}
	})
	if yes == 0 || no == 0 {
		t.Fatalf("the law was tried on %d covered and %d uncovered profiles", yes, no)
	}
}

func TestCoversNeverSaysYesToMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, p := everyShape.draw(t, "limit"), everyShape.draw(t, "p")
		if permission.Covers(limit, p) && !covered(limit, p) {
			t.Fatalf("Covers(%v, %v) = true", limit, p)
		}
		if !permission.Covers(p, p) {
			t.Fatalf("%v does not cover itself", p)
		}
	})
}

func TestDecideIsTheMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := everyShape.draw(t, "p")
		agree(t, p, plain, permissiontest.Tree{}, exactly)
	})
}

// agree checks Decide against the model at every path.
func agree(t *rapid.T, p permission.Profile, points []string, fsys permission.FS, same func(dir, one, other string) bool) {
	t.Helper()
	for _, point := range points {
		want := meaning(p, point, same)
		if got := decided(p, point, fsys); got != want {
			failed(t, "Decide", point, got, want, p)
		}
	}
}

func decided(p permission.Profile, point string, fsys permission.FS) answer {
	onRead := permission.Decide(p, permission.Read, point, fsys).Outcome
	onWrite := permission.Decide(p, permission.Write, point, fsys).Outcome
	switch {
	case onRead == permission.Denied && onWrite == permission.Denied:
		return denied
	case onRead == permission.Allowed && onWrite == permission.Allowed:
		return write
	case onRead == permission.Allowed && onWrite == permission.NotCovered:
		return read
	case onRead == permission.NotCovered && onWrite == permission.NotCovered:
		return nothing
	}
	panic(onRead + " to read and " + onWrite + " to write")
}

// folding is a volume on which some folders ignore letter case.
type folding struct {
	permissiontest.Tree
	dirs map[string]bool
}

func (f folding) SameName(dir, one, other string) (bool, error) {
	return f.same(dir, one, other), nil
}

func (f folding) same(dir, one, other string) bool {
	return one == other || f.dirs[strings.ToLower(dir)] && strings.EqualFold(one, other)
}

func drawFolding(t *rapid.T) folding {
	f := folding{dirs: make(map[string]bool)}
	for _, dir := range universe("a", "b") {
		f.dirs[dir] = rapid.Bool().Draw(t, "fold "+dir)
	}
	return f
}

func TestDenyFoldsWhereTheVolumeDoesAndAllowNever(t *testing.T) {
	within := shape{points: alike}
	rapid.Check(t, func(t *rapid.T) {
		volume := drawFolding(t)
		agree(t, within.draw(t, "p"), alike, volume, volume.same)
	})
}

// What holds for paths as they are spelled must hold on every volume: there too,
// nothing that either side denies under another spelling gets through.
func TestLawsHoldWhereLetterCaseIsIgnored(t *testing.T) {
	within := shape{points: alike, globs: true}
	rapid.Check(t, func(t *rapid.T) {
		volume := drawFolding(t)
		p, q := within.draw(t, "p"), within.draw(t, "q")
		both, either := permission.Intersect(p, q), permission.Merge(p, q)
		covers := permission.Covers(p, q)
		for _, point := range alike {
			atP, atQ := decided(p, point, volume), decided(q, point, volume)
			if got, want := decided(both, point, volume).permits(), least(atP, atQ); got != want {
				failed(t, "p ∩ q", point, got, want, p, q, both)
			}
			if got, want := decided(either, point, volume), greatest(atP, atQ); got != want {
				failed(t, "p ∪ q", point, got, want, p, q, either)
			}
			if covers && atQ.permits() > atP.permits() {
				failed(t, "p covers q", point, atQ, atP, p, q)
			}
		}
	})
}

func TestIntersectAllIsTheThreeWayIntersection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q, r := everyShape.draw(t, "requested"), everyShape.draw(t, "granted"), everyShape.draw(t, "ceiling")
		got := permission.IntersectAll(p, q, r)
		lawful(t, "p ∩ q ∩ r", got.Permissions, least, p, q, r)
		lost := func(side, by permission.Side) bool {
			return slices.ContainsFunc(got.Dropped, func(d permission.Dropped) bool { return d.Side == side && d.By == by })
		}
		for _, d := range got.Dropped {
			if d.Message == "" || d.Side == "" {
				t.Fatalf("a part was dropped without a word: %+v", d)
			}
		}
		if want := !permission.Covers(p, q); lost(permission.SideGranted, permission.SideRequested) != want {
			t.Fatalf("the grant exceeds the request: %v, dropped %+v", want, got.Dropped)
		}
		if want := !permission.Covers(q, p); lost(permission.SideRequested, permission.SideGranted) != want {
			t.Fatalf("the request exceeds the grant: %v, dropped %+v", want, got.Dropped)
		}
		if want := !permission.Covers(r, permission.Intersect(p, q)); lost(permission.SideGranted, permission.SideCeiling) != want {
			t.Fatalf("the rest exceeds the ceiling: %v, dropped %+v", want, got.Dropped)
		}
	})
}

func TestSettleNeverGrantsMoreThanAnySide(t *testing.T) {
	scopes := rapid.SampledFrom([]permission.Scope{"", permission.Once, permission.Turn, permission.Session})
	rapid.Check(t, func(t *rapid.T) {
		requested := everyShape.draw(t, "requested")
		response := permission.Response{
			Permissions: everyShape.draw(t, "granted"), Scope: scopes.Draw(t, "scope"),
			StrictAutoReview: rapid.Bool().Draw(t, "strict"),
		}
		ceiling := permission.Ceiling{Permissions: everyShape.draw(t, "ceiling"), Scope: scopes.Draw(t, "longest")}
		got, err := permission.Settle(requested, response, ceiling)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []permission.Profile{requested, response.Permissions, ceiling.Permissions} {
			if !permission.Covers(limit, got.Permissions) {
				t.Fatalf("Settle = %v, more than %v", got.Permissions, limit)
			}
		}
		if got.Scope == permission.Session && (got.StrictAutoReview || response.Scope != permission.Session) {
			t.Fatalf("Settle = %+v for %+v", got, response)
		}
		if !got.Permissions.IsEmpty() && !got.Scope.Within(max(ceiling.Scope, permission.Once)) {
			t.Fatalf("Settle lasts for %s, longer than %q", got.Scope, ceiling.Scope)
		}
	})
}

func TestProfilesSurviveJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := everyShape.draw(t, "p")
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var back permission.Profile
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !back.Equal(p) {
			t.Fatalf("%v came back as %v", p, back)
		}
		shuffled := p
		shuffled.FileSystem.Entries = rapid.Permutation(p.FileSystem.Entries).Draw(t, "shuffled")
		if again, err := json.Marshal(shuffled); err != nil || string(again) != string(text) {
			t.Fatalf("another order is written as %s, %v, want %s", again, err, text)
		}
	})
}

func TestOperandsStayAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := everyShape.draw(t, "p"), everyShape.draw(t, "q")
		deepP, deepQ := p.String(), q.String()
		order := slices.Clone(p.FileSystem.Entries)
		permission.Intersect(p, q)
		permission.IntersectAll(p, q, p)
		permission.Merge(p, q)
		permission.Covers(p, q)
		if _, _, err := permission.Normalise(p, permission.SideRequested, permission.Environment{}, permissiontest.Tree{}); err != nil {
			t.Fatal(err)
		}
		if p.String() != deepP || q.String() != deepQ || !slices.Equal(order, p.FileSystem.Entries) {
			t.Fatalf("operands changed: %v, %v", p, q)
		}
	})
}
