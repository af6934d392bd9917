package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// TokenPrefix is what every token begins with, so that one that leaked into a
// text is found there.
const TokenPrefix = "regent_"

const (
	tokenBytes = 32
	idBytes    = 5
	maxName    = 128
)

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ErrNoToken means that there is no token with this id.
var ErrNoToken = errors.New("no such token")

// Token is what is known of a token, which is all but the token itself.
type Token struct {
	// ID names the token, to people and in records. It is no secret.
	ID string `json:"id"`
	// Name is what its owner calls it, and may be empty.
	Name string `json:"name,omitzero"`
	// Principal is who bears it.
	Principal string `json:"principal"`
	// Created is when it was issued, in UTC.
	Created time.Time `json:"created"`
	// Expires is the instant from which on it is refused, in UTC; one that is zero
	// never comes.
	Expires time.Time `json:"expires,omitzero"`
}

// Tokens are the bearer tokens in the file tokens.json, which has the SHA-256
// of each. That a token has 256 bits of chance is why no slower hash is needed.
// [NewTokens] makes one; it is safe for concurrent use.
type Tokens struct {
	file file
	now  func() time.Time

	// changing is held by a change, which may wait for other processes; those who
	// only read do not.
	changing sync.Mutex

	// mu guards what is below.
	mu sync.Mutex
	// known is what the file had when it was last read. It counts while the file is
	// readFrom, and not at all if that is nil.
	known    []tokenEntry
	readFrom fs.FileInfo
}

type tokenEntry struct {
	Token
	SHA256 string `json:"sha256"`
	hash   [sha256.Size]byte
}

type tokensFile struct {
	Version int          `json:"version"`
	Tokens  []tokenEntry `json:"tokens"`
}

// NewTokens are the tokens of the home folder dir, which must exist by the time
// that they are used. Now is the clock that expiry is judged by, [time.Now] if
// it is nil.
func NewTokens(dir string, now func() time.Time) *Tokens {
	if now == nil {
		now = time.Now
	}
	return &Tokens{file: newFile(dir, "tokens.json"), now: now}
}

// Create issues a token to a principal. It is returned here and never again. The
// zero expires is none; one that has passed already is an error. Neither the
// local administrator nor a name that could be nobody's gets one, which is an
// [ErrPrincipal]. An agent may: what it may do is for others to say.
func (t *Tokens) Create(principal, name string, expires time.Time) (string, Token, error) {
	if err := checkBearer(principal); err != nil {
		return "", Token{}, fmt.Errorf("create token: %w", err)
	}
	if err := checkName(name); err != nil {
		return "", Token{}, fmt.Errorf("create token: %w", err)
	}
	now := t.now().UTC()
	if !expires.IsZero() && !now.Before(expires) {
		return "", Token{}, errors.New("create token: it would have expired already")
	}
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails
	token := TokenPrefix + lowerBase32.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	entry := tokenEntry{
		Token:  Token{Name: name, Principal: principal, Created: now.Truncate(time.Second), Expires: expires.UTC()},
		SHA256: hex.EncodeToString(hash[:]),
		hash:   hash,
	}
	err := t.change(func(f *tokensFile) error {
		id := make([]byte, idBytes)
		for entry.ID == "" || slices.ContainsFunc(f.Tokens, func(e tokenEntry) bool { return e.ID == entry.ID }) {
			_, _ = rand.Read(id)
			entry.ID = lowerBase32.EncodeToString(id)
		}
		f.Tokens = append(f.Tokens, entry)
		return nil
	})
	if err != nil {
		return "", Token{}, fmt.Errorf("create token: %w", err)
	}
	return token, entry.Token, nil
}

