package config

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// These tests are internal because no file system leaves the attributes of a file
// as they were on request, and because it takes a while to make 20,000 files.

func TestContentIsReadUntilAttributesSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "config.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := surveyor{known: map[string]content{}}
		a := attributes{ino: 1, size: 1}

		write("a")
		first, _ := s.content(path, a)
		write("b")
		hidden, _ := s.content(path, a)
		if hidden == first {
			t.Error("an edit within one tick of the clock was not seen")
		}
		time.Sleep(settleAfter + 1)
		if again, _ := s.content(path, a); again != hidden {
			t.Error("the same content has two digests")
		}
		// From here on the attributes tell: the file is not read any more.
		write("c")
		if settled, _ := s.content(path, a); settled != hidden {
			t.Error("a file whose attributes have settled was read again")
		}
		a.ctime++
		if changed, _ := s.content(path, a); changed == hidden {
			t.Error("new attributes did not lead to a reading")
		}
	})
}

func TestContentIsForgottenWithItsFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := surveyor{known: map[string]content{}}
	s.survey([]string{dir})
	if len(s.known) != 1 {
		t.Fatalf("%d contents are known, want 1", len(s.known))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.survey([]string{dir})
	if len(s.known) != 0 {
		t.Errorf("%d contents are known, want none", len(s.known))
	}
}

// A folder that no loader takes must not hold up whoever looks at it.
func TestSurveyIsBounded(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	look := func() Identity {
		s := surveyor{limit: 4}
		id := s.survey([]string{dir}).id
		if s.entries > 10 {
			t.Errorf("%d entries were looked at, though the limit is %d", s.entries, s.limit)
		}
		return id
	}
	put("a", "")
	put("b/c", "")
	put("b/d", "")
	within := look()
	put("b/e", "")
	past := look()
	if past == within {
		t.Error("that there are too many files does not count")
	}
	for i := range 100 {
		put(fmt.Sprintf("b/x%d", i), "a")
		put(fmt.Sprintf("x%d", i), "a")
	}
	if look() != past {
		t.Error("how many more there are counts")
	}
	put("a", "a")
	if look() == past {
		t.Error("the first files do not count")
	}
}
