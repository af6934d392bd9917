package reviewer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// chain is several reviewers that are asked one after the other.
type chain struct {
	name      string
	members   []string
	reviewers []Reviewer
	// first is true where the first member that allows or denies settles it.
	first bool
	// needed is how many members have to allow; 0 means all.
	needed  int
	timeout time.Duration
}

var _ Reviewer = (*chain)(nil)

func newChain(name string, r config.Reviewer, timeout time.Duration) (*chain, error) {
	ch := &chain{name: name, timeout: timeout}
	switch r.Decide {
	case "", config.ChainAll:
	case config.ChainAny:
		ch.needed = 1
	case config.ChainFirst:
		ch.first = true
	case config.ChainQuorum:
		if r.Quorum < 1 {
			return nil, errors.New("a quorum needs a number of members")
		}
		ch.needed = r.Quorum
	default:
		return nil, fmt.Errorf("%q is not known", r.Decide)
	}
	return ch, nil
}

// Review asks the members in their order. One that refuses ends it: the chain
// refuses too. Other than in a chain that goes by the first answer, an allow ends
// nothing, so that a refusal of a later member is heard.
//
// A member that gives no answer has not allowed. The verdict of a chain that
// comes to nothing has the outcome of the first such member.
func (ch *chain) Review(ctx context.Context, q Question) approval.Verdict {
	ctx, cancel := context.WithTimeoutCause(ctx, ch.timeout, fmt.Errorf("no answer within %v", ch.timeout))
	defer cancel()
	var said []approval.Verdict
	for i, one := range ch.reviewers {
		v, over := ended(ctx)
		if over {
			// Those that were not asked gave no verdict, and the first of them
			// says why.
			said = append(said, signed(v, ch.members[i]))
			break
		}
		said = append(said, ask(ctx, one, ch.members[i], q))
		if last := said[i]; last.Refuses() || ch.first && last.Outcome == approval.VerdictAllow {
			break
		}
	}
	sum := ch.sum(said)
	if v, over := ended(ctx); over && !sum.Refuses() {
		v.Members, v.Usage = sum.Members, sum.Usage
		return signed(v, ch.name)
	}
	return sum
}

// ask is the verdict of one member. What is none of the words of a verdict is an
// error, unless the member refuses whatever else it says.
func ask(ctx context.Context, one Reviewer, name string, q Question) approval.Verdict {
	began := time.Now()
	v := one.Review(ctx, q)
	switch {
	case !slices.Contains(given, v.Outcome):
		v = broken(fmt.Errorf("it gave a verdict that is not known: %s", excerpt([]byte(v.Outcome))))
	case v.Risk != "" && !slices.Contains(risks, v.Risk) || v.Authorization != "" && !slices.Contains(authorizations, v.Authorization):
		if v.Risk, v.Authorization = "", ""; !v.Refuses() {
			v = broken(errors.New("it gave a verdict with a risk or an authorization that is not known"))
		}
	}
	if !v.Scope.Within(permission.Session) {
		v.Scope = ""
	}
	v.DurationMS = time.Since(began).Milliseconds()
	return signed(v, name)
}

// given are the outcomes that a member may give.
var given = slices.Concat(outcomes, []approval.VerdictOutcome{approval.VerdictCancel, approval.VerdictTimeout, approval.VerdictError})

// sum is what the verdicts of members come to. It has the highest risk that any of
// them named, the lowest authorization, and the shortest scope.
func (ch *chain) sum(said []approval.Verdict) approval.Verdict {
	allowed, open := 0, -1
	v := approval.Verdict{Members: said}
	for i, member := range said {
		switch {
		case member.Outcome == approval.VerdictAllow:
			if allowed++; allowed == 1 || member.Scope == "" || v.Scope != "" && member.Scope.Within(v.Scope) {
				v.Scope = member.Scope
			}
		case open < 0 && !member.Refuses():
			open = i
		}
		if slices.Index(risks, member.Risk) > slices.Index(risks, v.Risk) {
			v.Risk = member.Risk
		}
		if a := slices.Index(authorizations, member.Authorization); a >= 0 &&
			(v.Authorization == "" || a < slices.Index(authorizations, v.Authorization)) {
			v.Authorization = member.Authorization
		}
		v.Usage = added(v.Usage, member.Usage)
	}
	needed := cmp.Or(ch.needed, len(ch.members))
	count := fmt.Sprintf("%d of %d members allow, where %d must", allowed, len(ch.members), needed)
	var how string
	switch {
	case len(said) > 0 && said[len(said)-1].Refuses():
		last := said[len(said)-1]
		v.Outcome, how = last.Outcome, last.Reviewer+" denies"
	case ch.first && allowed > 0:
		v.Outcome, how = approval.VerdictAllow, said[len(said)-1].Reviewer+" is the first to answer"
	case ch.first:
		v.Outcome, how = approval.VerdictUnsure, "none of its members answers"
	case len(ch.members) > 0 && allowed >= needed:
		v.Outcome, how = approval.VerdictAllow, count
	default:
		v.Outcome, how = approval.VerdictUnsure, count
	}
	if v.Outcome != approval.VerdictAllow {
		v.Scope = ""
	}
	if v.Outcome == approval.VerdictUnsure && open >= 0 {
		v.Outcome = said[open].Outcome
	}
	v.Rationale = how + told(said, MaxRationale-utf8.RuneCountInString(how))
	return signed(v, ch.name)
}

// told is what members say, in limit characters at most, of which each has the
// same share.
func told(said []approval.Verdict, limit int) string {
	var b strings.Builder
	for _, v := range said {
		text := "; " + v.Reviewer + ": " + string(v.Outcome)
		if v.Rationale != "" {
			text += ", " + v.Rationale
		}
		b.WriteString(approval.FirstCharacters(text, max(limit/len(said), 1)))
	}
	return b.String()
}

// added is the usage of both; nil where neither tells.
func added(one, other *approval.Usage) *approval.Usage {
	if one == nil || other == nil {
		return cmp.Or(one, other)
	}
	sum := approval.Usage{
		InputTokens: one.InputTokens + other.InputTokens, OutputTokens: one.OutputTokens + other.OutputTokens,
		CostUSD: one.CostUSD + other.CostUSD,
	}
	if one.Model == other.Model {
		sum.Model = one.Model
	}
	return &sum
}

// missing stands for a member that could not be opened.
type missing struct{ err error }

func (m missing) Review(context.Context, Question) approval.Verdict { return broken(m.err) }
