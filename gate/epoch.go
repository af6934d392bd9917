// Package gate is where decisions come to be. An [Epoch] is what they are made
// by: the configuration of a home and a workspace and the rules of every layer,
// read and compiled as one.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/rego"
)

// ErrNoWorkspace means that a folder was named as a workspace and holds no
// config.yaml. Name another one, or make it with config.Init.
var ErrNoWorkspace = errors.New("not a workspace")

// Options say what an epoch is made from. The zero value gives one without a
// home and a workspace: the defaults and the built-in policies.
type Options struct {
	// Home is the user's own folder. It need not exist, nor hold a config.yaml.
	Home string
	// Workspace is a folder that holds a config.yaml, or a project that keeps
	// one in its .regent folder. It is empty for calls outside any workspace.
	Workspace string
	// Trusted says that the workspace's owner vouches for it. Without it the
	// workspace can only tighten: see [config.TightenOnly].
	Trusted bool
	// Organization, a folder of rules or a bundle, takes the place of
	// policy.organization.path.
	Organization string
}

// Setup is what the files of a home and a workspace say, before any rule is
// compiled. Nobody changes it once Read has returned it.
type Setup struct {
	// Config is what calls are decided by: the workspace's file over the home's.
	Config *config.Config
	// Source is what the rules are compiled from.
	Source rego.Source
	// Dir is the workspace's folder, absolute; empty where there is none.
	Dir string
	// Trusted tells whether the workspace may loosen what the home says.
	Trusted bool
	// Files are the configuration files that were read, absolute.
	Files []string
	// Warnings are about what is allowed and probably not meant.
	Warnings []config.Warning
	// Refused lists what the workspace's file asks for and does not get.
	Refused []config.Loosening

	// programs are the digests of the programs of plugins that are not pinned.
	programs map[string]string
}

// Epoch is one immutable set of configuration and compiled rules. It is safe
// for concurrent use. A reload makes a new one.
type Epoch struct {
	Setup
	Policy *rego.Policy
	// ID is the fingerprint of the set, 64 hexadecimal digits: rulings carry it.
	ID string

	// plugins are those of the configuration; nil where none run.
	plugins PluginSet
}

// Read reads the configuration that the options name. Its errors are the
// user's to mend: they wrap a *config.Error that points at the place in a file,
// or [ErrNoWorkspace], or fs.ErrNotExist for an organization that is not there.
// Nothing may be decided on a part of a faulty setup.
func Read(o Options) (*Setup, error) {
	s := &Setup{}
	home := config.Default("")
	if o.Home != "" {
		var err error
		if home, s.Warnings, err = config.LoadHome(o.Home); err != nil {
			return nil, err
		}
	}
	s.Config = home
	if home.SHA256 != "" {
		s.Files = append(s.Files, home.Path)
	}
	written := []*config.Config{home}
	var layers []rego.Layer
	if o.Home != "" {
		layers = append(layers, rego.Layer{Name: rego.Home, Dir: home.Dir, Paths: home.Policy.Paths})
	}

	if o.Workspace != "" {
		dir, err := workspaceDir(o.Workspace)
		if err != nil {
			return nil, err
		}
		if !sameFolder(dir, o.Home) {
			file, warnings, err := config.Load(filepath.Join(dir, config.FileName))
			if err != nil {
				return nil, err
			}
			s.Dir, s.Trusted = file.Dir, o.Trusted
			written = []*config.Config{file, home}
			s.Files = append(s.Files, file.Path)
			s.Warnings = append(s.Warnings, warnings...)
			lay := config.TightenOnly
			if o.Trusted {
				lay = config.Overlay
			}
			s.Config, s.Refused = lay(home, file)
			layers = append(layers, rego.Layer{
				Name: rego.Workspace, Dir: file.Dir, Paths: s.Config.Policy.Paths, Untrusted: !o.Trusted,
			})
		}
	}

	organization := o.Organization
	if organization == "" {
		organization = s.Config.Policy.Organization.Path
	}
	if organization != "" {
		layer, err := organizationLayer(organization)
		if err != nil {
			return nil, err
		}
		layers = append([]rego.Layer{layer}, layers...)
	}
	s.Source = rego.Source{
		Settings:  Settings(s.Config),
		Layers:    layers,
		Protected: protected(home, s.Config),
		Sealed:    sealed(home),
		Reviewers: reviewerRules(s.Config, written),
	}
	s.programs = programs(s.Config)
	var err error
	if s.Source.Others, err = others(s.Config, s.programs, s.Config.Dir, home.Dir); err != nil {
		return nil, err
	}
	if home.Server.HTTP != "" {
		s.Source.SealedHosts = []string{home.Server.HTTP}
	}
	return s, nil
}

// Load reads what the options name and compiles its rules. Besides the errors
// of [Read] there are those of [rego.Load].
func Load(ctx context.Context, o Options) (*Epoch, error) {
	s, err := Read(o)
	if err != nil {
		return nil, err
	}
	return s.Compile(ctx)
}

// Compile makes the epoch. An error that wraps rego.ErrLoad lists what is wrong
// with the rules.
func (s *Setup) Compile(ctx context.Context) (*Epoch, error) {
	policy, err := rego.Load(ctx, s.Source)
	if err != nil {
		return nil, err
	}
	return &Epoch{Setup: *s, Policy: policy, ID: policy.Epoch()}, nil
}

