//go:build unix

package credential_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/server/credential"
)

const (
	sam    = "user:sam"
	phrase = "correct horse battery"
)

var secretKey = []byte("12345678901234567890")

func codeAt(at time.Time) string { return credential.HOTP(secretKey, uint64(at.Unix()/30)) }

// withPassphrase is a home where sam has enrolled the phrase.
func withPassphrase(t testing.TB) (*credential.StepUp, string, *clock) {
	t.Helper()
	dir, at := home(t), newClock()
	s := credential.NewStepUp(dir, at.now).Cheap()
	if err := s.EnrollPassphrase(sam, phrase); err != nil {
		t.Fatal(err)
	}
	return s, dir, at
}

// withTOTP is a home where sam has enrolled an authenticator, long ago.
func withTOTP(t testing.TB) (*credential.StepUp, string, *clock) {
	t.Helper()
	dir, at := home(t), newClock()
	s := credential.NewStepUp(dir, at.now)
	if err := s.EnrollTOTP(sam, credential.SecretOf(secretKey), codeAt(at.now())); err != nil {
		t.Fatal(err)
	}
	at.move(time.Hour)
	return s, dir, at
}

func wantVerify(t testing.TB, s *credential.StepUp, proof string, want error) {
	t.Helper()
	if err := s.Verify(sam, proof); !errors.Is(err, want) || (want == nil && err != nil) {
		t.Fatalf("Verify(%q) = %v, want %v", proof, err, want)
	}
}

// RFC 4226, appendix D.
func TestHOTPOfTheStandard(t *testing.T) {
	for counter, want := range []string{
		"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489",
	} {
		if got := credential.HOTP(secretKey, uint64(counter)); got != want {
			t.Errorf("counter %d: %s, want %s", counter, got, want)
		}
	}
}

// RFC 6238, appendix B, of which six digits count here.
func TestTOTPOfTheStandard(t *testing.T) {
	for _, tt := range []struct {
		unix int64
		code string
	}{
		{59, "287082"},
		{1111111109, "081804"},
		{1111111111, "050471"},
		{1234567890, "005924"},
		{2000000000, "279037"},
		{20000000000, "353130"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			s := credential.NewStepUp(home(t), func() time.Time { return time.Unix(tt.unix, 0) })
			if err := s.EnrollTOTP(sam, credential.SecretOf(secretKey), tt.code); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTOTPAllowsOnePeriodEitherWay(t *testing.T) {
	for periods, want := range map[int]error{
		-3: credential.ErrWrong, -2: credential.ErrWrong, -1: nil, 0: nil, 1: nil, 2: credential.ErrWrong, 3: credential.ErrWrong,
	} {
		for _, second := range []int{0, 29} {
			t.Run(fmt.Sprintf("%+d in second %d", periods, second), func(t *testing.T) {
				s, _, at := withTOTP(t)
				at.move(time.Duration(second-at.now().Second()%30) * time.Second)
				wantVerify(t, s, codeAt(at.now().Add(time.Duration(periods)*30*time.Second)), want)
			})
		}
	}
}

func TestTOTPIsRead(t *testing.T) {
	s, _, at := withTOTP(t)
	code := codeAt(at.now())
	for name, text := range map[string]string{
		"empty": "", "cut off": code[:5], "one more": code + "0", "negative": "-" + code[1:], "of other digits": strings.Map(func(r rune) rune { return r - '0' + '٠' }, code),
	} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := withTOTP(t)
			wantVerify(t, s, text, credential.ErrWrong)
		})
	}
	wantVerify(t, s, " "+code[:3]+" "+code[3:]+"\n", nil)
}

func TestTOTPAcceptsEachCodeOnce(t *testing.T) {
	s, dir, at := withTOTP(t)
	code, next, last := codeAt(at.now()), codeAt(at.now().Add(30*time.Second)), codeAt(at.now().Add(-30*time.Second))
	wantVerify(t, s, code, nil)
	wantVerify(t, s, code, credential.ErrReplayed)
	// An older one was not used, but may have been seen.
	wantVerify(t, s, last, credential.ErrReplayed)
	restarted := credential.NewStepUp(dir, at.now)
	wantVerify(t, restarted, code, credential.ErrReplayed)
	wantVerify(t, restarted, next, nil)
	at.move(30 * time.Second)
	wantVerify(t, s, next, credential.ErrReplayed)
	at.move(30 * time.Second)
	wantVerify(t, s, codeAt(at.now()), nil)
}

