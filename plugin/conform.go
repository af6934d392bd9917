package plugin

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/plugin/pluginpb"
	"github.com/regent-policy/regent/reviewer"
)

// Result is how a check went.
type Result string

// The results.
const (
	ResultPass Result = "pass"
	ResultFail Result = "fail"
	// ResultSkip is of a check that is about another kind of plugin, or that came
	// after one without which it says nothing.
	ResultSkip Result = "skip"
)

// Check is one part of the contract, and whether a plugin keeps to it.
type Check struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Detail is what was seen, and Advice what to do about it. Both are of checks
	// that failed; Detail may be of a skipped one.
	Detail string `json:"detail,omitempty"`
	Advice string `json:"advice,omitempty"`
}

// Report is what [Conform] found.
type Report struct {
	// Plugin, Version and Kinds are what the plugin says it is.
	Plugin  string  `json:"plugin,omitempty"`
	Version string  `json:"version,omitempty"`
	Kinds   []Kind  `json:"kinds,omitempty"`
	Checks  []Check `json:"checks"`
}

// OK tells whether no check failed.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Result == ResultFail })
}

// ConformOptions say how a plugin is run.
type ConformOptions struct {
	Log *slog.Logger
	// Timeout is how long the plugin has for each step, 5 seconds where it is 0.
	Timeout time.Duration
	// Args are the args of the reviewer that it is asked as.
	Args map[string]string
	// TempDir is as in [Options].
	TempDir string
}

// conformance is one run of the checks.
type conformance struct {
	o       ConformOptions
	program program
	process *process
	report  Report
}

// Conform runs a plugin through what the protocol asks of it. It starts the plugin
// three times, and asks it about made-up requests that are marked as such by their
// ids, which start with "conformance-". Nothing of it is left when Conform returns.
// ctx ends it early: the checks that are left fail then.
func Conform(ctx context.Context, p config.Plugin, o ConformOptions) *Report {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	c := &conformance{o: o, program: programOf("conformance", p)}
	c.start(ctx)
	c.check(ctx, "only the host can connect", "", c.strangers,
		"serve with TLS, and require a client certificate that PLUGIN_CLIENT_CERT verifies")
	c.check(ctx, "answers a review", KindReviewer, c.answers,
		"return a Verdict with the id of the request within the deadline, and only words that it has")
	c.check(ctx, "ignores what it does not know", KindReviewer, c.unknown,
		"pass over unknown fields of messages and unknown members of the JSON in them: newer hosts send some")
	c.check(ctx, "answers many at once", KindReviewer, c.many,
		"serve calls concurrently, and answer each with its own id")
	c.check(ctx, "never allows what it cannot read", KindReviewer, c.malformed,
		"return an error, or unsure, where the request is not what you expect")
	c.check(ctx, "takes a large request", KindReviewer, c.large,
		"take messages of up to 3 MiB")
	c.check(ctx, "goes on after a call is cancelled", KindReviewer, c.cancelled,
		"end a cancelled call soon, and keep nothing locked for it")
	c.check(ctx, "takes a notice, also twice", KindNotifier, c.notices,
		"return a NotifyReply; the id tells that a notice is sent again")
	c.check(ctx, "lets go of the stream", KindHarness, c.stream,
		"end Connect when the host ends the stream")
	c.check(ctx, "ends when it is told to", "", c.terminated,
		"end on SIGTERM, within 3 seconds")
	c.again(ctx)
	c.check(ctx, "ends when its host is gone", "", c.orphaned,
		"end when standard input does, if REGENT_PLUGIN_STDIN is set: a host that crashes cannot do more")
	c.again(ctx)
	c.check(ctx, "can be killed and started again", "", c.killed,
		"keep nothing that stops the next start, such as a lock file or a fixed port")
	if c.process != nil {
		c.process.kill()
		c.process.clear()
	}
	return &c.report
}

func (c *conformance) launch(ctx context.Context) (*process, error) {
	return launch(ctx, c.program, launchOptions{log: c.o.Log, clock: systemClock{}, tempDir: c.o.TempDir, timeout: c.o.Timeout})
}

