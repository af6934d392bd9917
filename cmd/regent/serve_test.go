//go:build unix

package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
)

// TestASecondSignalEndsTheDaemonAtOnce has a caller that never finishes what it
// sends, for which the first signal makes the daemon wait.
func TestASecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	sh := newConsole(t)
	daemon := exec.Command("regent", "serve")
	daemon.Dir, daemon.Env = filepath.Join(sh.root, "app"), sh.env
	words, err := daemon.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = daemon.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(words)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "regent serve: ready on ") {
	}
	rest := make(chan string)
	go func() {
		text, _ := io.ReadAll(words) // what there is counts
		rest <- string(text)
	}()

	conn, err := net.Dial("unix", filepath.Join(sh.root, "home", ".regent", "runtime", "regent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // nothing was asked
	if _, err := io.WriteString(conn, "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	// Signals that come while the first is being taken in are one with it.
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var text string
	for text == "" {
		if err := daemon.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case text = <-rest:
			text += "." // it may have said nothing
		case <-again.C:
		}
	}
	err = daemon.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	if code := daemon.ProcessState.ExitCode(); code != exitFailed || strings.Contains(text, "regent serve: ended") {
		t.Errorf("exit code %d, stderr %q, want 1 and no orderly end", code, text)
	}
	if out, code := sh.run("regent ledger verify", true); code != exitDone {
		t.Errorf("the ledger after that: %s", out)
	}
}

func TestNotifiersInForce(t *testing.T) {
	with := func(name string, confirm bool) *config.Config {
		return &config.Config{
			Notifiers: map[string]config.Notifier{name: {Kind: config.NotifierDesktop}}, Policy: config.Policy{ConfirmLoosening: confirm},
		}
	}
	epoch := func(name string) *gate.Epoch { return &gate.Epoch{Setup: gate.Setup{Config: with(name, false)}} }
	for _, tt := range []struct {
		name  string
		stand gate.Standing
		began *config.Config
		want  string
	}{
		{"those of the rules in force", gate.Standing{Epoch: epoch("now")}, with("began", false), "now"},
		{"not those that wait for a confirmation", gate.Standing{Epoch: epoch("now"), Held: epoch("held")}, with("began", false), "now"},
		{"none while nothing is confirmed", gate.Standing{Epoch: epoch("now"), Unconfirmed: true}, with("began", false), ""},
		{"those of the beginning without rules", gate.Standing{}, with("began", false), "began"},
		{"none of those that may have to be confirmed", gate.Standing{}, with("began", true), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want map[string]config.Notifier
			if tt.want != "" {
				want = map[string]config.Notifier{tt.want: {Kind: config.NotifierDesktop}}
			}
			if diff := cmp.Diff(want, notifiersOf(&tt.stand, tt.began)); diff != "" {
				t.Errorf("notifiers (-want +got):\n%s", diff)
			}
		})
	}
}
