package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/server/api"
	"github.com/regent-policy/regent/server/client"
)

const (
	// firstRetry and lastRetry bound the time between two tries to reach the
	// daemon, each twice the one before.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
	// escapeTime is how long an escape may be the beginning of a longer key.
	escapeTime = 50 * time.Millisecond
	// toldAtOnce is how much is taken in before the screen is drawn again.
	toldAtOnce = 256
)

type watchOptions struct {
	plain bool
	count int
}

func newPermissionWatch(a *app, p *permissionOptions) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "See requests as they come, and answer them",
		Long: `See requests as they come, and answer them, in a view that fills the terminal.
Above is the queue, below the selected request in full. Arrows or j and k select,
space and b turn pages, enter gives the request the whole screen. A number picks
an answer, and y confirms it; r adds a reason, q ends the view.

Nothing is answered by one key, nor by pasted text, and nothing is allowed before
all of the request has been on the screen. With --plain what happens is printed
line by line instead, for programs (with --output json) and for logs: first what
waits, then each event.`,
		Example: `  $ regent permission watch --plain --count 1
  ...
  $ regent permission watch --plain --count 1 --output json
  ...`,
		Args: noArgs("watch shows all that waits"),
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			in, out, err := a.watchTerminal(o)
			if err != nil {
				return err
			}
			c, err := p.connect(a, cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if o.plain {
				return answered(a.watchPlain(cmd, c, o.count))
			}
			return answered(a.watchScreen(cmd.Context(), c, in, out))
		}),
	}
	cmd.Flags().BoolVar(&o.plain, "plain", false, "print what happens, a line for each event, and ask nothing")
	cmd.Flags().IntVar(&o.count, "count", 0, "with --plain: end after so many lines, as in `1`; 0 does not")
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// watchTerminal is the terminal of the process, which plain does without.
func (a *app) watchTerminal(o *watchOptions) (in, out *os.File, err error) {
	switch {
	case o.plain:
		return nil, nil, nil
	case a.global.json():
		return nil, nil, usagef("--output json goes with --plain")
	case o.count != 0:
		return nil, nil, usagef("--count goes with --plain")
	}
	in, inOK := a.stdin.(*os.File)
	out, outOK := a.terminal.(*os.File)
	if !inOK || !outOK || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, nil, usagef("watch fills a terminal, and this is none; --plain prints what happens line by line")
	}
	return in, out, nil
}

// heard is something that the daemon told: the requests that wait, a request as
// it is now, an event, or trouble and its end.
type heard struct {
	all     []approval.Record
	record  *approval.Record
	event   *approval.Event
	notice  *api.Notice
	trouble string
	// linked is the end of trouble.
	linked bool
	// fatal ends the view.
	fatal error
}

// listen tells what the daemon does until ctx ends. It comes back by itself
// after the daemon was gone, without a gap.
func listen(ctx context.Context, c *client.Client, to chan<- heard) {
	say := func(h heard) bool {
		select {
		case to <- h:
			return true
		case <-ctx.Done():
			return false
		}
	}
	wait := firstRetry
	for {
		linked, err := follow(ctx, c, say)
		switch {
		case ctx.Err() != nil:
			return
		case refused(err):
			say(heard{fatal: err})
			return
		case linked:
			wait = firstRetry
		}
		if !say(heard{trouble: linkTrouble(err)}) {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, lastRetry)
	}
}

func linkTrouble(err error) string {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, client.ErrNoDaemon) {
		return "the daemon is gone; waiting for it"
	}
	return "no link to the daemon: " + err.Error()
}

// refused tells whether to try again is of no use.
func refused(err error) bool {
	refusal, ok := errors.AsType[*api.Error](err)
	return ok && refusal.Code.Status() < 500 && refusal.Code.Status() != 429
}

