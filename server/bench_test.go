package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
)

const (
	benchCallers = 16
	benchRounds  = 9
	benchCalls   = 320
)

// callers makes calls from several goroutines, each on a connection of its own,
// and returns how long all of them took.
func callers(b *testing.B, c *http.Client, url string, body []byte, calls int) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(calls))
	var failed atomic.Pointer[string]
	var group sync.WaitGroup
	began := time.Now()
	for range benchCallers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				response, err := c.Post(url, "application/json", bytes.NewReader(body))
				if err != nil {
					text := err.Error()
					failed.Store(&text)
					return
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					text := fmt.Sprintf("%s %s %v", response.Status, text, err)
					failed.Store(&text)
					return
				}
			}
		})
	}
	group.Wait()
	if text := failed.Load(); text != nil {
		b.Fatal(*text)
	}
	return time.Since(began)
}

func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: benchCallers, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// BenchmarkLedger is goal 9: the throughput of questions that policy decides and
// the ledger records, each on disk before its answer, beside that of the same
// questions without a ledger.
func BenchmarkLedger(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	// As cmd/regent does, unless the user says otherwise.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	if os.Getenv("GOMAXPROCS") == "" {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	}
	d := start(b, setup{})
	var tools strings.Builder
	for i := range 100 {
		fmt.Fprintf(&tools, "\nask contains \"tool %d asks\" if input.request.tool.name == \"tool_%d\"\n", i, i)
	}
	write(b, filepath.Join(d.home, "policies", "tools.rego"), "package home.rules.tools\n"+tools.String())
	write(b, filepath.Join(d.home, "policies", "git.rego"), commits)
	// To change what is read by each call has the rules loaded now.
	write(b, filepath.Join(d.home, "config.yaml"), settings+people+"}\n# rules for a benchmark\n")
	c := overSocket(d.socket)
	defer c.CloseIdleConnections()
	for _, test := range []struct {
		name, text string
		route      approval.Route
	}{
		{"denied", work, approval.RouteDeny},
		{"allowed", strings.Replace(work, "git commit", "git stash", 1), approval.RouteAllow},
	} {
		q := question(test.text)
		if r, err := d.Check(b.Context(), q); err != nil || r.Route != test.route {
			b.Fatalf("the route is %s, %v; want %s", r.Route, err, test.route)
		}
		body, err := json.Marshal(q)
		if err != nil {
			b.Fatal(err)
		}
		var without, with []time.Duration
		for range benchRounds {
			without = append(without, callers(b, c, "http://localhost/v1/check", body, benchCalls))
			with = append(with, callers(b, c, "http://localhost/v1/requests", body, benchCalls))
		}
		ratio := float64(median(without)) / float64(median(with))
		b.ReportMetric(ratio, "x-"+test.name+"-vs-no-ledger")
		fmt.Printf("goal 9: throughput with the ledger / without, %s: %.2fx, wanted >= 0.5x (%.0f and %.0f a second)\n",
			test.name, ratio, benchCalls/median(with).Seconds(), benchCalls/median(without).Seconds())
	}
	b.ReportMetric(0, "ns/op")
}

// work is a call as agents make them at the end of a piece of work: some hundred
// bytes of shell, ten commands.
const work = `cd /w/services/api && git status --short && git diff --stat HEAD~1 -- internal/server internal/store
grep -rn --include='*.go' 'context.Background()' internal cmd/api | grep -v _test.go | sed -n '1,40p'
go test ./internal/server/... ./internal/store/... -run 'TestServer|TestStore' -count=1 2>&1 | tee /tmp/api.log | tail -40
git commit -m "server: hand the context of a request down to the store

A request that its client has given up went on reading rows until the last one.
The store now stops with the request, and says so in the log once." -- internal/server internal/store
`

const commits = `package home.rules.git

import data.regent.lib.command

# METADATA
# custom: {id: COMMIT}
deny contains "people commit" if {
	some c in command.invocations("git")
	"commit" in c.args
}

# METADATA
# custom: {id: STASH}
allow contains "to stash is fine" if {
	some c in command.invocations("git")
	"stash" in c.args
}
`
