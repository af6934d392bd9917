package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/wire"
)

// codexMain is a small Codex for what needs no real one: the examples in help
// texts and on pages. Its agent wants to push by force, whatever it is told to do,
// and says what came of it. As a client it only says hello.
func codexMain() {
	if err := fakeCodex(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "codex:", err)
		os.Exit(1)
	}
}

func fakeCodex(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "--remote":
		return fakeClient(args[1])
	case len(args) == 0 || args[0] != "app-server":
		return fmt.Errorf("no %q", args)
	case len(args) > 2 && args[1] == "--listen":
		l, err := wire.Listen(args[2], wire.ListenOptions{})
		if err != nil {
			return err
		}
		for {
			conn, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return nil
			} else if err != nil {
				return err
			}
			go func() { _ = fakeServer(conn) }()
		}
	default:
		return fakeServer(wire.Lines(os.Stdin, os.Stdout, func() error { return nil }))
	}
}

// fakeClient says hello to a server that may not be there yet.
func fakeClient(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := os.Stat(strings.TrimPrefix(address, "unix://"))
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	conn, err := wire.Dial(ctx, address, nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.Write([]byte(`{"id":1,"method":"initialize","params":{}}`)); err != nil {
		return err
	}
	_, err = conn.Read()
	return err
}

func fakeServer(conn harness.Conn) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	say := func(format string, args ...any) error { return conn.Write(fmt.Appendf(nil, format, args...)) }
	for {
		messages, err := conn.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			var f struct {
				ID     json.RawMessage
				Method string
				Result struct{ Decision string }
			}
			if err := json.Unmarshal(m, &f); err != nil {
				return err
			}
			switch {
			case f.Method == "initialize":
				err = say(`{"id":%s,"result":{"userAgent":"codex/0.171.0 (fake)"}}`, f.ID)
			case f.Method == "thread/start":
				err = say(`{"id":%s,"result":{"thread":{"id":"thread-1"}}}`, f.ID)
			case f.Method == "turn/start":
				err = errors.Join(
					say(`{"id":%s,"result":{"turn":{"id":"turn-1"}}}`, f.ID),
					say(`{"id":0,"method":"item/commandExecution/requestApproval","params":{"kind":"command","threadId":"thread-1","turnId":"turn-1","itemId":"call-1","command":"/bin/bash -lc 'git push -f origin main'","cwd":%q,"availableDecisions":["accept","cancel"]}}`, cwd),
				)
			case f.Method == "":
				text := "I pushed with --force-with-lease instead."
				if f.Result.Decision == "accept" {
					text = "I pushed."
				}
				err = errors.Join(
					say(`{"method":"serverRequest/resolved","params":{"threadId":"thread-1","requestId":0}}`),
					say(`{"method":"item/completed","params":{"threadId":"thread-1","turnId":"turn-1","item":{"type":"agentMessage","id":"m1","text":%q}}}`, text),
					say(`{"method":"turn/completed","params":{"threadId":"thread-1","turn":{"id":"turn-1","status":"completed"}}}`),
				)
			case len(f.ID) > 0:
				var result any
				var text []byte
				if result, err = fakeSetup(f.Method); err == nil {
					text, err = json.Marshal(result)
				}
				if err == nil {
					err = say(`{"id":%s,"result":%s}`, f.ID, text)
				}
			}
			if err != nil {
				return err
			}
		}
	}
}
