package cases_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/rego"
	"github.com/regent-policy/regent/rego/cases"
)

// write puts files into a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// workspace writes files to a new folder and is the source that loads them.
func workspace(t *testing.T, files map[string]string) rego.Source {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	return rego.Source{
		Settings: rego.DefaultSettings(),
		Layers:   []rego.Layer{{Name: rego.Workspace, Dir: dir, Paths: []string{filepath.Join(dir, "policies")}}},
	}
}

func run(t *testing.T, src rego.Source, o cases.Options) cases.Report {
	t.Helper()
	report, err := cases.Run(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// told is what a report says of each test and case.
func told(r cases.Report) []string {
	lines := []string{}
	for _, v := range r.Results {
		line := fmt.Sprintf("%s %s:%d %s", v.Status, v.File, v.Line, v.Name)
		if v.Message != "" {
			line += ": " + v.Message
		}
		lines = append(lines, line)
	}
	return lines
}

// hosts is a policy without need of the command tables.
const hosts = `# METADATA
# title: Hosts
package rules.hosts

# METADATA
# title: Banned hosts
# custom: {id: NET-001, severity: high}
deny contains sprintf("%s is banned", [host]) if {
	some host in input.facts.hosts
	host in data.rules.hosts.banned
}

# METADATA
# title: Odd hosts
# custom: {id: NET-002, mode: warn}
ask contains "an odd host" if {
	some host in input.facts.hosts
	endswith(host, ".odd")
}

# METADATA
# title: Weighty hosts
# custom: {id: NET-003}
review contains {"message": "a weighty host", "reviewers": ["acme/net"]} if {
	some host in input.facts.hosts
	endswith(host, ".weighty")
}
`

const hostsData = "hosts: {banned: [bad.example.com]}\n"

func TestUnitTestsAreRunWithTheLibraryOnPlainMessages(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{
		"policies/hosts.rego": hosts,
		"policies/data.yaml":  hostsData,
		"policies/hosts_test.rego": `package rules.hosts_test

import data.regent.lib.tools
import data.rules.hosts

_to(host) := {"facts": {"hosts": [host]}, "request": {"kind": "network", "network": {"host": host}}}

test_banned if hosts.deny == {"bad.example.com is banned"} with input as _to("bad.example.com")

test_library if tools.host_below("a.example.com", "example.com")

test_wrong if {
	found := hosts.deny with input as _to("good.example.com")
	print("found", found)
	count(found) == 1
}

test_table[host] if {
	some host in ["bad.example.com", "good.example.com"]
	count(hosts.deny) > 0 with input as _to(host)
}

test_nothing[host] if some host in []

test_broken if to_number("x") == 1

todo_test_later if false
`,
	})
	want := []string{
		"pass policies/hosts_test.rego:8 rules.hosts_test.test_banned",
		"pass policies/hosts_test.rego:10 rules.hosts_test.test_library",
		"fail policies/hosts_test.rego:12 rules.hosts_test.test_wrong: line 15 does not hold: count(found) == 1",
		"fail policies/hosts_test.rego:18 rules.hosts_test.test_table: these parts do not hold: good.example.com",
		"fail policies/hosts_test.rego:23 rules.hosts_test.test_nothing: the table of the test is empty, so it tests nothing",
		`error policies/hosts_test.rego:25 rules.hosts_test.test_broken: policies/hosts_test.rego:25: eval_builtin_error: to_number: strconv.ParseFloat: parsing "x": invalid syntax`,
		"skip policies/hosts_test.rego:27 rules.hosts_test.todo_test_later: named todo_test_",
	}
	report := run(t, src, cases.Options{})
	if diff := cmp.Diff(want, told(report)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := report.Results[2].Output; got != "found set()\n" {
		t.Errorf("output = %q, want what print was given", got)
	}
	if got := report.Results[0]; got.Layer != rego.Workspace || got.Kind != cases.Unit || got.Duration <= 0 {
		t.Errorf("result = %+v, want a unit test of the workspace that took time", got)
	}
	if report.OK() {
		t.Error("OK although tests failed")
	}
}

func TestTestsOfOneNameAreAllRun(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{
		"policies/a_test.rego": "package rules.a_test\n\ntest_a if true\n\ntest_a if false\n",
	})
	want := []string{
		"pass policies/a_test.rego:3 rules.a_test.test_a",
		"fail policies/a_test.rego:5 rules.a_test.test_a#01: the test is false or undefined",
	}
	if diff := cmp.Diff(want, told(run(t, src, cases.Options{}))); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestDecisionCasesArePutThroughTheEngine(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{
		"policies/hosts.rego": hosts,
		"policies/data.yaml":  hostsData,
		"policies/context.rego": `package rules.context

ceiling := {"network": {"enabled": false}, "scope": "turn"} if input.request.kind == "permissions"

context contains "hosts are watched" if input.request.kind == "network"
`,
		"cases/hosts.yaml": `- note: a banned host is denied
  request: {kind: network, network: {host: BAD.example.com.}}
  want:
    route: deny
    effects: [network]
    external: true
    read_only: false
    rules: [NET-001]
    observed: []
    reasons_contain: [is banned, bad.example.com]
    context: [hosts are watched]
    ceiling: null
- note: a warning is observed
  input: {kind: network, network: {host: an.odd}}
  want: {route: ask, rules: [], observed: [NET-002]}
- note: a ceiling limits
  request: {kind: permissions, permissions: {network: {enabled: true}}}
  want: {route: ask, ceiling: {network: {enabled: false}, scope: turn}}
- note: a reviewer is asked where it is configured
  request: {kind: network, network: {host: a.weighty}}
  settings: {reviewers: [acme/net]}
  want: {route: review, reviewers: [acme/net], rules: [NET-003]}
- note: settings change the mode
  request: {kind: network, network: {host: good.example.com}}
  settings: {mode: auto_allow}
  want: {route: allow}
- note: data stands over the layer's own
  request: {kind: network, network: {host: good.example.com}}
  data: {hosts: {banned: [good.example.com]}}
  want: {route: deny, rules: [NET-001]}
- note: data of one case is not that of the next
  request: {kind: network, network: {host: good.example.com}}
  want: {route: ask, rules: []}
`,
	})
	report := run(t, src, cases.Options{})
	for _, line := range told(report) {
		if !strings.HasPrefix(line, "pass ") {
			t.Error(line)
		}
	}
	if got := len(report.Results); got != 7 {
		t.Errorf("%d results, want 7", got)
	}
	if got := len(report.Unfired); got != 0 {
		t.Errorf("unfired = %v, want none", report.Unfired)
	}
}

func TestEveryPartOfAWantIsCompared(t *testing.T) {
	t.Parallel()
	policies := map[string]string{
		"policies/hosts.rego": hosts,
		"policies/data.yaml":  hostsData,
		"policies/failing.rego": `package rules.failing

# METADATA
# custom: {id: FAIL-001}
deny contains "never" if {
	input.request.network.port == 1
	to_number(input.request.network.host) == 1
}
`,
	}
	tests := map[string]struct{ request, want, message string }{
		"route": {"network: {host: bad.example.com}", "{route: ask}", "route: want ask, got deny"},
		"effects": {
			"network: {host: bad.example.com}", "{route: deny, effects: [read, network]}",
			"effects: want [network, read], got [network]",
		},
		"external":  {"network: {host: bad.example.com}", "{route: deny, external: false}", "external: want false, got true"},
		"read_only": {"network: {host: bad.example.com}", "{route: deny, read_only: true}", "read_only: want true, got false"},
		"rules":     {"network: {host: bad.example.com}", "{route: deny, rules: []}", "rules: want [], got [NET-001]"},
		"a rule that only warns is not enforced": {
			"network: {host: an.odd}", "{route: ask, rules: [NET-002]}", "rules: want [NET-002], got []",
		},
		"observed": {"network: {host: an.odd}", "{route: ask, observed: []}", "observed: want [], got [NET-002]"},
		"reasons": {
			"network: {host: bad.example.com}", "{route: deny, reasons_contain: [is good]}",
			`reasons_contain: want "is good", got ["bad.example.com is banned"]`,
		},
		"reviewers": {"network: {host: x.example.com}", "{route: ask, reviewers: [a/b]}", "reviewers: want [a/b], got []"},
		"context":   {"network: {host: x.example.com}", "{route: ask, context: [a]}", "context: want [a], got []"},
		"ceiling":   {"network: {host: x.example.com}", "{route: ask, ceiling: {scope: turn}}", `ceiling: want {"permissions":`},
		"a failure that is expected": {
			"network: {host: x.example.com}", "{route: ask, failure: evaluation}", "failure: want evaluation, got none",
		},
		"a failure that nobody expects, though the route is the one of a failure": {
			"network: {host: x.example.com, port: 1}", "{route: ask}", "failure: want none, got evaluation (",
		},
		"what led to the ruling is told": {
			"network: {host: bad.example.com}", "{route: allow}",
			"by NET-001 at policies/hosts.rego:8: bad.example.com is banned (deny, enforce)",
		},
	}
	// One run for all: loading an engine takes longer than any case.
	src := workspace(t, policies)
	for name, tt := range tests {
		write(t, src.Layers[0].Dir, map[string]string{
			"cases/" + name + ".yaml": "- note: " + name + "\n  request: {kind: network, " + tt.request + "}\n  want: " + tt.want + "\n",
		})
	}
	results := byFile(run(t, src, cases.Options{}))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := results[name]
			if len(got) != 1 || got[0].Status != cases.Fail {
				t.Fatalf("results = %v, want one that fails", got)
			}
			if !strings.Contains(got[0].Message, tt.message) {
				t.Errorf("message = %q, want it to say %q", got[0].Message, tt.message)
			}
		})
	}
}

