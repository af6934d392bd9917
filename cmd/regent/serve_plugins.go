package main

import (
	"context"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/server/api"
)

// plugins runs the plugins of the daemon's epochs.
type plugins struct{ host *plugin.Host }

var _ gate.Plugins = plugins{}

// Open implements gate.Plugins.
func (p plugins) Open(ctx context.Context, c *config.Config) gate.PluginSet {
	return p.host.Open(ctx, c.Plugins)
}

// status is how the plugins do, for the API.
func (p plugins) status() []api.Plugin {
	var all []api.Plugin
	for _, s := range p.host.Status() {
		one := api.Plugin{
			Name: s.Name, Command: s.Command, SHA256: s.SHA256, Pinned: s.Pinned, State: string(s.State), Since: s.Since,
			PID: s.PID, Version: s.Version, Breaker: string(s.Breaker), Calls: s.Calls, Restarts: s.Restarts, Fault: s.Error,
		}
		if s.ErrorAt != nil {
			one.FaultAt = *s.ErrorAt
		}
		all = append(all, one)
	}
	return all
}
