package reviewer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// MaxRationale is how much of a reviewer's rationale is kept, in characters.
const MaxRationale = 2000

// command is a program that reads one question and writes one answer.
type command struct {
	name    string
	program Program
	timeout time.Duration
}

var _ Reviewer = (*command)(nil)

// Review runs the program once. What the program reads and may write is told in
// encode and parse.
func (r *command) Review(ctx context.Context, q Question) approval.Verdict {
	v := r.review(ctx, q)
	v.Reviewer = r.name
	v.Rationale = firstCharacters(approval.RedactText(v.Rationale), MaxRationale)
	return v
}

func (r *command) review(ctx context.Context, q Question) approval.Verdict {
	input, err := encode(q)
	if err != nil {
		return broken(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no answer within %v", r.timeout))
	defer cancel()
	output, err := r.program.Run(ctx, input)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: "the review took too long: " + context.Cause(ctx).Error()}
	case ctx.Err() != nil:
		return broken(fmt.Errorf("the review was cancelled: %w", context.Cause(ctx)))
	case err != nil:
		if exit, ok := errors.AsType[*ExitError](err); ok {
			// What a program says last is most often what it died of, and a
			// rationale is cut at its end.
			brief := *exit
			brief.Stderr = lastBytes(exit.Stderr, MaxRationale/2)
			err = fmt.Errorf("run %s: %w", visible(r.program.Command[0]), &brief)
		}
		return broken(err)
	}
	v, err := parse(output, q.Request.Kind)
	if err != nil {
		return broken(fmt.Errorf("illegal output: %w", err))
	}
	return v
}

// broken is the verdict of a reviewer that gave none.
func broken(err error) approval.Verdict {
	return approval.Verdict{Outcome: approval.VerdictError, Rationale: err.Error()}
}

// encode is what the program reads. Nothing of a request reaches it in another
// way: what an agent wrote is text inside of JSON strings, and no word of a command
// line or variable. Version changes when a member changes its meaning; members may
// be added.
func encode(q Question) ([]byte, error) {
	if q.Request == nil {
		return nil, errors.New("tell the reviewer: there is no request")
	}
	type ruling struct {
		Route    approval.Route    `json:"route"`
		Effects  []approval.Effect `json:"effects"`
		External bool              `json:"external"`
		ReadOnly bool              `json:"read_only"`
		Reasons  []string          `json:"reasons"`
		Rules    []approval.Match  `json:"rules"`
	}
	input, err := jsonv2.Marshal(struct {
		Version   int               `json:"version"`
		ID        string            `json:"id"`
		Workspace string            `json:"workspace"`
		Request   *approval.Request `json:"request"`
		Ruling    ruling            `json:"ruling"`
	}{1, q.ID, q.Workspace, q.Request, ruling{
		q.Ruling.Route, q.Ruling.Effects, q.Ruling.External, q.Ruling.ReadOnly, q.Ruling.Reasons, q.Ruling.Rules,
	}})
	if err != nil {
		return nil, fmt.Errorf("tell the reviewer: %w", err)
	}
	return append(input, '\n'), nil
}

// What the members of an answer may say.
var (
	outcomes       = []approval.VerdictOutcome{approval.VerdictAllow, approval.VerdictDeny, approval.VerdictUnsure}
	risks          = []approval.Risk{approval.RiskLow, approval.RiskMedium, approval.RiskHigh, approval.RiskCritical}
	authorizations = []approval.Authorization{
		approval.AuthorizationUnknown, approval.AuthorizationLow, approval.AuthorizationMedium, approval.AuthorizationHigh,
	}
	scopes = []permission.Scope{permission.Once, permission.Turn, permission.Session}
)

// parse reads what the program wrote about a request of some kind: exactly one JSON
// object, either with outcome and perhaps risk_level, user_authorization, rationale
// and scope, or with a review decision of the Codex protocol as decision and perhaps
// rationale. Any other member, a name that is given twice, a value of another type
// or none of the words, and text before or after the object are errors: words are
// not searched for, and half an answer is none.
//
// An answer that contradicts itself is unsure.
func parse(output []byte, kind approval.Kind) (approval.Verdict, error) {
	var a answer
	if len(bytes.TrimSpace(output)) == 0 {
		return approval.Verdict{}, errors.New("there is none")
	}
	if err := jsonv2.Unmarshal(output, &a); err != nil || a == nil {
		return approval.Verdict{}, fmt.Errorf("not one JSON object: %s", excerpt(output))
	}
	if _, ok := a["decision"]; ok {
		return a.decision(kind)
	}
	return a.outcome()
}

