package cases

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// want is what must become of a request. A part that is nil is not looked at.
//
// Of a case with verdicts rules, observed, reasons and failure are those of what the
// verdicts come to, and the others those of the ruling that asked for them.
type want struct {
	route                    string
	verdict                  string
	by                       *string
	effects, rules, observed []string
	reasons                  []string
	reviewers, context       []string
	external, readOnly       *bool
	failure                  string
	limited                  bool // ceiling is given, and may say none
	ceiling                  *permission.Ceiling
}

func (w *want) read(n *yaml.Node) []*fault {
	list := func(of string, into *[]string) func(*yaml.Node) *fault {
		return func(n *yaml.Node) *fault { return texts(n, of, into) }
	}
	yes := func(of string, into **bool) func(*yaml.Node) *fault {
		return func(n *yaml.Node) *fault {
			*into = new(bool)
			return flag(n, of, *into)
		}
	}
	faults := fields(n, "want", map[string]func(*yaml.Node) *fault{
		"route":    func(n *yaml.Node) *fault { return word(n, "route", &w.route, "skip", "allow", "deny", "review", "ask") },
		"verdict":  func(n *yaml.Node) *fault { return word(n, "verdict", &w.verdict, "allow", "deny", "cancel", "ask") },
		"by":       func(n *yaml.Node) *fault { w.by = new(string); return text(n, "by", w.by) },
		"effects":  func(n *yaml.Node) *fault { return readEffects(n, &w.effects) },
		"external": yes("external", &w.external), "read_only": yes("read_only", &w.readOnly),
		"rules": list("rules", &w.rules), "observed": list("observed", &w.observed),
		"reasons_contain": list("reasons_contain", &w.reasons),
		"reviewers":       list("reviewers", &w.reviewers), "context": list("context", &w.context),
		"failure": func(n *yaml.Node) *fault {
			return word(n, "failure", &w.failure, "deadline", "evaluation", "conflict", "undefined", "output")
		},
		"ceiling": func(n *yaml.Node) *fault { return w.readCeiling(n) },
	})
	if n.Kind != yaml.MappingNode || len(faults) > 0 {
		return faults
	}
	switch {
	case w.by != nil && w.verdict == "":
		faults = append(faults, faultf(n, "by is who settles a verdict, and want has none"))
	case w.route == "" && w.verdict == "":
		faults = append(faults, faultf(n, "want has no route"))
	case w.route == "":
		w.route = string(approval.RouteReview) // or there would be no verdicts
	case w.verdict != "" && w.route != string(approval.RouteReview):
		f := faultf(n, "verdicts are asked for where the route is review")
		f.hint = "leave route out beside verdict"
		faults = append(faults, f)
	}
	return faults
}

func readEffects(n *yaml.Node, into *[]string) *fault {
	if f := texts(n, "effects", into); f != nil {
		return f
	}
	if len(*into) == 0 {
		return faultf(n, "effects is empty, and a call always has one")
	}
	var e string
	for _, item := range n.Content {
		if f := word(item, "an effect", &e, "read", "write", "process", "network", "unknown"); f != nil {
			return f
		}
	}
	return nil
}

// readCeiling reads a ceiling as rules write it: a profile, and a scope beside
// its parts. null says that there is none.
func (w *want) readCeiling(n *yaml.Node) *fault {
	w.limited = true
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f := faultf(n, "ceiling must be a profile")
		f.hint = "null says that there is no ceiling"
		return f
	}
	unlimited := permission.Unlimited()
	w.ceiling = &unlimited
	profile := *n
	profile.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "scope" {
			profile.Content = append(profile.Content, n.Content[i:i+2]...)
			continue
		}
		var scope string
		if f := word(n.Content[i+1], "scope", &scope, "once", "turn", "session"); f != nil {
			return f
		}
		w.ceiling.Scope = permission.Scope(scope)
	}
	if len(profile.Content) == 0 {
		return nil
	}
	raw, f := jsonOf(&profile, nil)
	if f != nil {
		return f
	}
	var limit permission.Profile
	if err := json.Unmarshal(raw, &limit); err != nil {
		return faultf(n, "ceiling: %v", err)
	}
	w.ceiling.Permissions = limit
	return nil
}

