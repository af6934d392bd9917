package codex_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/codextest"
	"github.com/regent-policy/regent/harness/codex/scripted"
	"github.com/regent-policy/regent/harness/wire"
)

// transport makes connections of one kind.
type transport struct {
	name    string
	connect func(b *testing.B) (client, server harness.Conn)
}

// transports are those of app-server: the pipes of a process, and a WebSocket on a
// unix socket.
var transports = []transport{{"pipes", piped}, {"socket", socketed}}

func piped(b *testing.B) (client, server harness.Conn) {
	b.Helper()
	fromClient, toServer, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	fromServer, toClient, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	end := func(r, w *os.File) harness.Conn {
		return wire.Lines(r, w, func() error { _ = w.Close(); return r.Close() })
	}
	return end(fromServer, toServer), end(fromClient, toClient)
}

func socketed(b *testing.B) (client, server harness.Conn) {
	b.Helper()
	dir, err := os.MkdirTemp("", "b") // the path of a socket is short
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := wire.Listen("unix://"+filepath.Join(dir, "s"), wire.ListenOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialed, err := wire.Dial(b.Context(), l.Address(), nil)
	if err != nil {
		b.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	return dialed, accepted
}

// way is how a client and a server are connected.
type way struct {
	client, server harness.Conn
	close          func()
}

func (t transport) directly(b *testing.B) way {
	client, server := t.connect(b)
	return way{client, server, func() { _, _ = client.Close(), server.Close() }}
}

func (t transport) throughProxy(b *testing.B, asker harness.Asker) way {
	client, near := t.connect(b)
	far, server := t.connect(b)
	proxy := &codex.Proxy{Asker: asker, Options: codex.Options{Silent: true}}
	ended := make(chan error, 1)
	go func() { ended <- proxy.Connect(context.Background(), near, far) }()
	return way{client, server, func() {
		_, _ = client.Close(), server.Close()
		if err := <-ended; err != nil {
			b.Errorf("the proxy: %v", err)
		}
	}}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// traffic is what a busy turn sends: mostly pieces of text and of output.
func traffic(n int) [][]byte {
	var out [][]byte
	for i := range n {
		switch i % 10 {
		case 8:
			out = append(out, fmt.Appendf(nil, `{"method":"item/commandExecution/outputDelta","params":{"threadId":"01a22cd4-8038-7421-b787-26a1b5db5447","turnId":"01a22cd4-81fb-7a02-b19a-cf8d8dfd0280","itemId":"call-%d","delta":"ok  \tgithub.com/example/app/internal/store\t0.%03ds\nok  \tgithub.com/example/app/internal/api\t0.%03ds\nok  \tgithub.com/example/app/cmd/app\t0.%03ds\n--- PASS: TestRoundTrip (0.00s)\n    --- PASS: TestRoundTrip/empty (0.00s)\n"},"emittedAtMs":1796048454811}`, i, i%1000, i%999, i%998))
		case 9:
			out = append(out, fmt.Appendf(nil, `{"method":"item/started","params":{"item":{"type":"commandExecution","id":"call-%d","command":"/bin/bash -lc 'go test ./...'","cwd":"/workspace/repo","processId":null,"source":"agent","status":"inProgress","commandActions":[{"type":"unknown","command":"go test ./..."}],"aggregatedOutput":null,"exitCode":null,"durationMs":null},"threadId":"01a22cd4-8038-7421-b787-26a1b5db5447","turnId":"01a22cd4-81fb-7a02-b19a-cf8d8dfd0280","startedAtMs":1796048454811},"emittedAtMs":1796048454811}`, i))
		default:
			out = append(out, fmt.Appendf(nil, `{"method":"item/agentMessage/delta","params":{"threadId":"01a22cd4-8038-7421-b787-26a1b5db5447","turnId":"01a22cd4-81fb-7a02-b19a-cf8d8dfd0280","itemId":"msg-2","delta":" word%d"},"emittedAtMs":1796048454811}`, i))
		}
	}
	return out
}

// BenchmarkThroughput compares how many messages a second reach a client, through
// the proxy and directly, in rounds that take turns. The client decodes them, as
// clients do; one that only counts them is the worst that a proxy can be put beside.
func BenchmarkThroughput(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	const rounds = 11
	messages := traffic(50_000)
	decode := func(m []byte) error {
		var f struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		if err := json.Unmarshal(m, &f); err != nil || f.Method == "" {
			return fmt.Errorf("%s: %w", m, err)
		}
		return nil
	}
	count := func([]byte) error { return nil }
	measure := func(b *testing.B, w way, read func([]byte) error) float64 {
		defer w.close()
		wrote := make(chan error, 1)
		began := time.Now()
		go func() {
			for chunk := range slices.Chunk(messages, 8) { // a server writes a few at a time
				if err := w.server.Write(chunk...); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- nil
		}()
		for n := 0; n < len(messages); {
			got, err := w.client.Read()
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range got {
				if err := read(m); err != nil {
					b.Fatal(err)
				}
			}
			n += len(got)
		}
		took := time.Since(began)
		if err := <-wrote; err != nil {
			b.Fatal(err)
		}
		return float64(len(messages)) / took.Seconds()
	}
	for _, t := range transports {
		for _, client := range []struct {
			name string
			read func([]byte) error
		}{{"decoding", decode}, {"counting", count}} {
			b.Run(t.name+"/"+client.name, func(b *testing.B) {
				var direct, proxied, ratio []float64
				for b.Loop() {
					for range rounds {
						d, p := measure(b, t.directly(b), client.read), measure(b, t.throughProxy(b, nobody{}), client.read)
						direct, proxied, ratio = append(direct, d), append(proxied, p), append(ratio, p/d)
					}
				}
				b.ReportMetric(median(direct)/1000, "kmsg/s-direct")
				b.ReportMetric(median(proxied)/1000, "kmsg/s-proxy")
				b.ReportMetric(median(ratio), "of-direct")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkMessage measures what the proxy adds to a request of the client and its
// result.
func BenchmarkMessage(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	const rounds, calls = 11, 2000
	measure := func(b *testing.B, w way) float64 {
		defer w.close()
		served := make(chan error, 1)
		go func() {
			for range calls {
				if _, err := w.server.Read(); err != nil {
					served <- err
					return
				}
				if err := w.server.Write([]byte(`{"id":5,"result":{"data":[],"nextCursor":null}}`)); err != nil {
					served <- err
					return
				}
			}
			served <- nil
		}()
		began := time.Now()
		for range calls {
			if err := w.client.Write([]byte(`{"id":5,"method":"thread/list","params":{"cursor":null,"limit":100}}`)); err != nil {
				b.Fatal(err)
			}
			if _, err := w.client.Read(); err != nil {
				b.Fatal(err)
			}
		}
		took := time.Since(began)
		if err := <-served; err != nil {
			b.Fatal(err)
		}
		return float64(took.Microseconds()) / calls
	}
	for _, t := range transports {
		b.Run(t.name, func(b *testing.B) {
			var direct, added []float64
			for b.Loop() {
				for range rounds {
					d, p := measure(b, t.directly(b)), measure(b, t.throughProxy(b, nobody{}))
					direct, added = append(direct, d), append(added, p-d)
				}
			}
			b.ReportMetric(median(direct), "µs-direct")
			b.ReportMetric(median(added), "µs-added")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkApproval measures a request that a rule allows, from the server's
// question to its answer, beside the decision alone and beside a client that
// accepts by itself.
func BenchmarkApproval(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	const rounds, calls = 11, 200
	bench := open(b, epoch(b, manual, "\nallow contains \"make may run\" if input.request.command.text == \"make x\"\n"))
	question, err := new(codex.Intake).Message([]byte(run(`0`, "u", "c", offered)))
	if err != nil {
		b.Fatal(err)
	}
	asks := func(w way) float64 {
		began := time.Now()
		for i := range calls {
			if err := w.server.Write([]byte(run(fmt.Sprint(i), "u", "c", offered))); err != nil {
				b.Fatal(err)
			}
			if _, err := w.server.Read(); err != nil {
				b.Fatal(err)
			}
			if err := w.server.Write(fmt.Appendf(nil, `{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":%d}}`, i)); err != nil {
				b.Fatal(err)
			}
		}
		took := float64(time.Since(began).Microseconds()) / calls
		w.close()
		return took
	}
	var decision, direct, proxied, added []float64
	for range rounds {
		began := time.Now()
		for range calls {
			a, err := bench.gate.Ask(b.Context(), gate.Question{Request: question.Request})
			if err != nil || a.Outcome != approval.OutcomeAllow {
				b.Fatalf("%+v, %v", a, err)
			}
			bench.gate.Sent(a)
		}
		d := float64(time.Since(began).Microseconds()) / calls

		alone := transports[0].directly(b)
		accepted := make(chan struct{})
		go func() { // a client that accepts everything
			defer close(accepted)
			for {
				messages, err := alone.client.Read()
				if err != nil {
					return
				}
				for _, m := range messages {
					var f struct {
						ID json.RawMessage `json:"id"`
					}
					if json.Unmarshal(m, &f) == nil && len(f.ID) > 0 {
						_ = alone.client.Write(fmt.Appendf(nil, `{"id":%s,"result":{"decision":"accept"}}`, f.ID))
					}
				}
			}
		}()
		itself := asks(alone)
		<-accepted
		behind := transports[0].throughProxy(b, bench.gate)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			for {
				if _, err := behind.client.Read(); err != nil {
					return
				}
			}
		}()
		p := asks(behind)
		<-drained
		decision, direct, proxied, added = append(decision, d), append(direct, itself), append(proxied, p), append(added, p-itself-d)
	}
	b.ReportMetric(median(decision), "µs-decision")
	b.ReportMetric(median(direct), "µs-direct")
	b.ReportMetric(median(proxied), "µs-proxy")
	b.ReportMetric(median(added), "µs-added-beside-decision")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkConnection measures the memory of a connection that is idle, through
// the proxy and directly.
func BenchmarkConnection(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all")
	}
	const connections = 100
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	measure := func(open func() way) float64 {
		before := heap()
		var ways []way
		for range connections {
			w := open()
			// One message each way, so that buffers are there.
			for _, pair := range [][2]harness.Conn{{w.client, w.server}, {w.server, w.client}} {
				if err := pair[0].Write([]byte(`{"method":"initialized"}`)); err != nil {
					b.Fatal(err)
				}
				if _, err := pair[1].Read(); err != nil {
					b.Fatal(err)
				}
			}
			ways = append(ways, w)
		}
		used := heap() - before
		for _, w := range ways {
			w.close()
		}
		return used / connections / 1024
	}
	for _, t := range transports {
		b.Run(t.name, func(b *testing.B) {
			var direct, proxied float64
			for b.Loop() {
				direct = measure(func() way { return t.directly(b) })
				proxied = measure(func() way { return t.throughProxy(b, nobody{}) })
			}
			b.ReportMetric(direct, "KiB-direct")
			b.ReportMetric(proxied-direct, "KiB-added")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkTurn is a whole turn of the real Codex with one command that it asks
// about: behind the proxy with a rule that allows it, beside a client that accepts it
// by itself, in turns.
func BenchmarkTurn(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	const rounds = 21
	binary := codextest.Binary(b, codextest.Newest)
	model, err := scripted.Listen()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(model.Close)
	type side struct {
		client      *codextest.Client
		cwd, thread string
	}
	start := func(asker harness.Asker, answer func(codextest.Frame) any) *side {
		home, cwd := codextest.Home(b, codextest.Config{URL: model.URL()})
		process, err := codex.Program{Path: binary, Dir: cwd, Env: codextest.Env(home)}.Start()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = process.Close() })
		conn := process.Conn()
		if asker != nil {
			// What a client on standard input and output would have between it and Codex.
			client, near := piped(b)
			ended := make(chan error, 1)
			proxy := &codex.Proxy{Asker: asker}
			go func() { ended <- proxy.Connect(context.Background(), near, process.Conn()) }()
			b.Cleanup(func() {
				_ = client.Close()
				if err := <-ended; err != nil {
					b.Errorf("the proxy: %v", err)
				}
			})
			conn = client
		}
		s := &side{client: codextest.NewClient(b, conn, answer), cwd: cwd}
		s.thread = s.client.Thread(cwd, nil)
		return s
	}
	turns := 0
	turn := func(s *side) float64 {
		turns++
		prompt := fmt.Sprintf("turn-%d", turns)
		file := filepath.Join(codextest.Outside(s.cwd), prompt+"-ruled")
		model.Script(prompt, scripted.Say(scripted.Escalated("c-"+prompt, "touch "+file)))
		began := time.Now()
		status := s.client.Ends(s.thread, s.client.Turn(s.thread, prompt))
		took := time.Since(began)
		if _, err := os.Stat(file); err != nil || status != "completed" {
			b.Fatalf("the turn is %s, and the command has run: %v", status, err == nil)
		}
		return took.Seconds() * 1000
	}
	itself := start(nil, func(f codextest.Frame) any {
		if f.Method == "item/commandExecution/requestApproval" {
			return map[string]any{"decision": "accept"}
		}
		return nil
	})
	ruled := start(open(b, epoch(b, manual, denials)).gate, nil)
	// The first turn has more to do.
	turn(itself)
	turn(ruled)
	var direct, proxied, ratio []float64
	for b.Loop() {
		for range rounds {
			d, p := turn(itself), turn(ruled)
			direct, proxied, ratio = append(direct, d), append(proxied, p), append(ratio, p/d)
		}
	}
	b.ReportMetric(median(direct), "ms-direct")
	b.ReportMetric(median(proxied), "ms-proxy")
	b.ReportMetric(median(ratio), "x-of-direct")
	b.ReportMetric(0, "ns/op")
}

// nobody is never asked.
type nobody struct{ harness.Asker }
