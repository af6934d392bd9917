// Package reviewer gives verdicts on requests in a person's place: whether a call
// should be allowed, and with what risk. A verdict only proposes, and whatever
// keeps a reviewer from giving a usable one has a person asked.
package reviewer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
)

var (
	// ErrUnknown means that the configuration has no reviewer of that name. Ask a
	// person, and name one of those that it has.
	ErrUnknown = errors.New("unknown reviewer")
	// ErrKind means that a reviewer is configured but is of a kind that cannot be
	// run here. Ask a person, and configure a reviewer of another kind.
	ErrKind = errors.New("kind of reviewer that is not run here")
)

// Question is what a reviewer is asked. Reviewers do not change it.
type Question struct {
	// ID is the id of the approval, for whoever reads what a reviewer logs.
	ID string
	// Request is the request as people see it, with secrets masked: reviewers
	// may send it on.
	Request *approval.Request
	// Ruling is what policy says about the request, masked likewise.
	Ruling approval.Ruling
	// Workspace is the folder of the workspace that the ruling is of; empty where
	// there is none.
	Workspace string
}

// Reviewer gives a verdict on one request after the other. It is safe for
// concurrent use.
//
// Review never allows by failing. A missing, late, broken or unusable answer is
// one of the outcomes unsure, timeout and error, and not a denial either: nobody
// refused. An outcome is one of those that [approval.VerdictOutcome] lists, and
// the verdict bears the name of the reviewer.
//
// Review returns soon after ctx ends, with outcome timeout where a deadline has
// passed and with error where it was cancelled, also if an answer came in at the
// last moment. Whatever it has started has ended then. It is called once for each
// request; nothing is tried again.
type Reviewer interface {
	Review(ctx context.Context, q Question) approval.Verdict
}

// Opener opens a reviewer by its name.
type Opener func(name string) (Reviewer, error)

// Open returns the reviewer that c configures by that name. The error wraps
// [ErrUnknown] or [ErrKind]; anything else that stands in its way is a fault of a
// configuration that package config has not checked. Open starts nothing, and
// there is nothing to close.
//
// A reviewer has its own timeout_seconds for each verdict, or the configuration's
// permissions.review_timeout_seconds, and less where the context says so.
func Open(c *config.Config, name string) (Reviewer, error) { return OpenWith(c, name, nil) }

// OpenWith is [Open] with somebody who opens reviewers of the kinds rego and plugin,
// which need more than their configuration. They are asked for by name, also as
// members of a chain, and for no other kind. Without an opener such a reviewer is an
// [ErrKind].
//
// A member of a chain that cannot be opened does not keep the chain from being
// opened: its verdict is an error then.
func OpenWith(c *config.Config, name string, others Opener) (Reviewer, error) {
	return open(c, name, others, nil)
}

// open is OpenWith inside of the chains in outer.
func open(c *config.Config, name string, others Opener, outer []string) (Reviewer, error) {
	r, ok := c.Reviewers[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s: %q is not configured; %s", ErrUnknown, place(c, "reviewers"), name, known(c))
	}
	fault := func(key, format string, args ...any) error {
		key = "reviewers." + name + "." + key
		return fmt.Errorf("%s: %s: %w", place(c, key), key, fmt.Errorf(format, args...))
	}
	timeout := time.Duration(cmp.Or(r.TimeoutSeconds, c.Permissions.ReviewTimeoutSeconds)) * time.Second
	switch r.Kind {
	case config.ReviewerCommand:
		if len(r.Command) == 0 || !filepath.IsAbs(r.Command[0]) {
			return nil, fault("command", "does not start with the absolute path of a program")
		}
		return &command{name: name, program: Program{Command: slices.Clone(r.Command)}, timeout: timeout}, nil
	case config.ReviewerModel:
		m, err := newModel(name, r, timeout)
		if err != nil {
			return nil, fault("kind", "%w", err)
		}
		return m, nil
	case config.ReviewerChain:
		if slices.Contains(outer, name) {
			return nil, fault("members", "lead back to the chain itself")
		}
		ch, err := newChain(name, r, timeout)
		if err != nil {
			return nil, fault("decide", "%w", err)
		}
		for _, member := range r.Members {
			m, err := open(c, member, others, append(slices.Clone(outer), name))
			if err != nil {
				m = missing{err}
			}
			ch.members = append(ch.members, member)
			ch.reviewers = append(ch.reviewers, m)
		}
		return ch, nil
	case config.ReviewerRego, config.ReviewerPlugin:
		if others != nil {
			return others(name)
		}
	}
	key := "reviewers." + name + ".kind"
	return nil, fmt.Errorf("%w: %s: %s: a reviewer of kind %q is not asked, people are", ErrKind, place(c, key), key, r.Kind)
}

// place is where a key is written, or else the file.
func place(c *config.Config, key string) string {
	file := cmp.Or(c.Path, config.FileName)
	if pos, ok := c.Pos(key); ok {
		return fmt.Sprintf("%s:%d:%d", file, pos.Line, pos.Column)
	}
	return file
}

func known(c *config.Config) string {
	if len(c.Reviewers) == 0 {
		return "no reviewer is"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(c.Reviewers)), ", ")
}
