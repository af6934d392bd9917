package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/gate/permission"
	"github.com/regent-policy/regent/rego"
)

// decisionCase is one request and what must become of it.
type decisionCase struct {
	note    string
	file    string
	line    int
	layer   rego.LayerName
	request *approval.Request
	// verdicts are what the reviewers say, where the case is about that.
	verdicts []approval.Verdict
	changes  changes
	want     want
}

// changes are what a case sets aside of the policies that it is put to.
type changes struct {
	settings []func(*rego.Settings)
	data     map[string]any
	// key is the same for cases that change the same.
	key string
}

func (c changes) apply(s rego.Settings) rego.Settings {
	for _, set := range c.settings {
		set(&s)
	}
	return s
}

// shared is what the top of a file says for all its cases.
type shared struct {
	environment *yaml.Node
	settings    *yaml.Node
	data        *yaml.Node
}

// readCases reads one case file. Faulty cases are left out and told as problems;
// the others stand.
func readCases(name string, layer rego.LayerName, text []byte) ([]*decisionCase, []rego.Problem) {
	root, problem := document(name, text)
	if problem != nil {
		return nil, []rego.Problem{*problem}
	}
	var (
		all    shared
		list   = root
		faults []*fault
	)
	if root.Kind == yaml.MappingNode {
		list = nil
		faults = fields(root, "a case file", map[string]func(*yaml.Node) *fault{
			"cases":       func(n *yaml.Node) *fault { list = n; return nil },
			"environment": func(n *yaml.Node) *fault { all.environment = n; return nil },
			"settings":    func(n *yaml.Node) *fault { all.settings = n; return nil },
			"data":        func(n *yaml.Node) *fault { all.data = n; return nil },
		})
		if list == nil && len(faults) == 0 {
			faults = append(faults, faultf(root, "a case file needs a list of cases"))
		}
	}
	var cases []*decisionCase
	if list != nil && list.Kind != yaml.SequenceNode {
		f := faultf(list, "cases must be a list")
		f.hint = "each case starts with a dash: - note: ..."
		faults = append(faults, f)
		list = nil
	}
	if list != nil {
		for _, n := range list.Content {
			c, wrong := readCase(n, all)
			faults = append(faults, wrong...)
			if len(wrong) == 0 {
				c.file, c.layer = name, layer
				cases = append(cases, c)
			}
		}
		if len(list.Content) == 0 {
			faults = append(faults, faultf(list, "the list of cases is empty"))
		}
	}
	problems := make([]rego.Problem, len(faults))
	for i, f := range faults {
		problems[i] = f.problem(name)
	}
	return cases, problems
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// document is the one YAML document of a file.
func document(name string, text []byte) (*yaml.Node, *rego.Problem) {
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	err := decoder.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, &rego.Problem{File: name, Message: "the file is empty", Hint: "it holds a list of cases"}
	case err != nil:
		return nil, syntaxProblem(name, err)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, &rego.Problem{File: name, Line: more.Line, Column: 1, Message: "a case file holds one YAML document"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(name, err)
	}
	return doc.Content[0], nil
}

func syntaxProblem(name string, err error) *rego.Problem {
	p := &rego.Problem{File: name, Message: err.Error()}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1]) // no line: the whole file's fault
		p.Message = "not valid YAML: " + m[2]
	}
	return p
}

func readCase(n *yaml.Node, all shared) (*decisionCase, []*fault) {
	c := &decisionCase{line: n.Line}
	var request, verdicts, wanted *yaml.Node
	environment := all.environment
	settings, data := []*yaml.Node{all.settings}, []*yaml.Node{all.data}
	asked := func(n *yaml.Node) *fault {
		if request != nil {
			return faultf(n, "request and input are two names of one thing; give one")
		}
		request = n
		return nil
	}
	faults := fields(n, "a case", map[string]func(*yaml.Node) *fault{
		"note":        func(n *yaml.Node) *fault { return text(n, "note", &c.note) },
		"request":     asked,
		"input":       asked,
		"environment": func(n *yaml.Node) *fault { environment = n; return nil },
		"settings":    func(n *yaml.Node) *fault { settings = append(settings, n); return nil },
		"data":        func(n *yaml.Node) *fault { data = append(data, n); return nil },
		"verdicts":    func(n *yaml.Node) *fault { verdicts = n; return nil },
		"want":        func(n *yaml.Node) *fault { wanted = n; return nil },
	})
	if n.Kind != yaml.MappingNode {
		return nil, faults
	}
	if c.note == "" && len(faults) == 0 {
		faults = append(faults, faultf(n, "the case has no note that says which rule it states"))
	}
	var f *fault
	if request == nil {
		faults = append(faults, faultf(n, "the case has no request"))
	} else if c.request, f = readRequest(request, environment); f != nil {
		faults = append(faults, f)
	}
	if wanted == nil {
		faults = append(faults, faultf(n, "the case has no want"))
	} else {
		faults = append(faults, c.want.read(wanted)...)
	}
	if verdicts != nil {
		faults = append(faults, readVerdicts(verdicts, &c.verdicts)...)
	}
	if len(faults) == 0 && (verdicts == nil) != (c.want.verdict == "") {
		f := faultf(n, "verdicts and what they come to belong together")
		f.hint = "give verdicts, and verdict in want"
		faults = append(faults, f)
	}
	changes, wrong := readChanges(settings, data)
	c.changes = changes
	return c, append(faults, wrong...)
}