// start is the first start, which tells most of what can be wrong with one.
func (c *conformance) start(ctx context.Context) {
	const name = "starts, and says what it is"
	p, err := c.launch(ctx)
	if err != nil {
		advice := "write one line to standard output, the handshake, and nothing before it; docs/plugins.md has an example"
		switch {
		case errors.Is(err, ErrVersion):
			advice = "take a version from PLUGIN_PROTOCOL_VERSIONS that you speak, and write it as the second part of the handshake"
		case errors.Is(err, ErrChecksum):
			advice = "pin the program as it is now with regent plugin add"
		case !errors.Is(err, ErrHandshake):
			advice = "serve grpc.health.v1.Health with SERVING for the service \"plugin\", and Plugin.Describe with name, version and kinds"
		}
		c.report.Checks = append(c.report.Checks, Check{Name: name, Result: ResultFail, Detail: clean(err.Error(), 600), Advice: advice})
		return
	}
	c.process = p
	d := p.description
	c.report.Plugin, c.report.Version, c.report.Kinds = clean(d.GetName(), maxName), clean(d.GetVersion(), maxName), p.kinds()
	check := Check{Name: name, Result: ResultPass}
	switch {
	case len(c.report.Kinds) == 0:
		check.Detail = fmt.Sprintf("no kind that is known: %v", d.GetKinds())
		check.Advice = "say KIND_REVIEWER, KIND_NOTIFIER or KIND_HARNESS in Describe"
	case len(d.GetArgumentsSchema()) > 0 && !json.Valid(d.GetArgumentsSchema()):
		check.Detail = "arguments_schema is no JSON"
		check.Advice = "write a JSON Schema there, or nothing"
	}
	if check.Detail != "" {
		check.Result = ResultFail
	}
	c.report.Checks = append(c.report.Checks, check)
}

// again starts it anew for a check that ends it.
func (c *conformance) again(ctx context.Context) {
	if c.process == nil {
		return
	}
	c.process.kill()
	c.process.clear()
	c.process, _ = c.launch(ctx) // a failure shows in the check that needs it
}

func (c *conformance) check(ctx context.Context, name string, kind Kind, run func(ctx context.Context) error, advice string) {
	check := Check{Name: name, Result: ResultPass}
	switch {
	case c.report.Checks[0].Result == ResultFail && len(c.report.Kinds) == 0:
		check.Result, check.Detail = ResultSkip, "it did not start"
	case kind != "" && !slices.Contains(c.report.Kinds, kind):
		check.Result, check.Detail = ResultSkip, "it is no "+string(kind)
	case c.process == nil:
		check.Result, check.Detail, check.Advice = ResultFail, "it did not start again", advice
	default:
		ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, fmt.Errorf("it took longer than %v", c.o.Timeout))
		defer cancel()
		if err := run(ctx); err != nil {
			if ctx.Err() != nil {
				err = errors.Join(context.Cause(ctx), err)
			}
			check.Result, check.Detail, check.Advice = ResultFail, clean(strings.ReplaceAll(err.Error(), "\n", ": "), 600), advice
		}
	}
	c.report.Checks = append(c.report.Checks, check)
}

// question is about something that a reviewer can tell nothing bad of.
func (c *conformance) question(id string) (reviewer.Question, *pluginpb.ReviewRequest, error) {
	q := reviewer.Question{
		ID: "conformance-" + id,
		Request: &approval.Request{
			Kind: approval.KindCommand, Command: &approval.Command{Shell: "bash", Text: "ls -l"},
			Environment: &approval.Environment{ID: "local", Cwd: "/workspace/app"}, Reason: "a question of the conformance test",
		},
		Ruling: approval.Ruling{
			Route: approval.RouteReview, Effects: []approval.Effect{approval.EffectRead}, ReadOnly: true,
			Rules: []approval.Match{}, Reasons: []string{"this is a test"},
			Ceiling: &permission.Ceiling{Permissions: permission.Everything(), Scope: permission.Turn},
		},
		Workspace: "/workspace/app/.regent",
	}
	message, err := (&remote{name: "conformance", args: c.o.Args}).encode(q)
	return q, message, err
}

// ask asks, and reads the verdict as a host does.
func (c *conformance) ask(ctx context.Context, id string, change func(r *pluginpb.ReviewRequest)) error {
	q, message, err := c.question(id)
	if err != nil {
		return err
	}
	change(message)
	reply, err := pluginpb.NewReviewerClient(c.process.conn).Review(ctx, message)
	if err != nil {
		return brief(err)
	}
	_, err = read(reply, q)
	return err
}

func same(*pluginpb.ReviewRequest) {}

func (c *conformance) answers(ctx context.Context) error { return c.ask(ctx, "one", same) }

