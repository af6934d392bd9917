package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
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

// harnesses lets the plugins of the home that are harnesses ask, each as long as
// the rules that name it are in force. It returns when ctx ends and none asks any
// more.
func (d *daemon) harnesses(ctx context.Context) {
	for ctx.Err() == nil {
		standing := d.epochs.Home().Standing()
		inForce, stop := context.WithCancel(ctx)
		var asking sync.WaitGroup
		if standing.Epoch != nil {
			if set, ok := standing.Epoch.Plugins().(*plugin.Set); ok {
				for name := range standing.Epoch.Config.Plugins {
					asking.Go(func() { d.harness(inForce, set, name) })
				}
			}
		}
		select {
		case <-standing.Replaced():
		case <-ctx.Done():
		}
		stop()
		asking.Wait()
	}
}

// harnessAgain is how long a harness that hung up or broke is left alone.
const harnessAgain = time.Second

// harness lets one plugin ask for as long as it is one, and again when it broke.
func (d *daemon) harness(ctx context.Context, set *plugin.Set, name string) {
	for {
		err := set.Connect(ctx, name, func(ctx context.Context, request json.RawMessage) plugin.Answer {
			return d.decide(ctx, name, request)
		})
		switch {
		case ctx.Err() != nil, errors.Is(err, plugin.ErrKind), errors.Is(err, plugin.ErrRetired):
			return
		case err != nil:
			d.log.Warn("a harness does not ask any more", "plugin", name, "error", err)
		}
		again := time.NewTimer(harnessAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// decide answers the request of a harness like that of any other host that waits.
// What cannot be asked is denied.
func (d *daemon) decide(ctx context.Context, name string, text json.RawMessage) plugin.Answer {
	request, err := approval.Decode(text)
	if err != nil {
		return plugin.Answer{Outcome: approval.OutcomeDeny, Reason: err.Error()}
	}
	if request.Harness == nil {
		// It is no native host, whose modes are others.
		request.Harness = &approval.Harness{Name: name}
	}
	answer, err := d.gate.Ask(ctx, gate.Question{Request: request})
	if err != nil {
		return plugin.Answer{Outcome: approval.OutcomeDeny, Reason: "nobody could be asked: " + err.Error()}
	}
	out := plugin.Answer{Outcome: answer.Outcome, Reason: answer.Reason}
	if r := answer.Record; r != nil && r.Decision != nil {
		if out.Decision, err = json.Marshal(r.Decision); err != nil {
			d.gate.Unsent(answer, err)
			return plugin.Answer{Outcome: approval.OutcomeDeny, Reason: err.Error()}
		}
	}
	d.gate.Sent(answer)
	return out
}
