package plugin

import "time"

const (
	// breakAfter is how many calls in a row have to fail before a plugin is not
	// asked for a while.
	breakAfter = 3
	// breakFor is how long that is the first time; it doubles up to breakForMost.
	breakFor     = 5 * time.Second
	breakForMost = time.Minute
)

// BreakerState tells whether calls get through to a plugin.
type BreakerState string

// The states of a breaker.
const (
	// BreakerClosed lets every call through.
	BreakerClosed BreakerState = "closed"
	// BreakerOpen lets none through: too many failed.
	BreakerOpen BreakerState = "open"
	// BreakerHalfOpen lets one through, by which it is decided.
	BreakerHalfOpen BreakerState = "half_open"
)

// breaker keeps calls from a plugin that fails. It is not safe for concurrent use.
type breaker struct {
	// failed counts the calls in a row that failed, and opened how often the
	// breaker opened since one succeeded.
	failed, opened int
	until          time.Time
	trying         bool
}

func (b *breaker) state(now time.Time) BreakerState {
	switch {
	case b.opened == 0:
		return BreakerClosed
	case now.Before(b.until):
		return BreakerOpen
	default:
		return BreakerHalfOpen
	}
}

// begin tells whether a call may be made, and whether it is the one that is let
// through to see. Each that may is followed by end.
func (b *breaker) begin(now time.Time) (ok, trial bool) {
	switch b.state(now) {
	case BreakerClosed:
		return true, false
	case BreakerHalfOpen:
		trial = !b.trying
		b.trying = true
		return trial, trial
	}
	return false, false
}

// outcome is how a call went.
type outcome int

const (
	// untold is that of a call which its caller gave up: it says nothing.
	untold outcome = iota
	succeeded
	failed
)

func (b *breaker) end(now time.Time, trial bool, how outcome) {
	if trial {
		b.trying = false
	}
	switch how {
	case succeeded:
		// A call that began before the breaker opened proves nothing about now.
		if b.opened == 0 || trial {
			*b = breaker{}
		}
	case failed:
		b.failed++
		if trial || (b.opened == 0 && b.failed >= breakAfter) {
			b.opened++
			b.until = now.Add(backoff(breakFor, breakForMost, b.opened))
		}
	}
}

// backoff is first for n = 1 and doubles with each further n, up to most.
func backoff(first, most time.Duration, n int) time.Duration {
	for ; n > 1 && first < most; n-- {
		first *= 2
	}
	return min(first, most)
}
