package plugin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regent-policy/regent/plugin"
)

func failed(r *plugin.Report) []string {
	var names []string
	for _, c := range r.Checks {
		if c.Result == plugin.ResultFail {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestConformingPluginsPass(t *testing.T) {
	for _, test := range []struct {
		mode string
		kind plugin.Kind
	}{{"good", plugin.KindReviewer}, {"notifier", plugin.KindNotifier}, {"harness", plugin.KindHarness}} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			r := plugin.Conform(t.Context(), pinned(t, test.mode), plugin.ConformOptions{Timeout: 20 * time.Second})
			if !r.OK() || r.Plugin != "fake" || r.Version != "1.2.3" || !slices.Equal(r.Kinds, []plugin.Kind{test.kind}) {
				t.Errorf("report = %+v", r)
			}
		})
	}
}

// TestConformanceFindsWhatIsWrong: a check that nothing fails checks nothing.
func TestConformanceFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		mode, check, words string
	}{
		{"chatters", "starts, and says what it is", "starting up..."},
		{"exits", "starts, and says what it is", "no licence"},
		{"naked", "only the host can connect", "a connection without a certificate is served"},
		{"other-id", "answers a review", `it is for request "another"`},
		{"one-at-a-time", "answers many at once", "one at a time"},
		{"strict", "ignores what it does not know", "of_a_later_version"},
		{"gullible", "never allows what it cannot read", "it allows a request that reads"},
		{"small", "takes a large request", "larger than max"},
		{"deaf", "ends when it is told to", "it runs 3s later"},
		{"deaf", "ends when its host is gone", "it runs 3s later"},
	} {
		t.Run(test.mode+" "+test.check, func(t *testing.T) {
			t.Parallel()
			r := plugin.Conform(t.Context(), pinned(t, test.mode), plugin.ConformOptions{Timeout: 20 * time.Second})
			for _, c := range r.Checks {
				if c.Name == test.check {
					if c.Result != plugin.ResultFail || !strings.Contains(c.Detail, test.words) || c.Advice == "" {
						t.Errorf("check = %+v, want a failure with %q", c, test.words)
					}
					return
				}
			}
			t.Errorf("no check is named so; failed are %v", failed(r))
		})
	}
}
