package credential

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what RFC 6238 and every authenticator have; HMAC does not need collisions to be hard
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

const (
	// The parameters that every authenticator has.
	totpPeriod = 30 * time.Second
	totpDigits = 6
	totpModulo = 1_000_000
	// totpDrift is how many periods the clock of an authenticator may be off.
	totpDrift = 1

	// secretBytes is the length of the secret that RFC 4226 recommends, and
	// minSecret the least that it allows.
	secretBytes = 20
	minSecret   = 16

	// noCounter is before the first.
	noCounter = -1
)

// Secret is what an authenticator and [StepUp] share. Formatting does not show
// it; [Secret.Base32] and [Secret.URI] do, for the one time that its owner has
// to see it.
type Secret struct{ key []byte }

// NewSecret is a secret that nobody has yet.
func NewSecret() Secret {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails
	return Secret{key}
}

// Base32 is the secret as people type it into an authenticator.
func (s Secret) Base32() string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(s.key)
}

// URI is the secret with all that goes with it, as authenticators read it from a
// QR code (otpauth://totp/...).
func (s Secret) URI(principal string) string {
	const issuer = "Regent"
	// The label has one colon, which parts the issuer from the account.
	label := issuer + ":" + strings.ReplaceAll(url.PathEscape(principal), ":", "%3A")
	query := url.Values{
		"secret":    {s.Base32()},
		"issuer":    {issuer},
		"algorithm": {"SHA1"},
		"digits":    {fmt.Sprint(totpDigits)},
		"period":    {fmt.Sprint(int(totpPeriod / time.Second))},
	}
	return "otpauth://totp/" + label + "?" + query.Encode()
}

// Format shows "[secret]", whatever the verb is.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// totp is an authenticator.
type totp struct {
	Secret []byte `json:"secret"`
	// LastCounter is that of the last code which was accepted. Only later ones
	// are from then on.
	LastCounter int64 `json:"last_counter"`
}

// verify accepts a code once, and remembers that in t.
func (t *totp) verify(text string, now time.Time) error {
	// Authenticators show them in two groups.
	text = strings.ReplaceAll(strings.TrimSpace(text), " ", "")
	current := now.Unix() / int64(totpPeriod/time.Second)
	right, replayed := int64(noCounter), false
	for counter := max(current-totpDrift, 0); counter <= current+totpDrift; counter++ {
		if subtle.ConstantTimeCompare([]byte(hotp(t.Secret, uint64(counter))), []byte(text)) != 1 {
			continue
		}
		if counter <= t.LastCounter {
			replayed = true
		} else {
			right = counter
		}
	}
	switch {
	case right > t.LastCounter:
		t.LastCounter = right
		return nil
	case replayed:
		return ErrReplayed
	default:
		return ErrWrong
	}
}

// hotp is the code for a counter, see RFC 4226, section 5.3.
func hotp(key []byte, counter uint64) string {
	mac := hmac.New(sha1.New, key)
	_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, counter))
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	value := binary.BigEndian.Uint32(sum[at:]) & 0x7fff_ffff
	return fmt.Sprintf("%0*d", totpDigits, value%totpModulo)
}

func (t *totp) check() error {
	if len(t.Secret) < minSecret {
		return errors.New("the secret is too short")
	}
	if t.LastCounter < noCounter {
		return errors.New("last_counter is none")
	}
	return nil
}
