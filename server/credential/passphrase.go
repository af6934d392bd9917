package credential

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

const (
	// MinPassphrase is how many characters a passphrase has at least.
	MinPassphrase = 12
	// maxPassphrase bounds one, in bytes.
	maxPassphrase = 1024

	saltBytes = 16
	hashBytes = 32
)

// ErrPassphrase means that a passphrase is none that can be enrolled.
var ErrPassphrase = errors.New("not a usable passphrase")

// cost are the parameters of Argon2id. They are stored with each hash, so that
// others may be usual one day.
type cost struct {
	Time      uint32 `json:"time"`
	MemoryKiB uint32 `json:"memory_kib"`
	Threads   uint8  `json:"threads"`
}

// usualCost is the second recommendation of RFC 9106, section 4.
var usualCost = cost{Time: 3, MemoryKiB: 64 << 10, Threads: 4}

// passphrase is the hash of one.
type passphrase struct {
	Salt []byte `json:"salt"`
	Hash []byte `json:"hash"`
	Cost cost   `json:"argon2id"`
}

func newPassphrase(text string, c cost) (*passphrase, error) {
	text, err := normalPassphrase(text)
	if err != nil {
		return nil, err
	}
	p := &passphrase{Salt: make([]byte, saltBytes), Cost: c}
	_, _ = rand.Read(p.Salt) // never fails
	p.Hash = p.derive(text)
	return p, nil
}

// normalPassphrase brings a passphrase into the one form that it has on every
// keyboard: ä is one character on some and two on others.
func normalPassphrase(text string) (string, error) {
	fault := func(what string) (string, error) { return "", fmt.Errorf("%w: %s", ErrPassphrase, what) }
	if len(text) > maxPassphrase {
		return fault(fmt.Sprintf("it is longer than %d bytes", maxPassphrase))
	}
	if !utf8.ValidString(text) {
		return fault("it is not UTF-8")
	}
	text = norm.NFC.String(text)
	if n := utf8.RuneCountInString(text); n < MinPassphrase {
		return fault(fmt.Sprintf("it has %d characters, %d are needed", n, MinPassphrase))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fault("it holds a line break or another character that cannot be seen")
	}
	return text, nil
}

func (p *passphrase) derive(text string) []byte {
	return argon2.IDKey([]byte(text), p.Salt, p.Cost.Time, p.Cost.MemoryKiB, p.Cost.Threads, hashBytes)
}

func (p *passphrase) verify(text string) error {
	// What could not have been enrolled is not the passphrase.
	text, err := normalPassphrase(text)
	if err != nil || subtle.ConstantTimeCompare(p.derive(text), p.Hash) != 1 {
		return ErrWrong
	}
	return nil
}

// check bounds what one try may cost by what a machine has to spare.
func (p *passphrase) check() error {
	const maxTime, maxMemoryKiB, maxThreads = 64, 1 << 20, 64
	switch {
	case len(p.Salt) < saltBytes || len(p.Hash) != hashBytes:
		return errors.New("salt or hash is too short")
	case p.Cost.Time < 1 || p.Cost.Time > maxTime,
		p.Cost.Threads < 1 || p.Cost.Threads > maxThreads,
		p.Cost.MemoryKiB < 8*uint32(p.Cost.Threads) || p.Cost.MemoryKiB > maxMemoryKiB:
		return errors.New("argon2id has parameters that are out of bounds")
	}
	return nil
}
