package rego_test

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
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/ledger"
	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/server"
)

// BenchmarkDaemon is goal 2: the throughput of the daemon with 16 callers on its
// socket, each of whom has the reference decision made, beside that of a stock
// OPA server over TCP with the same policies and the finished input. It stands
// here because that server is made of the engine's insides.
func BenchmarkDaemon(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	opa := os.Getenv("REGENT_BENCH_OPA")
	if opa == "" {
		b.Skip("REGENT_BENCH_OPA names no opa binary; `make bench` builds one")
	}
	// As cmd/regent does, unless the user says otherwise.
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(400))
	}
	const rounds, calls = 9, 800
	stock, input := rego.StockServer(b, opa)
	overTCP := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true}}
	defer overTCP.CloseIdleConnections()
	overSocket, question := daemon(b)
	defer overSocket.CloseIdleConnections()
	var theirs, ours []time.Duration
	for range rounds {
		theirs = append(theirs, rush(b, overTCP, stock, input, calls))
		ours = append(ours, rush(b, overSocket, "http://localhost/v1/check", question, calls))
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	ratio := float64(theirs[rounds/2]) / float64(ours[rounds/2])
	b.ReportMetric(ratio, "x-opa-server")
	b.ReportMetric(0, "ns/op")
	fmt.Printf("goal 2: throughput of the daemon / opa run --server over TCP, %d callers: %.2fx, wanted >= 1.5x (%.0f and %.0f a second)\n",
		callers, ratio, calls/ours[rounds/2].Seconds(), calls/theirs[rounds/2].Seconds())
}

const callers = 16

// daemon serves the reference policies, and returns a client and a question.
func daemon(b *testing.B) (*http.Client, []byte) {
	b.Helper()
	home, project := serve(b, 100)
	socket := filepath.Join(home, "runtime", "regent.sock")
	body, err := json.Marshal(map[string]any{"request": json.RawMessage(rego.ReferenceRequest(b)), "workspace": filepath.Join(project, ".regent")})
	if err != nil {
		b.Fatal(err)
	}
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: callers, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}, body
}

// serve serves the reference policies with so many rules, for callers and for
// hooks, and returns the home and a project whose workspace has them.
func serve(b *testing.B, rules int) (home, project string) {
	b.Helper()
	home, err := os.MkdirTemp("", "rgnt") // the path of a socket is short
	if err != nil {
		b.Fatal(err)
	}
	project = filepath.Join(home, "project")
	workspace := filepath.Join(project, ".regent")
	files := map[string]string{
		"config.yaml": "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n", "runtime/keep": "",
		"project/.regent/config.yaml": "version: 1\n",
	}
	for name, text := range rego.ReferencePolicies(rules) {
		files["project/.regent/policies/"+name] = text
	}
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	db, err := ledger.Open(b.Context(), filepath.Join(home, "runtime", "runtime.db"), ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	feed := &gate.Feed{}
	epochs := gate.OpenEpochs(b.Context(), gate.EpochsOptions{Home: home, Feed: feed})
	if _, err := epochs.Trust().Add(workspace, "user:bench", time.Now()); err != nil {
		b.Fatal(err)
	}
	g, _, err := gate.New(b.Context(), gate.Parts{Ledger: db, Workspaces: epochs, Feed: feed})
	if err != nil {
		b.Fatal(err)
	}
	s := server.New(server.Options{Gate: g, Epochs: epochs, Ledger: db, Home: home})
	calls, err := s.ListenUnix(filepath.Join(home, "runtime", "regent.sock"))
	if err != nil {
		b.Fatal(err)
	}
	hooks, err := s.ListenHooks()
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, calls, hooks) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		epochs.Close()
		if err := db.Close(); err != nil {
			b.Error(err)
		}
		_ = os.RemoveAll(home)
	})
	return home, project
}

// rush makes calls from all callers at once, and returns how long they took.
func rush(b *testing.B, c *http.Client, url string, body []byte, calls int64) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(calls)
	var failed atomic.Pointer[string]
	var group sync.WaitGroup
	began := time.Now()
	for range callers {
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
				if err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"route"`)) || bytes.Contains(text, []byte(`"failure"`)) {
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
