package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// reviewsAtOnce bounds the reviews that run at one time. One that waits for a
// place has its time to answer run meanwhile, and a person is asked in the end.
// As many may run in shadow beside them.
const reviewsAtOnce = 16

// Reviewers opens a reviewer of an epoch by its name. An error means that there
// is none to ask, and why.
type Reviewers func(e *Epoch, name string) (reviewer.Reviewer, error)

// OpenReviewer opens a reviewer of an epoch by its name. Those of kind plugin, also
// the members of chains, are asked where [Epochs] runs plugins.
func OpenReviewer(e *Epoch, name string) (reviewer.Reviewer, error) {
	return reviewer.OpenWith(e.Config, name, func(name string) (reviewer.Reviewer, error) {
		r := e.Config.Reviewers[name]
		switch {
		case r.Kind == config.ReviewerRego:
			return ruleReviewer{e, name, r.Query}, nil
		case r.Kind == config.ReviewerPlugin:
			return e.pluginReviewer(name)
		default:
			return reviewer.Open(e.Config, name) // it says why not
		}
	})
}

// ruleReviewer is a reviewer that is a rule of its epoch.
type ruleReviewer struct {
	epoch       *Epoch
	name, query string
}

var _ reviewer.Reviewer = ruleReviewer{}

// Review evaluates the rule. It is the machine's own, so that it sees the request as
// it was asked where the question is one of the gate's.
func (r ruleReviewer) Review(ctx context.Context, q reviewer.Question) approval.Verdict {
	request := q.Request
	if exact, ok := ctx.Value(exactKey{}).(*approval.Request); ok {
		request = exact
	}
	v := approval.Verdict{Outcome: approval.VerdictError, Rationale: "there is no request"}
	if request != nil {
		v = r.epoch.Policy.Opinion(ctx, r.query, request, &q.Ruling)
	}
	if v.Outcome == approval.VerdictTimeout && errors.Is(context.Cause(ctx), context.Canceled) {
		v.Outcome = approval.VerdictError
	}
	v.Reviewer, v.Rationale = r.name, approval.RedactText(v.Rationale)
	return v
}

// exactKey is where the context of a review keeps the request as it was asked, for
// reviewers that are rules. All others see the masked one alone.
type exactKey struct{}

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
	ctx = context.WithValue(ctx, exactKey{}, w.question.Request)
	g.running.Go(func() {
		defer cancel()
		select {
		case g.reviewing <- struct{}{}:
			defer func() { <-g.reviewing }()
		case <-ctx.Done():
		}
		var verdicts []approval.Verdict
		for _, name := range record.Ruling.Reviewers {
			v := g.opinion(ctx, standing, name, asking(&record))
			v.Authority = record.Ruling.Authority[name]
			g.stats.reviewed(v)
			verdicts = append(verdicts, v)
			if v.Final() {
				break // nothing that follows can lift it
			}
		}
		r.done <- verdicts
	})
	return r
}

func asking(r *approval.Record) reviewer.Question {
	return reviewer.Question{ID: r.ID, Request: r.Request, Ruling: r.Ruling, Workspace: r.Workspace}
}

// beginShadow asks the reviewers in shadow of a request that waits, all at once and
// beside everything else. What they say is noted when the request waits no more, and
// is for nobody before that. stop lets go of them: other rules may name others.
//
// A place in shadow is none that a review waits for.
func (g *Gate) beginShadow(w *wait) (stop func()) {
	record := w.now()
	names := record.Ruling.Shadow
	if record.State != approval.Pending || len(names) == 0 {
		return func() {}
	}
	life, stop := context.WithCancel(g.reviews)
	standing := w.ruledBy(nil)
	g.running.Go(func() {
		defer stop()
		ctx := context.WithValue(life, exactKey{}, w.question.Request)
		ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(record.Ruling.Deadlines.ReviewSeconds)*time.Second, errReviewTime)
		defer cancel()
		verdicts := make([]approval.Verdict, len(names))
		var all sync.WaitGroup
		for i, name := range names {
			all.Go(func() {
				select {
				case g.shadowing <- struct{}{}:
					defer func() { <-g.shadowing }()
				case <-ctx.Done():
				}
				v := g.opinion(ctx, standing, name, asking(&record))
				v.Authority, v.Shadow = "", true
				verdicts[i] = v
			})
		}
		all.Wait()
		select {
		case <-w.done:
		case <-life.Done():
			return
		}
		if life.Err() == nil {
			g.note(record.ID, verdicts)
		}
	})
	return stop
}