// Settings are the parts of a configuration that rules and rulings look at.
func Settings(c *config.Config) rego.Settings {
	s := rego.Settings{
		Mode:              string(c.Permissions.Mode),
		HarnessMode:       string(c.Permissions.HarnessMode),
		ReadOnlyCommands:  string(c.Permissions.ReadOnlyCommands),
		ApprovalPolicy:    string(c.ApprovalPolicy.Name),
		Reviewer:          c.Permissions.ReviewerModel,
		Reviewers:         map[string]bool{},
		TrustedMCPServers: append([]string{}, c.Permissions.TrustedMCPServers...),
		ReviewSeconds:     c.Permissions.ReviewTimeoutSeconds,
		RequestSeconds:    c.Permissions.RequestTimeoutSeconds,
		Timeout:           time.Duration(c.Policy.EvaluationTimeoutMS) * time.Millisecond,
		AllowBuiltins:     append([]string{}, c.Policy.Capabilities.AllowBuiltins...),
		AllowNet:          append([]string{}, c.Policy.Capabilities.AllowNet...),
	}
	for name := range c.Reviewers {
		s.Reviewers[name] = true
	}
	if g := c.ApprovalPolicy.Granular; g != nil {
		s.ApprovalPolicy = "granular"
		s.Granular = map[string]bool{
			"sandbox_approval":    g.SandboxApproval,
			"rules":               g.Rules,
			"mcp_elicitations":    g.MCPElicitations,
			"request_permissions": g.RequestPermissions,
			"skill_approval":      g.SkillApproval,
		}
	}
	return s
}

// reviewerRules are the reviewers of a configuration that are rules, with the place
// in the first of the files that says so.
func reviewerRules(c *config.Config, written []*config.Config) []rego.ReviewerRule {
	var rules []rego.ReviewerRule
	for _, name := range slices.Sorted(maps.Keys(c.Reviewers)) {
		r := c.Reviewers[name]
		if r.Kind != config.ReviewerRego {
			continue
		}
		rule := rego.ReviewerRule{Name: name, Query: r.Query, File: c.Path}
		for _, file := range written {
			if pos, ok := file.Pos("reviewers." + name + ".query"); ok && file.Reviewers[name].Query == r.Query {
				rule.File, rule.Line, rule.Column = file.Path, pos.Line, pos.Column
				break
			}
		}
		rules = append(rules, rule)
	}
	return rules
}

// Find returns the workspace that calls in a folder belong to, as config.Find
// does: the nearest one above the first of the folders that has one. Empty
// folders are passed over. home is never taken for a workspace.
func Find(home string, folders ...string) (dir string, ok bool, err error) {
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		if dir, ok, err = config.Find(folder, home); ok || err != nil {
			return dir, ok, err
		}
	}
	return "", false, nil
}

// workspaceDir is the folder that holds the config.yaml of a named workspace.
func workspaceDir(named string) (string, error) {
	for _, dir := range []string{named, filepath.Join(named, config.WorkspaceDir)} {
		_, err := os.Lstat(filepath.Join(dir, config.FileName))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("workspace %s: %w", named, err)
		}
	}
	return "", fmt.Errorf("%s holds no %s and no %s: %w", named, config.FileName, filepath.Join(config.WorkspaceDir, config.FileName), ErrNoWorkspace)
}

// sameFolder reports whether both names lead to one folder. A home that was
// named as the workspace too would otherwise be two layers with the same rules.
func sameFolder(one, other string) bool {
	if other == "" {
		return false
	}
	first, err := os.Stat(one)
	if err != nil {
		return false
	}
	second, err := os.Stat(other)
	return err == nil && os.SameFile(first, second)
}

// organizationLayer shows the files of a folder relative to it, and a bundle by
// its own name. It has to exist: a missing organization is not one without
// rules.
func organizationLayer(path string) (rego.Layer, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return rego.Layer{}, fmt.Errorf("organization %s: %w", path, err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return rego.Layer{}, fmt.Errorf("organization: %w", err)
	}
	dir := absolute
	if !info.IsDir() {
		dir = filepath.Dir(absolute)
	}
	return rego.Layer{Name: rego.Organization, Dir: dir, Paths: []string{absolute}}, nil
}

// sealed lists what answers are given by: the socket and the folder that the
// daemon works in, the ledger with the files that SQLite keeps beside it, and the
// home's records of who may answer and what is trusted.
func sealed(home *config.Config) []string {
	if !filepath.IsAbs(home.Dir) {
		return nil // there is no home, and no daemon of it
	}
	paths := []string{filepath.Join(home.Dir, "runtime"), home.Server.Socket}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		paths = append(paths, home.Ledger.Path+suffix)
	}
	for _, name := range []string{"trust.json", "tokens.json", "step_up.json"} {
		paths = append(paths, filepath.Join(home.Dir, name))
	}
	return paths
}

// protected lists what a decision depends on besides the rules themselves. A
// config.yaml that is not there yet is among it: to create it is to change it.
func protected(home, merged *config.Config) []string {
	var paths []string
	add := func(path string) {
		if path != "" && filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	add(home.Path)
	add(merged.Path)
	add(merged.Ledger.Path)
	for _, plugin := range merged.Plugins {
		add(plugin.Command[0])
	}
	for _, reviewer := range merged.Reviewers {
		if len(reviewer.Command) > 0 {
			add(reviewer.Command[0])
		}
		// Who writes what a model is told has its verdicts, and who says which
		// certificates are trusted can answer in its place.
		add(reviewer.GuidanceFile)
		add(reviewer.CAFile)
	}
	for _, notifier := range home.Notifiers {
		if len(notifier.Command) > 0 {
			add(notifier.Command[0])
		}
	}
	for _, hook := range slices.Concat(merged.RequestPermissions.Before, merged.RequestPermissions.After) {
		if len(hook.Command) > 0 {
			add(hook.Command[0])
		}
	}
	return paths
}
