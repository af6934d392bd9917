package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

const (
	// MaxOpen is how many questions of one connection may wait at a time. What is
	// asked beyond that is refused.
	MaxOpen = 256
	// closing is how long what has to be told to the gate may take when nobody
	// waits any more.
	closing = 5 * time.Second
	// lateFor is how long the gate may take to take in a question or what a person
	// chose, before it counts as gone.
	lateFor = 30 * time.Second
)

// Event is what became of a question, for a report. Answer has no outcome where
// it is still waited for, and Err says why none could be had.
type Event struct {
	Question *Question
	Answer   gate.Answer
	Err      error
	// Told says that the answer is written to the server next: whoever hears of the
	// event hears of it before anything that follows from the answer.
	Told bool
}

// Loop is what connections to one server have in common. Asker and New are
// needed.
type Loop struct {
	Asker Asker
	// New makes the codec of one connection.
	New func() Codec
	// Workspace names the folder to rule by; the nearest one above the call is found
	// where it is empty. Folder is where the agent is, for a request that does not
	// say where it runs.
	Workspace, Folder string
	// Show has every question that waits for a person shown to the client's own user
	// as well. By is who that is.
	Show bool
	By   gate.Principal
	// Observe hears of every question, from several goroutines; nil where nobody
	// listens.
	Observe func(Event)
	Log     *slog.Logger

	claims claims
}

// Run carries messages between a client and the server until either hangs up or
// ctx ends, and closes both. Every question that waits then is withdrawn. It
// returns nil for an orderly end.
func (l *Loop) Run(ctx context.Context, client, server Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &run{loop: l, log: l.Log, codec: l.New(), client: client, server: server, open: map[string]*asking{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	hangUp := sync.OnceFunc(func() {
		_ = client.Close()
		_ = server.Close()
	})
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	ends := make(chan error, 2)
	go func() { ends <- r.pump(ctx, "client", client, server, r.codec.FromClient) }()
	go func() { ends <- r.pump(ctx, "server", server, client, r.codec.FromServer) }()
	err := <-ends
	gone := err
	if gone == nil {
		gone = errors.New("the connection is gone")
	}
	cancel(gone)
	hangUp()
	<-ends
	r.asking.Wait()
	return err
}

// run is one connection.
type run struct {
	loop           *Loop
	log            *slog.Logger
	client, server Conn
	asking         sync.WaitGroup

	// mu guards the codec and what is open.
	mu    sync.Mutex
	codec Codec
	open  map[string]*asking
}

// asking is a question on its way to an answer.
type asking struct {
	question *Question
	cancel   context.CancelCauseFunc

	// What follows is guarded by the mutex of the run. posted is the answer that
	// the gate has, or will have: it names the record.
	posted gate.Answer
	// atOnce says that nobody had to be waited for. Such a record ends with the word
	// that its answer was sent.
	atOnce bool
	// told says that the answer was written, and heard that the server has taken it.
	told, heard bool
}

// pump carries what comes from one side on to the other. It never waits for a
// decision.
func (r *run) pump(ctx context.Context, side string, from, to Conn, read func([]byte) (Step, error)) error {
	var forward, back [][]byte
	for {
		messages, err := from.Read()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from the %s: %w", side, err)
		}
		forward, back = forward[:0], back[:0]
		for _, m := range messages {
			step, err := r.step(ctx, m, read)
			if err != nil {
				return fmt.Errorf("a message of the %s: %w", side, err)
			}
			if step.Forward != nil {
				forward = append(forward, step.Forward)
			}
			back = append(back, step.Back...)
		}
		if len(forward) > 0 {
			if err := to.Write(forward...); err != nil {
				return r.gone(ctx, err)
			}
		}
		if len(back) > 0 {
			if err := from.Write(back...); err != nil {
				return r.gone(ctx, err)
			}
		}
	}
}

// gone is the end of a connection that could not be written to: whoever does not
// read any more has hung up.
func (r *run) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return fmt.Errorf("write: %w", err)
}

func (r *run) step(ctx context.Context, message []byte, read func([]byte) (Step, error)) (Step, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step, err := read(message)
	if err != nil {
		return step, err
	}
	if step.Warning != "" {
		r.log.Warn(step.Warning)
	}
	for _, o := range step.Over {
		r.over(o)
	}
	if step.Chosen != nil {
		r.chosen(ctx, step.Chosen)
	}
	if step.Ask != nil {
		r.ask(ctx, step.Ask)
	}
	return step, nil
}

