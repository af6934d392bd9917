package plugin_test

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin"
	"github.com/regent-policy/regent/plugin/pluginpb"
)

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// BenchmarkReview measures a review beside the same call over plain gRPC, in one run.
func BenchmarkReview(b *testing.B) {
	h := host(b, plugin.Options{})
	c := configuration(pinned(b, "good", "fine"), nil)
	s := h.Open(b.Context(), c.Plugins)
	defer s.Close()
	r, err := s.Reviewer(c, "test/reviewer")
	if err != nil {
		b.Fatal(err)
	}
	plain := plainClient(b)
	request := &pluginpb.ReviewRequest{Id: "a1", Request: []byte(`{"kind":"command","command":{"text":"git push"}}`), Ruling: []byte(`{}`)}
	var ours, theirs []time.Duration
	for b.Loop() {
		began := time.Now()
		if v := r.Review(b.Context(), question("a1")); v.Outcome != approval.VerdictAllow {
			b.Fatalf("%+v", v)
		}
		ours = append(ours, time.Since(began))
		began = time.Now()
		if _, err := plain.Review(b.Context(), request); err != nil {
			b.Fatal(err)
		}
		theirs = append(theirs, time.Since(began))
	}
	b.ReportMetric(float64(median(ours))/float64(median(theirs)), "x-plain-gRPC")
}

// plainClient speaks to a server without TLS in this process.
func plainClient(b *testing.B) pluginpb.ReviewerClient {
	b.Helper()
	listener, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	pluginpb.RegisterReviewerServer(server, raw{f: func(_ context.Context, r *pluginpb.ReviewRequest) (*pluginpb.Verdict, error) {
		return &pluginpb.Verdict{Id: r.GetId(), Outcome: pluginpb.Outcome_OUTCOME_ALLOW, Rationale: "fine"}, nil
	}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("unix:"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := conn.Close(); err != nil {
			b.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return pluginpb.NewReviewerClient(conn)
}

// BenchmarkKilled is goal 10: how soon a request whose plugin is killed goes to a
// person (50 ms at most), and how long the next start takes beside a first one (2
// times at most).
func BenchmarkKilled(b *testing.B) {
	var fallbacks, restarts, launches []time.Duration
	for b.Loop() {
		log := newLog()
		h := plugin.NewHost(plugin.Options{Log: log.logger()})
		c := configuration(pinned(b, "waits"), nil)
		began := time.Now()
		s := h.Open(b.Context(), c.Plugins)
		launches = append(launches, time.Since(began))
		first := h.Status()[0].PID
		verdict := make(chan time.Time)
		go func() {
			if v := review(b, s, c, question("a1")); v.Outcome != approval.VerdictError {
				b.Errorf("%+v", v)
			}
			verdict <- time.Now()
		}()
		log.await(b, "asked a1")
		killed := time.Now()
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			b.Fatal(err)
		}
		fallbacks = append(fallbacks, (<-verdict).Sub(killed))
		awaitState(b, h, func(list []plugin.Status) bool {
			return only(plugin.StateRunning)(list) && list[0].PID != first
		})
		restarts = append(restarts, time.Since(killed))
		s.Close()
		h.Close()
	}
	b.ReportMetric(float64(median(fallbacks).Microseconds())/1000, "fallback-ms")
	b.ReportMetric(float64(median(restarts))/float64(median(launches)), "restart/launch")
	b.ReportMetric(0, "ns/op")
}
