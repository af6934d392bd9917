//go:build unix

package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// onTerminal is a command that runs on a terminal of 80x24.
type onTerminal struct {
	t        testing.TB
	cmd      *exec.Cmd
	ptmx     *os.File
	tty      *os.File
	settings *term.State

	mu sync.Mutex
	// all is what came, and text what came since see last saw something.
	all, text string
	more      chan struct{}
}

func runOnTerminal(sh *console, env []string, name string, args ...string) *onTerminal {
	t := sh.t
	t.Helper()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Skipf("this system gives no terminal: %v", err)
	}
	if err := pty.Setsize(ptmx, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	o := &onTerminal{t: t, ptmx: ptmx, tty: tty, cmd: exec.Command(name, args...), more: make(chan struct{}, 1)}
	if o.settings, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	o.cmd.Dir, o.cmd.Env = filepath.Join(sh.root, "app"), append(append([]string{}, sh.env...), env...)
	o.cmd.Stdin, o.cmd.Stdout, o.cmd.Stderr = tty, tty, tty
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buffer)
			o.mu.Lock()
			o.all += string(buffer[:n])
			o.text += string(buffer[:n])
			o.mu.Unlock()
			select {
			case o.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill() // it has ended, unless the test failed
		_ = o.cmd.Wait()
		if err := errors.Join(tty.Close(), ptmx.Close()); err != nil {
			t.Error(err)
		}
		<-done
	})
	return o
}

// see waits until a text has come since the last one.
func (o *onTerminal) see(want string) {
	o.t.Helper()
	deadline := time.After(patience)
	for {
		o.mu.Lock()
		if _, after, ok := strings.Cut(o.text, want); ok {
			o.text = after
			o.mu.Unlock()
			return
		}
		text := o.text
		o.mu.Unlock()
		select {
		case <-o.more:
		case <-deadline:
			o.t.Fatalf("%q did not come, but %q", want, text)
		}
	}
}

func (o *onTerminal) send(keys string) {
	o.t.Helper()
	if _, err := io.WriteString(o.ptmx, keys); err != nil {
		o.t.Fatal(err)
	}
}

// ends waits for the end, and holds that the terminal is as it was.
func (o *onTerminal) ends(code int) {
	o.t.Helper()
	late := time.AfterFunc(patience, func() { _ = o.cmd.Process.Kill() })
	defer late.Stop()
	err := o.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		o.t.Fatal(err)
	}
	if got := o.cmd.ProcessState.ExitCode(); got != code {
		o.t.Errorf("exit code %d, want %d", got, code)
	}
	after, err := term.GetState(int(o.tty.Fd()))
	if err != nil {
		o.t.Fatal(err)
	}
	if !reflect.DeepEqual(o.settings, after) {
		o.t.Errorf("the terminal is left as %+v, it was %+v", after, o.settings)
	}
}

const leavesScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"

