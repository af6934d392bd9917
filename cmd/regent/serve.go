package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/ledger"
	hookclient "github.com/regent-policy/regent/harness/hook/client"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/server"
	"github.com/regent-policy/regent/server/credential"
	"github.com/regent-policy/regent/server/notify"
)

// memoryLimit is when the collector works harder than GOGC says: 1 GiB for the
// compiled rules of the workspaces that are loaded, and half of that again for
// the bodies that are read at once, which the server bounds, and what waits.
// Without it the heap could grow to five times what is in use.
const memoryLimit = 1<<30 + 512<<20

const (
	// standardIdle is after which time a workspace is unloaded that nobody has asked
	// about, and minIdle the shortest that it can be.
	standardIdle = 30 * time.Minute
	minIdle      = time.Second
)

type serveOptions struct {
	logFormat string
	idle      time.Duration
}

func newServe(a *app) *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon of the home, which holds requests until they are answered",
		Long: `Run the daemon of the home, which holds requests until they are answered, records
them in the ledger, and follows edits of configuration and rules while they wait.
One daemon serves a home and all its workspaces, over the socket that server.socket
in config.yaml names; over TCP, for bearers of a token, if server.http is set.

It runs until it is told to end (Ctrl-C or SIGTERM): requests that wait are closed
then, and whoever asked hears of it. A second signal ends it at once. Its log is on
stderr. A first line there says that it is ready.`,
		Example: `  $ regent serve & until regent status > status.txt 2> errors.txt; do sleep 0.1; done; kill $!`,
		Args:    noArgs("serve serves all workspaces of the home"),
		RunE:    action(func(cmd *cobra.Command, _ []string) error { return a.serve(cmd, o) }),
	}
	choiceVar(cmd, cmd.Flags(), &o.logFormat, "log-format", "text", []string{"text", "json"}, "form of the log")
	cmd.Flags().DurationVar(&o.idle, "idle", standardIdle, "unload a workspace that nobody has asked about for this `TIME`")
	must(cmd.RegisterFlagCompletionFunc("idle", cobra.NoFileCompletions))
	exitsAs(cmd, map[int]string{
		exitDone: "it was told to end", exitFailed: "it could not begin (another daemon runs, the ledger is damaged) or go on",
	}, exitDone, exitFailed, exitUsage)
	return cmd
}

// lockedWriter takes whole lines from several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (a *app) serve(cmd *cobra.Command, o *serveOptions) (err error) {
	if cmd.Flags().Changed("workspace") {
		return usagef("--workspace has no meaning for %s; regent trust DIR lets a workspace count in full", cmd.CommandPath())
	}
	if o.idle < minIdle {
		return usagef("--idle %s is less than %s", o.idle, minIdle)
	}
	// The collector of a long life is not that of one call.
	if a.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	// The one goroutine that writes the ledger spends its time in syncs, and holds a
	// processor of Go's meanwhile: one more leaves the others their own.
	if a.getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	a.stderr = &lockedWriter{w: a.stderr}
	d := &daemon{app: a, command: cmd.CommandPath()}
	if o.logFormat == "json" {
		d.log = slog.New(slog.NewJSONHandler(a.stderr, nil))
	} else {
		d.text = true
		d.log = slog.New(slog.NewTextHandler(a.stderr, nil))
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(cmd.Context(), o); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	again := make(chan os.Signal, 2)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	go endAtOnce(again, ended)
	d.ready()
	if err := d.run(cmd.Context()); err != nil {
		return err
	}
	d.tell("ended", "")
	return nil
}

// run serves everybody whom the daemon serves, until ctx ends.
func (d *daemon) run(ctx context.Context) error {
	asking, hangUp := context.WithCancel(ctx)
	var harnesses sync.WaitGroup
	harnesses.Go(func() { d.harnesses(asking) })
	defer harnesses.Wait()
	defer hangUp()
	listeners := d.listeners
	if d.hooks != nil {
		listeners = append(slices.Clone(listeners), d.hooks)
	}
	return d.server.Serve(ctx, listeners...)
}

