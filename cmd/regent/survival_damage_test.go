package main

import (
	"strings"
	"testing"
)

// The daemon that starts on what is left of these says that it is ready, records
// what is asked, and cannot read what it has: see survival_ledger_test.go.
func TestLedgerThatIsHarmedAndNotNoticed(t *testing.T) {
	t.Parallel()
	before, ids := served(t)
	for _, h := range []harm{
		{"the database is emptied", func(s *site) error { return s.cut(0) }, false},
		{"the database loses its end", func(s *site) error { return s.cut(8192) }, false},
		{"the database loses its end, and a crash", func(s *site) error { return s.cut(8192) }, true},
		{"a file of something else takes its place", func(s *site) error {
			return s.replace([]byte(strings.Repeat("no ledger\n", 2000)))
		}, false},
	} {
		t.Run(h.name, func(t *testing.T) { harmed(t, h, before, ids) })
	}
}
