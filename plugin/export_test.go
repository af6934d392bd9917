package plugin

import (
	"time"

	"google.golang.org/grpc"

	"github.com/regent-policy/regent/plugin/pluginpb"
)

// Clock is what a host waits by.
type Clock = clock

// WithClock are the options with another clock.
func (o Options) WithClock(c Clock) Options {
	o.clock = c
	return o
}

// RawReviewer is a role whose every answer is up to the test.
func RawReviewer(s pluginpb.ReviewerServer) Role {
	return Role{kind: pluginpb.Kind_KIND_REVIEWER, register: func(r grpc.ServiceRegistrar) {
		pluginpb.RegisterReviewerServer(r, s)
	}}
}

// RawHarness is a role whose every message is up to the test.
func RawHarness(s pluginpb.HarnessServer) Role {
	return Role{kind: pluginpb.Kind_KIND_HARNESS, register: func(r grpc.ServiceRegistrar) {
		pluginpb.RegisterHarnessServer(r, s)
	}}
}

// RegisterAll registers what a plugin with these roles serves.
func RegisterAll(s grpc.ServiceRegistrar, info Info, roles ...Role) { register(s, info, roles) }

// Recovering are the options that a plugin's server has.
func Recovering() []grpc.ServerOption { return recovering }

// Breaker is the breaker of one plugin.
type Breaker struct{ b breaker }

// Outcomes of a call.
const (
	Untold    = untold
	Succeeded = succeeded
	Failed    = failed
)

func (b *Breaker) Begin(now time.Time) (ok, trial bool) { return b.b.begin(now) }

func (b *Breaker) End(now time.Time, trial bool, how outcome) { b.b.end(now, trial, how) }

func (b *Breaker) State(now time.Time) BreakerState { return b.b.state(now) }

// CheckHello and Clean are internal, and read what a plugin controls.
var (
	CheckHello = checkHello
	Clean      = clean
)

const (
	RestartAfter = restartAfter
	GiveUpAfter  = giveUpAfter
	BreakAfter   = breakAfter
	BreakFor     = breakFor
	BreakForMost = breakForMost
	LinesAtOnce  = linesAtOnce
	MaxOpen      = maxOpen
)

// Backoff is how long the n-th wait is.
func Backoff(n int) time.Duration { return backoff(restartAfter, restartAfterMost, n) }

// Read makes a verdict of a plugin's answer.
var Read = read
