package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"
)

var (
	// ErrNotEnrolled means that there is no proof of this principal. It cannot
	// step up until it has enrolled one; nothing else stands in for it.
	ErrNotEnrolled = errors.New("no proof is enrolled")
	// ErrEnrolled means that the principal has a proof already. Remove that first.
	ErrEnrolled = errors.New("a proof is enrolled already")
	// ErrWrong means that the proof is not the one that was enrolled.
	ErrWrong = errors.New("the proof is wrong")
	// ErrTooMany means that too many proofs were wrong, and that this one was not
	// looked at. A [TooManyError] says when the next may be tried.
	ErrTooMany = errors.New("too many wrong proofs")
	// ErrReplayed means that the code was right and has been used, or is older
	// than one that was. Wait for the next.
	ErrReplayed = errors.New("the code has been used already")
)

// TooManyError says when the next proof may be tried. It wraps [ErrTooMany].
type TooManyError struct {
	Until time.Time
	Wait  time.Duration
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%v: try again in %s", ErrTooMany, max(e.Wait.Round(time.Second), time.Second))
}
func (e *TooManyError) Unwrap() error { return ErrTooMany }

// Kind is what a principal proves itself with.
type Kind string

// The kinds of proof.
const (
	// Passphrase is one that a person remembers.
	Passphrase Kind = "passphrase"
	// TOTP is a code of an authenticator, see RFC 6238.
	TOTP Kind = "totp"
)

const (
	// freeTries is how many proofs may be wrong before the next has to wait:
	// minBackoff first, twice as long after each wrong one more, and never longer
	// than maxBackoff.
	freeTries  = 5
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
)

// StepUp are the proofs in the file step_up.json, one for each principal.
// [NewStepUp] makes one; it is safe for concurrent use.
//
// A passphrase is kept as its Argon2id hash. The secret of an authenticator has
// to be kept as it is: who can read the file can make its codes.
type StepUp struct {
	file file
	now  func() time.Time
	cost cost

	// mu keeps the calls of one process from trying the lock all at once.
	mu sync.Mutex
}

type stepUpFile struct {
	Version int               `json:"version"`
	Proofs  map[string]*proof `json:"proofs"`
}

// proof has exactly one of the two kinds.
type proof struct {
	Enrolled   time.Time   `json:"enrolled"`
	Passphrase *passphrase `json:"passphrase,omitzero"`
	TOTP       *totp       `json:"totp,omitzero"`
	Failures   int         `json:"failures,omitzero"`
	// LastFailure is when the last of the failures was, zero if there are none.
	LastFailure time.Time `json:"last_failure,omitzero"`
}

// NewStepUp are the proofs in the home folder dir, which must exist by the time
// that they are used. Now is the clock that codes and waiting are judged by,
// [time.Now] if it is nil.
func NewStepUp(dir string, now func() time.Time) *StepUp {
	if now == nil {
		now = time.Now
	}
	return &StepUp{file: newFile(dir, "step_up.json"), now: now, cost: usualCost}
}

// EnrollPassphrase makes a passphrase the proof of a principal: [MinPassphrase]
// characters or more, and no line breaks or other characters that cannot be seen,
// or it is an [ErrPassphrase]. An agent cannot have a proof ([ErrPrincipal]), and
// a principal that has one keeps it ([ErrEnrolled]).
func (s *StepUp) EnrollPassphrase(principal, text string) error {
	if err := checkProver(principal); err != nil {
		return fmt.Errorf("enroll passphrase: %w", err)
	}
	p, err := newPassphrase(text, s.cost)
	if err != nil {
		return fmt.Errorf("enroll passphrase: %w", err)
	}
	if err := s.enroll(principal, proof{Passphrase: p}); err != nil {
		return fmt.Errorf("enroll passphrase: %w", err)
	}
	return nil
}

// EnrollTOTP makes an authenticator that has the secret the proof of a
// principal. The code is one that it shows now, so that one which was set up
// wrongly, or whose clock is off, locks nobody out; another is an [ErrWrong]. It
// counts as used. Otherwise it is as EnrollPassphrase.
func (s *StepUp) EnrollTOTP(principal string, secret Secret, code string) error {
	if err := checkProver(principal); err != nil {
		return fmt.Errorf("enroll authenticator: %w", err)
	}
	t := &totp{Secret: secret.key, LastCounter: noCounter}
	if err := t.check(); err != nil {
		return fmt.Errorf("enroll authenticator: %w", err)
	}
	if err := t.verify(code, s.now()); err != nil {
		return fmt.Errorf("enroll authenticator: %w", err)
	}
	if err := s.enroll(principal, proof{TOTP: t}); err != nil {
		return fmt.Errorf("enroll authenticator: %w", err)
	}
	return nil
}

func (s *StepUp) enroll(principal string, p proof) error {
	return s.change(func(f *stepUpFile) error {
		if f.Proofs[principal] != nil {
			return ErrEnrolled
		}
		p.Enrolled = s.now().UTC().Truncate(time.Second)
		f.Proofs[principal] = &p
		return s.file.write(f)
	})
}

