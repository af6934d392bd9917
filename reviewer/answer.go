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

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// MaxRationale is how much of a reviewer's rationale is kept, in characters.
const MaxRationale = 2000

// signed is a verdict as it leaves a reviewer.
func signed(v approval.Verdict, name string) approval.Verdict {
	v.Reviewer = name
	v.Rationale = approval.FirstCharacters(approval.RedactText(v.Rationale), MaxRationale)
	return v
}

// ended is the verdict of a reviewer whose context is over, whatever it said at
// the last moment; false while it is not.
func ended(ctx context.Context) (approval.Verdict, bool) {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return approval.Verdict{Outcome: approval.VerdictTimeout, Rationale: "the review took too long: " + context.Cause(ctx).Error()}, true
	case ctx.Err() != nil:
		return broken(fmt.Errorf("the review was cancelled: %w", context.Cause(ctx))), true
	default:
		return approval.Verdict{}, false
	}
}

// broken is the verdict of a reviewer that gave none.
func broken(err error) approval.Verdict {
	return approval.Verdict{Outcome: approval.VerdictError, Rationale: err.Error()}
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
	a, err := read(output)
	if err != nil {
		return approval.Verdict{}, err
	}
	if _, ok := a["decision"]; ok {
		return a.decision(kind)
	}
	return a.outcome()
}

// parseWhole is parse for a reviewer that was told to leave nothing out: its answer
// is the form with outcome, and has a rationale and both levels too.
func parseWhole(output []byte) (approval.Verdict, error) {
	a, err := read(output)
	if err != nil {
		return approval.Verdict{}, err
	}
	v, err := a.outcome()
	if err != nil {
		return approval.Verdict{}, err
	}
	for _, name := range []string{"risk_level", "user_authorization", "rationale"} {
		if _, ok := a[name]; !ok {
			return approval.Verdict{}, errors.New(name + " is missing")
		}
	}
	return v, nil
}

func read(output []byte) (a answer, err error) {
	if len(bytes.TrimSpace(output)) == 0 {
		return nil, errors.New("there is none")
	}
	if err := jsonv2.Unmarshal(output, &a); err != nil || a == nil {
		return nil, fmt.Errorf("not one JSON object: %s", excerpt(output))
	}
	return a, nil
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
		// How much authorization is enough is for policy; none at all never is.
		if v.Authorization != "" && v.Authorization != approval.AuthorizationUnknown {
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
	return strconv.Quote(approval.FirstCharacters(approval.RedactText(string(b)), limit))
}
