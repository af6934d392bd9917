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
	// ErrKind means that a reviewer is configured but is of a kind that this
	// version does not run. Ask a person, and configure a reviewer of another kind.
	ErrKind = errors.New("kind of reviewer that this version does not run")
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

// Open returns the reviewer that c configures by that name. The error wraps
// [ErrUnknown] or [ErrKind]; anything else that stands in its way is a fault of a
// configuration that package config has not checked. Open starts nothing, and
// there is nothing to close.
//
// A reviewer has its own timeout_seconds for each verdict, or the configuration's
// permissions.review_timeout_seconds, and less where the context says so.
func Open(c *config.Config, name string) (Reviewer, error) {
	r, ok := c.Reviewers[name]
	if !ok {
		return nil, fmt.Errorf("%w: %s: %q is not configured; %s", ErrUnknown, place(c, "reviewers"), name, known(c))
	}
	if r.Kind != config.ReviewerCommand {
		key := "reviewers." + name + ".kind"
		return nil, fmt.Errorf("%w: %s: %s: a reviewer of kind %q is not asked, people are; use kind %s",
			ErrKind, place(c, key), key, r.Kind, config.ReviewerCommand)
	}
	if len(r.Command) == 0 || !filepath.IsAbs(r.Command[0]) {
		key := "reviewers." + name + ".command"
		return nil, fmt.Errorf("%s: %s: does not start with the absolute path of a program", place(c, key), key)
	}
	seconds := cmp.Or(r.TimeoutSeconds, c.Permissions.ReviewTimeoutSeconds)
	return &command{
		name:    name,
		program: Program{Command: slices.Clone(r.Command)},
		timeout: time.Duration(seconds) * time.Second,
	}, nil
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
