package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/plugin/pluginpb"
)

// maxOpen is how many requests of one harness may wait for a decision at a time.
const maxOpen = 256

// maxReason is how much of a reason a harness is told, in characters.
const maxReason = 4000

// Answer is what a harness is told of its request.
type Answer struct {
	// Outcome is what to do. Unless it is allow, the action must not run.
	Outcome approval.Outcome
	// Decision is the recorded decision, a JSON object; nil where there is none.
	Decision json.RawMessage
	// Reason is for people.
	Reason string
}

// Ask asks whether an action may run, and waits for the answer. The request is the
// JSON form of an [approval.Request]. With an error the action must not run. Where
// ctx ends first the host is told that nobody waits any more.
type Ask func(ctx context.Context, request json.RawMessage) (Answer, error)

// Harness is the role of a plugin that stands between the host and an agent that
// the host does not know. connect is called when the host is ready to be asked; its
// context ends when the host is not any more, and so does connect then. ask may be
// called by several goroutines.
func Harness(connect func(ctx context.Context, ask Ask) error) Role {
	return Role{kind: pluginpb.Kind_KIND_HARNESS, register: func(s grpc.ServiceRegistrar) {
		pluginpb.RegisterHarnessServer(s, &harnessServer{connect: connect})
	}}
}

type harnessServer struct {
	pluginpb.UnimplementedHarnessServer
	connect func(ctx context.Context, ask Ask) error
}

var harnessOutcomes = words[pluginpb.HarnessOutcome, approval.Outcome]{
	pluginpb.HarnessOutcome_HARNESS_OUTCOME_UNSPECIFIED: approval.OutcomeDeny,
	pluginpb.HarnessOutcome_HARNESS_OUTCOME_ALLOW:       approval.OutcomeAllow,
	pluginpb.HarnessOutcome_HARNESS_OUTCOME_DENY:        approval.OutcomeDeny,
	pluginpb.HarnessOutcome_HARNESS_OUTCOME_CANCEL:      approval.OutcomeCancel,
}

// asking are the questions of one connection that are open.
type asking struct {
	stream grpc.BidiStreamingServer[pluginpb.HarnessInput, pluginpb.HarnessOutput]
	// sending lets one at a time send, as a stream wants it.
	sending sync.Mutex

	mu   sync.Mutex
	last int
	open map[string]chan *pluginpb.HarnessDecision
}

func (s *harnessServer) Connect(stream grpc.BidiStreamingServer[pluginpb.HarnessInput, pluginpb.HarnessOutput]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	a := &asking{stream: stream, open: map[string]chan *pluginpb.HarnessDecision{}}
	go func() {
		for {
			input, err := stream.Recv()
			if err != nil {
				cancel(fmt.Errorf("the host is gone: %w", err))
				return
			}
			a.answered(input.GetDecision())
		}
	}()
	return s.connect(ctx, func(asker context.Context, request json.RawMessage) (Answer, error) {
		return a.ask(ctx, asker, request)
	})
}

// answered hands a decision to whoever asked. One that nobody waits for is
// passed over.
func (a *asking) answered(d *pluginpb.HarnessDecision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answer, ok := a.open[d.GetId()]; ok {
		delete(a.open, d.GetId())
		answer <- d
	}
}

func (a *asking) send(output *pluginpb.HarnessOutput) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	return a.stream.Send(output)
}

func (a *asking) ask(connection, asker context.Context, request json.RawMessage) (Answer, error) {
	answer := make(chan *pluginpb.HarnessDecision, 1)
	a.mu.Lock()
	a.last++
	id := strconv.Itoa(a.last)
	a.open[id] = answer
	a.mu.Unlock()
	err := a.send(&pluginpb.HarnessOutput{Message: &pluginpb.HarnessOutput_Request{
		Request: &pluginpb.HarnessRequest{Id: id, Request: request},
	}})
	if err == nil {
		select {
		case d := <-answer:
			return Answer{Outcome: decided(d.GetOutcome()), Decision: d.GetDecision(), Reason: d.GetReason()}, nil
		case <-connection.Done():
			err = context.Cause(connection)
		case <-asker.Done():
			err = context.Cause(asker)
			// The connection may be broken; then nobody has to be told.
			_ = a.send(&pluginpb.HarnessOutput{Message: &pluginpb.HarnessOutput_Withdrawal{
				Withdrawal: &pluginpb.HarnessWithdrawal{Id: id},
			}})
		}
	}
	a.mu.Lock()
	delete(a.open, id)
	a.mu.Unlock()
	return Answer{Outcome: approval.OutcomeDeny}, fmt.Errorf("ask the host: %w", err)
}