// compare lists where a ruling is not what was wanted, a line each; said is what the
// verdicts come to, nil for a case without any.
func (w *want) compare(got *approval.Ruling, said *approval.VerdictRuling, r *approval.Request) []string {
	var lines []string
	rules, observed, reasons, failure := got.Rules, got.Observed, got.Reasons, got.Failure
	if said != nil {
		rules, observed, reasons, failure = said.Rules, said.Observed, said.Reasons, said.Failure
	}
	differ := func(of string, want, got any) {
		lines = append(lines, fmt.Sprintf("%s: want %v, got %v", of, want, got))
	}
	if w.route != string(got.Route) {
		differ("route", w.route, got.Route)
	}
	set := func(of string, want, got []string) {
		if want == nil || slices.Equal(sorted(want), sorted(got)) {
			return
		}
		differ(of, shown(sorted(want)), shown(sorted(got)))
	}
	effects := make([]string, len(got.Effects))
	for i, e := range got.Effects {
		effects[i] = string(e)
	}
	set("effects", w.effects, effects)
	if w.external != nil && *w.external != got.External {
		differ("external", *w.external, got.External)
	}
	if w.readOnly != nil && *w.readOnly != got.ReadOnly {
		differ("read_only", *w.readOnly, got.ReadOnly)
	}
	if said != nil {
		if w.verdict != string(said.Decision) {
			differ("verdict", w.verdict, said.Decision)
		}
		if by := cmp.Or(said.By, said.Rule); w.by != nil && *w.by != by {
			differ("by", quotedText(*w.by), quotedText(by))
		}
	}
	set("rules", w.rules, ids(rules))
	set("observed", w.observed, ids(observed))
	set("context", w.context, got.Context)
	for _, part := range w.reasons {
		if !slices.ContainsFunc(reasons, func(r string) bool { return strings.Contains(r, part) }) {
			differ("reasons_contain", quotedText(part), shown(reasons))
		}
	}
	if w.reviewers != nil && !slices.Equal(w.reviewers, got.Reviewers) {
		differ("reviewers", shown(w.reviewers), shown(got.Reviewers))
	}
	if line := w.compareCeiling(got, r); line != "" {
		lines = append(lines, line)
	}
	return append(lines, w.compareFailure(failure)...)
}

// compareFailure: a ruling that policy could not give asks a person, and would
// pass for a rule that asks. So a failure that no one expects is one of the case.
func (w *want) compareFailure(got *approval.Failure) []string {
	kind := "none"
	if got != nil {
		kind = fmt.Sprintf("%s (%s)", got.Kind, got.Message)
		if got.Kind == w.failure {
			return nil
		}
	} else if w.failure == "" {
		return nil
	}
	wanted := w.failure
	if wanted == "" {
		wanted = "none"
	}
	return []string{fmt.Sprintf("failure: want %s, got %s", wanted, kind)}
}

func (w *want) compareCeiling(got *approval.Ruling, r *approval.Request) string {
	if !w.limited {
		return ""
	}
	wanted := w.ceiling
	if wanted != nil {
		env := permission.Environment{}
		if r.Environment != nil {
			env = rego.Environment(*r.Environment)
		}
		profile, _, err := permission.Normalise(wanted.Permissions, permission.SideCeiling, env, nil)
		if err != nil {
			return fmt.Sprintf("ceiling: %v", err)
		}
		wanted = &permission.Ceiling{Permissions: profile, Scope: wanted.Scope}
	}
	a, b := ceilingText(wanted), ceilingText(got.Ceiling)
	if a == b {
		return ""
	}
	return fmt.Sprintf("ceiling: want %s, got %s", a, b)
}

func ceilingText(c *permission.Ceiling) string {
	if c == nil {
		return "none"
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func ids(matches []approval.Match) []string {
	var out []string
	for _, m := range matches {
		if !slices.Contains(out, m.ID) {
			out = append(out, m.ID)
		}
	}
	return out
}

func sorted(v []string) []string {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}

// shown is a list as YAML writes it in one line.
func shown(v []string) string {
	parts := make([]string, len(v))
	for i, s := range v {
		parts[i] = quotedText(s)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// quotedText quotes what would not be read as one word.
func quotedText(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n\"'[]{},:#") {
		return s
	}
	return string(quoted(s))
}
