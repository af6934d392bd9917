package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// hostMain plays a native host. Its ways to be called:
//
//	host open SESSION TURN...            opens them, and gives signs of life until it is interrupted
//	host call SESSION TURN CALL [FILE]   makes the call in FILE, or asks for permission to write to out, and prints what becomes of it
//	host child SESSION COMMAND...        opens a session and runs a command as its child
//
// The instance is called as the session is, so that all of them are one host.
func hostMain() {
	if err := host(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			os.Exit(max(failed.ExitCode(), exitFailed))
		}
		os.Exit(exitFailed)
	}
}

func host(way, session string, args []string) error {
	home, err := config.HomeDir("", os.Getenv)
	if err != nil {
		return err
	}
	c, err := client.Dial(filepath.Join(home, "runtime", "regent.sock"))
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if way == "call" {
		return hostCall(ctx, c, session, args)
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := c.OpenSession(ctx, session, api.SessionSpec{Instance: session, Folder: dir}); err != nil {
		return err
	}
	if way == "child" {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd.Run()
	}
	for _, turn := range args {
		spec := api.TurnSpec{Instance: session, Environments: []api.Environment{{ID: "local", Cwd: dir}}}
		if _, err := c.OpenTurn(ctx, session, turn, spec); err != nil {
			return err
		}
	}
	if err := c.KeepAlive(ctx, session); ctx.Err() == nil {
		return err
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.EndSession(last, session, session)
}

func hostCall(ctx context.Context, c *client.Client, session string, args []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	spec := api.CallSpec{}
	if len(args) == 3 {
		data, err := os.ReadFile(args[2])
		if err == nil {
			err = json.Unmarshal(data, &spec)
		}
		if err != nil {
			return err
		}
	} else {
		arguments, err := json.Marshal(map[string]any{
			"reason":      "to build",
			"permissions": map[string]any{"file_system": map[string]any{"write": []string{filepath.Join(dir, "out")}}},
		})
		if err != nil {
			return err
		}
		spec.Tool = &approval.Tool{Name: api.ToolName, Arguments: arguments}
	}
	spec.Instance = session
	one, err := c.Call(ctx, session, args[0], args[1], spec)
	if err != nil {
		return err
	}
	return writeJSON(os.Stdout, one, true)
}
