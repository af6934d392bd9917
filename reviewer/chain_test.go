//go:build linux || darwin

package reviewer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/reviewer"
)

// scripted is a reviewer that says what it was told to.
type scripted func(ctx context.Context, q reviewer.Question) approval.Verdict

func (s scripted) Review(ctx context.Context, q reviewer.Question) approval.Verdict { return s(ctx, q) }

// untimed leaves out how long members took.
var untimed = cmpopts.IgnoreFields(approval.Verdict{}, "DurationMS")

// chainOf opens a chain whose members, which are called m/0 and so on, are opened by
// others.
func chainOf(t testing.TB, more string, members int, others reviewer.Opener) reviewer.Reviewer {
	t.Helper()
	var names []string
	var entries strings.Builder
	for i := range members {
		names = append(names, fmt.Sprintf("m/%d", i))
		fmt.Fprintf(&entries, "  m/%d: {kind: rego, query: data.x}\n", i)
	}
	r, err := reviewer.OpenWith(load(t, fmt.Sprintf(
		"reviewers:\n  acme/all: {kind: chain, members: [%s], timeout_seconds: 60%s}\n%s", strings.Join(names, ", "), more, entries.String(),
	)), "acme/all", others)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// saying opens members that say these, by their names.
func saying(verdicts ...approval.Verdict) reviewer.Opener {
	return func(name string) (reviewer.Reviewer, error) {
		for i, v := range verdicts {
			if name == fmt.Sprintf("m/%d", i) {
				return scripted(func(context.Context, reviewer.Question) approval.Verdict { return v }), nil
			}
		}
		return nil, fmt.Errorf("nobody is called %s", name)
	}
}

// letters are outcomes by their first letters.
var letters = map[rune]approval.VerdictOutcome{
	'a': approval.VerdictAllow, 'd': approval.VerdictDeny, 'c': approval.VerdictCancel,
	'u': approval.VerdictUnsure, 't': approval.VerdictTimeout, 'e': approval.VerdictError,
}

func TestChainComesTo(t *testing.T) {
	for _, test := range []struct {
		name, decide, members string
		want                  rune
		asked                 int
	}{
		{"all allow", "all", "aaa", 'a', 3},
		{"all is the default", "", "aua", 'u', 3},
		{"one of all is unsure", "all", "aua", 'u', 3},
		{"one of all is late", "all", "ata", 't', 3},
		{"one of all is broken", "all", "eaa", 'e', 3},
		{"the first that did not answer says why", "all", "atu", 't', 3},
		{"a denial ends it", "all", "ada", 'd', 2},
		{"a denial is heard after one that is unsure", "all", "ud", 'd', 2},
		{"a cancel ends it", "all", "aca", 'c', 2},
		{"one that allows is enough for any", "any", "uea", 'a', 3},
		{"for any all are asked", "any", "aaa", 'a', 3},
		{"a denial after an allow denies any", "any", "ad", 'd', 2},
		{"none allows any", "any", "ut", 'u', 2},
		{"the first that allows settles first", "first", "aad", 'a', 1},
		{"the first that denies settles first", "first", "da", 'd', 1},
		{"those that do not answer are passed over by first", "first", "uteada", 'a', 4},
		{"a denial behind those too", "first", "utd", 'd', 3},
		{"nobody answers first", "first", "teu", 't', 3},
		{"a quorum is reached", "quorum, quorum: 2", "aua", 'a', 3},
		{"a quorum is not reached", "quorum, quorum: 2", "auu", 'u', 3},
		{"a denial outvotes a quorum", "quorum, quorum: 2", "aad", 'd', 3},
		{"what cannot be reached goes on, for a denial", "quorum, quorum: 3", "uud", 'd', 3},
		{"one member", "all", "a", 'a', 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var verdicts []approval.Verdict
			for _, letter := range test.members {
				verdicts = append(verdicts, approval.Verdict{Outcome: letters[letter]})
			}
			more := ""
			if test.decide != "" {
				more = ", decide: " + test.decide
			}
			got := chainOf(t, more, len(verdicts), saying(verdicts...)).Review(t.Context(), question(t, aCommand))
			if got.Outcome != letters[test.want] || len(got.Members) != test.asked || got.Reviewer != "acme/all" {
				t.Errorf("verdict = %+v; want %s after %d members", got, letters[test.want], test.asked)
			}
			for i, member := range got.Members {
				if member.Reviewer != fmt.Sprintf("m/%d", i) || member.Outcome != verdicts[i].Outcome {
					t.Errorf("member %d = %+v", i, member)
				}
			}
		})
	}
}