// byFile are the results by the names of their files, without the ending.
func byFile(r cases.Report) map[string][]cases.Result {
	out := map[string][]cases.Result{}
	for _, v := range r.Results {
		name := strings.TrimSuffix(filepath.Base(v.File), ".yaml")
		out[name] = append(out[name], v)
	}
	return out
}

func TestFailureOfARuleIsExpectedByItsKind(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{
		"policies/slow.rego": `package rules.slow

deny contains "x" if count([a | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000); a + b == 3]) == 0
`,
		"cases/a.yaml": `- note: a rule that takes too long asks a person
  request: {kind: network, network: {host: example.com}}
  settings: {evaluation_timeout_ms: 20}
  want: {route: ask, failure: deadline}
`,
	})
	if got := run(t, src, cases.Options{}); !got.OK() || len(got.Results) != 1 {
		t.Error(told(got))
	}
}

func TestFaultsOfCaseFilesNameTheirPlace(t *testing.T) {
	t.Parallel()
	const fine = "  request: {kind: network, network: {host: x}}\n  want: {route: ask}\n"
	tests := map[string]struct {
		text string
		want []string
	}{
		"an empty file":            {"", []string{"0: the file is empty (it holds a list of cases)"}},
		"a file of comments":       {"# nothing\n", []string{"0: the file is empty (it holds a list of cases)"}},
		"no list":                  {"note: x\n", []string{"1: column 1: a case file has no key note (use one of cases, data, environment, settings)"}},
		"text":                     {"cases: x\n", []string{"1: column 8: cases must be a list (each case starts with a dash: - note: ...)"}},
		"no cases":                 {"cases: []\n", []string{"1: column 8: the list of cases is empty"}},
		"a mapping without cases":  {"settings: {mode: manual}\n", []string{"1: column 1: a case file needs a list of cases"}},
		"two documents":            {"- note: a\n" + fine + "---\n- note: b\n" + fine, []string{"4: column 1: a case file holds one YAML document"}},
		"broken YAML":              {"- note: a\n  request: {\n", []string{"2: not valid YAML: did not find expected node content"}},
		"a case that is no object": {"- x\n", []string{"1: column 3: a case must be a mapping"}},
		"no note":                  {"-" + fine[1:], []string{"1: column 3: the case has no note that says which rule it states"}},
		"a note that is a number":  {"- note: 1\n" + fine, []string{"1: column 9: note must be text"}},
		"no request":               {"- note: a\n  want: {route: ask}\n", []string{"1: column 3: the case has no request"}},
		"no want":                  {"- note: a\n  request: {kind: network, network: {host: x}}\n", []string{"1: column 3: the case has no want"}},
		"no route": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {rules: []}\n",
			[]string{"3: column 9: want has no route"},
		},
		"request and input": {
			"- note: a\n  input: {kind: network, network: {host: x}}\n" + fine,
			[]string{"3: column 12: request and input are two names of one thing; give one"},
		},
		"an unknown key of a case": {"- note: a\n  setings: {}\n" + fine, []string{"2: column 3: a case has no key setings (did you mean settings?)"}},
		"a key twice":              {"- note: a\n  note: b\n" + fine, []string{"2: column 3: the key note stands here twice"}},
		"a key that is no text":    {"- 1: a\n  note: b\n" + fine, []string{`1: column 3: a key must be text (quote it: "1")`}},
		"a merge key": {
			"- &a\n  note: a\n" + fine + "- <<: *a\n  note: b\n",
			[]string{
				"5: column 3: merge keys are not read (what all cases share goes into settings, data and environment at the top of the file)",
				"5: column 3: the case has no request",
				"5: column 3: the case has no want",
			},
		},
		"an alias": {
			"- note: a\n  request: &r {kind: network, network: {host: x}}\n  want: {route: ask}\n- note: b\n  request: *r\n  want: {route: ask}\n",
			[]string{"5: column 12: an alias is not read (what all cases share goes into settings, data and environment at the top of the file)"},
		},
		"an unknown key of a want": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask, rule: [X]}\n",
			[]string{"3: column 22: want has no key rule (did you mean rules?)"},
		},
		"an unknown route": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: perhaps}\n",
			[]string{`3: column 17: route is "perhaps" (use one of skip, allow, deny, review, ask)`},
		},
		"an unknown effect": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask, effects: [agent]}\n",
			[]string{`3: column 32: an effect is "agent" (use one of read, write, process, network, unknown)`},
		},
		"no effect": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask, effects: []}\n",
			[]string{"3: column 31: effects is empty, and a call always has one"},
		},
		"an id twice": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask, rules: [A, A]}\n",
			[]string{"3: column 33: A stands twice in rules"},
		},
		"a flag that is text": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask, external: 'yes'}\n",
			[]string{"3: column 32: external must be true or false"},
		},
		"an unknown field of a request": {
			"- note: a\n  request:\n    kind: network\n    network:\n      hots: x\n  want: {route: ask}\n",
			[]string{"5: column 13: network.hots: unknown field; see the request schema (regent policy schema request)"},
		},
		"a part of a request that is missing": {
			"- note: a\n  request: {kind: network}\n  want: {route: ask}\n",
			[]string{"2: column 12: network.host: is missing for kind network"},
		},
		"an unknown setting": {
			"- note: a\n  settings: {modes: manual}\n" + fine,
			[]string{"2: column 14: settings has no key modes (did you mean mode?)"},
		},
		"an unknown value of a setting": {
			"- note: a\n  settings: {mode: modelreview}\n" + fine,
			[]string{`2: column 20: mode is "modelreview" (use one of manual, auto_allow, model_review)`},
		},
		"a number out of range": {
			"- note: a\n  settings: {review_seconds: 0}\n" + fine,
			[]string{"2: column 30: review_seconds must be a whole number above 0"},
		},
		"settings of the file are checked too": {
			"settings: {mode: x}\ncases:\n- note: a\n" + fine,
			[]string{`1: column 18: mode is "x" (use one of manual, auto_allow, model_review)`},
		},
		"data that is a list": {"- note: a\n  data: []\n" + fine, []string{"2: column 9: data must be a mapping"}},
		"a value without a JSON form": {
			"- note: a\n  data: {x: !!binary aGk=}\n" + fine,
			[]string{"2: column 13: a value of type !!binary has no JSON form"},
		},
		"a number without a JSON form": {
			"- note: a\n  data: {x: .inf}\n" + fine,
			[]string{"2: column 13: .inf has no JSON form"},
		},
		"an environment with an unknown field": {
			"- note: a\n  environment: {dir: /x}\n" + fine,
			[]string{"2: column 22: environment.dir: unknown field; see the request schema (regent policy schema request)"},
		},
		"a ceiling that is a list": {
			"- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask, ceiling: []}\n",
			[]string{"3: column 31: ceiling must be a profile (null says that there is no ceiling)"},
		},
	}
	src := workspace(t, map[string]string{"policies/a.rego": "package rules.a\n"})
	for name, tt := range tests {
		write(t, src.Layers[0].Dir, map[string]string{"cases/" + name + ".yaml": tt.text})
	}
	report := run(t, src, cases.Options{})
	if report.OK() {
		t.Error("OK although case files have faults")
	}
	results := byFile(report)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			for _, v := range results[name] {
				if v.Status == cases.Error {
					got = append(got, fmt.Sprintf("%d: %s", v.Line, v.Message))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneFaultyCaseDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{"policies/a_cases.yaml": `- note: fine
  request: {kind: network, network: {host: x}}
  want: {route: ask}
- note: faulty
  want: {route: ask}
`})
	want := []string{
		"pass policies/a_cases.yaml:1 fine",
		"error policies/a_cases.yaml:4 read policies/a_cases.yaml: column 3: the case has no request",
	}
	if diff := cmp.Diff(want, told(run(t, src, cases.Options{}))); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestWhatAFileSaysAtItsTopHoldsForEachCase(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{
		"policies/where.rego": `package rules.where

deny contains sprintf("in %s", [input.environment.cwd]) if input.request.kind == "network"

ask contains "limit" if data.rules.limits.low
`,
		"policies/where_cases.yaml": `environment: {cwd: /shared}
settings: {mode: manual, harness_mode: auto_allow}
data: {limits: {low: true, high: false}}
cases:
  - note: the environment is shared
    request: {kind: network, network: {host: x}}
    want: {route: deny, reasons_contain: [in /shared]}
  - note: a case has its own
    environment: {cwd: /own}
    request: {kind: network, network: {host: x}}
    want: {route: deny, reasons_contain: [in /own]}
  - note: the request's own goes before both
    request: {kind: network, network: {host: x}, environment: {cwd: /request}}
    want: {route: deny, reasons_contain: [in /request]}
  - note: settings of the case go before those of the file
    settings: {mode: auto_allow}
    data: {limits: {low: false}}
    request: {kind: tool, tool: {name: unheard_of}}
    want: {route: allow}
  - note: data of the file is there
    request: {kind: tool, tool: {name: unheard_of}}
    want: {route: ask, reasons_contain: [limit]}
`,
	})
	report := run(t, src, cases.Options{})
	for _, line := range told(report) {
		if !strings.HasPrefix(line, "pass ") {
			t.Error(line)
		}
	}
	if len(report.Results) != 5 {
		t.Errorf("%d results, want 5", len(report.Results))
	}
}

