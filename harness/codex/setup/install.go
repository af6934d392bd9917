package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Installer changes the configuration in a home of Codex.
type Installer struct {
	// Home is the CODEX_HOME, absolute.
	Home string
	// Codex is asked whether it takes the configuration and trusts the hooks; nil
	// where there is none.
	Codex *Codex
	// Cwd is the folder whose own configuration is looked at.
	Cwd string
	// Version is that of Regent, for the record.
	Version string
	Now     func() time.Time
}

// Hooked is one of Regent's hooks.
type Hooked struct {
	Event string `json:"event"`
	Key   string `json:"key"`
	// Trusted tells whether Codex says that it runs the hook.
	Trusted bool `json:"trusted"`
}

// Result is what was done.
type Result struct {
	File string `json:"file"`
	// Written tells whether the file was changed, and Backup where it is as it was
	// before; empty where there was none.
	Written bool   `json:"written"`
	Backup  string `json:"backup,omitempty"`
	// Codex is its version; empty where it was not asked.
	Codex string   `json:"codex,omitempty"`
	Hooks []Hooked `json:"hooks,omitempty"`
	// Warnings are about what became of the hooks.
	Warnings []string `json:"warnings,omitempty"`
}

// realHome is the home as Codex names it in the keys of hooks.
func (i Installer) realHome() string {
	if dir, err := filepath.EvalSymlinks(i.Home); err == nil {
		return dir
	}
	// It does not exist yet; what is above may be a link.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(i.Home)); err == nil {
		return filepath.Join(dir, filepath.Base(i.Home))
	}
	return i.Home
}

// Plan says what has to change in the home. Nothing is written; Codex reads the
// result in a folder of its own, and an error that wraps [ErrRefused] says why it
// does not take it.
func (i Installer) Plan(ctx context.Context, want Want) (*Plan, error) {
	c, err := readConfig(i.Home)
	if err != nil {
		return nil, err
	}
	record, _, err := readRecord(i.Home)
	if err != nil {
		return nil, err
	}
	p, err := MakePlan(c.path, c.text, record, want)
	if err != nil {
		return nil, err
	}
	p.new = c.new
	p.Warnings = append(p.Warnings, otherConfigs(i.Home, i.Cwd)...)
	if want.Hook == "" {
		return p, nil
	}
	if i.Codex == nil {
		p.Warnings = append(p.Warnings, "Codex was not found, so the hooks are not trusted yet: Codex skips them until they are (/hooks in Codex, or this command again)")
		return p, nil
	}
	hooks, _, err := i.Codex.try(ctx, p.After, i.realHome())
	if err != nil {
		return nil, err
	}
	var trusted []Trusted
	for _, h := range hooks {
		trusted = append(trusted, Trusted{Key: h.Key, Hash: h.Hash})
	}
	if len(trusted) < len(Events) {
		return nil, fmt.Errorf("%w: it lists %d of the %d hooks of Regent", ErrRefused, len(trusted), len(Events))
	}
	return p.Trust(trusted)
}

// otherConfigs warns of configurations that count besides that of the home.
func otherConfigs(home, cwd string) []string {
	var out []string
	tell := func(file, when string) {
		text, err := os.ReadFile(file)
		if err != nil {
			return
		}
		d, err := parse(file, text)
		if err != nil {
			out = append(out, fmt.Sprintf("%s cannot be read: %v", file, err))
			return
		}
		for _, what := range loosening(d.values) {
			out = append(out, fmt.Sprintf("%s has %s; it counts %s", file, what, when))
		}
	}
	profiles, _ := filepath.Glob(filepath.Join(home, "*."+ConfigName)) // the pattern is well formed
	slices.Sort(profiles)
	for _, file := range profiles {
		tell(file, "where Codex is started with this profile")
	}
	for _, dir := range folders(cwd) {
		if own := filepath.Join(dir, ".codex"); own != filepath.Clean(home) {
			tell(filepath.Join(own, ConfigName), "in this folder, once Codex trusts it")
		}
	}
	return out
}