// note records what reviewers in shadow said of a request that waits no more.
func (g *Gate) note(id string, verdicts []approval.Verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	record, err := g.ledger.Note(ctx, id, verdicts)
	if err != nil {
		// Nobody decides by it, so that it is missing holds up nothing.
		g.log.Error("note what reviewers in shadow said", "id", id, "error", err)
		return
	}
	for _, v := range verdicts {
		g.stats.reviewed(v)
	}
	g.moved(record)
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
	if ctx.Err() != nil && !v.Refuses() && v.Outcome != approval.VerdictError {
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
	said := g.verdict(ctx, w.ruledBy(nil), w.question.Request, &ruling, verdicts)
	decision := reviewed(w.question.Request, offers(w.question.Request), &ruling, verdicts, &said)
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

// verdict is what policy makes of verdicts, when there is room to evaluate it.
func (g *Gate) verdict(ctx context.Context, s *Standing, r *approval.Request, ruling *approval.Ruling, verdicts []approval.Verdict) approval.VerdictRuling {
	select {
	case g.ruling <- struct{}{}:
		defer func() { <-g.ruling }()
	case <-ctx.Done(): // the verdict says so
	}
	return s.Verdict(ctx, r, ruling, verdicts)
}

// reviewed is the decision that verdicts come to by what policy said of them. Where
// they settle nothing it is nil, and the ruling is one that asks a person and tells
// them why.
//
// Policy proposes. Whatever it says, a refusal that is final is not lifted, and
// nothing is allowed that only a person may allow, that cannot be said just once, or
// that cannot be granted as it is written.
func reviewed(
	request *approval.Request, options []json.RawMessage, ruling *approval.Ruling, verdicts []approval.Verdict, said *approval.VerdictRuling,
) *approval.Decision {
	unsettled := func(whys ...string) *approval.Decision {
		for _, why := range slices.Backward(whys) {
			ask(ruling, why)
		}
		ruling.Verdicts = verdicts
		ruling.Rules = slices.Concat(ruling.Rules, said.Rules)
		ruling.Observed = slices.Concat(ruling.Observed, said.Observed)
		if said.Failure != nil {
			ruling.Failure = said.Failure
		}
		return nil
	}
	d := &approval.Decision{Source: approval.SourceReviewer, By: said.By, Verdicts: verdicts, Rules: said.Rules, Observed: said.Observed}
	if said.By == "" {
		d.Source, d.By = approval.SourceRule, cmp.Or(said.Rule, "regent")
	}
	if len(said.Reasons) > 0 {
		d.Reason = said.Reasons[0]
	}
	outcome := said.Decision
	if i := slices.IndexFunc(verdicts, approval.Verdict.Final); i >= 0 && outcome != approval.VerdictsDeny && outcome != approval.VerdictsCancel {
		outcome = approval.VerdictsDeny
		d.Source, d.By, d.Reason = approval.SourceReviewer, verdicts[i].Reviewer, verdicts[i].Rationale
	}
	switch outcome {
	case approval.VerdictsCancel:
		d.Outcome = approval.OutcomeCancel
		if approval.Choice(options, d.Outcome) >= 0 {
			return d
		}
		fallthrough
	case approval.VerdictsDeny:
		d.Outcome = approval.OutcomeDeny
		return d
	case approval.VerdictsAllow:
	default:
		if len(said.Reasons) == 0 {
			return unsettled("the verdicts settle nothing, so a person is asked")
		}
		return unsettled(said.Reasons...)
	}
	switch {
	case said.By == "":
		return unsettled("no reviewer has allowed this, so a person is asked")
	case request.HumanOnly:
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