func TestRulesThatNoCaseNamesAreTold(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{
		"policies/hosts.rego": hosts,
		"policies/data.yaml":  hostsData,
		"cases/a.yaml": `- note: fires and is named
  request: {kind: network, network: {host: bad.example.com}}
  want: {route: deny, rules: [NET-001]}
- note: fires and is not named
  request: {kind: network, network: {host: an.odd}}
  want: {route: ask}
- note: is named in a case that fails
  request: {kind: network, network: {host: a.weighty}}
  want: {route: allow, rules: [NET-003]}
`,
	})
	got := []string{}
	for _, r := range run(t, src, cases.Options{}).Unfired {
		got = append(got, r.Describe())
	}
	want := []string{"policies/hosts.rego:16 NET-002 Odd hosts", "policies/hosts.rego:24 NET-003 Weighty hosts"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unfired (-want +got):\n%s", diff)
	}
	if part := run(t, src, cases.Options{Run: regexp.MustCompile("fires")}); part.Unfired != nil {
		t.Errorf("unfired = %v, want none told of a run of a part", part.Unfired)
	}
}

func TestCoverageCountsTestsAndCases(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"policies/hosts.rego": hosts,
		"policies/data.yaml":  hostsData,
		"policies/hosts_test.rego": `package rules.hosts_test

import data.rules.hosts

test_odd if count(hosts.ask) == 1 with input as {"facts": {"hosts": ["an.odd"]}}
`,
		"cases/a.yaml": `- note: banned by the data of the case
  request: {kind: network, network: {host: worse.example.com}}
  data: {hosts: {banned: [worse.example.com]}}
  want: {route: deny, rules: [NET-001]}
`,
	}
	src := workspace(t, files)
	want := &cases.Coverage{
		Files: []cases.FileCoverage{{
			File: "policies/hosts.rego", Percent: 100 * 8 / 9.0,
			Covered: []int{8, 9, 10, 16, 17, 18, 25, 26}, Uncovered: []int{24},
		}},
		Percent: 100 * 8 / 9.0,
	}
	if diff := cmp.Diff(want, run(t, src, cases.Options{Coverage: true}).Coverage); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	if got := run(t, src, cases.Options{}).Coverage; got != nil {
		t.Errorf("coverage = %v, want none where it is not asked for", got)
	}
}

