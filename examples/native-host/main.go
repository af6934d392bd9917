// The native-host command is a complete small host of an agent: it runs what a
// model asks for, and nothing of it before Regent has answered.
//
// The model is a script of turns, so that every run is the same; the tools are
// real and work on a scratch folder. Read host.go first: it is what a host owes
// Regent. tools.go is what it owes the machine.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/client"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitCancelled   = 3
	exitInterrupted = 130
)

const help = `native-host runs a scripted agent under Regent.

Start the daemon first (regent serve), and keep a terminal of your own to answer
in (regent permission watch). An agent's host and whatever it starts cannot answer.

Usage: native-host [flags]

  --workspace DIR  rules to be ruled by: a folder with a config.yaml. Without it the
                   nearest .regent above the scratch folder counts, if there is one.
                   regent trust DIR lets its allow rules count.
  --scratch DIR    folder that the agent works in, made if it is missing. Without it
                   a new one below the system's folder for temporary files, which is
                   kept.
  --script FILE    what the model says: {"turns": [{"says": TEXT, "calls":
                   [{"tool": NAME, "arguments": OBJECT}]}]}. Without it a story of
                   three turns. The tools are read_file {path}, list_dir {path},
                   write_file {path, content}, exec_command {cmd}, and
                   request_permissions where the daemon offers it.
  --read-only      have the host itself refuse to write and to start programs. No
                   rule and no person can allow then what it refuses.
  --home DIR       home of the daemon; $REGENT_HOME or ~/.regent if it is missing
  --socket FILE    socket of the daemon; runtime/regent.sock in the home if missing

Exit codes: 0 the script came to its end, 1 it could not go on (no daemon, the daemon
was lost), 2 usage, 3 somebody cancelled a call, which ends the run, 130 Ctrl-C.
`

//go:embed script.json
var story []byte

// script is what a model says, turn by turn.
type script struct {
	Turns []struct {
		Says  string     `json:"says"`
		Calls []toolCall `json:"calls"`
	} `json:"turns"`
}

type options struct {
	workspace, scratch, script, home, socket string
	readOnly                                 bool
}

func main() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) }

// Main is the whole program, and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flags := flag.NewFlagSet("native-host", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, help) }
	flags.StringVar(&o.workspace, "workspace", "", "")
	flags.StringVar(&o.scratch, "scratch", "", "")
	flags.StringVar(&o.script, "script", "", "")
	flags.BoolVar(&o.readOnly, "read-only", false, "")
	flags.StringVar(&o.home, "home", os.Getenv("REGENT_HOME"), "")
	flags.StringVar(&o.socket, "socket", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "native-host: it takes no arguments, and was given %q\n", flags.Arg(0))
		return exitUsage
	}
	model, h, err := o.open(stdout)
	if err != nil {
		fmt.Fprintf(stderr, "native-host: %v\n", err)
		return exitUsage
	}
	if h.daemon, err = client.Dial(o.socket); err != nil {
		fmt.Fprintf(stderr, "native-host: %v\n", err)
		return exitFailed
	}
	defer h.daemon.Close()
	err = h.run(ctx, model)
	if err != nil {
		fmt.Fprintf(stderr, "native-host: %v\n", err)
	}
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, errCancelled):
		return exitCancelled
	case err != nil:
		return exitFailed
	}
	return exitDone
}

// open reads the script, and makes a host that only lacks its daemon.
func (o *options) open(out io.Writer) (script, *host, error) {
	var model script
	text := story
	var err error
	if o.script != "" {
		if text, err = os.ReadFile(o.script); err != nil {
			return script{}, nil, err
		}
	}
	// What is in the arguments is for whoever reads them.
	if err := jsonv2.Unmarshal(text, &model, jsonv2.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return script{}, nil, fmt.Errorf("read the script: %w", err)
	}
	if o.home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return script{}, nil, err
		}
		o.home = filepath.Join(user, ".regent")
	}
	if o.socket == "" {
		o.socket = filepath.Join(o.home, "runtime", "regent.sock")
	}
	if o.workspace != "" { // the daemon is somewhere else
		if o.workspace, err = filepath.Abs(o.workspace); err != nil {
			return script{}, nil, err
		}
	}
	if o.scratch == "" {
		if o.scratch, err = os.MkdirTemp("", "native-host-"); err != nil {
			return script{}, nil, err
		}
		o.scratch = filepath.Join(o.scratch, "work")
	}
	if err := os.MkdirAll(o.scratch, 0o755); err != nil {
		return script{}, nil, err
	}
	// One spelling for all: what is asked about is what is opened later.
	if o.scratch, err = filepath.Abs(o.scratch); err == nil {
		o.scratch, err = filepath.EvalSymlinks(o.scratch)
	}
	return model, &host{
		instance: approval.NewID(), session: "example-" + approval.NewID()[:8], workspace: o.workspace,
		readOnly: o.readOnly, tools: toolbox{scratch: o.scratch}, out: out,
	}, err
}
