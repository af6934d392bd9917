package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/gate/permission"
)

// maxProfile bounds the text of one profile.
const maxProfile = 1 << 20

type profileOptions struct {
	requested string
	granted   string
	ceiling   string
	cwd       string
	homeDir   string
	fail      bool
}

// combined is what intersect and merge print.
type combined struct {
	Permissions permission.Profile `json:"permissions"`
	// OverGrant is true when the grant has more than was requested.
	OverGrant bool                 `json:"over_grant,omitempty"`
	Dropped   []permission.Dropped `json:"dropped"`
}

// covered is what covers prints.
type covered struct {
	Covers bool `json:"covers"`
	// Missing is what was requested and the grant, within the ceiling, does not
	// have.
	Missing []permission.Dropped `json:"missing"`
	// Dropped is what of the grant and the ceiling could not be used at all.
	Dropped []permission.Dropped `json:"dropped,omitempty"`
}

func newProfile(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Calculate with permission profiles: intersect, merge, covers",
		Long: `Calculate with permission profiles as Regent does when it grants: every path is
made absolute in the environment and followed through symbolic links, then
compared by whole components. Deny always wins.`,
		Example: `  $ regent profile intersect --requested '{"file_system":{"write":["."]}}' \
      --granted '{"file_system":{"write":["out"]}}' --cwd /workspace/app
  $ regent profile covers --requested '{"network":{"enabled":true}}' --granted '{}'
  {
    "covers": false,
    ...
  }`,
	}
	exits(cmd, exitDone, exitFailed, exitUsage, exitDenied)
	cmd.AddCommand(newProfileIntersect(a), newProfileMerge(a), newProfileCovers(a))
	group(a, cmd)
	return cmd
}

func newProfileIntersect(a *app) *cobra.Command {
	cmd, o := newProfileCommand(&cobra.Command{
		Use:   "intersect --requested F --granted F [--ceiling F]",
		Short: "What becomes effective: requested and granted and within the ceiling",
		Long: `What becomes effective when a request is answered: what was requested and granted
and lies within the ceiling. A narrower grant survives, a wider one is clipped,
and dropped tells what went and why. An empty result is a valid answer: no.`,
		Example: `  $ regent profile intersect --cwd /workspace/app \
      --requested '{"file_system":{"write":["/workspace/app"]}}' \
      --granted '{"file_system":{"write":["/workspace/app/out"]}}'
  {
    "permissions": {
      ...
        "write": [
          "/workspace/app/out"
        ]
      ...
    "dropped": [
      ...
        "reason": "wider",
        "message": "wider than the grant"
      }
    ]
  }`,
	})
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		request, granted, ceiling, err := o.read(a)
		if err != nil {
			return err
		}
		settled, err := request.Settle(
			permission.Response{Permissions: granted, Scope: permission.Session},
			permission.Ceiling{Permissions: ceiling, Scope: permission.Session}, nil)
		if err != nil {
			return profileError(err)
		}
		out := combined{Permissions: settled.Permissions, OverGrant: settled.OverGrant, Dropped: append(request.Dropped, settled.Dropped...)}
		return writeCombined(a, out)
	})
	return cmd
}

func newProfileMerge(a *app) *cobra.Command {
	cmd, o := newProfileCommand(&cobra.Command{
		Use:   "merge --requested F --granted F [--ceiling F]",
		Short: "What both hold together, within the ceiling",
		Long: `What both profiles hold together, within the ceiling: whatever either allows,
unless either denies it. A deny is never lifted by adding a grant.`,
		Example: `  $ regent profile merge --cwd /workspace/app \
      --requested '{"file_system":{"write":["out"]}}' \
      --granted '{"network":{"hosts":["docs.example.com"]}}'
  {
    "permissions": {
      "network": {
        "hosts": [
          "docs.example.com"
        ]
      },
      ...
  }`,
	})
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		request, granted, ceiling, err := o.read(a)
		if err != nil {
			return err
		}
		held, limit, dropped, err := sides(request, granted, ceiling)
		if err != nil {
			return err
		}
		merged := permission.Merge(request.Permissions, held)
		within := permission.IntersectAll(merged, merged, limit)
		return writeCombined(a, combined{Permissions: within.Permissions, Dropped: append(dropped, within.Dropped...)})
	})
	return cmd
}