func TestTOTPTheCodeOfTheEnrolmentIsUsed(t *testing.T) {
	at := newClock()
	s := credential.NewStepUp(home(t), at.now)
	code := codeAt(at.now())
	if err := s.EnrollTOTP(sam, credential.SecretOf(secretKey), code); err != nil {
		t.Fatal(err)
	}
	wantVerify(t, s, code, credential.ErrReplayed)
}

func TestTOTPOfManyCallsWithOneCodeOneSucceeds(t *testing.T) {
	s, dir, at := withTOTP(t)
	code := codeAt(at.now())
	instances := []*credential.StepUp{s, s, credential.NewStepUp(dir, at.now)}
	results := make([]error, 32)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i] = instances[i%len(instances)].Verify(sam, code) })
	}
	group.Wait()
	accepted := 0
	for _, err := range results {
		switch {
		case err == nil:
			accepted++
		case !errors.Is(err, credential.ErrReplayed) && !errors.Is(err, credential.ErrTooMany):
			t.Errorf("Verify = %v", err)
		}
	}
	if accepted != 1 {
		t.Errorf("%d of the calls succeeded, want one", accepted)
	}
}

func TestSecretShowsOnlyWhereItIsMeantTo(t *testing.T) {
	secret := credential.SecretOf(secretKey)
	const text = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	if got := secret.Base32(); got != text {
		t.Errorf("Base32 = %s, want %s", got, text)
	}
	for _, shown := range []string{
		fmt.Sprint(secret), fmt.Sprintf("%v %+v %#v %s %q %x %d", secret, secret, secret, secret, secret, secret, secret),
		fmt.Sprintf("%v %+v", []credential.Secret{secret}, struct{ S credential.Secret }{secret}),
	} {
		if strings.Contains(shown, text) || strings.Contains(shown, "123456") || strings.Contains(shown, "49 50") || strings.Contains(shown, "3132") {
			t.Errorf("it is formatted as %s", shown)
		}
	}
	if a, b := credential.NewSecret().Base32(), credential.NewSecret().Base32(); a == b || len(a) != 32 {
		t.Errorf("secrets %s and %s; want two of 160 bits", a, b)
	}
}

