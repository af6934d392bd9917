package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

// engines finds the workspace that a call belongs to and keeps one engine for
// each, since the calls of one input may belong to several.
type engines struct {
	app     *app
	command string
	home    string
	trust   *gate.Trust
	// daemon rules in the place of engines of this process, where it is not nil.
	daemon *client.Client
	made   map[string]*engine
	noted  map[string]bool
}

// engine is a setup and, once it is compiled, its epoch. Where err is set there
// is no epoch, and everything is asked.
type engine struct {
	setup *gate.Setup
	epoch *gate.Epoch
	err   error
}

// engines prepares to make engines by the global flags.
func (a *app) engines(command string) (*engines, error) {
	home, err := config.HomeDir(a.global.home, a.getenv)
	if err != nil {
		return nil, badInput(err)
	}
	return &engines{app: a, command: command, home: home, trust: gate.NewTrust(home), made: map[string]*engine{}, noted: map[string]bool{}}, nil
}

// options are those of the workspace that calls in cwd belong to. To name one is
// to trust it for this run; one that was found is trusted if its owner has said
// so.
func (e *engines) options(cwd string) (gate.Options, error) {
	o := gate.Options{Home: e.home, Organization: e.app.global.organization}
	if e.app.global.workspace != "" {
		o.Workspace, o.Trusted = e.app.global.workspace, true
		return o, nil
	}
	here, err := e.app.getwd()
	if err != nil {
		return o, fmt.Errorf("find the workspace: %w", err)
	}
	if !filepath.IsAbs(cwd) {
		cwd = "" // it is not this process's folder that it starts from
	}
	if o.Workspace, _, err = gate.Find(e.home, cwd, here); err != nil || o.Workspace == "" {
		return o, err
	}
	o.Trusted = e.trusted(o.Workspace)
	return o, nil
}

// trusted tells whether the owner of the home vouches for a workspace.
func (e *engines) trusted(workspace string) bool {
	dir, err := gate.Canonical(workspace)
	if err != nil {
		return false // reading it will tell
	}
	if e.trust.Has(dir) {
		return true
	}
	if _, err := e.trust.List(); err != nil {
		e.once("note: %s", err)
	}
	return false
}

// read returns the setup for calls in cwd, and tells about it what people should
// know, once.
func (e *engines) read(cwd string) (*gate.Setup, error) {
	o, err := e.options(cwd)
	if err != nil {
		return nil, badInput(err)
	}
	setup, err := gate.Read(o)
	if err != nil {
		return nil, badInput(err)
	}
	e.note(setup)
	return setup, nil
}

// once says what is true of many calls the first time only.
func (e *engines) once(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !e.noted[text] {
		e.noted[text] = true
		e.app.say(e.command, "%s", text)
	}
}

func (e *engines) note(setup *gate.Setup) {
	if setup.Dir != "" && !setup.Trusted {
		e.once("note: the workspace %s is not trusted, so it can only tighten (regent trust %s, or --workspace %s for this run)", setup.Dir, approval.QuoteWord(setup.Dir), approval.QuoteWord(setup.Dir))
	}
	for _, w := range setup.Warnings {
		e.once("warning: %s", w)
	}
	for _, l := range setup.Refused {
		e.once("note: without effect: %s", l)
	}
}

// at returns the engine for calls in cwd. One that cannot be made is reported on
// stderr once, a line for each problem.
func (e *engines) at(ctx context.Context, cwd string) *engine {
	o, err := e.options(cwd)
	if err != nil {
		e.once("%s", err)
		return &engine{err: err}
	}
	made, ok := e.made[o.Workspace]
	if ok {
		return made
	}
	made = &engine{}
	e.made[o.Workspace] = made
	if made.setup, made.err = gate.Read(o); made.err != nil {
		e.report(made.err)
		return made
	}
	e.note(made.setup)
	if made.epoch, made.err = made.setup.Compile(ctx); made.err != nil {
		e.report(made.err)
	}
	return made
}

// report prints what keeps an engine from being made.
func (e *engines) report(err error) {
	e.app.say(e.command, "%s", err)
	if load, ok := errors.AsType[*rego.LoadError](err); ok {
		e.app.say(e.command, "policies do not load: %s", plural(len(load.Problems), "problem"))
	}
}

// only returns the one engine of a command that is of no use without one.
func (e *engines) only(ctx context.Context) (*gate.Epoch, error) {
	made := e.at(ctx, "")
	if made.err != nil {
		return nil, loadFailure(made.err)
	}
	return made.epoch, nil
}

// loadFailure ends with the code for err, which has been reported.
func loadFailure(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return exitCode(exitFailed)
	}
	return exitCode(exitUsage)
}

// rule rules on a request, by the daemon or in this process, which comes to the
// same. faulty says that what should have ruled could not be loaded as it is.
func (e *engines) rule(ctx context.Context, r *approval.Request) (ruling approval.Ruling, faulty bool, err error) {
	if e.daemon == nil {
		engine := e.at(ctx, cwdOf(r))
		return engine.rule(ctx, r), engine.err != nil, nil
	}
	o, err := e.options(cwdOf(r))
	if err != nil {
		e.once("%s", err)
		return rego.Unloaded(err, rego.DefaultSettings()), true, nil
	}
	setup, readErr := gate.Read(o)
	if readErr == nil {
		e.note(setup)
	}
	here, err := e.app.getwd()
	if err != nil {
		return ruling, false, fmt.Errorf("find the workspace: %w", err)
	}
	question := api.Question{Request: r, Folder: here}
	if question.Workspace, err = absolute(o.Workspace); err != nil {
		return ruling, false, badInput(err)
	}
	ruling, err = e.daemon.Check(ctx, question)
	switch {
	case err != nil:
		return ruling, false, answered(err)
	case ruling.Failure != nil && ruling.Failure.Kind == "load":
		e.once("%s", ruling.Failure.Message)
		return ruling, true, nil
	case readErr != nil:
		e.once("%s", readErr)
		e.once("note: the daemon goes by the last rules that were good")
		return ruling, true, nil
	}
	return ruling, false, nil
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	return filepath.Abs(dir)
}

// rule rules on a request. Without an engine a person is asked.
func (n *engine) rule(ctx context.Context, r *approval.Request) approval.Ruling {
	if n.err != nil {
		return rego.Unloaded(n.err, n.settings())
	}
	return n.epoch.Policy.Rule(ctx, r)
}

func (n *engine) settings() rego.Settings {
	if n.setup == nil {
		return rego.DefaultSettings()
	}
	return n.setup.Source.Settings
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
