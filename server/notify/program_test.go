//go:build linux || darwin

package notify_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/notify"
)

// ourselves is the path of the test binary.
func ourselves(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func program(t testing.TB, more func(*config.Notifier), words ...string) map[string]config.Notifier {
	n := config.Notifier{
		Kind: config.NotifierCommand, Command: append([]string{ourselves(t), play}, words...),
		Events: []config.NotifierEvent{config.NotifyPending}, Details: config.DetailsSummary,
	}
	if more != nil {
		more(&n)
	}
	return map[string]config.Notifier{"ops": n}
}

func TestCommandIsTold(t *testing.T) {
	t.Setenv("REGENT_TEST_SEEN", "1")
	t.Setenv("REGENT_TEST_HIDDEN", "1")
	path := filepath.Join(t.TempDir(), "heard")
	_, stats := told(t, program(t, func(n *config.Notifier) { n.Env = []string{"REGENT_TEST_SEEN"} }, "save", path, "$HOME; echo no"))
	got := savedAt(t, path)
	if len(got) != 1 || stats.Sent != 1 {
		t.Fatalf("it heard %+v, and stands as %+v", got, stats)
	}
	if diff := cmp.Diff([]string{"$HOME; echo no"}, got[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	var n notify.Notification
	if err := json.Unmarshal([]byte(got[0].Input), &n); err != nil {
		t.Fatal(err)
	}
	if n.Version != notify.Version || n.Event != config.NotifyPending || n.Summary != "command: make x" {
		t.Errorf("its input is %s", got[0].Input)
	}
	if !slices.Contains(got[0].Env, "REGENT_TEST_SEEN") || slices.Contains(got[0].Env, "REGENT_TEST_HIDDEN") {
		t.Errorf("it sees %v", got[0].Env)
	}
}

func TestCommandThatFailsIsStartedOnce(t *testing.T) {
	_, stats := told(t, program(t, nil, "fail", "token=hunter2hunter2"))
	if stats.Failed != 1 || !strings.Contains(stats.Fault, "exit status 3: token=[redacted]") {
		t.Errorf("it stands as %+v", stats)
	}
}

func TestDesktop(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heard")
	defer notify.ShowDesktopBy(ourselves(t), play, "save", path, "--")()
	t.Setenv("DISPLAY", ":0")
	t.Setenv("REGENT_TEST_HIDDEN", "1")
	w := newWorld(t)
	h := w.open(map[string]config.Notifier{"desk": {Kind: config.NotifierDesktop, Events: everything, Details: config.DetailsSummary}}, nil)
	r := w.record(approval.RouteAsk, "--help <b>&\x1b[31m\u202e; $(id)")
	w.change(func() { w.add(approval.EventAsked, r) })
	w.until(func() bool { return stat(t, h, "desk").Sent == 1 })
	d := decided(r, settled("fine"))
	w.change(func() {
		w.add(approval.EventDecided, d)
		w.add(approval.EventUnknown, closed(d, approval.Unknown, "crash"))
	})
	w.until(func() bool { return stat(t, h, "desk").Sent == 3 })
	w.change(func() {
		w.notices = append(w.notices, gate.Notice{Seq: 1, Kind: gate.NoticeHeld, Message: "an edit waits"})
	})
	h.Close()
	const shown = `command: --help &lt;b&gt;&amp;\x1b[31m\u202e; $(id)`
	want := [][]string{
		{"--", "Regent: an answer is needed", shown + "\nregent permission info " + r.ID},
		{"--", "Regent: allow by human", shown + "\nfine"},
		{"--", "Regent: unknown", shown + "\ncrash"},
		{"--", "Regent: held", "an edit waits"},
	}
	var got [][]string
	for _, one := range savedAt(t, path) {
		got = append(got, one.Args)
		if !slices.Contains(one.Env, "DISPLAY") || slices.Contains(one.Env, "REGENT_TEST_HIDDEN") {
			t.Errorf("it sees %v", one.Env)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestDesktopWithoutWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "heard")
	defer notify.ShowDesktopBy(ourselves(t), play, "save", path)()
	w := newWorld(t)
	h := w.open(map[string]config.Notifier{"desk": {Kind: config.NotifierDesktop, Events: []config.NotifierEvent{config.NotifyDecided}, Details: config.DetailsNone}}, nil)
	w.change(func() { w.add(approval.EventDecided, decided(w.record(approval.RouteAsk, "make x"), settled("fine"))) })
	h.Close()
	got := savedAt(t, path)
	if len(got) != 1 || len(got[0].Args) != 2 || got[0].Args[1] != "/w" {
		t.Errorf("shown %+v, want the workspace alone", got)
	}
}

func TestDesktopThatIsNotThere(t *testing.T) {
	defer notify.ShowDesktopBy("")()
	w := newWorld(t)
	h := w.open(map[string]config.Notifier{"desk": {Kind: config.NotifierDesktop, Events: everything, Details: config.DetailsSummary}}, nil)
	for range 3 {
		w.ask(approval.RouteAsk, "make x")
	}
	h.Close()
	if s := stat(t, h, "desk"); s.State != notify.Unavailable || s.Failed != 3 {
		t.Errorf("it stands as %+v", s)
	}
	if log := w.logged(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "no program shows notifications here") {
		t.Errorf("the log is\n%s", log)
	}
}
