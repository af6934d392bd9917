package policies_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// The layers and what their rules can say. Each pair is a rule that fires when
// the request's reason names it, so that one engine shows every combination.
var (
	layerNames = []rego.LayerName{rego.Organization, rego.Home, rego.Workspace}
	decisions  = []string{"deny", "ask", "review", "allow"}
)

func ruleID(layer rego.LayerName, decision string) string {
	return strings.ToUpper(string(layer) + "-" + decision)
}

// layersOf writes one file of rules for each layer.
func layersOf(t *testing.T, mode string) []rego.Layer {
	t.Helper()
	var layers []rego.Layer
	for _, name := range layerNames {
		var b strings.Builder
		fmt.Fprintf(&b, "package %s.matrix\n\n", strings.TrimPrefix(name.RulesRoot().String(), "data."))
		for _, d := range decisions {
			id := ruleID(name, d)
			value := fmt.Sprintf("%q", id)
			if d == "review" {
				value = fmt.Sprintf(`{"message": %q, "reviewers": ["acme/%s"]}`, id, name)
			}
			fmt.Fprintf(&b, "# METADATA\n# custom: {id: %s, mode: %s}\n%s contains %s if contains(input.request.reason, %q)\n\n", id, mode, d, value, "<"+id+">")
		}
		dir := folder(t, map[string]string{"rules.rego": b.String()})
		layers = append(layers, rego.Layer{Name: name, Dir: dir, Paths: []string{dir}})
	}
	return layers
}

// fired is the reference model: what a set of rules amounts to where the default
// is to ask.
func fired(ids []string, trusted bool) (approval.Route, []string) {
	var counted []string
	for _, d := range decisions {
		for _, l := range layerNames {
			id := ruleID(l, d)
			if slices.Contains(ids, id) && (trusted || l != rego.Workspace || d != "allow") {
				counted = append(counted, id)
			}
		}
	}
	if len(counted) == 0 {
		return approval.RouteAsk, nil
	}
	_, decision, _ := strings.Cut(strings.ToLower(counted[0]), "-")
	if counted[0] == ruleID(rego.Workspace, "review") && !trusted && len(counted) == 1 {
		decision = "ask" // which it takes from nobody
	}
	return approval.Route(decision), counted
}

// subsets are the sets of at most n of the ids.
func subsets(ids []string, n int) [][]string {
	sets := [][]string{{}}
	for i, id := range ids {
		if n == 0 {
			break
		}
		for _, rest := range subsets(ids[i+1:], n-1) {
			sets = append(sets, append([]string{id}, rest...))
		}
	}
	return sets
}

func TestPrecedenceOfRulesAndLayers(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, l := range layerNames {
		for _, d := range decisions {
			ids = append(ids, ruleID(l, d))
		}
	}
	for _, trusted := range []bool{true, false} {
		t.Run(fmt.Sprintf("trusted %v", trusted), func(t *testing.T) {
			t.Parallel()
			src := rego.Source{Settings: settings(), Layers: layersOf(t, "enforce")}
			src.Settings.Reviewers = map[string]bool{"acme/organization": true, "acme/home": true, "acme/workspace": true}
			src.Settings.Reviewer = "acme/home"
			src.Layers[2].Untrusted = !trusted
			p := load(t, src)
			sets := subsets(ids, 3)
			if len(sets) != 1+12+66+220 {
				t.Fatalf("%d sets", len(sets))
			}
			for _, set := range sets {
				r := bash("touch x", "")
				r.Reason = "<" + strings.Join(set, "> <") + ">"
				got := rule(t, p, r)
				route, counted := fired(set, trusted)
				var by []string
				for _, m := range got.Rules {
					by = append(by, m.ID)
				}
				slices.Sort(by)
				slices.Sort(counted)
				if got.Route != route || !slices.Equal(by, counted) {
					t.Errorf("%v: route %s by %v, want %s by %v", set, got.Route, by, route, counted)
				}
			}
		})
	}
}