func TestRunTakesAPart(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"policies/a_test.rego":  "package rules.a_test\n\ntest_one if true\n\ntest_two if true\n",
		"policies/b_test.rego":  "package rules.b_test\n\ntest_one if true\n",
		"cases/a.yaml":          "- note: case one\n  request: {kind: network, network: {host: x}}\n  want: {route: ask}\n",
		"elsewhere/c.yaml":      "- note: case two\n  request: {kind: network, network: {host: x}}\n  want: {route: ask}\n",
		"elsewhere/d_test.rego": "package rules.d_test\n\ntest_one if true\n",
		"policies/README.md":    "text\n",
	}
	for name, tt := range map[string]struct {
		paths []string
		run   string
		want  []string
	}{
		"everything of the layers": {want: []string{"case one", "rules.a_test.test_one", "rules.a_test.test_two", "rules.b_test.test_one"}},
		"by name":                  {run: "one$", want: []string{"case one", "rules.a_test.test_one", "rules.b_test.test_one"}},
		"by file and name":         {run: "a_test.rego: .*two", want: []string{"rules.a_test.test_two"}},
		"a test file":              {paths: []string{"policies/b_test.rego"}, want: []string{"rules.b_test.test_one"}},
		"a folder":                 {paths: []string{"policies"}, want: []string{"rules.a_test.test_one", "rules.a_test.test_two", "rules.b_test.test_one"}},
		"a case file outside the layers that is named": {paths: []string{"elsewhere/c.yaml"}, want: []string{"case two"}},
		"both": {paths: []string{"policies/a_test.rego", "cases"}, run: "one", want: []string{"case one", "rules.a_test.test_one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := workspace(t, files)
			o := cases.Options{}
			for _, p := range tt.paths {
				o.Paths = append(o.Paths, filepath.Join(src.Layers[0].Dir, p))
			}
			if tt.run != "" {
				o.Run = regexp.MustCompile(tt.run)
			}
			got := []string{}
			for _, v := range run(t, src, o).Results {
				got = append(got, v.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ran (-want +got):\n%s", diff)
			}
		})
	}

	for name, path := range map[string]string{
		"a test that the engine does not load": "elsewhere/d_test.rego",
		"a folder without tests":               "elsewhere",
		"a file that is no test":               "policies/README.md",
		"a file that is not there":             "nowhere",
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			t.Parallel()
			src := workspace(t, files)
			_, err := cases.Run(t.Context(), src, cases.Options{Paths: []string{filepath.Join(src.Layers[0].Dir, path)}})
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error = %v, want one that names %s", err, path)
			}
		})
	}
}