// readVerdicts reads what reviewers say, as a reviewer would say it.
func readVerdicts(n *yaml.Node, into *[]approval.Verdict) []*fault {
	if n.Kind != yaml.SequenceNode {
		f := faultf(n, "verdicts must be a list")
		f.hint = "verdicts: [{reviewer: default/reviewer, outcome: allow}]"
		return []*fault{f}
	}
	*into = []approval.Verdict{}
	var faults []*fault
	for _, item := range n.Content {
		var v approval.Verdict
		of := func(name string, keep func(string), known ...string) func(*yaml.Node) *fault {
			return func(n *yaml.Node) *fault {
				var s string
				f := text(n, name, &s)
				if len(known) > 0 {
					f = word(n, name, &s, known...)
				}
				keep(s)
				return f
			}
		}
		wrong := fields(item, "a verdict", map[string]func(*yaml.Node) *fault{
			"reviewer": of("reviewer", func(s string) { v.Reviewer = s }),
			"outcome": of("outcome", func(s string) { v.Outcome = approval.VerdictOutcome(s) },
				"allow", "deny", "cancel", "unsure", "timeout", "error"),
			"risk_level":         of("risk_level", func(s string) { v.Risk = approval.Risk(s) }, "low", "medium", "high", "critical"),
			"user_authorization": of("user_authorization", func(s string) { v.Authorization = approval.Authorization(s) }, "unknown", "low", "medium", "high"),
			"scope":              of("scope", func(s string) { v.Scope = permission.Scope(s) }, "once", "turn", "session"),
			"rationale":          of("rationale", func(s string) { v.Rationale = s }),
		})
		if len(wrong) == 0 && (v.Reviewer == "" || v.Outcome == "") {
			wrong = append(wrong, faultf(item, "a verdict needs a reviewer and an outcome"))
		}
		faults = append(faults, wrong...)
		*into = append(*into, v)
	}
	return faults
}

// readRequest decodes a request as strictly as one that comes from a harness.
func readRequest(n, environment *yaml.Node) (*approval.Request, *fault) {
	at := map[string]*yaml.Node{}
	raw, f := jsonOf(n, at)
	if f != nil {
		return nil, f
	}
	r, err := approval.Decode(raw)
	if err != nil {
		return nil, requestFault(n, err, at, "")
	}
	if r.Environment != nil || environment == nil {
		return r, nil
	}
	// A request is the only thing that approval decodes, so the environment
	// becomes a part of one.
	at = map[string]*yaml.Node{}
	if raw, f = jsonOf(environment, at); f != nil {
		return nil, f
	}
	holder, err := approval.Decode(fmt.Appendf(nil, `{"kind":"tool","tool":{"name":"none"},"environment":%s}`, raw))
	if err != nil {
		return nil, requestFault(environment, err, at, "/environment")
	}
	r.Environment = holder.Environment
	return r, nil
}

