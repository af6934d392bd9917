package cases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// variant is the policies as some cases want them: with other settings or data.
type variant struct {
	key    string
	src    rego.Source
	policy *rego.Policy
	err    error
}

// decisions runs the YAML cases.
func (r *run) decisions(ctx context.Context) error {
	files, err := r.caseFiles()
	if err != nil {
		return err
	}
	variants := map[string]*variant{}
	for _, f := range files {
		text, err := readLimited(f.path)
		if err != nil {
			r.add(Result{Kind: Decision, Name: "read " + f.name, File: f.name, Layer: f.layer, Status: Error, Message: err.Error()})
			continue
		}
		cases, problems := readCases(f.name, f.layer, text)
		for _, p := range problems {
			message := p.Message
			if p.Hint != "" {
				message += " (" + p.Hint + ")"
			}
			if p.Column > 0 {
				message = fmt.Sprintf("column %d: %s", p.Column, message)
			}
			r.add(Result{Kind: Decision, Name: "read " + f.name, File: f.name, Line: p.Line, Layer: f.layer, Status: Error, Message: message})
		}
		for _, c := range cases {
			if !r.matches(f.name, c.note) {
				continue
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			v, err := r.variant(ctx, variants, c)
			if err != nil {
				return err
			}
			result, err := r.decide(ctx, v, c)
			if err != nil {
				return err
			}
			r.add(result)
		}
	}
	return nil
}

// caseFiles are those of the layers, or those that the options name.
func (r *run) caseFiles() ([]caseFile, error) {
	files, err := find(r.src.Layers)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(f caseFile) bool { return !r.wanted(f.path) })
	for _, p := range r.only {
		err := walk(p, func(found string) {
			if !slices.ContainsFunc(files, func(f caseFile) bool { return f.path == found }) {
				files = append(files, caseFile{path: found, name: found, layer: r.ownLayer()})
				r.found = append(r.found, p)
			}
		})
		if err != nil {
			return nil, err
		}
		// A file that is named by itself is taken at its word.
		yaml := strings.HasSuffix(p, ".yaml") || strings.HasSuffix(p, ".yml")
		if yaml && !rego.IsCaseFile(p) {
			files = append(files, caseFile{path: p, name: p, layer: r.ownLayer()})
			r.found = append(r.found, p)
		}
	}
	return files, nil
}

// ownLayer is the layer that the data of a case outside all layers goes to: the
// one nearest the agent.
func (r *run) ownLayer() rego.LayerName {
	for _, name := range []rego.LayerName{rego.Workspace, rego.Home, rego.Organization} {
		if slices.ContainsFunc(r.src.Layers, func(l rego.Layer) bool { return l.Name == name }) {
			return name
		}
	}
	return rego.Workspace
}

// variant loads the policies for a case, once for all cases that want the same.
func (r *run) variant(ctx context.Context, variants map[string]*variant, c *decisionCase) (*variant, error) {
	key := c.changes.key
	if c.changes.data != nil {
		key = string(c.layer) + "\n" + key
	}
	if v := variants[key]; v != nil {
		return v, nil
	}
	v := &variant{key: key, src: r.src}
	variants[key] = v
	s := r.src.Settings
	s.Timeout = caseTimeout
	v.src.Settings = c.changes.apply(s)
	v.src.Layers = slices.Clone(r.src.Layers)
	if c.changes.data != nil {
		if v.err = r.overlay(ctx, &v.src, c); v.err != nil {
			return v, nil
		}
	}
	v.policy, v.err = rego.Load(ctx, v.src)
	if v.err != nil && !errors.Is(v.err, rego.ErrLoad) {
		return nil, v.err
	}
	return v, nil
}

// decide puts one case to the engine.
func (r *run) decide(ctx context.Context, v *variant, c *decisionCase) (Result, error) {
	out := Result{Kind: Decision, Name: c.note, File: c.file, Line: c.line, Layer: c.layer, Status: Pass}
	if v.err != nil {
		out.Status, out.Message = Error, "the policies cannot be had with the settings and data of this case: "+v.err.Error()
		return out, nil
	}
	start := time.Now()
	got := v.policy.Rule(ctx, c.request)
	var said *approval.VerdictRuling
	input := v.policy.Input
	if c.verdicts != nil && got.Route == approval.RouteReview {
		verdicts := c.given(&got)
		judged := v.policy.Verdict(ctx, c.request, &got, verdicts)
		said = &judged
		input = func(r *approval.Request) *rego.Input { return v.policy.VerdictInput(r, &got, verdicts) }
	}
	out.Duration = time.Since(start)
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	if differences := c.want.compare(&got, said, c.request); len(differences) > 0 {
		out.Status = Fail
		if said != nil {
			differences = append(differences, because(said.Reasons, said.Rules, said.Observed)...)
		} else {
			differences = append(differences, because(got.Reasons, got.Rules, got.Observed)...)
		}
		out.Message = strings.Join(differences, "\n")
	} else if said != nil {
		r.see(&c.want, said.Rules, said.Observed)
	} else {
		r.see(&c.want, got.Rules, got.Observed)
	}
	if r.cover != nil {
		return out, r.cover.decide(ctx, v, input(c.request))
	}
	return out, nil
}

// given are the verdicts of a case, with the authority that the ruling gives.
func (c *decisionCase) given(ruling *approval.Ruling) []approval.Verdict {
	verdicts := slices.Clone(c.verdicts)
	for i := range verdicts {
		verdicts[i].Authority = ruling.Authority[verdicts[i].Reviewer]
	}
	return verdicts
}

// because says what led to what was not wanted.
func because(reasons []string, rules, observed []approval.Match) []string {
	var lines []string
	for _, reason := range reasons {
		lines = append(lines, "because "+reason)
	}
	for _, m := range slices.Concat(rules, observed) {
		lines = append(lines, fmt.Sprintf("by %s at %s:%d: %s (%s, %s)", m.ID, m.File, m.Line, m.Message, m.Decision, m.Mode))
	}
	return lines
}

// see takes note of the rules that a passing case names and that fired in it.
func (r *run) see(w *want, rules, observed []approval.Match) {
	for _, m := range rules {
		if slices.Contains(w.rules, m.ID) {
			r.seen[place{m.File, m.Line}] = true
		}
	}
	for _, m := range observed {
		if slices.Contains(w.observed, m.ID) {
			r.seen[place{m.File, m.Line}] = true
		}
	}
}
