package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what `regent version` prints.
type version struct {
	// Version is the module's version, or (devel).
	Version string `json:"version"`
	// Revision is the commit that was built, where the build knows it.
	Revision string `json:"revision,omitempty"`
	// Modified is true when the build had changes that were not committed.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	// OPA is the version of the Rego engine.
	OPA      string `json:"opa,omitempty"`
	Platform string `json:"platform"`
}

func readVersion() version {
	v := version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/open-policy-agent/opa" {
			v.OPA = d.Version
		}
	}
	return v
}

func newVersion(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is",
		Long:  "Tell which build this is: its version and commit, and the Go and OPA it was built with.",
		Example: `  $ regent version
  regent (devel)
  ...
  $ regent version --output json`,
		Args: noArgs("version takes none"),
		RunE: action(func(*cobra.Command, []string) error {
			v := readVersion()
			if a.global.json() {
				return writeJSON(a.stdout, v, true)
			}
			text := "regent " + v.Version
			if v.Revision != "" {
				text += " " + v.Revision
				if v.Modified {
					text += " (modified)"
				}
			}
			_, err := fmt.Fprintf(a.stdout, "%s\nopa %s, %s, %s\n", text, v.OPA, v.Go, v.Platform)
			return err
		}),
	}
	exits(cmd, exitDone, exitUsage)
	return cmd
}