// answer is what the program wrote, by the names of its members.
type answer map[string]jsontext.Value

func (a answer) outcome() (v approval.Verdict, err error) {
	if err := a.only("outcome", "risk_level", "user_authorization", "rationale", "scope"); err != nil {
		return approval.Verdict{}, err
	}
	if _, ok := a["outcome"]; !ok {
		return approval.Verdict{}, errors.New("outcome is missing")
	}
	if v.Outcome, err = word(a, "outcome", outcomes); err != nil {
		return approval.Verdict{}, err
	}
	if v.Risk, err = word(a, "risk_level", risks); err != nil {
		return approval.Verdict{}, err
	}
	if v.Authorization, err = word(a, "user_authorization", authorizations); err != nil {
		return approval.Verdict{}, err
	}
	if v.Scope, err = word(a, "scope", scopes); err != nil {
		return approval.Verdict{}, err
	}
	if v.Rationale, err = text(a, "rationale"); err != nil {
		return approval.Verdict{}, err
	}
	return consistent(v), nil
}

func (a answer) decision(kind approval.Kind) (approval.Verdict, error) {
	if err := a.only("decision", "rationale"); err != nil {
		return approval.Verdict{}, err
	}
	v, err := approval.ParseReviewDecision(json.RawMessage(a["decision"]), kind)
	if err != nil {
		return approval.Verdict{}, fmt.Errorf("decision is no review decision: %s", excerpt(a["decision"]))
	}
	rationale, err := text(a, "rationale")
	if err != nil {
		return approval.Verdict{}, err
	}
	v.Rationale = cmp.Or(rationale, v.Rationale)
	return v, nil
}

// only is an error if a has any other member.
func (a answer) only(names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown member %s; beside %s there may be %s", excerpt([]byte(name)), names[0], strings.Join(names[1:], ", "))
		}
	}
	return nil
}

// text is the member of that name, "" where there is none.
func text(a answer, name string) (string, error) {
	value, ok := a[name]
	if !ok {
		return "", nil
	}
	var s string
	if value.Kind() != '"' || jsonv2.Unmarshal(value, &s) != nil {
		return "", fmt.Errorf("%s is no text: %s", name, excerpt(value))
	}
	return s, nil
}

// word is the member of that name, "" where there is none, and an error if it is
// none of the words.
func word[T ~string](a answer, name string, words []T) (T, error) {
	if _, ok := a[name]; !ok {
		return "", nil
	}
	s, err := text(a, name)
	if err != nil {
		return "", err
	}
	if !slices.Contains(words, T(s)) {
		return "", fmt.Errorf("%s is %s, which is none of %s", name, excerpt([]byte(s)), strings.Trim(fmt.Sprint(words), "[]"))
	}
	return T(s), nil
}

// consistent takes back an allow that its own risk speaks against. The words are
// compared here because a model that was talked into one of them was most often not
// talked into all.
func consistent(v approval.Verdict) approval.Verdict {
	if v.Outcome != approval.VerdictAllow {
		v.Scope = ""
		return v
	}
	switch v.Risk {
	case "", approval.RiskLow, approval.RiskMedium:
		return v
	case approval.RiskHigh:
		if v.Authorization == approval.AuthorizationHigh {
			return v
		}
	}
	v.Outcome, v.Scope = approval.VerdictUnsure, ""
	said := fmt.Sprintf("the reviewer would allow this at risk_level %s with user_authorization %s, where a person has to decide",
		v.Risk, cmp.Or(v.Authorization, approval.AuthorizationUnknown))
	if v.Rationale != "" {
		said += "; it says: " + v.Rationale
	}
	v.Rationale = said
	return v
}

// excerpt quotes the start of what a program wrote.
func excerpt(b []byte) string {
	const limit = 100
	return strconv.Quote(firstCharacters(approval.RedactText(string(b)), limit))
}

// firstCharacters is the start of s, of limit characters at most.
func firstCharacters(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + ellipsis
}
