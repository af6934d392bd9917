//go:build unix

package credential_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/server/credential"
)

func create(t testing.TB, tokens *credential.Tokens, principal string, expires time.Time) (string, credential.Token) {
	t.Helper()
	token, entry, err := tokens.Create(principal, "", expires)
	if err != nil {
		t.Fatal(err)
	}
	return token, entry
}

// wantBearer checks who bears a token: nobody if want is empty.
func wantBearer(t testing.TB, tokens *credential.Tokens, token, want string) {
	t.Helper()
	got, ok, err := tokens.Authenticate(token)
	if err != nil || ok != (want != "") || got.Principal != want {
		t.Errorf("Authenticate = %+v, %v, %v; want %q", got, ok, err, want)
	}
}

func TestTokenIsKnownByItsHashAlone(t *testing.T) {
	dir, at := home(t), newClock()
	tokens := credential.NewTokens(dir, at.now)
	token, entry, err := tokens.Create("user:sam", "laptop", at.now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := credential.Token{ID: entry.ID, Name: "laptop", Principal: "user:sam", Created: at.now(), Expires: at.now().Add(time.Hour)}
	got, ok, err := tokens.Authenticate(token)
	if err != nil || !ok {
		t.Fatalf("Authenticate = %v, %v", ok, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	list, err := credential.NewTokens(dir, at.now).List()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]credential.Token{want}, list); diff != "" {
		t.Errorf("List (-want +got)\n%s", diff)
	}
	path := filepath.Join(dir, "tokens.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	secret := strings.TrimPrefix(token, credential.TokenPrefix)
	if text := read(t, path); strings.Contains(text, secret) || !strings.Contains(text, entry.ID) {
		t.Errorf("the file has the token, or not its id:\n%s", text)
	}
	if len(secret) < 256/5 || secret == token {
		t.Errorf("%q has fewer than 256 bits or no prefix", token)
	}
}

func TestTokensAreIssuedInOrderAndNoTwoAlike(t *testing.T) {
	tokens := credential.NewTokens(home(t), newClock().now)
	seen := map[string]bool{}
	var want []string
	for i := range 20 {
		token, entry := create(t, tokens, fmt.Sprintf("user:%d", i), time.Time{})
		if seen[token] || seen[entry.ID] {
			t.Fatalf("%s was issued twice", entry.ID)
		}
		seen[token], seen[entry.ID] = true, true
		want = append(want, entry.ID)
	}
	list, err := tokens.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range list {
		got = append(got, l.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAuthenticateRefusesWhatIsNoToken(t *testing.T) {
	tokens := credential.NewTokens(home(t), nil)
	token, _ := create(t, tokens, "user:sam", time.Time{})
	foreign, _ := create(t, credential.NewTokens(home(t), nil), "user:sam", time.Time{})
	for name, text := range map[string]string{
		"empty":                "",
		"the prefix":           credential.TokenPrefix,
		"no prefix":            strings.TrimPrefix(token, credential.TokenPrefix),
		"a space behind":       token + " ",
		"a line break behind":  token + "\n",
		"capitals":             strings.ToUpper(token),
		"of another home":      foreign,
		"twice":                token + token,
		"with the scheme":      "Bearer " + token,
		"long":                 credential.TokenPrefix + strings.Repeat("a", 1<<20),
		"one character short":  token[:len(token)-1],
		"not known, well made": credential.TokenPrefix + strings.Repeat("a", 52),
	} {
		t.Run(name, func(t *testing.T) { wantBearer(t, tokens, text, "") })
	}
	rapid.Check(t, func(t *rapid.T) {
		changed := []byte(token)
		i := rapid.IntRange(0, len(changed)-1).Draw(t, "at")
		changed[i] ^= rapid.ByteRange(1, 255).Draw(t, "by")
		if got, ok, err := tokens.Authenticate(string(changed)); ok || err != nil || got != (credential.Token{}) {
			t.Fatalf("Authenticate(%q) = %v, %v, %v", changed, got, ok, err)
		}
	})
	wantBearer(t, tokens, token, "user:sam")
}

func TestAuthenticateRefusesATokenFromWhenItExpires(t *testing.T) {
	at := newClock()
	tokens := credential.NewTokens(home(t), at.now)
	token, _ := create(t, tokens, "user:sam", at.now().Add(time.Hour))
	lasting, _ := create(t, tokens, "user:kim", time.Time{})
	at.move(time.Hour - 1)
	wantBearer(t, tokens, token, "user:sam")
	at.move(1)
	wantBearer(t, tokens, token, "")
	at.move(100 * 365 * 24 * time.Hour)
	wantBearer(t, tokens, lasting, "user:kim")
}

func TestCreateRefuses(t *testing.T) {
	dir, at := home(t), newClock()
	tokens := credential.NewTokens(dir, at.now)
	for _, tt := range []struct {
		name, principal, label string
		expires                time.Time
		principalIsWrong       bool
	}{
		{"the local administrator", "local", "", time.Time{}, true},
		{"the local administrator, however written", "LOCAL", "", time.Time{}, true},
		{"nobody", "", "", time.Time{}, true},
		{"everybody", "user:*", "", time.Time{}, true},
		{"a name with a space", "user: sam", "", time.Time{}, true},
		{"a name with a line break", "user:sam\n", "", time.Time{}, true},
		{"a name that turns the line round", "user:\u202esam", "", time.Time{}, true},
		{"a name that is no UTF-8", "user:\xff", "", time.Time{}, true},
		{"a name that is too long", strings.Repeat("x", 257), "", time.Time{}, true},
		{"a label with a line break", "user:sam", "a\nb", time.Time{}, false},
		{"a label that is too long", "user:sam", strings.Repeat("x", 129), time.Time{}, false},
		{"one that expires now", "user:sam", "", at.now(), false},
		{"one that has expired", "user:sam", "", at.now().Add(-time.Second), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			token, entry, err := tokens.Create(tt.principal, tt.label, tt.expires)
			if err == nil || token != "" || entry != (credential.Token{}) || errors.Is(err, credential.ErrPrincipal) != tt.principalIsWrong {
				t.Errorf("Create = %q, %v, %v", token, entry, err)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "tokens.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was written: %v", err)
	}
}

func TestRevokeTakesOneTokenAndNoOther(t *testing.T) {
	tokens := credential.NewTokens(home(t), nil)
	first, entry := create(t, tokens, "user:sam", time.Time{})
	second, _ := create(t, tokens, "user:sam", time.Time{})
	wantBearer(t, tokens, first, "user:sam")
	if err := tokens.Revoke(entry.ID); err != nil {
		t.Fatal(err)
	}
	wantBearer(t, tokens, first, "")
	wantBearer(t, tokens, second, "user:sam")
	for _, id := range []string{entry.ID, "", "nope"} {
		if err := tokens.Revoke(id); !errors.Is(err, credential.ErrNoToken) {
			t.Errorf("Revoke(%q) = %v, want %v", id, err, credential.ErrNoToken)
		}
	}
	wantBearer(t, tokens, second, "user:sam")
}

// A file that was changed long ago is not read again, so each change must show
// in what the file system tells of it.
func TestAuthenticateSeesEachChangeOfTheFile(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, other *credential.Tokens, path string, entry credential.Token)
		first  string
		err    error
	}{
		{"none", func(*testing.T, *credential.Tokens, string, credential.Token) {}, "user:sam", nil},
		{"another process revokes", func(t *testing.T, other *credential.Tokens, _ string, entry credential.Token) {
			if err := other.Revoke(entry.ID); err != nil {
				t.Fatal(err)
			}
		}, "", nil},
		{"another process issues", func(t *testing.T, other *credential.Tokens, _ string, _ credential.Token) {
			create(t, other, "user:lee", time.Time{})
		}, "user:sam", nil},
		{"it is edited in place", func(t *testing.T, _ *credential.Tokens, path string, _ credential.Token) {
			write(t, path, strings.Replace(read(t, path), "user:sam", "user:tom", 1))
		}, "user:tom", nil},
		{"it is replaced by one as old and as large", func(t *testing.T, _ *credential.Tokens, path string, _ credential.Token) {
			write(t, path+".new", strings.Replace(read(t, path), "user:sam", "user:tom", 1))
			age(t, path+".new")
			move(t, path+".new", path)
		}, "user:tom", nil},
		{"it is removed", func(t *testing.T, _ *credential.Tokens, path string, _ credential.Token) { remove(t, path) }, "", nil},
		{"it is broken", func(t *testing.T, _ *credential.Tokens, path string, _ credential.Token) { write(t, path, "{") }, "", credential.ErrMalformed},
		{"others may read it", func(t *testing.T, _ *credential.Tokens, path string, _ credential.Token) { chmod(t, path, 0o644) }, "", credential.ErrUnsafe},
		{"another user gets it", func(t *testing.T, _ *credential.Tokens, path string, _ credential.Token) { giveAway(t, path) }, "", credential.ErrUnsafe},
	} {
		for _, aged := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, aged %v", tt.name, aged), func(t *testing.T) {
				dir := home(t)
				path := filepath.Join(dir, "tokens.json")
				tokens := credential.NewTokens(dir, nil)
				token, entry := create(t, tokens, "user:sam", time.Time{})
				if aged {
					age(t, path)
				}
				wantBearer(t, tokens, token, "user:sam")
				tt.change(t, credential.NewTokens(dir, nil), path, entry)
				got, ok, err := tokens.Authenticate(token)
				if got.Principal != tt.first || ok != (tt.first != "") || !errors.Is(err, tt.err) {
					t.Errorf("Authenticate = %+v, %v, %v; want %q, %v", got, ok, err, tt.first, tt.err)
				}
			})
		}
	}
}

// age makes a file one that was changed long before the test, to the same
// instant each time.
func age(t *testing.T, path string) {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestAuthenticateSeesAFileThatIsPutBack(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "tokens.json")
	tokens := credential.NewTokens(dir, nil)
	token, _ := create(t, tokens, "user:sam", time.Time{})
	age(t, path)
	wantBearer(t, tokens, token, "user:sam")
	move(t, path, path+".old")
	wantBearer(t, tokens, token, "")
	move(t, path+".old", path)
	wantBearer(t, tokens, token, "user:sam")
}

func TestAuthenticateReadsAFileOnceThatDoesNotChange(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "tokens.json")
	tokens := credential.NewTokens(dir, nil)
	token, _ := create(t, tokens, "user:sam", time.Time{})
	allocs := func() float64 { return testing.AllocsPerRun(50, func() { wantBearer(t, tokens, token, "user:sam") }) }
	recent := allocs()
	age(t, path)
	if aged := allocs(); aged > recent/2 {
		t.Errorf("%v allocations, %v when it is read each time", aged, recent)
	}
}

const hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func TestAFileOfTokensThatIsNotRightIsAnError(t *testing.T) {
	entry := func(changes ...string) string {
		e := `{"id": "a", "principal": "user:sam", "created": "2026-01-01T00:00:00Z", "sha256": "` + hash + `"}`
		return strings.NewReplacer(changes...).Replace(e)
	}
	file := func(entries ...string) string {
		return `{"version": 1, "tokens": [` + strings.Join(entries, ",") + `]}`
	}
	otherHash := strings.Replace(hash, "9", "8", 1)
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"as it should be", file(entry()), true},
		{"two", file(entry(), entry(`"a"`, `"b"`, hash, otherHash)), true},
		{"none in it", file(), true},
		{"empty", "", false},
		{"cut off", file(entry())[:40], false},
		{"zeros", strings.Repeat("\x00", 100), false},
		{"null", "null", false},
		{"another shape", "[]", false},
		{"two documents", file() + file(), false},
		{"a field that is not known", file(entry(`"id"`, `"admin": true, "id"`)), false},
		{"a name given twice", file(entry(`"id"`, `"principal": "user:eve", "id"`)), false},
		{"capitals", file(entry(`"principal"`, `"Principal"`)), false},
		{"no version", `{"tokens": []}`, false},
		{"a newer version", `{"version": 2, "tokens": []}`, false},
		{"no tokens", `{"version": 1}`, false},
		{"no id", file(entry(`"id": "a", `, "")), false},
		{"no principal", file(entry(`"principal": "user:sam", `, "")), false},
		{"a principal that cannot have one", file(entry("user:sam", "local")), false},
		{"no creation", file(entry(`"created": "2026-01-01T00:00:00Z", `, "")), false},
		{"a date that is none", file(entry("2026-01-01", "2026-13-01")), false},
		{"an expiry that is null is none", file(entry(`"sha256"`, `"expires": null, "sha256"`)), true},
		{"no hash", file(entry(hash, "")), false},
		{"a short hash", file(entry(hash, hash[2:])), false},
		{"a long hash", file(entry(hash, hash+"00")), false},
		{"a hash that is no hexadecimal", file(entry(hash, strings.Repeat("x", 64))), false},
		{"an id twice", file(entry(), entry(hash, otherHash)), false},
		{"a hash twice", file(entry(), entry(`"a"`, `"b"`)), false},
		{"too large", file(entry("user:sam", strings.Repeat("x", 1<<20))), false},
		{"not UTF-8", file(entry("sam", "\xff")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := home(t)
			path := filepath.Join(dir, "tokens.json")
			write(t, path, tt.text)
			tokens := credential.NewTokens(dir, nil)
			got, ok, err := tokens.Authenticate(credential.TokenPrefix + strings.Repeat("a", 52))
			if ok || got != (credential.Token{}) {
				t.Errorf("Authenticate = %v, %v", got, ok)
			}
			if tt.ok {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantFileError(t, err, path, credential.ErrMalformed)
			if strings.Contains(err.Error(), hash[:16]) {
				t.Errorf("the error tells what is in the file: %v", err)
			}
			_, err = tokens.List()
			wantFileError(t, err, path, credential.ErrMalformed)
			_, _, err = tokens.Create("user:sam", "", time.Time{})
			wantFileError(t, err, path, credential.ErrMalformed)
			wantFileError(t, tokens.Revoke("a"), path, credential.ErrMalformed)
			if after := read(t, path); after != tt.text {
				t.Errorf("the file was changed to\n%s", after)
			}
		})
	}
}