// over ends a question, which lets go of whoever waits for its answer. The mutex
// is held.
func (r *run) over(o Over) {
	a := r.open[o.Key]
	if a == nil {
		return
	}
	a.heard = a.heard || o.Heard
	if a.told {
		delete(r.open, o.Key)
		r.asking.Go(func() { r.resolved(a, o.Reason) })
		a.cancel(nil)
		return
	}
	reason := o.Reason
	if reason == "" {
		reason = "it was answered elsewhere"
	}
	a.cancel(errors.New(reason))
}

// resolved notes that the matter of an answered question is over.
func (r *run) resolved(a *asking, reason string) {
	record := a.posted.Record
	if record == nil || record.Instance == "" || a.atOnce {
		return
	}
	if a.heard {
		reason = "the server has taken the answer"
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), closing, errors.New("the gate takes too long"))
	defer cancel()
	if _, err := r.loop.Asker.Mark(ctx, record.ID, record.Instance, gate.MarkResolved, reason); err != nil {
		r.log.Debug("an answer is not noted as taken", "record", record.ID, "error", err)
	}
}

// ask puts a question to the gate. The mutex is held.
func (r *run) ask(ctx context.Context, q *Question) {
	ctx, cancel := context.WithCancelCause(ctx) // over lets go, or the end of the connection
	a := &asking{question: q, cancel: cancel}
	// Its message is gone with the next Read.
	q.Message = append([]byte(nil), q.Message...)
	full := len(r.open) >= MaxOpen
	r.open[q.Key] = a
	r.asking.Go(func() {
		if full {
			r.fail(a, fmt.Errorf("%d questions of this connection wait already", MaxOpen))
			return
		}
		r.decide(ctx, a)
	})
}

// decide has a question answered. Whatever goes wrong refuses.
func (r *run) decide(ctx context.Context, a *asking) {
	q := a.question
	if q.Shared {
		release, err := r.loop.claims.take(ctx, q.Key)
		if err != nil {
			r.drop(a) // another connection has answered
			return
		}
		defer release()
	}
	if q.Stale != "" {
		a.cancel(errors.New(q.Stale))
	}
	// A question that nobody waits for is recorded all the same.
	posting, done := context.WithTimeoutCause(context.WithoutCancel(ctx), lateFor, errors.New("the gate takes too long"))
	answer, err := r.loop.Asker.Post(posting, gate.Question{
		Request: q.Request, Workspace: r.loop.Workspace, Folder: r.loop.Folder, Notes: notes(q),
	})
	done()
	if err != nil {
		r.fail(a, err)
		return
	}
	r.mu.Lock()
	a.posted, a.atOnce = answer, answer.Outcome != ""
	r.mu.Unlock()
	if answer.Outcome == "" {
		r.observe(Event{Question: q, Answer: answer})
		if r.loop.Show || q.Show {
			if err := r.client.Write(q.Message); err != nil {
				r.log.Debug("the client's user is not shown a question", "error", err)
			}
		}
		if answer, err = r.await(ctx, answer); err != nil {
			r.fail(a, err)
			return
		}
	}
	if r.tell(ctx, a, answer) && q.Shared {
		// Until the server has taken the answer, it is as good as open on the other
		// connections.
		<-ctx.Done()
	}
}

func notes(q *Question) []string {
	if q.Problem == "" {
		return nil
	}
	return []string{"the request was not understood: " + q.Problem}
}

// await waits until a posted question has an answer or nobody waits for it.
func (r *run) await(ctx context.Context, posted gate.Answer) (gate.Answer, error) {
	for ctx.Err() == nil {
		answer, err := r.loop.Asker.Await(ctx, posted.Record.ID, posted.Record.Instance)
		if err != nil && ctx.Err() == nil {
			return gate.Answer{}, err
		}
		if err == nil && answer.Outcome != "" {
			return answer, nil
		}
	}
	closingCtx, cancel := context.WithTimeoutCause(context.Background(), closing, errors.New("the gate takes too long"))
	defer cancel()
	reason := context.Cause(ctx).Error()
	if _, err := r.loop.Asker.Withdraw(closingCtx, posted.Record.ID, posted.Record.Instance, reason); err != nil {
		r.log.Debug("a question is not withdrawn", "record", posted.Record.ID, "error", err)
	}
	return gate.Answer{Outcome: approval.OutcomeDeny, Reason: reason, Ruling: posted.Ruling, Record: posted.Record}, nil
}