// follow reads one stream: all that waits as the stream begins, then what
// happens. linked tells whether it came so far.
func follow(ctx context.Context, c *client.Client, say func(heard) bool) (linked bool, err error) {
	// What happens while the queue is read is in the stream, so nothing is missed.
	events, err := c.Events(ctx, client.FromNow)
	if err != nil {
		return false, err
	}
	defer func() { _ = events.Close() }() // it was only read
	all, err := allWaiting(ctx, c)
	if err != nil {
		return false, err
	}
	if !say(heard{all: all, linked: true}) {
		return true, nil
	}
	for {
		e, err := events.Next()
		if err != nil {
			return true, err
		}
		h := heard{event: e.Approval, notice: e.Notice}
		if e.Approval != nil && e.Approval.State == approval.Pending {
			r, err := c.Read(ctx, e.Approval.ID)
			switch {
			case errors.Is(err, approval.ErrNotFound): // not for this principal
				continue
			case err != nil:
				return true, err
			}
			h.record = &r
		}
		if !say(h) {
			return true, nil
		}
	}
}

// allWaiting reads the whole queue.
func allWaiting(ctx context.Context, c *client.Client) ([]approval.Record, error) {
	var all []approval.Record
	q := approval.Query{States: []approval.State{approval.Pending}}
	for {
		page, err := c.List(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Records...)
		if page.Before == "" {
			return all, nil
		}
		q.Before = page.Before
	}
}

// watchPlain prints what happens, up to count lines.
func (a *app) watchPlain(cmd *cobra.Command, c *client.Client, count int) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	told := make(chan heard)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		listen(ctx, c, told)
	}()
	defer func() { stop(); <-ended }()
	for {
		select {
		case <-ctx.Done():
			return nil // to be told to end is no failure
		case h := <-told:
			if h.fatal != nil {
				return h.fatal
			}
			if h.trouble != "" {
				a.say(cmd.CommandPath(), "%s", h.trouble)
			}
			n, err := a.printHeard(&h, count)
			if err != nil {
				return err
			}
			if count > 0 {
				if count -= n; count == 0 {
					return nil
				}
			}
		}
	}
}

// happened is a line of `regent permission watch --plain --output json`.
type happened struct {
	// Approval is a request that waits, as it is now.
	Approval *approval.Record `json:"approval,omitempty"`
	Event    *approval.Event  `json:"event,omitempty"`
	Notice   *api.Notice      `json:"notice,omitempty"`
}

// printHeard prints a line for each thing that was told, most of them if that is
// not 0, and has them arrive. It returns how many.
func (a *app) printHeard(h *heard, most int) (int, error) {
	var lines []happened
	for i := range h.all {
		lines = append(lines, happened{Approval: &h.all[len(h.all)-1-i]}) // the oldest first
	}
	if h.event != nil || h.notice != nil {
		lines = append(lines, happened{h.record, h.event, h.notice})
	}
	if most > 0 && len(lines) > most {
		lines = lines[:most]
	}
	for i := range lines {
		var err error
		if a.global.json() {
			err = writeJSON(a.stdout, lines[i], false)
		} else {
			_, err = fmt.Fprintln(a.stdout, lines[i].text())
		}
		if err != nil {
			return i, err
		}
	}
	return len(lines), a.flush()
}

func (h *happened) text() string {
	switch {
	case h.Notice != nil:
		return fmt.Sprintf("%s  notice   %s  %s", stamp(h.Notice.At), printable(h.Notice.Kind), printable(h.Notice.Message))
	case h.Event == nil:
		return fmt.Sprintf("%s  waiting  %s  %s", stamp(h.Approval.Created), printable(h.Approval.ID), recordLine(h.Approval))
	}
	text := fmt.Sprintf("%s  %-8s %s", stamp(h.Event.At), printable(string(h.Event.Kind)), printable(h.Event.ID))
	if h.Event.Outcome != "" {
		text += "  " + printable(string(h.Event.Outcome))
	}
	if h.Event.By != "" {
		text += " by " + printable(h.Event.By)
	}
	if h.Approval != nil {
		text += "  " + recordLine(h.Approval)
	}
	return text
}

