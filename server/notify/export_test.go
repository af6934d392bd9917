package notify

import "time"

// OpenWithin is Open with other times, so that no test waits for ours.
func OpenWithin(o Options, attempt, grace time.Duration, delays ...time.Duration) *Hub {
	return open(o, limits{attempt: attempt, patience: usual.patience, delays: delays, grace: grace, rest: time.Millisecond})
}

// Line is how the text of others is shown.
var Line = line

// ShowDesktopBy puts a program in the place of those of the system, none where
// path is "", until the function it returns is called.
func ShowDesktopBy(path string, before ...string) func() {
	saved := desktopWays
	desktopWays = nil
	if path != "" {
		desktopWays = []desktopWay{{path: path, before: before, markup: true}}
	}
	return func() { desktopWays = saved }
}
