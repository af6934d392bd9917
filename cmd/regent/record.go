package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
)

// sheet is a text of named lines that leaves nothing out: whoever decides by it
// has to see all of it. Each text is fit for a terminal.
type sheet struct{ lines []string }

const sheetLabels = 11

// maxHead is how much of what is asked the first line has. All of it is below.
const maxHead = 60

// add puts texts below a name, each line of them on its own. Where a text has
// several lines, those after the first are further in, so that none of them can
// be taken for a named one.
func (s *sheet) add(name string, texts ...string) {
	for _, text := range texts {
		for i, part := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
			if i > 0 {
				part = "  " + part
			}
			s.lines = append(s.lines, fmt.Sprintf("%-*s %s", sheetLabels, name, printable(part)))
			name = ""
		}
	}
}

// maybe is add for a text that may be empty.
func (s *sheet) maybe(name, text string) {
	if text != "" {
		s.add(name, text)
	}
}

// recordSheet is a record in full, as of an instant. keyed shows the keys of the
// live view with the options.
func recordSheet(r *approval.Record, now time.Time, keyed bool) []string {
	s := &sheet{}
	s.lines = append(s.lines, strings.ToUpper(string(r.State))+"  "+cut(recordLine(r), maxHead))
	s.add("id", fmt.Sprintf("%s  revision %d", r.ID, r.Revision))
	s.action(r.Request)
	if r.Request.Reason != "" {
		s.add("says", "(the agent's own words) "+r.Request.Reason)
	}
	if r.Request.Escalated {
		s.add("", "asks to run outside the sandbox")
	}
	if root := r.Request.GrantRoot; root != "" {
		s.add("", "an answer that allows opens "+root+" for all later writes")
	}
	if p := r.Request.Permissions; p != nil {
		s.add("asks for", profileLines(*p)...)
	}
	s.add("runs", operandTexts(r.Operands)...)
	s.maybe("where", whereText(r))
	s.maybe("who", whoText(r.Request))
	if len(r.Masked) > 0 {
		s.add("masked", "secrets in "+strings.Join(r.Masked, ", "))
	}
	s.ruling(&r.Ruling)
	s.add("asked", stamp(r.Created))
	s.options(r, keyed)
	s.ending(r, now)
	return s.lines
}

// recordLine says in a few words what a record asks.
func recordLine(r *approval.Record) string {
	if r.Request == nil {
		return "of unknown content"
	}
	return describe(r.Request)
}

// action is what would run, in full.
func (s *sheet) action(r *approval.Request) {
	if r.Command != nil {
		name := "command"
		if r.Command.Shell != "" {
			name = r.Command.Shell
		}
		s.add(name, r.Command.Line())
	}
	if t := r.Tool; t != nil {
		name := t.Name
		if t.Server != "" {
			name = t.Server + " " + name
		}
		s.add("tool", name)
		if len(t.Arguments) > 0 {
			s.add("arguments", indentedJSON(t.Arguments))
		}
		if t.Description != "" {
			s.add("described", "(the server's own words) "+t.Description)
		}
	}
	if r.Network != nil {
		s.add("network", networkText(r.Network))
	}
	if r.Kind == approval.KindFileChange && len(r.Changes) == 0 {
		s.add("changes", "the content is not known")
	}
	for _, c := range r.Changes {
		text := c.Operation + " " + c.Path
		if c.MovePath != "" {
			text += " to " + c.MovePath
		}
		s.add("change", text)
		if c.Diff != "" {
			for line := range strings.SplitSeq(strings.TrimRight(c.Diff, "\n"), "\n") {
				s.add("", "  "+line)
			}
		}
	}
}

func indentedJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return string(raw) // as it came; it is only shown
	}
	return b.String()
}

// profileLines are permissions, an entry a line.
func profileLines(p permission.Profile) []string {
	var lines []string
	switch {
	case p.Network.All:
		lines = append(lines, "network  all of it")
	case len(p.Network.Hosts) > 0:
		lines = append(lines, "network  "+strings.Join(p.Network.Hosts, ", "))
	}
	for _, e := range p.FileSystem.Entries {
		lines = append(lines, e.String())
	}
	if len(lines) == 0 {
		lines = append(lines, "nothing")
	}
	return lines
}

// grantedLines is what an answer granted, an entry a line; an answer that does
// not allow grants nothing, whatever was worked out for it.
func grantedLines(outcome approval.Outcome, g *permission.Settlement) []string {
	if outcome != approval.OutcomeAllow {
		return nil
	}
	lines := append([]string{scopeText(g.Scope)}, profileLines(g.Permissions)...)
	if g.StrictAutoReview {
		lines = append(lines, "and every later call of the turn is reviewed")
	}
	return lines
}

// scopeText says how long something holds.
func scopeText(s permission.Scope) string {
	if s == permission.Once {
		return "once"
	}
	return "for the " + string(s)
}

// operandTexts are the files that an action runs, as they were when it was asked
// about.
func operandTexts(operands []approval.Operand) []string {
	texts := make([]string, len(operands))
	for i, o := range operands {
		texts[i] = o.Path + "  sha256 " + o.SHA256
		if o.SHA256 == "" {
			texts[i] = o.Path + "  " + cmp.Or(o.Problem, "of unknown content")
		}
	}
	return texts
}