// requestFault finds the place of a request's fault in the YAML.
func requestFault(n *yaml.Node, err error, at map[string]*yaml.Node, below string) *fault {
	e, ok := errors.AsType[*approval.RequestError](err)
	if !ok {
		return faultf(n, "%v", err)
	}
	pointer := strings.TrimPrefix(e.Pointer, below)
	message := e.Message
	if e.Pointer != "" {
		message = strings.TrimPrefix(strings.ReplaceAll(e.Pointer, "/", "."), ".") + ": " + message
	}
	// A part that is missing has no place; that of what it is missing from will do.
	for at[pointer] == nil && pointer != "" {
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	if at[pointer] != nil {
		n = at[pointer]
	}
	return faultf(n, "%s", message)
}

// readChanges puts together what the file and the case say, the case last.
func readChanges(settings, data []*yaml.Node) (changes, []*fault) {
	var (
		c      changes
		faults []*fault
		key    []byte
	)
	for _, n := range settings {
		if n == nil {
			continue
		}
		faults = append(faults, readSettings(n, &c.settings)...)
		raw, f := jsonOf(n, nil)
		if f != nil {
			faults = append(faults, f)
		}
		key = append(append(key, raw...), '\n')
	}
	for _, n := range data {
		if n == nil {
			continue
		}
		raw, f := jsonOf(n, nil)
		if f != nil {
			faults = append(faults, f)
			continue
		}
		var object map[string]any
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if decoder.Decode(&object) != nil || object == nil {
			faults = append(faults, faultf(n, "data must be a mapping"))
			continue
		}
		c.data = overlay(c.data, object)
	}
	if c.data != nil {
		// What was decoded from JSON can be encoded.
		raw, _ := json.Marshal(c.data)
		key = append(key, raw...)
	}
	c.key = string(key)
	return c, faults
}

// readSettings reads settings by the names that rules know them by, those of
// data.regent.settings.
func readSettings(n *yaml.Node, into *[]func(*rego.Settings)) []*fault {
	set := func(f func(*rego.Settings)) { *into = append(*into, f) }
	oneOf := func(of string, member func(*rego.Settings) *string, known ...string) func(*yaml.Node) *fault {
		return func(n *yaml.Node) *fault {
			var v string
			if f := word(n, of, &v, known...); f != nil {
				return f
			}
			set(func(s *rego.Settings) { *member(s) = v })
			return nil
		}
	}
	number := func(of string, apply func(*rego.Settings, int)) func(*yaml.Node) *fault {
		return func(n *yaml.Node) *fault {
			var v int
			if f := positive(n, of, &v); f != nil {
				return f
			}
			set(func(s *rego.Settings) { apply(s, v) })
			return nil
		}
	}
	return fields(n, "settings", map[string]func(*yaml.Node) *fault{
		"mode":               oneOf("mode", func(s *rego.Settings) *string { return &s.Mode }, "manual", "auto_allow", "model_review"),
		"harness_mode":       oneOf("harness_mode", func(s *rego.Settings) *string { return &s.HarnessMode }, "manual", "auto_allow"),
		"read_only_commands": oneOf("read_only_commands", func(s *rego.Settings) *string { return &s.ReadOnlyCommands }, "ask", "skip"),
		"approval_policy": oneOf("approval_policy", func(s *rego.Settings) *string { return &s.ApprovalPolicy },
			"never", "on_request", "unless_trusted", "granular"),
		"granular": func(n *yaml.Node) *fault {
			granular := map[string]bool{}
			names := map[string]func(*yaml.Node) *fault{}
			for _, name := range []string{"sandbox_approval", "rules", "mcp_elicitations", "request_permissions", "skill_approval"} {
				names[name] = func(n *yaml.Node) *fault {
					var v bool
					f := flag(n, name, &v)
					granular[name] = v
					return f
				}
			}
			if faults := fields(n, "granular", names); len(faults) > 0 {
				return faults[0]
			}
			set(func(s *rego.Settings) { s.Granular = granular })
			return nil
		},
		"reviewer": func(n *yaml.Node) *fault {
			var v string
			if f := text(n, "reviewer", &v); f != nil {
				return f
			}
			set(func(s *rego.Settings) { s.Reviewer = v })
			return nil
		},
		"reviewers": func(n *yaml.Node) *fault {
			var names []string
			if f := texts(n, "reviewers", &names); f != nil {
				return f
			}
			set(func(s *rego.Settings) {
				s.Reviewers = map[string]bool{}
				for _, name := range names {
					s.Reviewers[name] = true
				}
			})
			return nil
		},
		"trusted_mcp_servers": func(n *yaml.Node) *fault {
			var names []string
			if f := texts(n, "trusted_mcp_servers", &names); f != nil {
				return f
			}
			set(func(s *rego.Settings) { s.TrustedMCPServers = slices.Clone(names) })
			return nil
		},
		"review_seconds":  number("review_seconds", func(s *rego.Settings, v int) { s.ReviewSeconds = v }),
		"request_seconds": number("request_seconds", func(s *rego.Settings, v int) { s.RequestSeconds = v }),
		"evaluation_timeout_ms": number("evaluation_timeout_ms", func(s *rego.Settings, v int) {
			s.Timeout = time.Duration(v) * time.Millisecond
		}),
	})
}