func TestCaseFilesOfEachLayerAreFound(t *testing.T) {
	t.Parallel()
	const text = "- note: a\n  request: {kind: network, network: {host: x}}\n  want: {route: ask}\n"
	src := workspace(t, map[string]string{
		"policies/x_cases.yaml":          text,
		"policies/y_cases.yml":           text,
		"policies/deep/cases/z.yaml":     text,
		"policies/deep/cases/data.yaml":  "a: 1\n",
		"policies/other.yaml":            "a: 1\n",
		"policies/.hidden/x_cases.yaml":  "x\n",
		"cases/more/cases/deeper.yaml":   text,
		"cases/beside.yaml":              text,
		"elsewhere/cases/not_found.yaml": "x\n",
	})
	home := t.TempDir()
	write(t, home, map[string]string{"rules/a.rego": "package home.rules.a\n", "cases/home.yaml": text})
	src.Layers = append(src.Layers, rego.Layer{Name: rego.Home, Dir: home, Paths: []string{filepath.Join(home, "rules")}})

	got := map[string]rego.LayerName{}
	for _, v := range run(t, src, cases.Options{}).Results {
		got[v.File] = v.Layer
	}
	want := map[string]rego.LayerName{
		"policies/x_cases.yaml":        rego.Workspace,
		"policies/y_cases.yml":         rego.Workspace,
		"policies/deep/cases/z.yaml":   rego.Workspace,
		"cases/more/cases/deeper.yaml": rego.Workspace,
		"cases/beside.yaml":            rego.Workspace,
		"cases/home.yaml":              rego.Home,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("case files (-want +got):\n%s", diff)
	}
}

