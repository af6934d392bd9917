package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/notify"
)

// plugins runs the plugins of the daemon's epochs.
type plugins struct{ host *plugin.Host }

var _ gate.Plugins = plugins{}

// Open implements gate.Plugins.
func (p plugins) Open(ctx context.Context, c *config.Config) gate.PluginSet {
	return p.host.Open(ctx, c.Plugins)
}

// notifier tells a plugin of the home, whichever process runs it by then.
type notifier struct {
	epochs *gate.Epochs
	plugin string
}

var _ notify.Notifier = notifier{}

// Notify implements notify.Notifier.
func (n notifier) Notify(ctx context.Context, what notify.Notification) error {
	var set *plugin.Set
	if epoch := n.epochs.Home().Standing().Epoch; epoch != nil {
		set, _ = epoch.Plugins().(*plugin.Set)
	}
	if set == nil {
		return fmt.Errorf("%w: the home has no plugin %s", notify.ErrUnavailable, n.plugin)
	}
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	err = set.Notify(ctx, n.plugin, plugin.Notice{ID: what.ID, Event: string(what.Event), Notification: text})
	if errors.Is(err, plugin.ErrUnavailable) || errors.Is(err, plugin.ErrRetired) {
		return fmt.Errorf("%w: %w", notify.ErrTransient, err)
	}
	return err
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