func newProfileCovers(a *app) *cobra.Command {
	cmd, o := newProfileCommand(&cobra.Command{
		Use:   "covers --requested F --granted F [--ceiling F] [--fail]",
		Short: "Whether the grant, within the ceiling, has all that is requested",
		Long: `Whether the grant, within the ceiling, has all that is requested. missing tells
what it does not have, and why.`,
		Example: `  $ regent profile covers --cwd /workspace/app \
      --requested '{"file_system":{"read":["src"]}}' \
      --granted '{"file_system":{"write":["/workspace/app"]}}'
  {
    "covers": true,
    "missing": []
  }`,
	})
	cmd.Flags().BoolVar(&o.fail, "fail", false, "exit 3 when the grant does not cover the request")
	exitsAs(cmd, map[int]string{
		exitDone: "calculated", exitDenied: "with --fail: not covered",
	}, exitDone, exitFailed, exitUsage, exitDenied)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		request, granted, ceiling, err := o.read(a)
		if err != nil {
			return err
		}
		held, limit, dropped, err := sides(request, granted, ceiling)
		if err != nil {
			return err
		}
		held = permission.Intersect(held, limit)
		out := covered{Covers: permission.Covers(held, request.Permissions), Missing: []permission.Dropped{}, Dropped: dropped}
		for _, d := range permission.IntersectAll(request.Permissions, held, permission.Everything()).Dropped {
			if d.Side == permission.SideRequested && d.By == permission.SideGranted {
				out.Missing = append(out.Missing, d)
			}
		}
		if err := writeJSON(a.stdout, out, true); err != nil {
			return err
		}
		if o.fail && !out.Covers {
			return exitCode(exitDenied)
		}
		return nil
	})
	return cmd
}

// newProfileCommand adds to cmd what the three calculations share.
func newProfileCommand(cmd *cobra.Command) (*cobra.Command, *profileOptions) {
	o := &profileOptions{}
	cmd.Long += `

F is a file with a profile as JSON or YAML, - for standard input, or the profile
itself when it starts with {. The answer is JSON, whatever --output says.`
	cmd.Args = noArgs("give the profiles with --requested and --granted")
	flags := cmd.Flags()
	flags.StringVar(&o.requested, "requested", "", "profile that is asked for, `F`; it must ask for something")
	flags.StringVar(&o.granted, "granted", "", "profile that is granted or held, `F`")
	flags.StringVar(&o.ceiling, "ceiling", "", "the most that may be granted, `F` (default no limit)")
	flags.StringVar(&o.cwd, "cwd", "", "`DIR` that relative paths start from (default the current one)")
	flags.StringVar(&o.homeDir, "home-dir", "", "`DIR` that ~ means (default $HOME)")
	for _, name := range []string{"requested", "granted", "ceiling"} {
		must(cmd.MarkFlagFilename(name, "json", "yaml", "yml"))
	}
	for _, name := range []string{"cwd", "home-dir"} {
		must(cmd.MarkFlagDirname(name))
	}
	must(cmd.MarkFlagRequired("requested"))
	must(cmd.MarkFlagRequired("granted"))
	exitsAs(cmd, map[int]string{exitDone: "calculated, whatever the result"}, exitDone, exitFailed, exitUsage)
	return cmd, o
}