func TestPoliciesThatDoNotLoadAreAnError(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"a policy": {"policies/a.rego": "package rules.a\n\ndeny contains 1 if x\n"},
		"a test":   {"policies/a_test.rego": "package rules.a_test\n\ntest_a if data.rules.a.f(1, unknown)\n"},
		"a test in a foreign package": {
			"policies/a_test.rego": "package regent.lib.command\n\ntest_a if true\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := cases.Run(t.Context(), workspace(t, files), cases.Options{})
			load, ok := errors.AsType[*rego.LoadError](err)
			if !ok || !errors.Is(err, rego.ErrLoad) {
				t.Fatalf("error = %v, want one that wraps ErrLoad", err)
			}
			if p := load.Problems[0]; p.File == "" || p.Line == 0 {
				t.Errorf("problem = %v, want its file and line", p)
			}
		})
	}
}

func TestDataOfABundleIsNotChangedByHalves(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{"cases/a.yaml": `- note: data of a bundle
  data: {hosts: {banned: [x]}}
  request: {kind: network, network: {host: x}}
  want: {route: deny}
- note: the bundle as it is
  request: {kind: network, network: {host: bad.example.com}}
  want: {route: deny}
`})
	path := filepath.Join(src.Layers[0].Dir, "rules.tar.gz")
	archive(t, path, map[string]string{
		"hosts.rego": hosts,
		"data.json":  `{"rules": {"hosts": {"banned": ["bad.example.com"]}}}`,
		".manifest":  `{"roots": ["rules"]}`,
	})
	src.Layers[0].Paths = []string{path}
	want := []string{
		"error cases/a.yaml:1 data of a bundle: the policies cannot be had with the settings and data of this case: " +
			"rules.tar.gz/hosts.rego is part of a bundle, whose data a case cannot change",
		"pass cases/a.yaml:5 the bundle as it is",
	}
	if diff := cmp.Diff(want, told(run(t, src, cases.Options{}))); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// archive writes a .tar.gz.
