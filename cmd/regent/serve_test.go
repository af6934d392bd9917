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
