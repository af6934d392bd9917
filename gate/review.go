package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// reviewsAtOnce bounds the reviews that run at one time. One that waits for a
// place has its time to answer run meanwhile, and a person is asked in the end.
const reviewsAtOnce = 16

// Reviewers opens a reviewer of an epoch by its name. An error means that there
// is none to ask, and why.
type Reviewers func(e *Epoch, name string) (reviewer.Reviewer, error)

// openReviewer opens a reviewer that needs nothing but its configuration.
func openReviewer(e *Epoch, name string) (reviewer.Reviewer, error) {
	return reviewer.Open(e.Config, name)
}

// review is a review of one request under one ruling.
type review struct {
	// from is the record as it was when the review began. A verdict on any other
	// revision of it is late.
	from   approval.From
	cancel context.CancelFunc
	done   chan []approval.Verdict
}

// stopTime is how long a reviewer may take to stop when its time is over: longer
// than a program is given.
const stopTime = 2 * time.Second

var errReviewTime = errors.New("the time for the review is over")

// stop lets go of a review, whose verdict counts for nothing then.
func (r *review) stop() {
	if r != nil {
		r.cancel()
	}
}

// verdicts is where the verdicts of a review arrive; of none they never do.
func (r *review) verdicts() <-chan []approval.Verdict {
	if r == nil {
		return nil
	}
	return r.done
}

// beginReview asks the reviewers of a request whose route is review; nil where
// it is another. They are asked one after the other, and together have the time
// that the ruling gives.
func (g *Gate) beginReview(w *wait) *review {
	record := w.now()
	if record.State != approval.Pending || record.Ruling.Route != approval.RouteReview {
		return nil
	}
	left := min(time.Duration(record.Ruling.Deadlines.ReviewSeconds)*time.Second, time.Until(w.until))
	ctx, cancel := context.WithTimeoutCause(g.reviews, left, errReviewTime)
	r := &review{from: record.From(), cancel: cancel, done: make(chan []approval.Verdict, 1)}
	standing := w.ruledBy(nil)
	g.running.Go(func() {
		defer cancel()
		select {
		case g.reviewing <- struct{}{}:
			defer func() { <-g.reviewing }()
		case <-ctx.Done():
		}
		question := reviewer.Question{ID: record.ID, Request: record.Request, Ruling: record.Ruling, Workspace: record.Workspace}
		var verdicts []approval.Verdict
		for _, name := range record.Ruling.Reviewers {
			v := g.opinion(ctx, standing, name, question)
			g.stats.reviewed(v)
			verdicts = append(verdicts, v)
			if refuses(v) {
				break // nothing that follows can lift it
			}
		}
		r.done <- verdicts
	})
	return r
}

func refuses(v approval.Verdict) bool {
	return v.Outcome == approval.VerdictDeny || v.Outcome == approval.VerdictCancel
}

// opinion asks one reviewer. That there is none is a verdict too.
func (g *Gate) opinion(ctx context.Context, s *Standing, name string, q reviewer.Question) approval.Verdict {
	broken := func(outcome approval.VerdictOutcome, why string) approval.Verdict {
		return approval.Verdict{Reviewer: name, Outcome: outcome, Rationale: why}
	}
	if ctx.Err() != nil {
		return broken(approval.VerdictTimeout, context.Cause(ctx).Error())
	}
	if s.Epoch == nil {
		return broken(approval.VerdictError, "no configuration is loaded")
	}
	one, err := g.reviewers(s.Epoch, name)
	if err != nil {
		return broken(approval.VerdictError, err.Error())
	}
	began := time.Now()
	v := Consult(ctx, one, q)
	v.Reviewer, v.DurationMS = name, time.Since(began).Milliseconds()
	return v
}

// Consult asks a reviewer, and waits for it no longer than ctx lasts and a moment
// to stop in: one that does not mind ctx holds up nobody. What is no
// refusal and comes when the time is over is a timeout.
func Consult(ctx context.Context, one reviewer.Reviewer, q reviewer.Question) approval.Verdict {
	said := make(chan approval.Verdict, 1)
	go func() { said <- one.Review(ctx, q) }()
	var v approval.Verdict
	select {
	case v = <-said:
	case <-ctx.Done():
		stop := time.NewTimer(stopTime)
		defer stop.Stop()
		select {
		case v = <-said:
		case <-stop.C:
		}
	}
	if ctx.Err() != nil && !refuses(v) && v.Outcome != approval.VerdictError {
		return approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: context.Cause(ctx).Error()}
	}
	return v
}