// folders are a folder and those above it.
func folders(cwd string) []string {
	if cwd == "" {
		return nil
	}
	var out []string
	for dir := filepath.Clean(cwd); ; dir = filepath.Dir(dir) {
		out = append(out, dir)
		if dir == filepath.Dir(dir) {
			return out
		}
	}
}

// ErrNotInstalled means that nothing is recorded that could be taken back.
var ErrNotInstalled = errors.New("nothing was installed here")

// Undo says how to take back an installation. An error that wraps [ErrUndo] says
// why that cannot be done.
func (i Installer) Undo() (*Plan, error) {
	record, ok, err := readRecord(i.Home)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: there is no %s", ErrNotInstalled, filepath.Join(i.Home, RecordName))
	}
	c, err := readConfig(i.Home)
	if err != nil {
		return nil, err
	}
	p, err := Undo(c.path, c.text, record)
	if err != nil {
		return nil, err
	}
	p.new = c.new
	p.record = record
	return p, nil
}

// Write does what a plan says: it keeps a backup, records what it does, and puts
// the new file in the place of the old one. It is [ErrMoved] where the file is not
// what the plan is about any more.
func (i Installer) Write(ctx context.Context, p *Plan) (Result, error) {
	out := Result{File: p.File}
	if !p.Changed() {
		return i.verify(ctx, p, out)
	}
	if err := os.MkdirAll(i.Home, 0o700); err != nil {
		return out, fmt.Errorf("make the home of Codex: %w", err)
	}
	c, err := readConfig(i.Home)
	if err != nil {
		return out, err
	}
	if c.new != p.new || !slices.Equal(c.text, p.Before) {
		return out, ErrMoved
	}
	if !p.undo {
		record := p.record
		record.Version, record.At, record.Regent = recordVersion, i.Now().UTC().Truncate(time.Second), i.Version
		record.Created = record.Created || p.new
		// Before the file: what is recorded and not there is nothing to take back.
		if err := writeRecord(i.Home, record); err != nil {
			return out, err
		}
		p.record = record
	}
	if !slices.Equal(p.Before, p.After) {
		if !c.new {
			if out.Backup, err = c.backup(i.Now()); err != nil {
				return out, err
			}
		}
		if p.undo && p.record.Created && len(p.After) == 0 {
			err = errors.Join(c.unmoved(), os.Remove(c.real))
		} else {
			err = c.write(p.After)
		}
		if err != nil {
			return out, err
		}
		out.Written = true
	}
	if p.undo {
		if err := os.Remove(filepath.Join(i.Home, RecordName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}
		return out, nil
	}
	return i.verify(ctx, p, out)
}

// verify asks Codex what it makes of the hooks that are there now.
func (i Installer) verify(ctx context.Context, p *Plan, out Result) (Result, error) {
	d, err := newDraft(p.File, p.After, Record{})
	if err != nil {
		return out, err
	}
	if i.Codex == nil || p.undo || len(d.ours()) == 0 {
		return out, nil
	}
	s, err := i.Codex.open(ctx, i.Home, i.Home, false)
	if err != nil {
		return out, fmt.Errorf("the configuration is written; ask Codex whether it trusts the hooks: %w", err)
	}
	defer s.close()
	all, err := s.hooks(i.Home)
	if err != nil {
		return out, fmt.Errorf("the configuration is written; ask Codex whether it trusts the hooks: %w", err)
	}
	out.Codex = s.version
	for _, h := range all {
		if !IsHook(h.Command) || h.Managed {
			continue
		}
		out.Hooks = append(out.Hooks, Hooked{Event: h.Event, Key: h.Key, Trusted: h.runs()})
		if !h.runs() {
			out.Warnings = append(out.Warnings, fmt.Sprintf("Codex does not run the hook of %s: it is %s%s; trust it with /hooks in Codex", h.Event, h.Trust, off(h)))
		}
	}
	return out, nil
}

func off(h Hook) string {
	if h.Enabled {
		return ""
	}
	return " and switched off"
}
