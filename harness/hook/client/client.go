// Package client is the end of a hook that a harness starts for each call of its
// agent: it carries what the harness tells to the daemon, and what the daemon
// answers to the harness.
//
// It decides nothing, and where there is no answer (no daemon, a late one, one
// that cannot be read) it refuses in the way that the harness understands. A
// process is started for every call, so the package is built from the standard
// library alone, and from the parts of it that start fast.
package client

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

const (
	// Version is what both ends of the socket speak. A message of another version
	// is not understood.
	Version = 1
	// MaxPayload is the most that a harness may tell a hook, in bytes. A hook that
	// is told more refuses.
	MaxPayload = 4 << 20
	// MaxCall and MaxAnswer bound the messages on the socket, in bytes.
	MaxCall   = MaxPayload + 64<<10
	MaxAnswer = 256 << 10
	// DefaultTimeout is how long a hook takes at most. It is to be below the time
	// after which the harness gives up on it, since most let the call run then.
	DefaultTimeout = 8 * time.Second
	// margin is what is left of that for the answer's way back.
	margin = 300 * time.Millisecond
)

// OnAsk says what becomes of a call about which somebody is to be asked.
type OnAsk string

// The ways. Any other word is one that refuses.
const (
	// Pass says nothing: the harness goes on as it would without the hook.
	Pass OnAsk = "pass"
	// Wait has somebody asked, and refuses unless they allow it in time.
	Wait OnAsk = "wait"
	// Deny refuses.
	Deny OnAsk = "deny"
)

// OnAsks are all of them, the default first.
var OnAsks = []string{string(Pass), string(Wait), string(Deny)}

// Call is what a hook says to the daemon.
type Call struct {
	Version int     `json:"version"`
	Dialect Dialect `json:"dialect"`
	OnAsk   OnAsk   `json:"on_ask"`
	// AgentPID is the process that started the hook: the agent's harness.
	AgentPID int `json:"agent_pid"`
	// Cwd is the folder that the hook was started in.
	Cwd string `json:"cwd"`
	// WaitMS is how long the daemon may take, in milliseconds.
	WaitMS int64 `json:"wait_ms"`
	// Payload is the JSON object that the harness wrote.
	Payload json.RawMessage `json:"payload"`
}

// Answer is what a hook does: write these, and end with this code.
type Answer struct {
	Version int    `json:"version"`
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Exit    int    `json:"exit"`
}

// The codes that harnesses understand alike. Any other lets the call run in
// most of them.
const (
	exitSaid    = 0
	exitRefused = 2
)

// ErrMessage means that a message on the socket is not one of the protocol. There
// is nothing to be read after it.
var ErrMessage = errors.New("malformed message")

// WriteMessage writes one message: its length in four bytes, the most significant
// first, and its JSON text.
func WriteMessage(w io.Writer, message any, most int) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the message: %w", err)
	}
	if len(text) > most {
		return fmt.Errorf("%w: %d bytes, the limit is %d", ErrMessage, len(text), most)
	}
	framed := make([]byte, 4, 4+len(text))
	binary.BigEndian.PutUint32(framed, uint32(len(text)))
	_, err = w.Write(append(framed, text...))
	return err
}

// ReadMessage reads the text of one message of at most so many bytes. Room, where
// it is not nil, is asked whether there is room for that many; its error is
// returned.
func ReadMessage(r io.Reader, most int, room func(bytes int) error) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || uint64(n) > uint64(most) {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrMessage, n, most)
	}
	if room != nil {
		if err := room(int(n)); err != nil {
			return nil, err
		}
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("%w: it ends too early: %w", ErrMessage, err)
	}
	return text, nil
}

// ErrPath means that the socket of a home cannot be: the path is longer than the
// system takes. Use a home with a shorter name.
var ErrPath = errors.New("the path of the hook socket is too long")

// Socket is where the daemon of a home listens for hooks, wherever else it
// listens.
func Socket(home string) (string, error) {
	path := filepath.Join(home, "runtime", "hook.sock")
	// The size of sun_path without the zero at its end.
	most := 103
	if runtime.GOOS == "linux" {
		most = 107
	}
	if len(path) > most {
		return "", fmt.Errorf("%w, use a shorter --home: it has %d bytes, and the system takes %d: %s", ErrPath, len(path), most, path)
	}
	return path, nil
}

// Hook is one run of a hook. All but Dial are needed.
type Hook struct {
	Dialect Dialect
	OnAsk   OnAsk
	// Home is the folder whose daemon is asked.
	Home string
	// Timeout is how long the run takes at most.
	Timeout  time.Duration
	AgentPID int
	Cwd      string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Dial connects to the socket at a path, at once or not at all; nil does so by the
	// system.
	Dial func(path string) (Conn, error)
}