// watchScreen runs the view until the user or ctx ends it.
func (a *app) watchScreen(ctx context.Context, c *client.Client, in, out *os.File) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	s, err := openScreen(in, out, a.getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// To be ended by any of these is no reason to leave a terminal in disorder.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, viewSignals()...)
	defer signal.Stop(signals)

	v := &watchView{
		screen: s, client: c, prover: status.Principal.Prover,
		told: make(chan heard, toldAtOnce), results: make(chan result), input: make(chan []byte), signals: signals,
	}
	v.model.who, v.model.trouble = status.Principal.ID, "reaching the daemon"
	go listen(ctx, c, v.told)
	go readInput(ctx, in, v.input)
	return v.run(ctx)
}

// readInput hands on what is typed. It is left behind when the view ends, since
// nothing ends a read from a terminal.
func readInput(ctx context.Context, in io.Reader, to chan<- []byte) {
	defer close(to)
	for {
		data := make([]byte, 256)
		n, err := in.Read(data)
		if n > 0 {
			select {
			case to <- data[:n]:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// result is what came of an answer.
type result struct {
	order  *answerOrder
	record approval.Record
	err    error
}

// watchView joins the model with a terminal and a daemon.
type watchView struct {
	model   watchModel
	keys    keyReader
	screen  *screen
	client  *client.Client
	prover  string
	told    chan heard
	results chan result
	input   chan []byte
	signals chan os.Signal
}

func (v *watchView) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ticked := false; ; {
		v.model.now = time.Now()
		v.model.columns, v.model.rows = v.screen.size()
		if !ticked || !v.screen.dumb { // a countdown would fill a dumb terminal
			if err := v.screen.draw(v.model.frame(), v.model.columns); err != nil {
				return fmt.Errorf("draw: %w", err)
			}
		}
		ticked = false
		var alone <-chan time.Time
		if v.keys.waits() {
			alone = time.After(escapeTime)
		}
		select {
		case <-ctx.Done():
			return nil // to be told to end is no failure
		case sig := <-v.signals:
			var err error
			switch signalMeaning(sig) {
			case signalEnd:
				return nil
			case signalResumed:
				err = v.screen.again()
			default:
				err = v.screen.forget()
			}
			if err != nil {
				return err
			}
		case <-tick.C:
			ticked = true
		case h := <-v.told:
			if h.fatal != nil {
				return h.fatal
			}
			v.hear(&h)
			for range min(len(v.told), toldAtOnce) {
				if h := <-v.told; h.fatal == nil {
					v.hear(&h)
				} else {
					return h.fatal
				}
			}
		case r := <-v.results:
			v.model.now = time.Now()
			v.model.done(r.order, &r.record, r.err, v.prover)
		case data, ok := <-v.input:
			if !ok {
				return nil // the terminal is gone
			}
			if v.pressed(ctx, v.keys.read(data)) {
				return nil
			}
		case <-alone:
			if v.pressed(ctx, v.keys.flush()) {
				return nil
			}
		}
	}
}

func (v *watchView) hear(h *heard) {
	m := &v.model
	m.now = time.Now()
	switch {
	case h.trouble != "":
		m.trouble = h.trouble
	case h.linked:
		m.trouble = ""
		m.replace(h.all)
	case h.record != nil:
		m.put(*h.record)
	case h.event != nil && h.event.Kind != approval.EventRefused:
		m.heard(h.event)
	case h.notice != nil:
		m.tell(h.notice.Kind != "epoch", "%s", h.notice.Message)
	}
}

// pressed takes keys, and returns true to end.
func (v *watchView) pressed(ctx context.Context, keys []key) bool {
	for _, k := range keys {
		v.model.now = time.Now()
		if k.name == keyRedraw {
			_ = v.screen.forget() // what cannot be written shows with the next row
			continue
		}
		order, quit := v.model.press(k)
		if quit {
			return true
		}
		if order != nil {
			go v.answer(ctx, *order)
		}
	}
	return false
}

func (v *watchView) answer(ctx context.Context, order answerOrder) {
	r, err := v.client.Decide(ctx, order.id, order.revision, order.decision)
	select {
	case v.results <- result{&order, r, err}:
	case <-ctx.Done():
	}
}
