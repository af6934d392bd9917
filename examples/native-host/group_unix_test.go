//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
)

// What a call has started does not outlive it.
func TestNothingOfACommandGoesOn(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.write("agent/work/notes.txt", "notes\n")
	if err := syscall.Mkfifo(b.path("agent/work/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(b.path("agent/work/pipe"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	// Without a writer there would be an end to read at once.
	other, err := os.OpenFile(b.path("agent/work/pipe"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	host := b.begin(one(`{"tool":"exec_command","arguments":{"cmd":"(echo here; exec sleep 3600) > pipe 2> pipe & wait"}}`))
	b.answer(b.asked(), "allow", "")
	if err := pipe.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(pipe).ReadString('\n'); line != "here\n" {
		t.Fatalf("the command says %q, %v", line, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	// The command runs, and waits for what it has started.
	if err := host.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	host.end(exitInterrupted)
	if rest, err := io.ReadAll(pipe); err != nil || len(rest) > 0 {
		t.Errorf("somebody holds the pipe: %q, %v", rest, err)
	}
	// That it was run is on record, though nobody waited for its end.
	if r := b.records(); len(r) != 1 || r[0].State != approval.Resolved || r[0].Closing == nil || r[0].Closing.Reason != "it was run" {
		t.Errorf("records %+v", r)
	}
}