// endAtOnce ends the process at a second signal. What is on disk stays as after
// any other end. Both are counted from the start, so that none is swallowed in
// between.
func endAtOnce(again <-chan os.Signal, ended <-chan struct{}) {
	for range 2 {
		select {
		case <-again:
		case <-ended:
			return
		}
	}
	os.Exit(exitFailed)
}

// daemon is all that serve has opened. What was not opened is nil.
type daemon struct {
	app     *app
	command string
	log     *slog.Logger
	// text is for people, who get plain lines besides the log.
	text bool

	home      string
	ledger    *ledger.DB
	plugins   plugins
	epochs    *gate.Epochs
	gate      *gate.Gate
	notifiers *notify.Hub
	server    *server.Server
	listeners []net.Listener
	// hooks is where hooks connect; nil where the home's name is too long for that,
	// and then unheard says so.
	hooks   net.Listener
	unheard error
}

// tell says what happens to whoever started the daemon.
func (d *daemon) tell(what, more string) {
	if !d.text {
		d.log.Info(what, "detail", more)
		return
	}
	if more != "" {
		what += " " + more
	}
	d.app.say(d.command, "%s", what)
}

func (d *daemon) ready() {
	where := d.listeners[0].Addr().String()
	for _, l := range d.listeners[1:] {
		where += " and http://" + l.Addr().String()
	}
	d.tell("ready", fmt.Sprintf("on %s (pid %d)", where, os.Getpid()))
}

// open opens everything, in the order in which it depends on each other. The
// socket comes first, and with it the lock of the home: the gate closes what it
// finds in the ledger, which must not be the requests of a daemon that runs.
func (d *daemon) open(ctx context.Context, o *serveOptions) error {
	a := d.app
	home, err := a.madeHome()
	if err != nil {
		return err
	}
	d.home = home
	c, warnings, err := config.LoadHome(home)
	if err != nil {
		return badInput(err)
	}
	organization := a.global.organization
	if organization != "" {
		if organization, err = filepath.Abs(organization); err != nil {
			return badInput(err)
		}
	}
	for _, path := range []string{filepath.Join(home, "runtime"), filepath.Dir(c.Server.Socket), filepath.Dir(c.Ledger.Path)} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("make the folders of the daemon: %w", err)
		}
	}
	if err := d.listen(ctx, c); err != nil {
		return err
	}
	if d.ledger, err = ledger.Open(ctx, c.Ledger.Path, ledger.Options{}); err != nil {
		return damaged(err)
	}
	before := d.ledger.Stats().Head.Seq
	feed := &gate.Feed{}
	d.plugins.host = plugin.NewHost(plugin.Options{Log: d.log})
	d.epochs = gate.OpenEpochs(ctx, gate.EpochsOptions{Home: home, Organization: organization, Feed: feed, Log: d.log, Idle: o.idle, Plugins: d.plugins})
	var found []approval.Record
	if d.gate, found, err = gate.New(ctx, gate.Parts{Ledger: d.ledger, Workspaces: d.epochs, Feed: feed, Log: d.log}); err != nil {
		return damaged(err)
	}
	d.found(found)
	d.notifiers = notify.Open(notify.Options{
		Ledger: d.ledger, Feed: feed, Log: d.log,
		// What the gate has closed on its way in is told too.
		After:      before,
		Configured: func() map[string]config.Notifier { return notifiersOf(d.epochs.Home().Standing(), c) },
		Plugin:     func(name string) (notify.Notifier, error) { return notifier{d.epochs, name}, nil },
	})
	texts := openFolders(home, filepath.Join(home, "runtime"), filepath.Dir(c.Server.Socket), filepath.Dir(c.Ledger.Path))
	for _, w := range warnings {
		texts = append(texts, w.String())
	}
	if d.unheard != nil {
		texts = append(texts, "hooks refuse everything here: "+d.unheard.Error())
	}
	for _, text := range texts {
		d.log.Warn(text)
	}
	d.server = server.New(server.Options{
		Gate: d.gate, Epochs: d.epochs, Ledger: d.ledger, Home: home, Version: readVersion().Version, Warnings: texts, Log: d.log,
		Tokens: credential.NewTokens(home, nil), StepUp: credential.NewStepUp(home, nil), Notifiers: d.notifiers.Stats,
		Plugins: d.plugins.status,
	})
	return nil
}