func archive(t *testing.T, path string, files map[string]string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	src := workspace(t, map[string]string{"policies/hosts.rego": hosts, "policies/data.yaml": hostsData})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the user went away"))
	if _, err := cases.Run(ctx, src, cases.Options{}); err == nil || !strings.Contains(err.Error(), "the user went away") {
		t.Errorf("error = %v, want the cause", err)
	}
}

func TestRunLeavesNoFilesBehind(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	src := workspace(t, map[string]string{
		"policies/hosts.rego": hosts,
		"policies/data.yaml":  hostsData,
		"cases/a.yaml": `- note: banned
  data: {hosts: {banned: [x]}}
  request: {kind: network, network: {host: x}}
  want: {route: deny}
`,
	})
	if r := run(t, src, cases.Options{}); !r.OK() {
		t.Error(told(r))
	}
	left, err := filepath.Glob(filepath.Join(tmp, "regent-cases-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left = %v, %v, want nothing", left, err)
	}
}

const verdictPolicies = `# METADATA
# title: Verdicts
package rules.x

# METADATA
# title: Two look at deployments
# custom: {id: R-1}
review contains {"message": "m", "reviewers": ["a/one", "a/two"], "authority": {"a/two": "deny_only"}} if {
	input.request.command.text == "deploy"
}

# METADATA
# title: The sandbox
# custom: {id: V-1}
verdict contains {"message": "the sandbox", "decision": "allow"} if input.environment.cwd == "/sandbox"

# METADATA
# title: No deployment without a reason
# custom: {id: V-2}
verdict contains {"message": "no reason was given", "decision": "deny"} if {
	some v in input.verdicts
	v.rationale == "none"
}
`

