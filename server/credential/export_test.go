package credential

import "time"

// HOTP is the code of RFC 4226 for a counter.
var HOTP = hotp

// SecretOf is a secret that a test knows.
func SecretOf(key []byte) Secret { return Secret{key} }

// Cheap makes what a passphrase costs next to nothing.
func (s *StepUp) Cheap() *StepUp {
	s.cost = cost{Time: 1, MemoryKiB: 8, Threads: 1}
	return s
}

// Impatient makes t wait for a lock for that long only.
func (t *Tokens) Impatient(wait time.Duration) *Tokens {
	t.file.wait = wait
	return t
}