// Enrolled tells which kind of proof a principal has, or [ErrNotEnrolled].
func (s *StepUp) Enrolled(principal string) (Kind, error) {
	f, err := s.read()
	if err != nil {
		return "", fmt.Errorf("step up: %w", err)
	}
	p := f.Proofs[principal]
	switch {
	case p == nil:
		return "", fmt.Errorf("step up: %w", ErrNotEnrolled)
	case p.TOTP != nil:
		return TOTP, nil
	default:
		return Passphrase, nil
	}
}

// Remove takes the proof of a principal away, and with it the count of wrong
// ones. It asks for none: who may have that done is the caller's to know.
func (s *StepUp) Remove(principal string) error {
	err := s.change(func(f *stepUpFile) error {
		if f.Proofs[principal] == nil {
			return ErrNotEnrolled
		}
		delete(f.Proofs, principal)
		return s.file.write(f)
	})
	if err != nil {
		return fmt.Errorf("remove proof: %w", err)
	}
	return nil
}

// Verify returns nil if text is the proof of the principal, and only then:
// [ErrNotEnrolled], [ErrWrong], [ErrTooMany] and [ErrReplayed] say why it is
// not, and any other error that it cannot be told.
//
// Each try is counted on disk before it is looked at, so that none is free:
// neither that of a process which is killed, nor one of many at the same time.
// A proof that is right ends the count. While tries have to wait, the right one
// has to as well. Of calls with the same code exactly one succeeds.
func (s *StepUp) Verify(principal, text string) error {
	err := s.change(func(f *stepUpFile) error {
		p := f.Proofs[principal]
		if p == nil {
			return ErrNotEnrolled
		}
		now := s.now().UTC()
		if p.LastFailure.After(now) {
			// The clock was set back. Nobody waits for it to come round again.
			p.LastFailure = now
			if err := s.file.write(f); err != nil {
				return err
			}
		}
		if until := p.LastFailure.Add(backoff(p.Failures)); now.Before(until) {
			return &TooManyError{Until: until, Wait: until.Sub(now)}
		}
		p.Failures++
		p.LastFailure = now
		if err := s.file.write(f); err != nil {
			return err
		}
		if err := p.verify(text, now); err != nil {
			return err
		}
		p.Failures, p.LastFailure = 0, time.Time{}
		// Unless it is on disk that the code was used, it was not.
		return s.file.write(f)
	})
	if err != nil {
		return fmt.Errorf("step up: %w", err)
	}
	return nil
}

// backoff is how long a try has to wait after so many that were wrong.
func backoff(failures int) time.Duration {
	if failures < freeTries {
		return 0
	}
	// Ten doublings are past the longest.
	return min(minBackoff<<min(failures-freeTries, 10), maxBackoff)
}

func (p *proof) verify(text string, now time.Time) error {
	if p.TOTP != nil {
		return p.TOTP.verify(text, now)
	}
	return p.Passphrase.verify(text)
}

func (s *StepUp) change(change func(*stepUpFile) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.locked(func() error {
		f, err := s.read()
		if err != nil {
			return err
		}
		return change(f)
	})
}

func (s *StepUp) read() (*stepUpFile, error) {
	f := &stepUpFile{}
	_, err := s.file.read(f)
	if errors.Is(err, fs.ErrNotExist) {
		return &stepUpFile{Version: version, Proofs: map[string]*proof{}}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, s.file.fault(err)
	}
	return f, nil
}

func (f *stepUpFile) check() error {
	if err := checkVersion(f.Version); err != nil {
		return err
	}
	if f.Proofs == nil {
		return fmt.Errorf("%w: proofs is missing", ErrMalformed)
	}
	for principal, p := range f.Proofs {
		fault := func(what string) error { return fmt.Errorf("%w: proof of %q: %s", ErrMalformed, principal, what) }
		if err := checkProver(principal); err != nil {
			return fault(err.Error())
		}
		if p == nil || (p.Passphrase == nil) == (p.TOTP == nil) {
			return fault("it needs one of passphrase and totp")
		}
		if p.Enrolled.IsZero() {
			return fault("enrolled is missing")
		}
		// A count without its time would let every try through.
		if p.Failures < 0 || p.LastFailure.IsZero() != (p.Failures == 0) {
			return fault("failures and last_failure do not go together")
		}
		var err error
		if p.TOTP != nil {
			err = p.TOTP.check()
		} else {
			err = p.Passphrase.check()
		}
		if err != nil {
			return fault(err.Error())
		}
	}
	return nil
}

// checkProver says whether a principal can have a proof. An agent has none: a
// proof is what shows that it is not an agent who answers.
func checkProver(principal string) error {
	if isAgent(principal) {
		return fmt.Errorf("%w: an agent cannot prove to be a person", ErrPrincipal)
	}
	return checkPrincipal(principal)
}