func TestCasesGiveVerdicts(t *testing.T) {
	const file = `settings: {reviewers: [a/one, a/two]}
cases:
  - note: both agree
    request: {kind: command, command: {text: deploy}}
    verdicts: [{reviewer: a/one, outcome: allow, risk_level: low}, {reviewer: a/two, outcome: allow}]
    want: {verdict: allow, by: a/one, rules: [], reviewers: [a/one, a/two]}
  - note: who may only deny does not allow
    request: {kind: command, command: {text: deploy}}
    verdicts: [{reviewer: a/two, outcome: allow}]
    want: {verdict: ask, reasons_contain: [not every reviewer was asked]}
  - note: the sandbox takes a high risk
    environment: {cwd: /sandbox}
    request: {kind: command, command: {text: deploy}}
    verdicts: [{reviewer: a/one, outcome: allow, risk_level: high, user_authorization: low}, {reviewer: a/two, outcome: allow}]
    want: {verdict: allow, rules: [V-1]}
  - note: a rule denies
    request: {kind: command, command: {text: deploy}}
    verdicts: [{reviewer: a/one, outcome: allow, rationale: none, scope: turn}, {reviewer: a/two, outcome: allow}]
    want: {route: review, verdict: deny, by: V-2, rules: [V-2]}
  - note: the rule that sends them there
    request: {kind: command, command: {text: deploy}}
    want: {route: review, rules: [R-1]}
  - note: this is wrong
    request: {kind: command, command: {text: deploy}}
    verdicts: [{reviewer: a/one, outcome: unsure}, {reviewer: a/two, outcome: allow}]
    want: {verdict: allow, by: a/one, rules: [V-1]}
  - note: nobody is asked about that
    settings: {mode: manual}
    request: {kind: command, command: {text: make}}
    verdicts: [{reviewer: a/one, outcome: allow}]
    want: {verdict: allow}
`
	report := run(t, workspace(t, map[string]string{"policies/x.rego": verdictPolicies, "cases/a.yaml": file}), cases.Options{Coverage: true})
	got := map[string]string{}
	for _, r := range report.Results {
		got[r.Name] = string(r.Status)
		if r.Status == cases.Fail {
			got[r.Name] = r.Message
		}
	}
	want := map[string]string{
		"both agree": "pass", "who may only deny does not allow": "pass", "the sandbox takes a high risk": "pass", "a rule denies": "pass",
		"the rule that sends them there": "pass",
		"this is wrong":                  "verdict: want allow, got ask\nby: want a/one, got \"\"\nrules: want [V-1], got []\nbecause reviewer a/one is unsure, so a person is asked",
		"nobody is asked about that":     "route: want review, got ask\nbecause permissions.mode is manual",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(report.Unfired) > 0 {
		t.Errorf("unfired: %+v", report.Unfired)
	}
	for _, f := range report.Coverage.Files {
		if len(f.Uncovered) > 0 {
			t.Errorf("%s: lines %v are not covered", f.File, f.Uncovered)
		}
	}
}

func TestVerdictsInCasesAreStrictlyRead(t *testing.T) {
	for body, want := range map[string]string{
		"verdicts: {}\n    want: {verdict: allow}":                                              "verdicts must be a list",
		"verdicts: [{outcome: allow}]\n    want: {verdict: allow}":                              "a verdict needs a reviewer and an outcome",
		"verdicts: [{reviewer: a/b}]\n    want: {verdict: allow}":                               "a verdict needs a reviewer and an outcome",
		"verdicts: [{reviewer: a/b, outcome: approve}]\n    want: {verdict: allow}":             "outcome",
		"verdicts: [{reviewer: a/b, outcome: allow, risk: low}]\n    want: {verdict: allow}":    "a verdict has no key risk",
		"verdicts: [{reviewer: a/b, outcome: allow, risk_level: 1}]\n    want: {verdict: deny}": "risk_level",
		"verdicts: [{reviewer: a/b, outcome: allow}]\n    want: {route: review}":                "verdicts and what they come to belong together",
		"want: {verdict: allow}":                               "verdicts and what they come to belong together",
		"verdicts: []\n    want: {verdict: maybe}":             "verdict",
		"verdicts: []\n    want: {verdict: ask, route: ask}":   "verdicts are asked for where the route is review",
		"verdicts: []\n    want: {route: review, by: default}": "by is who settles a verdict",
	} {
		file := "- note: n\n  request: {kind: command, command: {text: make}}\n  " + strings.ReplaceAll(body, "\n    ", "\n  ") + "\n"
		report := run(t, workspace(t, map[string]string{"policies/x.rego": verdictPolicies, "cases/a.yaml": file}), cases.Options{})
		if len(report.Results) != 1 || report.Results[0].Status != cases.Error || !strings.Contains(report.Results[0].Message, want) {
			t.Errorf("%s: %+v, want %s", body, report.Results, want)
		}
	}
}