func TestAFileOfTokensThatIsNotSafeIsAnError(t *testing.T) {
	for _, tt := range unsafeCases {
		t.Run(tt.name, func(t *testing.T) {
			dir := home(t)
			path := filepath.Join(dir, "tokens.json")
			tokens := credential.NewTokens(dir, nil)
			token, _ := create(t, tokens, "user:sam", time.Time{})
			wantBearer(t, tokens, token, "user:sam")
			tt.harm(t, path)
			got, ok, err := tokens.Authenticate(token)
			if ok || got != (credential.Token{}) {
				t.Errorf("Authenticate = %v, %v", got, ok)
			}
			wantFileError(t, err, path, credential.ErrUnsafe)
			_, _, err = tokens.Create("user:sam", "", time.Time{})
			wantFileError(t, err, path, credential.ErrUnsafe)
		})
	}
}

func TestTokensAfterAProcessWasKilledWhileItWrote(t *testing.T) {
	dir := home(t)
	tokens := credential.NewTokens(dir, nil)
	token, _ := create(t, tokens, "user:sam", time.Time{})
	write(t, filepath.Join(dir, "tokens.json.tmp"), `{"version": 1, "tok`)
	wantBearer(t, tokens, token, "user:sam")
	second, _ := create(t, tokens, "user:kim", time.Time{})
	wantBearer(t, tokens, token, "user:sam")
	wantBearer(t, tokens, second, "user:kim")
	if _, err := os.Stat(filepath.Join(dir, "tokens.json.tmp")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it left is still there: %v", err)
	}
}