// verdictTexts are what reviewers said, each with the start of its reasons.
func verdictTexts(verdicts []approval.Verdict) []string {
	texts := make([]string, len(verdicts))
	for i, v := range verdicts {
		text := v.Reviewer + ": " + string(v.Outcome)
		if v.Scope != "" {
			text += " " + scopeText(v.Scope)
		}
		if v.Risk != "" {
			text += ", risk " + string(v.Risk)
		}
		if v.Authorization != "" {
			text += ", authorization " + string(v.Authorization)
		}
		if v.Authority != "" && v.Authority != approval.AuthorityDecides {
			text += ", " + strings.ReplaceAll(string(v.Authority), "_", " ")
		}
		if v.Shadow {
			text += ", in shadow"
		}
		if v.Rationale != "" {
			text += "\n" + cut(v.Rationale, maxShown)
		}
		texts[i] = text
	}
	return texts
}

func whereText(r *approval.Record) string {
	var parts []string
	if e := r.Request.Environment; e != nil {
		if e.Cwd != "" {
			parts = append(parts, e.Cwd)
		}
		if e.ID != "" {
			parts = append(parts, "environment "+e.ID)
		}
	}
	if r.Workspace != "" {
		parts = append(parts, "workspace "+r.Workspace)
	}
	return strings.Join(parts, ", ")
}

func whoText(r *approval.Request) string {
	var parts []string
	if s := r.Subject; s != nil && s.ID != "" {
		who := s.ID
		if s.OnBehalfOf != "" {
			who += " for " + s.OnBehalfOf
		}
		parts = append(parts, who)
	}
	if h := r.Harness; h != nil {
		parts = append(parts, strings.TrimSpace("harness "+h.Name+" "+h.Version))
	}
	if s := r.Session; s != nil {
		for _, one := range []struct{ name, value string }{{"session", s.ID}, {"turn", s.TurnID}, {"call", s.CallID}} {
			if one.value != "" {
				parts = append(parts, one.name+" "+one.value)
			}
		}
	}
	if r.Run != nil && r.Run.ID != "" {
		parts = append(parts, "run "+r.Run.ID)
	}
	return strings.Join(parts, ", ")
}

func (s *sheet) ruling(r *approval.Ruling) {
	effects := make([]string, len(r.Effects))
	for i, e := range r.Effects {
		effects[i] = string(e)
	}
	text := strings.Join(effects, ", ")
	if r.External {
		text += " (external)"
	}
	if r.ReadOnly {
		text += " (read-only)"
	}
	s.maybe("effects", text)
	s.maybe("route", string(r.Route))
	s.add("why", r.Reasons...)
	s.add("rules", matchLines(r.Rules)...)
	s.add("observed", matchLines(r.Observed)...)
	if len(r.Reviewers) > 0 {
		s.add("reviewers", strings.Join(r.Reviewers, ", "))
	}
	s.add("verdict", verdictTexts(r.Verdicts)...)
	if c := r.Ceiling; c != nil {
		s.add("ceiling", append([]string{"scope " + string(c.Scope)}, profileLines(c.Permissions)...)...)
	}
	if f := r.Failure; f != nil {
		s.add("failure", failureText(f))
	}
	s.add("epoch", short(r.Epoch))
}

func (s *sheet) options(r *approval.Record, keyed bool) {
	texts := make([]string, len(r.Options))
	for i, option := range r.Options {
		texts[i] = oneLine(option) + "  " + optionText(r.Request.Kind, option)
		if keyed && i < len(optionKeys) {
			texts[i] = optionKeys[i:i+1] + "  " + texts[i]
		}
	}
	s.add("options", texts...)
}

// oneLine is JSON without line breaks, to be copied.
func oneLine(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// optionText says what an option comes to for a request of some kind.
func optionText(kind approval.Kind, option json.RawMessage) string {
	m, known := approval.OptionMeaning(option)
	switch {
	case !known:
		return "not known to regent; taken to allow, for good"
	case m.Outcome == approval.OutcomeCancel:
		return "denies, and ends the turn"
	case m.Outcome == approval.OutcomeDeny:
		return "denies"
	case m.Lasting:
		return "allows, for good: a rule is written"
	case m.Scope == permission.Session:
		return "allows, for the rest of the session"
	case kind == approval.KindPermissions:
		return "grants, for the turn"
	default:
		return "allows, once"
	}
}

// ending is what came of a record, or how long it waits.
func (s *sheet) ending(r *approval.Record, now time.Time) {
	if r.State == approval.Pending {
		s.add("deadline", stamp(r.Deadline)+"  "+remaining(r.Deadline, now))
	}
	if d := r.Decision; d != nil {
		text := string(d.Outcome) + " by " + string(d.Source)
		if d.By != "" {
			text += " " + d.By
		}
		s.add("decision", fmt.Sprintf("%s at %s: %s", text, stamp(d.At), oneLine(d.Option)))
		s.maybe("", d.Reason)
		s.add("verdict", verdictTexts(d.Verdicts)...)
		s.add("by rules", matchLines(d.Rules)...)
		if g := d.Settlement; g != nil {
			s.add("granted", grantedLines(d.Outcome, g)...)
			for _, dropped := range g.Dropped {
				s.add("dropped", dropped.String())
			}
		}
	}
	s.add("shadow", verdictTexts(r.Shadow)...)
	if !r.Fenced.IsZero() {
		s.add("used", "at "+stamp(r.Fenced))
	}
	if c := r.Closing; c != nil {
		text := fmt.Sprintf("%s at %s", c.Reason, stamp(c.At))
		if c.By != "" {
			text += " by " + c.By
		}
		s.add("ended", text)
	}
	if r.State == approval.Unknown {
		s.add("", "nobody knows whether the answer was heard: look, then regent permission reconcile "+r.ID)
	}
}

// remaining is a time to wait for people.
func remaining(deadline, now time.Time) string {
	left := deadline.Sub(now).Truncate(time.Second)
	if left <= 0 {
		return "past"
	}
	return "in " + left.String()
}