func (c *conformance) unknown(ctx context.Context) error {
	return c.ask(ctx, "unknown", func(r *pluginpb.ReviewRequest) {
		r.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 9999, protowire.BytesType), "of a later version"))
		r.Request = append([]byte(`{"of_a_later_version":{"a":1},`), r.GetRequest()[1:]...)
		r.Ruling = append([]byte(`{"of_a_later_version":[1],`), r.GetRuling()[1:]...)
	})
}

func (c *conformance) many(ctx context.Context) error {
	const calls = 16
	faults := make([]error, calls)
	var running sync.WaitGroup
	for n := range calls {
		running.Go(func() { faults[n] = c.ask(ctx, fmt.Sprintf("many-%d", n), same) })
	}
	running.Wait()
	return errors.Join(faults...)
}

func (c *conformance) malformed(ctx context.Context) error {
	for _, text := range []string{"", "{", "null", `[]`, `{"kind":7}`, "\xff"} {
		_, message, err := c.question("malformed")
		if err != nil {
			return err
		}
		message.Request = []byte(text)
		reply, err := pluginpb.NewReviewerClient(c.process.conn).Review(ctx, message)
		if err == nil && reply.GetOutcome() == pluginpb.Outcome_OUTCOME_ALLOW {
			return fmt.Errorf("it allows a request that reads %q", text)
		}
	}
	return c.ask(ctx, "after-malformed", same)
}

func (c *conformance) large(ctx context.Context) error {
	return c.ask(ctx, "large", func(r *pluginpb.ReviewRequest) {
		// The name is of a member that no request has.
		large := `{"padding":"` + strings.Repeat("x", maxRequest-64<<10) + `",`
		r.Request = append([]byte(large), r.GetRequest()[1:]...)
	})
}

func (c *conformance) cancelled(ctx context.Context) error {
	gone, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.ask(gone, "cancelled", same) // whether it was faster than that says nothing
	}()
	cancel()
	<-done
	return c.ask(ctx, "after-cancelled", same)
}

// strangers are whoever else is on the machine: without the host's certificate
// nobody may get through.
func (c *conformance) strangers(ctx context.Context) error {
	addr, err := c.process.client.Start()
	if err != nil {
		return err
	}
	for _, how := range []struct {
		name string
		with credentials.TransportCredentials
	}{
		{"without TLS", insecure.NewCredentials()},
		// What is tried is whether the plugin looks, and not whom we speak to.
		{"without a certificate", credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})}, //nolint:gosec // see above
	} {
		conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(how.with), grpc.WithDisableRetry(),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, addr.Network(), addr.String())
			}))
		if err != nil {
			return err
		}
		_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		closed := conn.Close()
		if err == nil {
			return errors.Join(fmt.Errorf("a connection %s is served", how.name), closed)
		}
	}
	return nil
}

func (c *conformance) notices(ctx context.Context) error {
	for range 2 {
		_, err := pluginpb.NewNotifierClient(c.process.conn).Notify(ctx, &pluginpb.Notice{
			Id: "conformance-one", Event: "notice", Notification: []byte(`{"version":1,"event":"notice","summary":"a notice of the conformance test"}`),
		})
		if err != nil {
			return brief(err)
		}
	}
	return nil
}

func (c *conformance) stream(ctx context.Context) error {
	gone, cancel := context.WithCancel(ctx)
	stream, err := pluginpb.NewHarnessClient(c.process.conn).Connect(gone)
	if err != nil {
		cancel()
		return brief(err)
	}
	cancel()
	for {
		if _, err := stream.Recv(); err != nil {
			break // the end that was asked for
		}
	}
	return c.process.healthy(ctx)
}

func (c *conformance) ended(ctx context.Context) error {
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-c.process.ended:
		return nil
	case <-grace.C:
		return fmt.Errorf("it runs %v later", stopGrace)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *conformance) terminated(ctx context.Context) error {
	terminate(c.process.cmd.Process.Pid)
	return c.ended(ctx)
}

func (c *conformance) orphaned(ctx context.Context) error {
	if err := c.process.stdin.Close(); err != nil {
		return err
	}
	return c.ended(ctx)
}

func (c *conformance) killed(ctx context.Context) error {
	c.again(ctx)
	if c.process == nil {
		return errors.New("it did not start after it was killed")
	}
	return c.process.healthy(ctx)
}