func TestChainKeepsWhatItsMembersSaid(t *testing.T) {
	members := []approval.Verdict{
		{
			Reviewer: "somebody else", Outcome: approval.VerdictAllow, Scope: permission.Session, Risk: "low", Authorization: "high", Rationale: "token=hunter2hunter2",
			Usage: &approval.Usage{Model: "small", InputTokens: 10, OutputTokens: 2, CostUSD: 0.25},
		},
		{Outcome: approval.VerdictAllow, Scope: permission.Turn, Risk: "high", Rationale: "fine"},
		{
			Outcome: approval.VerdictAllow, Scope: permission.Session, Risk: "medium", Authorization: "medium",
			Usage: &approval.Usage{Model: "large", InputTokens: 5, OutputTokens: 1, CostUSD: 0.5},
		},
	}
	got := chainOf(t, "", 3, saying(members...)).Review(t.Context(), question(t, aPermissions))
	for i := range members {
		members[i].Reviewer = fmt.Sprintf("m/%d", i)
	}
	members[0].Rationale = "token=[redacted]"
	want := approval.Verdict{
		Reviewer: "acme/all", Outcome: approval.VerdictAllow,
		// The shortest scope, the highest risk, the lowest authorization.
		Scope: permission.Turn, Risk: "high", Authorization: "medium",
		Rationale: "3 of 3 members allow, where 3 must; m/0: allow, token=[redacted]; m/1: allow, fine; m/2: allow",
		Usage:     &approval.Usage{InputTokens: 15, OutputTokens: 3, CostUSD: 0.75},
		Members:   members,
	}
	if diff := cmp.Diff(want, got, untimed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChainSaysHowItCameToIt(t *testing.T) {
	allow, unsure := approval.Verdict{Outcome: approval.VerdictAllow}, approval.Verdict{Outcome: approval.VerdictUnsure, Rationale: "who knows"}
	deny := approval.Verdict{Outcome: approval.VerdictDeny, Rationale: "no"}
	for _, test := range []struct {
		more    string
		members []approval.Verdict
		want    string
	}{
		{"", []approval.Verdict{allow, deny}, "m/1 denies; m/0: allow; m/1: deny, no"},
		{"", []approval.Verdict{allow, unsure}, "1 of 2 members allow, where 2 must; m/0: allow; m/1: unsure, who knows"},
		{", decide: any", []approval.Verdict{unsure, allow}, "1 of 2 members allow, where 1 must; m/0: unsure, who knows; m/1: allow"},
		{", decide: first", []approval.Verdict{unsure, allow}, "m/1 is the first to answer; m/0: unsure, who knows; m/1: allow"},
		{", decide: first", []approval.Verdict{unsure}, "none of its members answers; m/0: unsure, who knows"},
	} {
		got := chainOf(t, test.more, len(test.members), saying(test.members...)).Review(t.Context(), question(t, aCommand))
		if diff := cmp.Diff(test.want, got.Rationale); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	long := approval.Verdict{Outcome: approval.VerdictAllow, Rationale: strings.Repeat("é", reviewer.MaxRationale)}
	got := chainOf(t, "", 2, saying(long, deny)).Review(t.Context(), question(t, aCommand)).Rationale
	if utf8.RuneCountInString(got) > reviewer.MaxRationale || !strings.HasSuffix(got, "; m/1: deny, no") {
		t.Errorf("one that talks on and on leaves room for the others: %s", got)
	}
}

func TestChainTakesNothingFromAMemberThatIsBroken(t *testing.T) {
	for _, test := range []struct {
		name   string
		member approval.Verdict
		want   approval.VerdictOutcome
	}{
		{"no outcome", approval.Verdict{}, approval.VerdictError},
		{"an unknown outcome", approval.Verdict{Outcome: "Allow"}, approval.VerdictError},
		{"an unknown risk", approval.Verdict{Outcome: approval.VerdictAllow, Risk: "none"}, approval.VerdictError},
		{"an unknown authorization", approval.Verdict{Outcome: approval.VerdictAllow, Authorization: "full"}, approval.VerdictError},
		{"a denial with an unknown risk denies", approval.Verdict{Outcome: approval.VerdictDeny, Risk: "terrible"}, approval.VerdictDeny},
	} {
		for _, decide := range []string{"all", "any", "first", "quorum, quorum: 1"} {
			got := chainOf(t, ", decide: "+decide, 1, saying(test.member)).Review(t.Context(), question(t, aCommand))
			if got.Outcome != test.want || got.Risk != "" || got.Members[0].Outcome != test.want {
				t.Errorf("%s, %s: verdict = %+v", test.name, decide, got)
			}
		}
	}
	got := chainOf(t, "", 1, saying(approval.Verdict{Outcome: approval.VerdictAllow, Scope: "forever"})).Review(t.Context(), question(t, aCommand))
	if got.Outcome != approval.VerdictAllow || got.Scope != "" {
		t.Errorf("a scope that is none is the shortest: %+v", got)
	}
}

func TestChainAsksMembersOfEveryKind(t *testing.T) {
	p := provide(t, say("application/json", dialects[0].reply(whole)))
	command := quote(actor(t, "say")[0])
	c := load(t, fmt.Sprintf(`reviewers:
  acme/all: {kind: chain, members: [acme/inner, home/rules, acme/risk, acme/gone], decide: any, timeout_seconds: 60}
  acme/inner: {kind: chain, members: [acme/checks, acme/model]}
  acme/checks: {kind: command, command: [%s, play, say, '{"outcome":"allow"}'], timeout_seconds: 60}
  acme/model: {kind: model, provider: openai, model: m, base_url: "%s/v1"}
  home/rules: {kind: rego, query: data.x}
  acme/risk: {kind: plugin, plugin: acme}
  acme/gone: {kind: rego, query: data.y}
plugins: {acme: {command: [%s]}}
`, command, p.URL, command))
	var opened []string
	r, err := reviewer.OpenWith(c, "acme/all", func(name string) (reviewer.Reviewer, error) {
		opened = append(opened, name)
		if name == "acme/gone" {
			return nil, errors.New("no rule is called data.y")
		}
		return scripted(func(_ context.Context, q reviewer.Question) approval.Verdict {
			return approval.Verdict{Outcome: approval.VerdictUnsure, Rationale: q.ID}
		}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"home/rules", "acme/risk", "acme/gone"}, opened); diff != "" {
		t.Errorf("opened by somebody else (-want +got):\n%s", diff)
	}
	got := r.Review(t.Context(), question(t, aCommand))
	want := []approval.Verdict{
		{
			Reviewer: "acme/inner", Outcome: approval.VerdictAllow, Risk: "low", Authorization: "low", Usage: told(true),
			Rationale: "2 of 2 members allow, where 2 must; acme/checks: allow; acme/model: allow, a <push>",
			Members: []approval.Verdict{
				{Reviewer: "acme/checks", Outcome: approval.VerdictAllow},
				{Reviewer: "acme/model", Outcome: approval.VerdictAllow, Risk: "low", Authorization: "low", Rationale: "a <push>", Usage: told(true)},
			},
		},
		{Reviewer: "home/rules", Outcome: approval.VerdictUnsure, Rationale: "apr_1"},
		{Reviewer: "acme/risk", Outcome: approval.VerdictUnsure, Rationale: "apr_1"},
		{Reviewer: "acme/gone", Outcome: approval.VerdictError, Rationale: "no rule is called data.y"},
	}
	if diff := cmp.Diff(want, got.Members, untimed); diff != "" || got.Outcome != approval.VerdictAllow {
		t.Errorf("verdict %s (-want +got):\n%s", got.Outcome, diff)
	}
}

func TestChainEndsInTime(t *testing.T) {
	allow := scripted(func(context.Context, reviewer.Question) approval.Verdict {
		return approval.Verdict{Outcome: approval.VerdictAllow}
	})
	// Its context is over when the second member answers.
	late := func(t *testing.T, outcome approval.VerdictOutcome) (context.Context, reviewer.Opener) {
		ctx, cancel := context.WithCancelCause(t.Context())
		return ctx, func(name string) (reviewer.Reviewer, error) {
			if name != "m/1" {
				return allow, nil
			}
			return scripted(func(context.Context, reviewer.Question) approval.Verdict {
				cancel(errors.New("a person was faster"))
				return approval.Verdict{Outcome: outcome}
			}), nil
		}
	}
	const why = "the review was cancelled: a person was faster"
	t.Run("no member is asked after it", func(t *testing.T) {
		ctx, others := late(t, approval.VerdictAllow)
		got := chainOf(t, ", decide: any", 4, others).Review(ctx, question(t, aCommand))
		want := approval.Verdict{Reviewer: "acme/all", Outcome: approval.VerdictError, Rationale: why, Members: []approval.Verdict{
			{Reviewer: "m/0", Outcome: approval.VerdictAllow},
			{Reviewer: "m/1", Outcome: approval.VerdictAllow},
			{Reviewer: "m/2", Outcome: approval.VerdictError, Rationale: why},
		}}
		if diff := cmp.Diff(want, got, untimed); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("what the last allows at the last moment is not allowed", func(t *testing.T) {
		ctx, others := late(t, approval.VerdictAllow)
		if got := chainOf(t, "", 2, others).Review(ctx, question(t, aCommand)); got.Outcome != approval.VerdictError || len(got.Members) != 2 {
			t.Errorf("verdict = %+v", got)
		}
	})
	t.Run("a denial stands", func(t *testing.T) {
		ctx, others := late(t, approval.VerdictDeny)
		if got := chainOf(t, "", 2, others).Review(ctx, question(t, aCommand)); got.Outcome != approval.VerdictDeny {
			t.Errorf("verdict = %+v", got)
		}
	})
	t.Run("its own time", func(t *testing.T) {
		waits := func(string) (reviewer.Reviewer, error) {
			return scripted(func(ctx context.Context, _ reviewer.Question) approval.Verdict {
				<-ctx.Done()
				return approval.Verdict{Outcome: approval.VerdictTimeout}
			}), nil
		}
		r, err := reviewer.OpenWith(load(t, "reviewers:\n  acme/all: {kind: chain, members: [m/0], timeout_seconds: 1}\n  m/0: {kind: rego, query: data.x}\n"), "acme/all", waits)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Review(t.Context(), question(t, aCommand))
		if got.Outcome != approval.VerdictTimeout || got.Rationale != "the review took too long: no answer within 1s" {
			t.Errorf("verdict = %+v", got)
		}
	})
	t.Run("how long each took is kept", func(t *testing.T) {
		tick := func(string) (reviewer.Reviewer, error) {
			return scripted(func(ctx context.Context, _ reviewer.Question) approval.Verdict {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
				<-ctx.Done()
				return approval.Verdict{Outcome: approval.VerdictAllow}
			}), nil
		}
		if got := chainOf(t, "", 1, tick).Review(t.Context(), question(t, aCommand)); got.Members[0].DurationMS < 4 {
			t.Errorf("member = %+v", got.Members[0])
		}
	})
}

func TestOpenRefusesAChainThatLeadsBack(t *testing.T) {
	c := config.Default("")
	c.Reviewers = map[string]config.Reviewer{
		"a/a": {Kind: config.ReviewerChain, Members: []string{"a/b"}, TimeoutSeconds: 60},
		"a/b": {Kind: config.ReviewerChain, Members: []string{"a/a"}, TimeoutSeconds: 60},
		"a/c": {Kind: config.ReviewerChain, Decide: "most", Members: []string{"a/b"}},
		"a/d": {Kind: config.ReviewerChain, Decide: config.ChainQuorum, Members: []string{"a/b"}},
		"a/e": {Kind: config.ReviewerChain, TimeoutSeconds: 60},
	}
	r, err := reviewer.Open(c, "a/a")
	if err != nil {
		t.Fatal(err)
	}
	got := r.Review(t.Context(), question(t, aCommand))
	if got.Outcome != approval.VerdictError || !strings.Contains(got.Rationale, "lead back to the chain itself") {
		t.Errorf("verdict = %+v", got)
	}
	for name, want := range map[string]string{"a/c": `"most" is not known`, "a/d": "a quorum needs a number"} {
		if r, err := reviewer.Open(c, name); err == nil || r != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s) = %v, %v; want an error with %s", name, r, err, want)
		}
	}
	if r, err = reviewer.Open(c, "a/e"); err != nil {
		t.Fatal(err)
	}
	if got := r.Review(t.Context(), question(t, aCommand)); got.Outcome != approval.VerdictUnsure {
		t.Errorf("a chain of nobody: verdict = %+v", got)
	}
}

// Whatever members say: a chain allows only with the allows that its rule wants and
// without a denial among those that were asked, and denies only where one does.
func TestChainLaws(t *testing.T) {
	outcomes := []approval.VerdictOutcome{"allow", "deny", "cancel", "unsure", "timeout", "error", ""}
	rapid.Check(t, func(rt *rapid.T) {
		members := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) approval.Verdict {
			return approval.Verdict{
				Outcome:       rapid.SampledFrom(outcomes).Draw(t, "outcome"),
				Risk:          rapid.SampledFrom([]approval.Risk{"", "low", "medium", "high", "critical"}).Draw(t, "risk"),
				Authorization: rapid.SampledFrom([]approval.Authorization{"", "unknown", "low", "medium", "high"}).Draw(t, "authorization"),
				Scope:         rapid.SampledFrom([]permission.Scope{"", permission.Once, permission.Turn, permission.Session}).Draw(t, "scope"),
			}
		}), 1, 6).Draw(rt, "members")
		quorum := rapid.IntRange(1, len(members)).Draw(rt, "quorum")
		decide := rapid.SampledFrom([]config.ChainRule{config.ChainAll, config.ChainAny, config.ChainFirst, config.ChainQuorum}).Draw(rt, "decide")
		c := config.Default("")
		ch := config.Reviewer{Kind: config.ReviewerChain, Decide: decide, Quorum: quorum, TimeoutSeconds: 60}
		c.Reviewers = map[string]config.Reviewer{}
		for i := range members {
			name := fmt.Sprintf("m/%d", i)
			c.Reviewers[name], ch.Members = config.Reviewer{Kind: config.ReviewerRego}, append(ch.Members, name)
		}
		c.Reviewers["acme/all"] = ch
		r, err := reviewer.OpenWith(c, "acme/all", saying(members...))
		if err != nil {
			rt.Fatal(err)
		}
		got := r.Review(context.Background(), reviewer.Question{})
		var allows, refusals int
		for _, m := range got.Members {
			if m.Outcome == approval.VerdictAllow {
				allows++
			}
			if m.Refuses() {
				refusals++
			}
		}
		needed := map[config.ChainRule]int{config.ChainAll: len(members), config.ChainAny: 1, config.ChainFirst: 1, config.ChainQuorum: quorum}[decide]
		if (got.Outcome == approval.VerdictAllow) != (refusals == 0 && allows >= needed) || got.Refuses() != (refusals > 0) {
			rt.Fatalf("%s of %+v came to %+v", decide, members, got)
		}
		if decide != config.ChainFirst && refusals == 0 && len(got.Members) != len(members) {
			rt.Fatalf("%s of %d members asked %d", decide, len(members), len(got.Members))
		}
		if got.Outcome != approval.VerdictAllow && got.Scope != "" {
			rt.Fatalf("%+v has a scope", got)
		}
	})
}