// decided is the outcome that a number stands for. One that is not known denies.
func decided(number pluginpb.HarnessOutcome) approval.Outcome {
	if outcome, ok := harnessOutcomes[number]; ok {
		return outcome
	}
	return approval.OutcomeDeny
}

// Decide answers the request of a harness: the JSON form of an [approval.Request],
// not checked in any way. Its context ends when nobody waits for the answer any
// more.
type Decide func(ctx context.Context, request json.RawMessage) Answer

// Connect lets the harness of that name ask until ctx ends, the harness hangs up or
// breaks, or its set is closed. Each request is decided in a goroutine of its own,
// up to 256 at a time; those beyond are denied. Connect returns when all of them
// have returned, and what they came to once it has ended is told to nobody.
//
// The error tells why it ended, and is nil only where the harness hung up. A harness
// that breaks is started again; whoever called Connect calls it again then.
func (s *Set) Connect(ctx context.Context, name string, decide Decide) error {
	i, err := s.instance(name)
	if err != nil {
		return err
	}
	err = i.stream(ctx, KindHarness, func(ctx context.Context, conn *grpc.ClientConn) error {
		return converse(ctx, pluginpb.NewHarnessClient(conn), decide)
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// conversation are the requests of a harness that are open.
type conversation struct {
	stream  grpc.BidiStreamingClient[pluginpb.HarnessInput, pluginpb.HarnessOutput]
	decide  Decide
	sending sync.Mutex
	running sync.WaitGroup

	mu   sync.Mutex
	open map[string]context.CancelCauseFunc
}

var errWithdrawn = errors.New("the harness has withdrawn the request")

func converse(ctx context.Context, client pluginpb.HarnessClient, decide Decide) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := client.Connect(ctx)
	if err != nil {
		cancel(nil)
		return err
	}
	c := &conversation{stream: stream, decide: decide, open: map[string]context.CancelCauseFunc{}}
	defer c.running.Wait()
	defer cancel(errors.New("the harness is gone"))
	for {
		output, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch message := output.GetMessage().(type) {
		case *pluginpb.HarnessOutput_Request:
			if err := c.take(ctx, message.Request); err != nil {
				return err
			}
		case *pluginpb.HarnessOutput_Withdrawal:
			c.mu.Lock()
			if withdraw, ok := c.open[message.Withdrawal.GetId()]; ok {
				withdraw(errWithdrawn)
			}
			c.mu.Unlock()
		}
	}
}

// take decides a request in the background. A second one with the id of one that is
// open ends the connection: nobody could tell whose the answer is.
func (c *conversation) take(ctx context.Context, r *pluginpb.HarnessRequest) error {
	id := r.GetId()
	c.mu.Lock()
	_, used := c.open[id]
	full := len(c.open) >= maxOpen
	if used || id == "" {
		c.mu.Unlock()
		return status.Errorf(codes.InvalidArgument, "the harness used the id %q for two open requests, or none", clean(id, 80))
	}
	if full {
		c.mu.Unlock()
		// One that does not read its answers is not read from either.
		c.tell(id, Answer{Outcome: approval.OutcomeDeny, Reason: fmt.Sprintf("%d requests of this harness wait already", maxOpen)})
		return nil
	}
	defer c.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	c.open[id] = cancel
	c.running.Go(func() {
		answer := c.decide(ctx, r.GetRequest())
		c.mu.Lock()
		delete(c.open, id)
		withdrawn := ctx.Err() != nil
		c.mu.Unlock()
		cancel(nil)
		if !withdrawn {
			c.tell(id, answer)
		}
	})
	return nil
}

// tell sends an answer. Where that fails the connection is at its end, which
// whoever reads from it notices.
func (c *conversation) tell(id string, a Answer) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.stream.Send(&pluginpb.HarnessInput{Message: &pluginpb.HarnessInput_Decision{Decision: &pluginpb.HarnessDecision{
		Id: id, Outcome: harnessOutcomes.number(a.Outcome), Decision: a.Decision, Reason: approval.FirstCharacters(a.Reason, maxReason),
	}}})
}