func TestSkippingNeverOutrunsARule(t *testing.T) {
	t.Parallel()
	src := rego.Source{Settings: settings(), Layers: layersOf(t, "enforce")}
	src.Settings.ReadOnlyCommands = "skip"
	src.Settings.Reviewers = map[string]bool{"acme/workspace": true}
	p := load(t, src)
	read := `{"kind": "tool", "tool": {"name": "read_file", "arguments": {"path": "x"}}, "environment": {"cwd": "/w"}, "reason": %q}`
	for _, tt := range []struct {
		ids  []string
		want approval.Route
	}{
		{nil, approval.RouteSkip},
		{[]string{"WORKSPACE-DENY"}, approval.RouteDeny},
		{[]string{"WORKSPACE-ASK"}, approval.RouteAsk},
		{[]string{"WORKSPACE-REVIEW"}, approval.RouteReview},
		{[]string{"WORKSPACE-ALLOW"}, approval.RouteAllow},
		{[]string{"HOME-ALLOW", "ORGANIZATION-ASK"}, approval.RouteAsk},
	} {
		reason := "<" + strings.Join(tt.ids, "> <") + ">"
		command := bash("ls src", "")
		command.Reason = reason
		for name, r := range map[string]*approval.Request{"a tool that reads": request(t, fmt.Sprintf(read, reason)), "a command that reads": command} {
			if got := rule(t, p, r); got.Route != tt.want {
				t.Errorf("%s with %v: route %s, want %s", name, tt.ids, got.Route, tt.want)
			}
		}
	}
}

func TestRulesThatOnlyWatchChangeNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"shadow", "warn"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := load(t, rego.Source{Settings: settings(), Layers: layersOf(t, mode)})
			quiet := rule(t, p, bash("touch x", ""))
			r := bash("touch x", "")
			var ids []string
			for _, l := range layerNames {
				for _, d := range decisions {
					ids = append(ids, ruleID(l, d))
					r.Reason += "<" + ruleID(l, d) + ">"
				}
			}
			got := rule(t, p, r)
			var observed []string
			for _, m := range got.Observed {
				if m.Mode != mode {
					t.Errorf("%s is in mode %s", m.ID, m.Mode)
				}
				observed = append(observed, m.ID)
			}
			slices.Sort(observed)
			slices.Sort(ids)
			if diff := cmp.Diff(ids, observed); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
			got.Observed, quiet.Observed = nil, nil
			if diff := cmp.Diff(quiet, got); diff != "" {
				t.Errorf("the ruling changed (-without +with):\n%s", diff)
			}
		})
	}
}

func TestALayerWritesOnlyBelowItsRoot(t *testing.T) {
	t.Parallel()
	for _, own := range layerNames {
		for _, pkg := range []string{"regent", "regent.layers", "regent.lib.command", "org.rules.x", "home.rules.x", "rules.x", "other"} {
			dir := folder(t, map[string]string{"a.rego": "package " + pkg + "\n\nallow contains \"x\" if true\n"})
			src := rego.Source{Settings: settings(), Layers: []rego.Layer{{Name: own, Dir: dir, Paths: []string{dir}}}}
			_, err := rego.Load(t.Context(), src)
			root := strings.TrimPrefix(own.RulesRoot().String(), "data.")
			if inside := strings.HasPrefix(pkg, root+"."); inside != (err == nil) {
				t.Errorf("package %s in the %s layer: %v", pkg, own, err)
			}
		}
	}
}

func TestAReviewerThatIsNotConfiguredAsks(t *testing.T) {
	t.Parallel()
	src := rego.Source{Settings: settings(), Layers: layersOf(t, "enforce")}
	src.Settings.Reviewers = map[string]bool{"acme/home": true}
	p := load(t, src)
	r := bash("touch x", "")
	r.Reason = "<HOME-REVIEW>"
	if got := rule(t, p, r); got.Route != approval.RouteReview || !slices.Equal(got.Reviewers, []string{"acme/home"}) {
		t.Errorf("route %s to %v, want review by acme/home", got.Route, got.Reviewers)
	}
	// One of the two opinions cannot be had, so a person is asked.
	r.Reason = "<HOME-REVIEW> <WORKSPACE-REVIEW>"
	if got := rule(t, p, r); got.Route != approval.RouteAsk {
		t.Errorf("route %s, want ask where a reviewer is missing", got.Route)
	}
}

func TestHiddenFilesAreNoRules(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		".draft.rego":      "package rules.draft\n\nallow contains \"x\" if true\n",
		".git/hooks.rego":  "package rules.hooks\n\nallow contains \"x\" if true\n",
		"nested/deny.rego": "package rules.nested\n\ndeny contains \"x\" if input.request.reason == \"deny\"\n",
	})
	p := load(t, rego.Source{Settings: settings(), Layers: []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{dir}}}})
	if got := rule(t, p, bash("touch x", "")); got.Route != approval.RouteAsk {
		t.Errorf("route %s by %v, want ask: hidden files are not loaded", got.Route, got.Rules)
	}
	r := bash("touch x", "")
	r.Reason = "deny"
	if got := rule(t, p, r); got.Route != approval.RouteDeny || got.Rules[0].File != filepath.Join("nested", "deny.rego") {
		t.Errorf("route %s by %v, want deny by nested/deny.rego", got.Route, got.Rules)
	}
}