// Revoke removes a token. From then on it is refused. One that is not there is
// an [ErrNoToken].
func (t *Tokens) Revoke(id string) error {
	err := t.change(func(f *tokensFile) error {
		rest := slices.DeleteFunc(f.Tokens, func(e tokenEntry) bool { return e.ID == id })
		if len(rest) == len(f.Tokens) {
			return fmt.Errorf("%q: %w", id, ErrNoToken)
		}
		f.Tokens = rest
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	return nil
}

// List tells the tokens in the order in which they were issued, those that have
// expired included.
func (t *Tokens) List() ([]Token, error) {
	entries, err := t.current()
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	list := make([]Token, len(entries))
	for i, e := range entries {
		list[i] = e.Token
	}
	return list, nil
}

// Authenticate tells which token this is. False means that it is none, or one
// that has expired or been revoked. An error means that it cannot be told,
// because of the file; it bears out nobody, and may be reported as it is. Where
// the file is not there, there are no tokens.
//
// A change of the file counts from the next call on.
func (t *Tokens) Authenticate(token string) (Token, bool, error) {
	// The form of a token is no secret.
	if len(token) != len(TokenPrefix)+lowerBase32.EncodedLen(tokenBytes) || !strings.HasPrefix(token, TokenPrefix) {
		return Token{}, false, nil
	}
	entries, err := t.current()
	if err != nil {
		return Token{}, false, fmt.Errorf("authenticate: %w", err)
	}
	hash := sha256.Sum256([]byte(token))
	found := -1
	for i := range entries {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], entries[i].hash[:]), i, found)
	}
	if found < 0 {
		return Token{}, false, nil
	}
	e := entries[found].Token
	if !e.Expires.IsZero() && !t.now().Before(e.Expires) {
		return Token{}, false, nil
	}
	return e, true, nil
}

// settled is how old a change must be for the file to be known by its times,
// which is longer than any file system in use takes to give a later change
// another time (FAT: two seconds).
const settled = 2500 * time.Millisecond

// current is what the file has now. The caller does not change what it gets.
func (t *Tokens) current() ([]tokenEntry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readFrom != nil {
		now, err := os.Lstat(t.file.path())
		if err == nil && unchanged(t.readFrom, now) && checkFile(now) == nil {
			return t.known, nil
		}
	}
	t.known, t.readFrom = nil, nil
	// The clock that files are dated by, which is not the injected one.
	before := time.Now()
	f, info, err := t.read()
	if err != nil {
		return nil, err
	}
	if info != nil && before.Sub(info.ModTime()) > settled {
		t.readFrom = info
	}
	t.known = f.Tokens
	return t.known, nil
}

func unchanged(was, is fs.FileInfo) bool {
	return os.SameFile(was, is) && was.Size() == is.Size() && was.ModTime().Equal(is.ModTime())
}

// read reads the file. If there is none, the info is nil and there are no
// tokens.
func (t *Tokens) read() (tokensFile, fs.FileInfo, error) {
	f := tokensFile{}
	info, err := t.file.read(&f)
	if errors.Is(err, fs.ErrNotExist) {
		return tokensFile{Version: version}, nil, nil
	}
	if err != nil {
		return tokensFile{}, nil, err
	}
	if err := f.check(); err != nil {
		return tokensFile{}, nil, t.file.fault(err)
	}
	return f, info, nil
}

// check takes nothing for granted that Create makes sure of.
func (f *tokensFile) check() error {
	if err := checkVersion(f.Version); err != nil {
		return err
	}
	if f.Tokens == nil {
		return fmt.Errorf("%w: tokens is missing", ErrMalformed)
	}
	ids, hashes := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i := range f.Tokens {
		e := &f.Tokens[i]
		fault := func(what string) error { return fmt.Errorf("%w: token %d: %s", ErrMalformed, i+1, what) }
		if err := checkBearer(e.Principal); err != nil {
			return fault(err.Error())
		}
		if err := checkName(e.Name); err != nil {
			return fault(err.Error())
		}
		if e.ID == "" || ids[e.ID] {
			return fault("its id is missing or another's")
		}
		if e.Created.IsZero() {
			return fault("created is missing")
		}
		n, err := hex.Decode(e.hash[:], []byte(e.SHA256[:min(len(e.SHA256), 2*sha256.Size)]))
		if err != nil || n != sha256.Size || len(e.SHA256) != 2*sha256.Size {
			return fault("sha256 is none")
		}
		if hashes[e.hash] {
			return fault("its sha256 is another's")
		}
		ids[e.ID], hashes[e.hash] = true, true
	}
	return nil
}

func (t *Tokens) change(change func(*tokensFile) error) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	return t.file.locked(func() error {
		f, _, err := t.read()
		if err != nil {
			return err
		}
		if err := change(&f); err != nil {
			return err
		}
		return t.file.write(f)
	})
}

func checkBearer(principal string) error {
	if strings.EqualFold(principal, Local) {
		return fmt.Errorf("%w: the local administrator is known by the socket, not by a token", ErrPrincipal)
	}
	return checkPrincipal(principal)
}

func checkName(name string) error {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("the name of a token has at most %d bytes and no line breaks", maxName)
	}
	return nil
}