func TestTokensThatCannotBeWrittenAreNotIssued(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "tokens.json")
	tokens := credential.NewTokens(dir, nil)
	token, entry := create(t, tokens, "user:sam", time.Time{})
	blockWrites(t, path)
	if token, _, err := tokens.Create("user:kim", "", time.Time{}); err == nil || token != "" {
		t.Errorf("Create = %q, %v", token, err)
	}
	if err := tokens.Revoke(entry.ID); err == nil {
		t.Error("Revoke says that it did")
	}
	wantBearer(t, tokens, token, "user:sam")
}

// blockWrites lets no file take the place of path, whoever runs the test.
func blockWrites(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path+".tmp/in/the/way", 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestTokensWhileAnotherProcessHoldsTheLock(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "tokens.json")
	tokens := credential.NewTokens(dir, nil).Impatient(20 * time.Millisecond)
	token, _ := create(t, tokens, "user:sam", time.Time{})
	lock, err := os.OpenFile(path+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tokens.Create("user:kim", "", time.Time{}); !errors.Is(err, credential.ErrBusy) {
		t.Errorf("Create = %v, want %v", err, credential.ErrBusy)
	}
	wantBearer(t, tokens, token, "user:sam")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	create(t, tokens, "user:kim", time.Time{})
}

func TestTokensIssuedAtTheSameTimeAreAllThere(t *testing.T) {
	dir := home(t)
	first := credential.NewTokens(dir, nil)
	instances := []*credential.Tokens{first, first, credential.NewTokens(dir, nil)}
	issued := make([]string, 24)
	var group sync.WaitGroup
	for i := range issued {
		group.Go(func() {
			token, entry, err := instances[i%len(instances)].Create(fmt.Sprintf("user:%d", i), "", time.Time{})
			if err != nil {
				t.Error(err)
				return
			}
			issued[i] = token
			wantBearer(t, first, token, entry.Principal)
			if i%4 == 0 {
				if err := first.Revoke(entry.ID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for i, token := range issued {
		want := fmt.Sprintf("user:%d", i)
		if i%4 == 0 {
			want = ""
		}
		for _, instance := range instances {
			wantBearer(t, instance, token, want)
		}
	}
}

func TestTokensAgainstAModel(t *testing.T) {
	type issued struct {
		token, id, principal string
		expires              time.Time
	}
	rapid.Check(t, func(r *rapid.T) {
		dir, at := home(t), newClock()
		tokens := credential.NewTokens(dir, at.now)
		live := map[string]issued{}
		var all []issued
		r.Repeat(map[string]func(*rapid.T){
			"create": func(r *rapid.T) {
				if len(all) == 6 {
					r.Skip("enough")
				}
				i := issued{principal: rapid.SampledFrom([]string{"user:sam", "user:kim", "agent:codex"}).Draw(r, "principal")}
				if rapid.Bool().Draw(r, "expires") {
					i.expires = at.now().Add(time.Duration(rapid.IntRange(1, 60).Draw(r, "seconds")) * time.Second)
				}
				token, entry, err := tokens.Create(i.principal, "", i.expires)
				if err != nil {
					r.Fatal(err)
				}
				i.token, i.id = token, entry.ID
				live[i.id], all = i, append(all, i)
			},
			"revoke": func(r *rapid.T) {
				if len(live) == 0 {
					r.Skip("nothing to revoke")
				}
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(live))).Draw(r, "id")
				if err := tokens.Revoke(id); err != nil {
					r.Fatal(err)
				}
				delete(live, id)
			},
			"time goes by": func(r *rapid.T) {
				at.move(time.Duration(rapid.IntRange(1, 40).Draw(r, "seconds")) * time.Second)
			},
			"restart": func(*rapid.T) { tokens = credential.NewTokens(dir, at.now) },
			"": func(r *rapid.T) {
				for _, i := range all {
					_, there := live[i.id]
					want := there && (i.expires.IsZero() || at.now().Before(i.expires))
					got, ok, err := tokens.Authenticate(i.token)
					if err != nil || ok != want || (ok && (got.Principal != i.principal || got.ID != i.id)) {
						r.Fatalf("Authenticate = %+v, %v, %v; want %v for %+v", got, ok, err, want, i)
					}
				}
			},
		})
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	tokens := credential.NewTokens(home(b), nil)
	token, _ := create(b, tokens, "user:sam", time.Time{})
	for b.Loop() {
		wantBearer(b, tokens, token, "user:sam")
	}
}