func TestWatchOnATerminal(t *testing.T) {
	sh := newConsole(t)
	sh.write("reset.json", `{"kind":"command","command":{"text":"git reset main"}}`)
	sh.write("push.json", `{"kind":"command","command":{"text":"git push main"}}`)
	sh.serve()
	sh.ask("reset.json")

	o := runOnTerminal(sh, []string{"TERM=xterm", "NO_COLOR="}, "regent", "permission", "watch")
	o.see("\x1b[?1049h")
	o.see("1 waiting  as user:")
	o.see("options")
	o.send("j1")
	o.see(`answer "allow" (allows, once)? y answers`)
	o.send("y")
	o.see("allow: command  git reset main")
	if out, _ := sh.run("eventually ALLOW cat ask.log", false); !strings.Contains(out, "ALLOW  command  git reset main") {
		t.Errorf("who asked heard %q", out)
	}

	// What comes while it runs comes by the stream of events.
	sh.ask("push.json")
	o.see("git push main")
	if err := pty.Setsize(o.ptmx, &pty.Winsize{Cols: 30, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	o.see("the terminal is 30x24")
	if err := pty.Setsize(o.ptmx, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	o.see("-- 1 of 1 --")
	o.send("j\x1b[200~1y\x1b[201~")
	o.see("pasted text answers nothing")
	o.send("rnot today\r2y")
	o.see("deny: command  git push main")
	o.send("q")
	o.see(leavesScreen)
	o.ends(exitDone)
	if out, _ := sh.run("regent permission info $ID", false); !strings.Contains(out, "not today") {
		t.Errorf("the reason is not in the record:\n%s", out)
	}
}

func TestWatchGivesTheTerminalBack(t *testing.T) {
	sh := newConsole(t)
	sh.serve()
	for _, tt := range []struct {
		name string
		end  func(*onTerminal)
	}{
		{"SIGTERM", func(o *onTerminal) { _ = o.cmd.Process.Signal(syscall.SIGTERM) }},
		{"SIGHUP", func(o *onTerminal) { _ = o.cmd.Process.Signal(syscall.SIGHUP) }},
		{"SIGQUIT", func(o *onTerminal) { _ = o.cmd.Process.Signal(syscall.SIGQUIT) }},
		{"Ctrl-C", func(o *onTerminal) { o.send("\x03") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := runOnTerminal(sh, []string{"TERM=xterm", "NO_COLOR=1"}, "regent", "permission", "watch")
			o.see("nothing waits for an answer")
			tt.end(o)
			o.see(leavesScreen)
			o.ends(exitDone)
		})
	}
}

func TestWatchWithoutColourAndOnADumbTerminal(t *testing.T) {
	sh := newConsole(t)
	sh.write("reset.json", `{"kind":"command","command":{"text":"git reset main"}}`)
	sh.serve()
	sh.ask("reset.json")
	for _, env := range []string{"TERM=dumb", "NO_COLOR=1"} {
		o := runOnTerminal(sh, []string{"TERM=xterm", env}, "regent", "permission", "watch")
		o.see("> ")
		o.see("options")
		o.send("j2")
		o.see(`answer "deny" (denies)?`)
		o.send("nq")
		o.ends(exitDone)
		o.mu.Lock()
		for _, drives := range []string{string(styleTitle), string(styleSelected), string(styleAlert), string(styleQuiet)} {
			if strings.Contains(o.all, drives) {
				t.Errorf("%s: there are colours in %q", env, o.all)
			}
		}
		if env == "TERM=dumb" && strings.Contains(o.all, "\x1b") {
			t.Errorf("%s: the cursor is moved in %q", env, o.all)
		}
		o.mu.Unlock()
	}
}

func TestWatchComesBackWithTheDaemon(t *testing.T) {
	sh := newConsole(t)
	sh.write("reset.json", `{"kind":"command","command":{"text":"git reset main"}}`)
	sh.serve()
	o := runOnTerminal(sh, []string{"TERM=xterm"}, "regent", "permission", "watch")
	o.see("nothing waits for an answer")
	sh.stopDaemon()
	o.see("the daemon is gone; waiting for it")
	sh.serve()
	sh.ask("reset.json")
	o.see("git reset main")
	o.send("q")
	o.ends(exitDone)
}

func TestAPassphraseIsTypedUnseen(t *testing.T) {
	sh := newConsole(t)
	o := runOnTerminal(sh, nil, "regent", "step-up", "set")
	o.see("New passphrase for local: ")
	o.send("correct horse battery\rcorrect horse batteri\r")
	o.see("The same once more: ")
	o.see("the two are not the same; nothing was set")
	o.ends(exitUsage)
	o = runOnTerminal(sh, nil, "regent", "step-up", "set")
	o.see("New passphrase for local: ")
	o.send("correct horse battery\r")
	o.see("The same once more: ")
	o.send("correct horse battery\r")
	o.see("local proves itself with a passphrase")
	o.ends(exitDone)
	o.mu.Lock()
	if strings.Contains(o.all, "horse") {
		t.Error("the passphrase was shown")
	}
	o.mu.Unlock()

	o = runOnTerminal(sh, nil, "regent", "step-up", "remove")
	o.see("Passphrase of local: ")
	o.send("\x03")
	o.ends(exitFailed) // and the terminal shows what is typed again
	if out, _ := sh.run("regent step-up status", false); out != "local proves itself with a passphrase\n" {
		t.Errorf("after Ctrl-C: %s", out)
	}
	o = runOnTerminal(sh, nil, "regent", "step-up", "remove")
	o.see("Passphrase of local: ")
	o.send("correct hors\x1b[A\x01e batteryy\x7f\r")
	o.see("local has no proof")
	o.ends(exitDone)
	o = runOnTerminal(sh, nil, "regent", "step-up", "set")
	o.see("New passphrase for local: ")
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o.ends(exitFailed)
}

func TestAnAuthenticatorIsSetUpWithItsOwnCode(t *testing.T) {
	sh := newConsole(t)
	o := runOnTerminal(sh, nil, "regent", "step-up", "set", "--totp", "--principal", "user:sam")
	o.see("as the secret ")
	o.mu.Lock()
	all := o.all
	o.mu.Unlock()
	link, err := url.Parse(strings.TrimSpace(all[strings.Index(all, "otpauth://"):strings.Index(all, "\n")]))
	if err != nil {
		t.Fatal(err)
	}
	o.see("Code that the authenticator shows: ")
	o.send(totpCode(t, link.Query().Get("secret"), time.Now()) + "\r")
	o.see("user:sam proves itself with an authenticator")
	o.ends(exitDone)
	out, code := sh.run("regent step-up status --principal user:sam", false)
	if code != exitDone || out != "user:sam proves itself with an authenticator\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// totpCode is what an authenticator shows, see RFC 6238.
func totpCode(t testing.TB, secret string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil || len(key) == 0 {
		t.Fatalf("secret %q: %v", secret, err)
	}
	mac := hmac.New(sha1.New, key)
	if err := binary.Write(mac, binary.BigEndian, at.Unix()/30); err != nil {
		t.Fatal(err)
	}
	sum := mac.Sum(nil)
	at4 := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at4:at4+4])&0x7fffffff%1e6)
}