func TestURIIsReadByAuthenticators(t *testing.T) {
	for _, principal := range []string{sam, "user:säm", "a/b?c#d&e%f", credential.Local} {
		u, err := url.Parse(credential.SecretOf(secretKey).URI(principal))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("otpauth totp /Regent:"+principal, u.Scheme+" "+u.Host+" "+u.Path); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if strings.Count(u.EscapedPath(), ":") != 1 {
			t.Errorf("%s: one colon parts the issuer from the account", u)
		}
		want := url.Values{
			"secret": {"GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"}, "issuer": {"Regent"}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"},
		}
		if diff := cmp.Diff(want, u.Query()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestPassphraseWithTheParametersThatUsersHave(t *testing.T) {
	dir := home(t)
	s := credential.NewStepUp(dir, newClock().now)
	if err := s.EnrollPassphrase(sam, phrase); err != nil {
		t.Fatal(err)
	}
	wantVerify(t, s, phrase, nil)
	path := filepath.Join(dir, "step_up.json")
	text := read(t, path)
	for _, want := range []string{`"time": 3`, `"memory_kib": 65536`, `"threads": 4`} {
		if !strings.Contains(text, want) {
			t.Errorf("the file has not %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, phrase) {
		t.Errorf("the file has the passphrase:\n%s", text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
}

func TestPassphrase(t *testing.T) {
	for _, tt := range []struct {
		name, enrolled, tried string
		want                  error
	}{
		{"is itself", phrase, phrase, nil},
		{"is no other", phrase, "correct horse batterz", credential.ErrWrong},
		{"is not empty", phrase, "", credential.ErrWrong},
		{"is not its beginning", phrase, phrase[:12], credential.ErrWrong},
		{"has capitals of its own", phrase, strings.ToUpper(phrase), credential.ErrWrong},
		{"keeps its spaces", phrase, " " + phrase, credential.ErrWrong},
		{"is the same from any keyboard", "schl\u00fcssel ist da", "schlu\u0308ssel ist da", nil},
		{"is the same from any keyboard the other way", "schlu\u0308ssel ist da", "schl\u00fcssel ist da", nil},
		{"may be in any script", "пароль и ещё слово", "пароль и ещё слово", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := credential.NewStepUp(home(t), newClock().now).Cheap()
			if err := s.EnrollPassphrase(sam, tt.enrolled); err != nil {
				t.Fatal(err)
			}
			wantVerify(t, s, tt.tried, tt.want)
		})
	}
}

func TestEnrollPassphraseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"eleven characters":                     "elevenchars",
		"eleven of more bytes":                  "äöüäöüäöüäö",
		"twelve that are six on some keyboards": strings.Repeat("u\u0308", 6),
		"a line break":                          phrase + "\n",
		"a tab":                                 "correct\thorse battery",
		"a character that shows nothing":        "correct\u200bhorse battery",
		"more than anybody types":               strings.Repeat("x", 1025),
		"no UTF-8":                              phrase + "\xff",
	} {
		t.Run(name, func(t *testing.T) {
			s := credential.NewStepUp(home(t), newClock().now).Cheap()
			if err := s.EnrollPassphrase(sam, text); !errors.Is(err, credential.ErrPassphrase) {
				t.Errorf("EnrollPassphrase = %v, want %v", err, credential.ErrPassphrase)
			}
			wantVerify(t, s, text, credential.ErrNotEnrolled)
		})
	}
	s := credential.NewStepUp(home(t), newClock().now).Cheap()
	if err := s.EnrollPassphrase(sam, "twelve chars"); err != nil {
		t.Errorf("twelve characters: %v", err)
	}
}

func TestEnrollOneProofForEachPrincipal(t *testing.T) {
	s, _, at := withPassphrase(t)
	secret := credential.SecretOf(secretKey)
	enroll := map[string]func(principal string) error{
		"passphrase":    func(p string) error { return s.EnrollPassphrase(p, "another passphrase") },
		"authenticator": func(p string) error { return s.EnrollTOTP(p, secret, codeAt(at.now())) },
	}
	for name, enroll := range enroll {
		if err := enroll(sam); !errors.Is(err, credential.ErrEnrolled) {
			t.Errorf("%s: %v, want %v", name, err, credential.ErrEnrolled)
		}
		for _, principal := range []string{"agent:codex", "AGENT:codex", "", "user:*", "user: sam"} {
			if err := enroll(principal); !errors.Is(err, credential.ErrPrincipal) {
				t.Errorf("%s for %q: %v, want %v", name, principal, err, credential.ErrPrincipal)
			}
		}
	}
	wantVerify(t, s, phrase, nil)
	if err := s.Verify("user:kim", phrase); !errors.Is(err, credential.ErrNotEnrolled) {
		t.Errorf("Verify of another = %v, want %v", err, credential.ErrNotEnrolled)
	}
	if err := enroll["authenticator"](credential.Local); err != nil {
		t.Error(err)
	}
	for principal, want := range map[string]credential.Kind{sam: credential.Passphrase, credential.Local: credential.TOTP} {
		if got, err := s.Enrolled(principal); got != want || err != nil {
			t.Errorf("Enrolled(%s) = %s, %v; want %s", principal, got, err, want)
		}
	}
	if got, err := s.Enrolled("user:kim"); got != "" || !errors.Is(err, credential.ErrNotEnrolled) {
		t.Errorf("Enrolled = %q, %v; want %v", got, err, credential.ErrNotEnrolled)
	}
}

func TestEnrollTOTPAsksForACode(t *testing.T) {
	at := newClock()
	s := credential.NewStepUp(home(t), at.now)
	for name, tt := range map[string]struct {
		secret credential.Secret
		code   string
		want   error
	}{
		"of another secret": {credential.NewSecret(), codeAt(at.now()), credential.ErrWrong},
		"of another time":   {credential.SecretOf(secretKey), codeAt(at.now().Add(time.Hour)), credential.ErrWrong},
		"none":              {credential.SecretOf(secretKey), "", credential.ErrWrong},
	} {
		if err := s.EnrollTOTP(sam, tt.secret, tt.code); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	var zero credential.Secret
	if err := s.EnrollTOTP(sam, zero, credential.HOTP(nil, uint64(at.now().Unix()/30))); err == nil {
		t.Error("the zero secret, which everybody knows, was enrolled")
	}
	if _, err := s.Enrolled(sam); !errors.Is(err, credential.ErrNotEnrolled) {
		t.Errorf("Enrolled = %v, want %v", err, credential.ErrNotEnrolled)
	}
}

func TestRemoveTakesTheProofAway(t *testing.T) {
	s, dir, _ := withPassphrase(t)
	if err := s.EnrollPassphrase("user:kim", phrase); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(sam); err != nil {
		t.Fatal(err)
	}
	wantVerify(t, s, phrase, credential.ErrNotEnrolled)
	if err := s.Remove(sam); !errors.Is(err, credential.ErrNotEnrolled) {
		t.Errorf("Remove = %v, want %v", err, credential.ErrNotEnrolled)
	}
	if err := credential.NewStepUp(dir, newClock().now).Verify("user:kim", phrase); err != nil {
		t.Errorf("another's proof: %v", err)
	}
	if err := s.EnrollPassphrase(sam, "another passphrase"); err != nil {
		t.Error(err)
	}
	wantVerify(t, s, phrase, credential.ErrWrong)
}

func TestWrongProofsMakeTheNextWait(t *testing.T) {
	s, dir, at := withPassphrase(t)
	for range 4 {
		wantVerify(t, s, "wrong", credential.ErrWrong)
	}
	for i, want := range []time.Duration{
		1 * time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		64 * time.Second, 128 * time.Second, 256 * time.Second, 300 * time.Second, 300 * time.Second, 300 * time.Second,
	} {
		wantVerify(t, s, "wrong", credential.ErrWrong)
		// The count is on disk, and the right one waits like any other.
		s = credential.NewStepUp(dir, at.now).Cheap()
		err := s.Verify(sam, phrase)
		wait, ok := errors.AsType[*credential.TooManyError](err)
		if !ok || !errors.Is(err, credential.ErrTooMany) {
			t.Fatalf("after %d wrong ones Verify = %v, want %v", 5+i, err, credential.ErrTooMany)
		}
		if diff := cmp.Diff(credential.TooManyError{Until: at.now().Add(want), Wait: want}, *wait); diff != "" {
			t.Fatalf("after %d wrong ones (-want +got)\n%s", 5+i, diff)
		}
		at.move(want - 1)
		wantVerify(t, s, phrase, credential.ErrTooMany)
		at.move(1)
	}
	wantVerify(t, s, phrase, nil)
	// And the count begins anew.
	for range 5 {
		wantVerify(t, s, "wrong", credential.ErrWrong)
	}
	wantVerify(t, s, phrase, credential.ErrTooMany)
}

func TestWrongProofsAreCountedForEachPrincipal(t *testing.T) {
	s, _, _ := withPassphrase(t)
	if err := s.EnrollPassphrase("user:kim", phrase); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		wantVerify(t, s, "wrong", credential.ErrWrong)
	}
	wantVerify(t, s, phrase, credential.ErrTooMany)
	if err := s.Verify("user:kim", phrase); err != nil {
		t.Errorf("another's: %v", err)
	}
}

func TestWrongProofsAllAtOnceAreCounted(t *testing.T) {
	s, dir, at := withPassphrase(t)
	instances := []*credential.StepUp{s, s, credential.NewStepUp(dir, at.now).Cheap()}
	results := make([]error, 32)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() { results[i] = instances[i%len(instances)].Verify(sam, "wrong") })
	}
	group.Wait()
	counts := map[error]int{}
	for _, err := range results {
		for _, kind := range []error{credential.ErrWrong, credential.ErrTooMany} {
			if errors.Is(err, kind) {
				counts[kind]++
			}
		}
	}
	if counts[credential.ErrWrong] != 5 || counts[credential.ErrTooMany] != 27 {
		t.Errorf("%v; want five that were looked at and 27 that were not", results)
	}
}

func TestAClockThatIsSetBackMakesNobodyWaitForIt(t *testing.T) {
	s, _, at := withPassphrase(t)
	for range 7 {
		_ = s.Verify(sam, "wrong")
		at.move(10 * time.Second)
	}
	at.move(-24 * time.Hour)
	wantVerify(t, s, phrase, credential.ErrTooMany)
	at.move(5 * time.Second)
	wantVerify(t, s, phrase, nil)
}

func TestVerifyIsNoAnswerUnlessItIsOnDisk(t *testing.T) {
	for name, enroll := range map[string]func(testing.TB) (*credential.StepUp, string, *clock){"passphrase": withPassphrase, "code": withTOTP} {
		t.Run(name, func(t *testing.T) {
			s, dir, at := enroll(t)
			path := filepath.Join(dir, "step_up.json")
			blockWrites(t, path)
			for _, proof := range []string{phrase, codeAt(at.now()), "wrong"} {
				err := s.Verify(sam, proof)
				wantFileError(t, err, path, err)
				for _, kind := range []error{credential.ErrWrong, credential.ErrReplayed, credential.ErrTooMany, credential.ErrNotEnrolled} {
					if errors.Is(err, kind) {
						t.Errorf("Verify(%q) = %v, and nothing could be counted", proof, err)
					}
				}
			}
		})
	}
}

func TestAFileOfProofsThatIsNotRightIsAnError(t *testing.T) {
	const (
		word = `"enrolled": "2026-01-01T00:00:00Z", "passphrase": {"salt": "c2FsdHNhbHRzYWx0c2FsdA==", "hash": "aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g=", "argon2id": {"time": 1, "memory_kib": 8, "threads": 1}}`
		code = `"enrolled": "2026-01-01T00:00:00Z", "totp": {"secret": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=", "last_counter": 1}`
	)
	file := func(proof string, changes ...string) string {
		return `{"version": 1, "proofs": {"user:sam": {` + strings.NewReplacer(changes...).Replace(proof) + `}}}`
	}
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"a passphrase", file(word), true},
		{"an authenticator", file(code), true},
		{"a count", file(code + `, "failures": 3, "last_failure": "2026-01-01T00:00:00Z"`), true},
		{"empty", "", false},
		{"cut off", file(word)[:60], false},
		{"null", "null", false},
		{"no version", `{"proofs": {}}`, false},
		{"a newer version", `{"version": 2, "proofs": {}}`, false},
		{"no proofs", `{"version": 1}`, false},
		{"a proof that is null", `{"version": 1, "proofs": {"user:sam": null}}`, false},
		{"a principal twice", `{"version": 1, "proofs": {"user:sam": {` + code + `}, "user:sam": {` + word + `}}}`, false},
		{"an agent", strings.Replace(file(code), "user:sam", "agent:sam", 1), false},
		{"neither kind", file(`"enrolled": "2026-01-01T00:00:00Z"`), false},
		{"both kinds", file(word + strings.TrimPrefix(code, `"enrolled": "2026-01-01T00:00:00Z"`)), false},
		{"a field that is not known", file(code + `, "bypass": true`), false},
		{"no enrolment", file(code, `"enrolled": "2026-01-01T00:00:00Z", `, ""), false},
		{"a count without its time", file(code + `, "failures": 3`), false},
		{"a time without its count", file(code + `, "last_failure": "2026-01-01T00:00:00Z"`), false},
		{"a count below zero", file(code + `, "failures": -99, "last_failure": "2026-01-01T00:00:00Z"`), false},
		{"a count that is no number", file(code + `, "failures": "3"`), false},
		{"an empty secret", file(code, "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=", ""), false},
		{"a short secret", file(code, "MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=", "MTIz"), false},
		{"a secret that is not base64", file(code, "MTIz", "!!!!"), false},
		{"a last code that is none", file(code, `"last_counter": 1`, `"last_counter": -2`), false},
		{"an empty hash", file(word, "aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g=", ""), false},
		{"no salt", file(word, `"salt": "c2FsdHNhbHRzYWx0c2FsdA==", `, ""), false},
		{"no passes, at which deriving panics", file(word, `"time": 1`, `"time": 0`), false},
		{"no threads, at which deriving panics", file(word, `"threads": 1`, `"threads": 0`), false},
		{"more memory than there is", file(word, `"memory_kib": 8`, `"memory_kib": 4294967295`), false},
		{"less memory than threads need", file(word, `"threads": 1`, `"threads": 2`), false},
		{"passes without end", file(word, `"time": 1`, `"time": 4294967295`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := home(t)
			path := filepath.Join(dir, "step_up.json")
			write(t, path, tt.text)
			s := credential.NewStepUp(dir, newClock().now).Cheap()
			err := s.Verify(sam, "000000")
			if tt.ok {
				if !errors.Is(err, credential.ErrWrong) {
					t.Errorf("Verify = %v, want %v", err, credential.ErrWrong)
				}
				return
			}
			wantFileError(t, err, path, credential.ErrMalformed)
			if strings.Contains(err.Error(), "MTIz") || strings.Contains(err.Error(), "!!!!") {
				t.Errorf("the error tells what is in the file: %v", err)
			}
			_, err = s.Enrolled(sam)
			wantFileError(t, err, path, credential.ErrMalformed)
			wantFileError(t, s.Remove(sam), path, credential.ErrMalformed)
			wantFileError(t, s.EnrollPassphrase(sam, phrase), path, credential.ErrMalformed)
			if after := read(t, path); after != tt.text {
				t.Errorf("the file was changed to\n%s", after)
			}
		})
	}
}