// judge makes of verdicts what they come to: a decision, or a question to a
// person. A record that has moved on since is left as it is, and so is one that
// other rules are in force for by now: it will be routed again.
func (g *Gate) judge(w *wait, r *review, verdicts []approval.Verdict) {
	// Rules that came into force during the review are heard first.
	g.workspaces.Of(context.Background(), w.question)
	w.routing.Lock()
	defer w.routing.Unlock()
	if w.ruledBy(nil) != w.workspace.Standing() {
		return
	}
	record := w.now()
	if record.State != approval.Pending || record.Revision != r.from.Revision {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	ruling := record.Ruling
	decision := reviewed(w.question.Request, offers(w.question.Request), &ruling, verdicts)
	var err error
	if decision != nil {
		decision.Option = record.Options[approval.Choice(offers(w.question.Request), decision.Outcome)]
		if record, err = g.ledger.Decide(ctx, r.from, *decision); err == nil {
			g.stats.decided(record.Decision)
		}
	} else {
		record, err = g.ledger.Reroute(ctx, r.from, ruling, record.Reviewers)
	}
	if _, late := newer(err, approval.Record{ID: r.from.ID, Revision: r.from.Revision}); late || errors.Is(err, approval.ErrExpired) || errors.Is(err, approval.ErrLost) {
		return // somebody was faster, or the time is up
	}
	if err != nil {
		// The request goes on waiting for a person as it is.
		g.log.Error("record what a review came to", "id", r.from.ID, "error", err)
		return
	}
	g.moved(record)
}

// reviewed is the decision that verdicts come to. Where they settle nothing it is
// nil, and the ruling is one that asks a person and tells them why.
func reviewed(request *approval.Request, options []json.RawMessage, ruling *approval.Ruling, verdicts []approval.Verdict) *approval.Decision {
	unsettled := func(why string) *approval.Decision {
		ask(ruling, why)
		ruling.Verdicts = verdicts
		return nil
	}
	if len(verdicts) == 0 {
		return unsettled("no reviewer is named, so a person is asked")
	}
	said := verdicts[len(verdicts)-1]
	if !refuses(said) {
		// One that could not tell is enough to ask a person.
		if i := slices.IndexFunc(verdicts, func(v approval.Verdict) bool { return v.Outcome != approval.VerdictAllow }); i >= 0 {
			return unsettled(failedReview(verdicts[i]))
		}
		if len(verdicts) < len(ruling.Reviewers) {
			return unsettled("not every reviewer was asked, so a person is")
		}
	}
	d := &approval.Decision{Source: approval.SourceReviewer, By: said.Reviewer, Reason: said.Rationale, Verdicts: verdicts}
	switch said.Outcome {
	case approval.VerdictCancel:
		d.Outcome = approval.OutcomeCancel
		if approval.Choice(options, d.Outcome) >= 0 {
			return d
		}
		fallthrough
	case approval.VerdictDeny:
		d.Outcome = approval.OutcomeDeny
		return d
	}
	if request.HumanOnly {
		return unsettled("only a person may answer this")
	}
	d.Outcome = approval.OutcomeAllow
	if approval.Choice(options, d.Outcome) < 0 {
		return unsettled(onlyOnce)
	}
	var grant *permission.Response
	if request.Permissions != nil {
		grant = &permission.Response{Permissions: *request.Permissions, Scope: shortest(request, verdicts)}
	}
	settlement, err := settle(request, ruling, grant)
	if err != nil {
		return unsettled("what was asked for cannot be granted as it is written: " + err.Error())
	}
	d.Settlement = settlement
	return d
}

// shortest is the shortest of the scopes that reviewers had in mind.
func shortest(request *approval.Request, verdicts []approval.Verdict) permission.Scope {
	scope := permission.Session
	for _, v := range verdicts {
		meant := v.Scope
		if _, err := permission.ParseScope(string(meant)); err != nil {
			meant = usualScope(request)
		}
		if meant.Within(scope) {
			scope = meant
		}
	}
	return scope
}

// failedReview says why a review settled nothing.
func failedReview(v approval.Verdict) string {
	what := map[approval.VerdictOutcome]string{
		approval.VerdictUnsure:  "is unsure",
		approval.VerdictTimeout: "was not done in time",
		approval.VerdictError:   "could not review it",
	}[v.Outcome]
	if what == "" {
		what = "gave a verdict that is not known"
	}
	why := fmt.Sprintf("reviewer %s %s, so a person is asked", v.Reviewer, what)
	if rationale := strings.TrimSpace(v.Rationale); rationale != "" {
		why += ": " + rationale
	}
	return why
}