// Run is what the process does. It returns the code to end with, in time. What it
// has begun may go on behind it then, so the process ends.
func (h *Hook) Run() (code int) {
	defer func() {
		if caught := recover(); caught != nil {
			code = h.end(h.Dialect.Refuse("", broken(caught).Error()))
		}
	}()
	began := time.Now()
	late := time.NewTimer(h.Timeout)
	defer late.Stop()

	// While the harness speaks, the daemon can find out who will.
	conn, unreached := h.connect()
	if unreached == nil {
		defer func() { _ = conn.Close() }()
	}
	told := make(chan notice, 1)
	go func() { told <- h.read() }()
	var n notice
	select {
	case n = <-told:
	case <-late.C:
		n.fault = errors.New("the harness did not say in time what it is about")
	}
	switch {
	case n.fault != nil:
		return h.end(h.Dialect.Refuse(n.event, n.fault.Error()))
	case !h.Dialect.gates(n.event):
		return h.end(h.Dialect.pass(n.event))
	case unreached != nil:
		return h.end(h.Dialect.Refuse(n.event, unreached.Error()))
	}
	answer, err := h.ask(conn, n, began.Add(h.Timeout))
	if err != nil {
		answer = h.Dialect.Refuse(n.event, err.Error())
	}
	return h.end(answer)
}

// notice is what the harness said.
type notice struct {
	payload []byte
	event   string
	// fault says why it cannot be read. The event is "" then.
	fault error
}

func (h *Hook) read() (n notice) {
	defer func() {
		if caught := recover(); caught != nil {
			n = notice{fault: broken(caught)}
		}
	}()
	payload, err := io.ReadAll(io.LimitReader(h.Stdin, MaxPayload+1))
	switch {
	case err != nil:
		return notice{fault: fmt.Errorf("what the harness says cannot be read: %w", err)}
	case len(payload) > MaxPayload:
		return notice{fault: fmt.Errorf("the harness says more than %d bytes", MaxPayload)}
	}
	event, err := h.Dialect.Event(payload)
	if err != nil {
		return notice{fault: err}
	}
	return notice{payload: payload, event: event}
}

// Conn is a connection with the daemon: a [net.Conn] is one, and so is an [os.File].
// Once its deadline has passed, whatever waits on it ends with an error that is
// [os.ErrDeadlineExceeded].
type Conn interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// broken is the error of a panic.
func broken(caught any) error { return fmt.Errorf("the hook broke down: %v", caught) }

func (h *Hook) connect() (conn Conn, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = broken(caught)
		}
	}()
	path, err := Socket(h.Home)
	if err != nil {
		return nil, err
	}
	connect := h.Dial
	if connect == nil {
		connect = dial
	}
	conn, err = connect(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no daemon listens on %s; start one with regent serve", path)
	case err != nil:
		return nil, fmt.Errorf("reach the daemon: %w", err)
	}
	return conn, nil
}

// ask gets the daemon's answer before the deadline.
func (h *Hook) ask(conn Conn, n notice, deadline time.Time) (answer Answer, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = broken(caught)
		}
	}()
	if err := conn.SetDeadline(deadline); err != nil {
		return Answer{}, unanswered(err)
	}
	call := Call{
		Version: Version, Dialect: h.Dialect, OnAsk: h.OnAsk, AgentPID: h.AgentPID, Cwd: h.Cwd,
		WaitMS: max(1, (time.Until(deadline) - margin).Milliseconds()), Payload: n.payload,
	}
	if err := WriteMessage(conn, call, MaxCall); err != nil {
		return Answer{}, unanswered(err)
	}
	text, err := ReadMessage(conn, MaxAnswer, nil)
	if err != nil {
		return Answer{}, unanswered(err)
	}
	return readAnswer(text)
}

// unanswered says for people why there is no answer.
func unanswered(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the daemon did not answer in time")
	case errors.Is(err, ErrMessage):
		return fmt.Errorf("the daemon's answer cannot be read: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return errors.New("the daemon hung up without an answer; its log says why")
	default:
		return fmt.Errorf("ask the daemon: %w", err)
	}
}

// readAnswer reads an answer of which every part is there. To say nothing lets
// the call run, so nothing may be taken for that.
func readAnswer(text []byte) (Answer, error) {
	var a struct {
		Version *int    `json:"version"`
		Stdout  *string `json:"stdout"`
		Stderr  *string `json:"stderr"`
		Exit    *int    `json:"exit"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return Answer{}, fmt.Errorf("the daemon's answer cannot be read: %w", err)
	}
	switch {
	case a.Version == nil || a.Stdout == nil || a.Stderr == nil || a.Exit == nil:
		return Answer{}, errors.New("the daemon's answer is not complete")
	case *a.Version != Version:
		return Answer{}, fmt.Errorf("the daemon speaks version %d and this hook %d: both have to be of one release of Regent", *a.Version, Version)
	case *a.Exit != exitSaid && *a.Exit != exitRefused:
		return Answer{}, fmt.Errorf("the daemon's answer ends with code %d, which harnesses do not know", *a.Exit)
	case *a.Exit == exitRefused && *a.Stderr == "":
		// Some harnesses run the call where no word goes with that code.
		return Answer{}, errors.New("the daemon refuses without a word")
	}
	return Answer{Version: Version, Stdout: *a.Stdout, Stderr: *a.Stderr, Exit: *a.Exit}, nil
}

// end tells the harness.
func (h *Hook) end(a Answer) int {
	if a.Stdout != "" {
		if _, err := io.WriteString(h.Stdout, a.Stdout); err != nil {
			// Half an answer counts as none.
			a.Exit, a.Stderr = exitRefused, fmt.Sprintf("regent: the answer cannot be written: %v", err)
		}
	}
	if a.Stderr != "" {
		// Where nobody reads it, the code says enough.
		_, _ = io.WriteString(h.Stderr, a.Stderr+"\n")
	}
	return a.Exit
}