// read reads the profiles and normalises the request, which the others are then
// read against.
func (o *profileOptions) read(a *app) (request permission.Request, granted, ceiling permission.Profile, err error) {
	fail := func(err error) (permission.Request, permission.Profile, permission.Profile, error) {
		return permission.Request{}, permission.Profile{}, permission.Profile{}, err
	}
	fromStdin := 0
	for _, f := range []string{o.requested, o.granted, o.ceiling} {
		if f == "-" {
			fromStdin++
		}
	}
	if fromStdin > 1 {
		return fail(usagef("standard input holds one profile; only one of the flags can be -"))
	}
	env, err := o.environment(a)
	if err != nil {
		return fail(err)
	}
	asked, err := a.profile("requested", o.requested)
	if err != nil {
		return fail(err)
	}
	if granted, err = a.profile("granted", o.granted); err != nil {
		return fail(err)
	}
	ceiling = permission.Everything()
	if o.ceiling != "" {
		if ceiling, err = a.profile("ceiling", o.ceiling); err != nil {
			return fail(err)
		}
	}
	if request, err = permission.NewRequest(asked, env, nil); err != nil {
		return fail(profileError(err))
	}
	return request, granted, ceiling, nil
}

func (o *profileOptions) environment(a *app) (permission.Environment, error) {
	cwd := o.cwd
	if cwd == "" {
		here, err := a.getwd()
		if err != nil {
			return permission.Environment{}, fmt.Errorf("find the current folder: %w", err)
		}
		cwd = here
	}
	home := o.homeDir
	if home == "" {
		home = a.getenv("HOME")
	}
	if !filepath.IsAbs(cwd) {
		return permission.Environment{}, usagef("--cwd %q is not an absolute path", cwd)
	}
	if o.homeDir != "" && !filepath.IsAbs(home) {
		return permission.Environment{}, usagef("--home-dir %q is not an absolute path", home)
	}
	return permission.Environment{Cwd: cwd, Home: home, TmpDir: os.TempDir(), ProjectRoots: []string{cwd}}, nil
}

// sides normalises grant and ceiling in the environment of the request.
func sides(request permission.Request, granted, ceiling permission.Profile) (held, limit permission.Profile, dropped []permission.Dropped, err error) {
	held, fell, err := permission.Normalise(granted, permission.SideGranted, request.Environment, nil)
	if err != nil {
		return held, limit, nil, profileError(fmt.Errorf("granted permissions: %w", err))
	}
	limit, missing, err := permission.Normalise(ceiling, permission.SideCeiling, request.Environment, nil)
	if err != nil {
		return held, limit, nil, profileError(fmt.Errorf("ceiling: %w", err))
	}
	return held, limit, append(append(request.Dropped, fell...), missing...), nil
}

func writeCombined(a *app, c combined) error {
	if c.Dropped == nil {
		c.Dropped = []permission.Dropped{}
	}
	return writeJSON(a.stdout, c, true)
}

// profileError tells a profile that is wrong from a machine that cannot say.
func profileError(err error) error {
	if errors.Is(err, permission.ErrInvalid) {
		return badInput(err)
	}
	return err
}

// profile reads the profile that a flag names.
func (a *app) profile(flag, value string) (permission.Profile, error) {
	fault := func(name string, err error) (permission.Profile, error) {
		if name != "" {
			name = " " + name
		}
		return permission.Profile{}, usagef("--%s%s: %w", flag, name, err)
	}
	name, data := "", []byte(value)
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		if value == "" {
			return fault("", errors.New("is empty; give a file, - or a profile that starts with {"))
		}
		var err error
		if name, data, err = a.readFile(value); err != nil {
			return permission.Profile{}, fmt.Errorf("--%s: %w", flag, err)
		}
	}
	if len(data) > maxProfile {
		return fault(name, fmt.Errorf("is larger than %d bytes", maxProfile))
	}
	text, err := asJSON(data)
	if err != nil {
		return fault(name, err)
	}
	var p permission.Profile
	if err := json.Unmarshal(text, &p); err != nil {
		return fault(name, err)
	}
	return p, nil
}

// asJSON returns JSON as it is and turns YAML into it.
func asJSON(data []byte) ([]byte, error) {
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 {
		return nil, errors.New("is empty; a profile that holds nothing is {}")
	}
	if trimmed[0] == '{' {
		return trimmed, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var v any
	if err := d.Decode(&v); err != nil {
		message := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n  ")
		return nil, fmt.Errorf("neither JSON nor YAML: %s", strings.ReplaceAll(message, "\n  ", "; "))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one YAML document")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("has no JSON form: %w", err)
	}
	return text, nil
}
