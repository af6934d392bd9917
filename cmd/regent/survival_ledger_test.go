package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/client"
)

// allowed asks what policy allows, and returns the ids of the records.
func (s *site) allowed(c *client.Client, count int) (ids []string) {
	s.t.Helper()
	for range count {
		a, err := c.Ask(s.soon(), asks("make test"))
		if err != nil || a.Outcome != approval.OutcomeAllow {
			s.t.Fatalf("%s, %v; want allow", a.Outcome, err)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// keeps holds that the ledger verifies and has these records.
func (s *site) keeps(ids []string) {
	s.t.Helper()
	s.verifies()
	db := s.open(s.database())
	defer func() {
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	}()
	for _, id := range ids {
		if r, err := db.Read(s.soon(), id); err != nil || r.Decision == nil || r.Decision.Outcome != approval.OutcomeAllow {
			s.t.Fatalf("%s was acknowledged: %v", id, err)
		}
	}
}

// harm is something that happens to the files of a ledger while a daemon serves
// it.
type harm struct {
	name string
	do   func(s *site) error
	// crash ends the daemon after it; otherwise it is told to end.
	crash bool
}

func (s *site) remove(suffix string) error { return os.Remove(s.database() + suffix) }

func (s *site) cut(size int64) error { return os.Truncate(s.database(), size) }

// replace puts another file in the place of the database.
func (s *site) replace(text []byte) error {
	next := filepath.Join(s.root, "next")
	return errors.Join(os.WriteFile(next, text, 0o600), os.Rename(next, s.database()))
}

// served is the database of a daemon that has ended, and the records that it
// acknowledged.
func served(t *testing.T) (database []byte, ids []string) {
	t.Helper()
	s := newSite(t)
	d := s.serve()
	ids = s.allowed(s.agent(), 20)
	d.stop()
	database, err := os.ReadFile(s.database())
	if err != nil {
		t.Fatal(err)
	}
	return database, ids
}

// Whatever happens to the files of the ledger under a daemon makes it refuse, and
// nobody ever finds a new ledger in the place of the old one without having asked
// for it.
func TestLedgerThatIsHarmed(t *testing.T) {
	t.Parallel()
	before, ids := served(t)
	for _, h := range []harm{
		{"the database is deleted", func(s *site) error { return s.remove("") }, false},
		{"the database is deleted, and a crash", func(s *site) error { return s.remove("") }, true},
		{"the log is deleted", func(s *site) error { return s.remove("-wal") }, false},
		{"the database is emptied, and a crash", func(s *site) error { return s.cut(0) }, true},
		{"an empty file takes its place", func(s *site) error { return s.replace(nil) }, false},
		{"an earlier copy takes its place", func(s *site) error { return s.replace(before) }, false},
		{"an earlier copy takes its place, and a crash", func(s *site) error { return s.replace(before) }, true},
	} {
		t.Run(h.name, func(t *testing.T) { harmed(t, h, before, ids) })
	}
}

func harmed(t *testing.T, h harm, before []byte, ids []string) {
	s := newSite(t)
	if err := errors.Join(os.Mkdir(filepath.Dir(s.database()), 0o700), os.WriteFile(s.database(), before, 0o600)); err != nil {
		t.Fatal(err)
	}
	d := s.serve()
	agent, person := s.agent(), s.person()
	ids = slices.Concat(ids, s.allowed(agent, 5))
	stream := s.events(person, client.FromNow)
	waits := s.ask(agent, "deploy")
	id := s.asked(stream)
	if err := h.do(s); err != nil {
		t.Fatal(err)
	}
	then, thenErr := os.Stat(s.database())

	for _, text := range []string{"make test", "make clean", "deploy"} {
		if a, err := agent.Ask(s.soon(), asks(text)); !errors.Is(err, approval.ErrDamaged) {
			t.Errorf("ask for %s: %q, %v; want ErrDamaged", text, a.Outcome, err)
		}
	}
	if r, err := person.Decide(s.soon(), id, 1, decision(approval.OutcomeAllow, "")); !errors.Is(err, approval.ErrDamaged) {
		t.Errorf("decide: %s, %v; want ErrDamaged", r.State, err)
	}
	if health, err := person.Health(s.soon()); err != nil || health.OK || len(health.Reasons) == 0 {
		t.Errorf("health: %+v, %v", health, err)
	}
	if status, err := person.Status(s.soon()); err != nil || status.Ledger == nil || !strings.Contains(status.Ledger.Fault, approval.ErrDamaged.Error()) {
		t.Errorf("status: %+v, %v", status.Ledger, err)
	}
	if out, code := s.run("status"); code != exitDone || !strings.Contains(out, approval.ErrDamaged.Error()) {
		t.Errorf("regent status: exit code %d: %s", code, out)
	}
	now, err := os.Stat(s.database())
	if (err == nil) != (thenErr == nil) || err == nil && (!os.SameFile(then, now) || then.Size() != now.Size()) {
		t.Errorf("the daemon touched the file: %v", err)
	}

	if h.crash {
		d.kill()
	} else {
		d.signal(os.Interrupt)
		if code := d.exit(); code != exitFailed || !strings.Contains(d.words(), approval.ErrDamaged.Error()) {
			t.Errorf("exit code %d: %s", code, d.words())
		}
	}
	if a := <-waits; a.Outcome == approval.OutcomeAllow {
		t.Errorf("what waited is allowed: %+v", a)
	}

	// Whoever starts the next one is told, or has all that there was.
	next := s.start()
	select {
	case <-next.ready:
		next.stop()
		s.keeps(ids)
	case <-next.ended:
		if code := next.exit(); code != exitFailed || !strings.Contains(next.words(), "put a backup in their place") {
			t.Errorf("exit code %d: %s", code, next.words())
		}
		if out, code := s.run("ledger", "verify"); code == exitDone {
			t.Errorf("ledger verify finds nothing wrong: %s", out)
		}
	}
}
