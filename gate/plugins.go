package gate

import (
	"context"
	"fmt"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/reviewer"
)

// Plugins runs the plugins of epochs.
type Plugins interface {
	// Open starts the plugins of a configuration that do not run yet, and returns
	// when each is well or has failed to become so. It does not fail: asking one that
	// does not run is an error, and has a person asked.
	Open(ctx context.Context, c *config.Config) PluginSet
}

// PluginSet is the plugins of one epoch.
type PluginSet interface {
	// Reviewer is the reviewer of kind plugin that c configures by that name.
	Reviewer(c *config.Config, name string) (reviewer.Reviewer, error)
	// Err says which plugins do not run, and why.
	Err() error
	// Close lets go of them. What they are being asked is answered first; Close does
	// not wait for it.
	Close()
}

// Plugins are the plugins of the epoch; nil where none run.
func (e *Epoch) Plugins() PluginSet { return e.plugins }

// start has the plugins of an epoch run before anything is ruled by it.
func (e *Epoch) start(ctx context.Context, p Plugins) {
	if p != nil && len(e.Config.Plugins) > 0 {
		e.plugins = p.Open(ctx, e.Config)
	}
}

// release lets go of the plugins of an epoch that nothing is ruled by any more.
func (e *Epoch) release() {
	if e.plugins != nil {
		e.plugins.Close()
	}
}

// pluginReviewer is a reviewer of kind plugin.
func (e *Epoch) pluginReviewer(name string) (reviewer.Reviewer, error) {
	if e.plugins == nil {
		return nil, fmt.Errorf("%w: no plugins run here, people are asked in place of %s; regent serve runs them", reviewer.ErrKind, name)
	}
	return e.plugins.Reviewer(e.Config, name)
}

// release lets go of the epochs of a standing that the next one does not have.
func (s *Standing) release(next *Standing) {
	for _, e := range []*Epoch{s.Epoch, s.Held} {
		if e != nil && (next == nil || e != next.Epoch && e != next.Held) {
			e.release()
		}
	}
}