// notifiersOf are the notifiers in force: those of the home, and those that it began
// with while no rules could be loaded, since everything is asked then. What waits for
// a confirmation, or may have to, is told nothing: a program would be started that
// nobody confirmed.
func notifiersOf(s *gate.Standing, began *config.Config) map[string]config.Notifier {
	switch {
	case s.Unconfirmed, s.Epoch == nil && began.Policy.ConfirmLoosening:
		return nil
	case s.Epoch == nil:
		return began.Notifiers
	default:
		return s.Epoch.Config.Notifiers
	}
}

// openFolders warns of folders in which others can put files of theirs.
func openFolders(paths ...string) []string {
	slices.Sort(paths)
	var warnings []string
	for _, path := range slices.Compact(paths) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
			warnings = append(warnings, fmt.Sprintf("other users can write to %s (mode %04o): chmod go-w", path, info.Mode().Perm()))
		}
	}
	return warnings
}

// listen takes the home for this daemon.
func (d *daemon) listen(ctx context.Context, c *config.Config) error {
	// This one only listens: the gate that the other needs must not be opened
	// before the home is ours.
	s := server.New(server.Options{Home: d.home})
	socket, err := s.ListenUnix(c.Server.Socket)
	switch {
	case errors.Is(err, server.ErrRunning):
		return fmt.Errorf("%w\nregent status tells about it", err)
	case errors.Is(err, server.ErrPath):
		return badInput(err)
	case err != nil:
		return err
	}
	d.listeners = append(d.listeners, socket)
	switch d.hooks, err = s.ListenHooks(); {
	case errors.Is(err, hookclient.ErrPath):
		d.hooks, d.unheard = nil, err
	case errors.Is(err, server.ErrPath), errors.Is(err, server.ErrRunning):
		d.hooks = nil
		return badInput(err)
	case err != nil:
		d.hooks = nil
		return err
	}
	if c.Server.HTTP == "" {
		return nil
	}
	tcp, err := s.ListenTCP(ctx, c.Server.HTTP)
	if errors.Is(err, server.ErrNotLoopback) {
		return badInput(fmt.Errorf("server.http: %w", err))
	}
	if err != nil {
		return fmt.Errorf("server.http: %w", err)
	}
	d.listeners = append(d.listeners, tcp)
	return nil
}

// found says what became of the requests that an earlier daemon left.
func (d *daemon) found(records []approval.Record) {
	if len(records) == 0 {
		return
	}
	states := map[approval.State]int{}
	for i := range records {
		states[records[i].State]++
	}
	text := ""
	for _, s := range approval.States {
		if states[s] > 0 {
			text += fmt.Sprintf(", %d %s", states[s], s)
		}
	}
	d.tell("found", fmt.Sprintf("%s of an earlier daemon and closed them: %s", plural(len(records), "request"), text[2:]))
	if states[approval.Unknown] > 0 {
		d.tell("note:", "nobody knows whether the answers to the unknown ones were heard; regent permission list --state unknown shows them")
	}
}

// close closes what was opened, the last first.
func (d *daemon) close() error {
	var errs []error
	if d.gate != nil {
		errs = append(errs, d.gate.Close()) // Serve has, if it came so far
	}
	if d.notifiers != nil {
		d.notifiers.Close() // after the gate, whose last changes are told
	}
	if d.epochs != nil {
		d.epochs.Close()
	}
	if d.plugins.host != nil {
		d.plugins.host.Close() // nothing is asked of them any more
	}
	if d.ledger != nil {
		errs = append(errs, d.ledger.Close())
	}
	// The lock goes last, when nothing of this daemon writes any more.
	listeners := d.listeners
	if d.hooks != nil {
		listeners = append([]net.Listener{d.hooks}, listeners...)
	}
	for _, l := range listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