// tell writes an answer to the server, unless the question is over by now. It
// returns true if the server has yet to take it.
func (r *run) tell(ctx context.Context, a *asking, answer gate.Answer) bool {
	if why := a.question.Stale; why != "" {
		answer.Outcome, answer.Option, answer.Reason, answer.Settlement = approval.OutcomeDeny, nil, why, nil
	}
	r.mu.Lock()
	a.posted = answer
	messages := r.codec.Answer(a.question.Key, answer)
	r.mu.Unlock()
	if ctx.Err() != nil && a.question.Stale == "" {
		messages = nil // nobody listens
	}
	r.observe(Event{Question: a.question, Answer: answer, Told: len(messages) > 0})
	var err error
	if len(messages) > 0 {
		err = r.server.Write(messages...)
	}
	told := len(messages) > 0 && err == nil
	if told {
		r.loop.Asker.Sent(answer)
	} else {
		cause := err
		if cause == nil {
			if cause = context.Cause(ctx); cause == nil {
				cause = errors.New("the question is over")
			}
		}
		r.loop.Asker.Unsent(answer, cause)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if told && !a.heard && ctx.Err() == nil {
		a.told = true
		return true
	}
	delete(r.open, a.question.Key)
	if told {
		r.asking.Go(func() { r.resolved(a, "") })
	}
	return false
}

// fail refuses a question for which no answer could be had.
func (r *run) fail(a *asking, err error) {
	r.log.Error("no decision could be had, so the request is refused", "error", err)
	answer := gate.Answer{Outcome: approval.OutcomeDeny, Reason: "Regent could not decide: " + err.Error()}
	r.mu.Lock()
	messages := r.codec.Answer(a.question.Key, answer)
	delete(r.open, a.question.Key)
	r.mu.Unlock()
	r.observe(Event{Question: a.question, Answer: answer, Err: err, Told: len(messages) > 0})
	if len(messages) > 0 {
		_ = r.server.Write(messages...) // where it fails, the connection is at its end
	}
}

func (r *run) drop(a *asking) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, a.question.Key)
}

// chosen records what the client's user has answered. Whoever waits for the
// answer hears of it from the gate. The mutex is held.
func (r *run) chosen(ctx context.Context, c *Choice) {
	a := r.open[c.Key]
	if a == nil || a.posted.Record == nil {
		r.log.Warn("the client answered a question that is not open; it counts for nothing", "key", c.Key)
		return
	}
	reply := c.Reply
	reply.ID, reply.Revision, reply.By = a.posted.Record.ID, a.posted.Record.Revision, r.loop.By
	r.asking.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, lateFor, errors.New("the gate takes too long"))
		defer cancel()
		for {
			_, err := r.loop.Asker.Answer(ctx, reply)
			// Newer rules give a question another revision. What the user has seen is the
			// same, unless it was decided.
			if conflict, ok := errors.AsType[*approval.ConflictError](err); ok &&
				conflict.Current.State == approval.Pending && conflict.Current.Revision > reply.Revision {
				reply.Revision = conflict.Current.Revision
				continue
			}
			if err != nil {
				r.log.Error("the answer of the client's user does not count; regent permission decide can answer", "record", reply.ID, "error", err)
			}
			return
		}
	})
}

func (r *run) observe(e Event) {
	if r.loop.Observe != nil {
		r.loop.Observe(e)
	}
}

// claims sees to it that a question which several connections of one server were
// asked is put to the gate by one of them at a time.
type claims struct {
	mu    sync.Mutex
	taken map[string]chan struct{}
}

// take waits until nobody else has the question. An error means that ctx ended
// first: the question is over.
func (c *claims) take(ctx context.Context, key string) (release func(), err error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c.mu.Lock()
		busy, taken := c.taken[key]
		if !taken {
			if c.taken == nil {
				c.taken = map[string]chan struct{}{}
			}
			done := make(chan struct{})
			c.taken[key] = done
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.taken, key)
				c.mu.Unlock()
				close(done)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
	}
}
