package gate_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

// What a model is told makes it judge as it does, wherever that stands and whoever
// pays: the record names it, and another text is another epoch.
func TestReviewersAreNamedWithWhatTheyAreTold(t *testing.T) {
	settings := func(more string) string {
		return "permissions: {mode: model_review}\nreviewers:\n  default/reviewer: {kind: model, provider: openai, model: m, api_key_env: REGENT_TEST_NO_KEY" + more + "}\n"
	}
	b := open(t, epoch(t, settings(""), noRm))
	done := b.ask(t.Context(), command("make"))
	named := map[string]string{"": b.pending().Reviewers[0].Fingerprint}
	// A comment makes an epoch of its own of what is otherwise the same.
	for _, more := range []string{
		", guidance: be strict", ", guidance_file: strict.md", ", guidance_file: mild.md", ", guidance: be mild",
		", price: {input_per_million_usd: 1, output_per_million_usd: 2}",
	} {
		home := files(t, map[string]string{
			"config.yaml":       "version: 1\npolicy: {evaluation_timeout_ms: 10000}\n" + settings(more),
			"policies/one.rego": "package home.rules.one\n\nimport rego.v1\n" + noRm + "\n#" + more + "\n",
			"strict.md":         "be strict",
			"mild.md":           "be mild",
		})
		next, err := gate.Load(t.Context(), gate.Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		b.workspace.Install(gate.Standing{Epoch: next})
		named[more] = b.until("rerouted", func(r approval.Record) bool { return r.Ruling.Epoch == next.ID }).Reviewers[0].Fingerprint
	}
	for one, other := range map[string]string{
		", guidance: be strict": ", guidance_file: strict.md",
		", guidance: be mild":   ", guidance_file: mild.md",
		"":                      ", price: {input_per_million_usd: 1, output_per_million_usd: 2}",
	} {
		if named[one] != named[other] || len(named[one]) != 64 {
			t.Errorf("%q is named %s, and %q %s", one, named[one], other, named[other])
		}
	}
	if named[""] == named[", guidance: be strict"] || named[", guidance: be mild"] == named[", guidance: be strict"] {
		t.Errorf("other guidance, and the same name: %v", named)
	}
	if _, err := b.Answer(t.Context(), reply(b.until("asked", func(r approval.Record) bool { return r.Ruling.Route == approval.RouteAsk }), deny)); err != nil {
		t.Fatal(err)
	}
	<-done
}

func TestAnEpochIsAnotherWithOtherGuidance(t *testing.T) {
	home := files(t, map[string]string{
		"config.yaml": "version: 1\nreviewers: {acme/model: {kind: model, provider: openai, model: m, guidance_file: g.md}}\n",
		"g.md":        "be strict",
	})
	id := func() string {
		e, err := gate.Load(t.Context(), gate.Options{Home: home})
		if err != nil {
			t.Fatal(err)
		}
		return e.ID
	}
	first := id()
	if again := id(); again != first {
		t.Error("the same text makes another epoch")
	}
	if err := os.WriteFile(filepath.Join(home, "g.md"), []byte("be mild"), 0o600); err != nil {
		t.Fatal(err)
	}
	if id() == first {
		t.Error("another text makes no other epoch")
	}
}

func TestGuidanceIsGuardedLikeRules(t *testing.T) {
	home := files(t, map[string]string{
		"config.yaml": "version: 1\nreviewers: {acme/model: {kind: model, provider: openai, model: m, guidance_file: g.md, ca_file: ca.pem}}\n",
		"g.md":        "be strict",
		"ca.pem":      "",
	})
	s, err := gate.Read(gate.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"g.md", "ca.pem"} {
		if !slices.Contains(s.Source.Protected, filepath.Join(home, name)) {
			t.Errorf("%s is not protected; protected are %v", name, s.Source.Protected)
		}
	}
}

func TestReloadGuidance(t *testing.T) {
	h := keep(t, map[string]string{
		"config.yaml": "version: 1\n" + slow + "reviewers: {acme/model: {kind: model, provider: openai, model: m, guidance_file: g.md}}\n",
		"g.md":        "be strict",
	})
	told := func() string {
		return h.Of(h.Context(), in("/", "make")).Standing().Epoch.Config.Reviewers["acme/model"].Guidance
	}
	if got := told(); got != "be strict" {
		t.Fatalf("guidance is %q", got)
	}
	h.replace("g.md", "be mild")
	h.until("guidance is read again", func() bool { return told() == "be mild" })
}
