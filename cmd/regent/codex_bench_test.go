package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/harness"
	"github.com/regent-policy/regent/harness/codex"
)

// takenAsker tells when all has been said to the daemon about a question.
type takenAsker struct {
	*daemonAsker
	closed chan struct{}
}

func (c takenAsker) Mark(ctx context.Context, id, instance string, mark gate.Mark, reason string) (approval.Record, error) {
	defer func() { c.closed <- struct{}{} }()
	return c.daemonAsker.Mark(ctx, id, instance, mark, reason)
}

// BenchmarkCodexApproval measures a request that a rule allows, from the server's
// question to its answer, with a daemon of its own process that decides and records,
// beside the same question put to the daemon alone, in turns.
func BenchmarkCodexApproval(b *testing.B) {
	if b.N > 1 {
		b.Skip("one pass measures all rounds")
	}
	const calls = 300
	s := newSite(b)
	s.serve()
	agent := exec.Command("cat") // in the place of app-server, until its input ends
	input, err := agent.StdinPipe()
	if err == nil {
		err = agent.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(input.Close(), agent.Wait()); err != nil {
			b.Error(err)
		}
	})
	asker := takenAsker{&daemonAsker{client: s.person(), agent: agent.Process.Pid}, make(chan struct{}, 1)}
	question := func(id int) []byte {
		return fmt.Appendf(nil, `{"id":%d,"method":"item/commandExecution/requestApproval","params":{"kind":"command","threadId":"t","turnId":"u","itemId":"c",`+
			`"command":"/bin/bash -lc 'make test'","cwd":%q,"availableDecisions":["accept","cancel"]}}`, id, s.root)
	}
	server, far := harness.Pipe()
	near, client := harness.Pipe()
	ended := make(chan error, 1)
	proxy := &codex.Proxy{Asker: asker}
	go func() { ended <- proxy.Connect(context.Background(), near, far) }()
	defer func() {
		_ = client.Close()
		if err := <-ended; err != nil {
			b.Errorf("the proxy: %v", err)
		}
	}()
	decide := func(id int) time.Duration {
		step, err := codex.NewCodec(codex.Options{}).FromServer(question(id))
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		a, err := asker.Post(b.Context(), gate.Question{Request: step.Ask.Request})
		took := time.Since(began)
		if err != nil || a.Outcome != approval.OutcomeAllow {
			b.Fatalf("%+v, %v", a, err)
		}
		return took
	}
	approved := func(id int) time.Duration {
		began := time.Now()
		if err := server.Write(question(id)); err != nil {
			b.Fatal(err)
		}
		messages, err := server.Read()
		took := time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		var reply struct {
			ID     int
			Result struct{ Decision string }
		}
		if err := json.Unmarshal(messages[0], &reply); err != nil || reply.ID != id || reply.Result.Decision != "accept" {
			b.Fatalf("the server gets %s, %v", messages, err)
		}
		// Until it is taken, the question is as good as open.
		if err := server.Write(fmt.Appendf(nil, `{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":%d}}`, id)); err != nil {
			b.Fatal(err)
		}
		if messages, err = client.Read(); err != nil || len(messages) != 1 {
			b.Fatalf("the client gets %s, %v", messages, err)
		}
		<-asker.closed
		return took
	}
	var decision, whole []time.Duration
	for id := 0; b.Loop(); {
		for range calls {
			id++
			decision, whole = append(decision, decide(id)), append(whole, approved(id))
		}
	}
	slices.Sort(decision)
	slices.Sort(whole)
	d, w := decision[len(decision)/2], whole[len(whole)/2]
	b.ReportMetric(float64(d.Microseconds()), "µs-decision")
	b.ReportMetric(float64(w.Microseconds()), "µs-proxy")
	b.ReportMetric(float64((w - d).Microseconds()), "µs-added-beside-decision")
	b.ReportMetric(0, "ns/op")
}