func TestAFileOfProofsThatIsNotSafeIsAnError(t *testing.T) {
	for _, tt := range unsafeCases {
		t.Run(tt.name, func(t *testing.T) {
			s, dir, _ := withPassphrase(t)
			path := filepath.Join(dir, "step_up.json")
			tt.harm(t, path)
			wantFileError(t, s.Verify(sam, phrase), path, credential.ErrUnsafe)
			_, err := s.Enrolled(sam)
			wantFileError(t, err, path, credential.ErrUnsafe)
		})
	}
}

func TestStepUpAgainstAModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, dir, at := withTOTP(t)
		used := at.now().Add(-time.Hour).Unix() / 30
		failures, free := 0, at.now()
		r.Repeat(map[string]func(*rapid.T){
			"time goes by": func(r *rapid.T) {
				at.move(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
			},
			"restart": func(*rapid.T) { s = credential.NewStepUp(dir, at.now) },
			"verify": func(r *rapid.T) {
				counter := at.now().Unix()/30 + int64(rapid.IntRange(-3, 3).Draw(r, "period"))
				near := max(counter-at.now().Unix()/30, at.now().Unix()/30-counter) <= 1
				var want error
				switch {
				case at.now().Before(free):
					want = credential.ErrTooMany
				case !near:
					want = credential.ErrWrong
				case counter <= used:
					want = credential.ErrReplayed
				}
				err := s.Verify(sam, credential.HOTP(secretKey, uint64(counter)))
				if !errors.Is(err, want) || (want == nil && err != nil) {
					r.Fatalf("Verify = %v, want %v", err, want)
				}
				switch want {
				case nil:
					used, failures = counter, 0
				case credential.ErrWrong, credential.ErrReplayed:
					failures++
					if failures >= 5 {
						free = at.now().Add(min(time.Second<<(failures-5), 5*time.Minute))
					}
				}
			},
		})
	})
}
