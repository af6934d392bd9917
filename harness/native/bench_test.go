package native_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/harness/native"
)

// BenchmarkCalls compares a call of a session with the same question put to the
// gate directly, in rounds that take turns: what the life around a request costs.
func BenchmarkCalls(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	const rounds, calls = 11, 200
	bench := open(b, epoch(b, manual, "\nallow contains \"notes are free\" if input.request.tool.arguments.path == \"notes\"\n"), nil)
	bench.session()
	n := 0
	session := func(turn string, spec func(id string) native.CallSpec) time.Duration {
		began := time.Now()
		for range calls {
			n++
			if final := bench.call(turn, spec(fmt.Sprintf("c%d", n))); final.Outcome != approval.OutcomeAllow {
				b.Fatalf("%+v", final)
			}
		}
		return time.Since(began)
	}
	direct := func(spec native.CallSpec) time.Duration {
		r := &approval.Request{
			Kind: approval.KindTool, Tool: spec.Tool, Environment: &approval.Environment{ID: "local", Cwd: bench.dir},
			Run: &approval.Run{ID: "s1", Instance: host}, Session: &approval.Session{ID: "s1", TurnID: "t1"},
			Harness: &approval.Harness{Name: "native"},
		}
		began := time.Now()
		for range calls {
			a, err := bench.gate.Ask(b.Context(), gate.Question{Request: r})
			if err != nil || a.Outcome != approval.OutcomeAllow {
				b.Fatalf("%+v, %v", a, err)
			}
			bench.gate.Sent(a)
		}
		return time.Since(began)
	}
	for _, test := range []struct {
		name string
		spec func(id string) native.CallSpec
		// granted has the session hold what the call needs, where it is put to the
		// gate without.
		granted bool
	}{
		{"skipped", func(id string) native.CallSpec { return reads(id, "main.go") }, false},
		{"recorded", func(id string) native.CallSpec { return writes(id, "notes") }, false},
		{"skipped beside a grant", func(id string) native.CallSpec { return reads(id, "main.go") }, true},
	} {
		b.Run(test.name, func(b *testing.B) {
			var with, without []time.Duration
			for round := range rounds {
				turn := fmt.Sprintf("%s %d", test.name, round)
				bench.turn(turn, bench.environment("local"))
				if test.granted {
					bench.give(turn, turn+" grant", "local", permission.Response{Permissions: bench.may(permission.Write, bench.out())})
				}
				without = append(without, direct(test.spec("")))
				with = append(with, session(turn, test.spec))
				if _, err := bench.EndTurn(b.Context(), "s1", host, turn); err != nil {
					b.Fatal(err)
				}
			}
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(float64(with[rounds/2])/float64(without[rounds/2]), "x-of-direct")
			b.ReportMetric(0, "ns/op")
		})
	}
}
