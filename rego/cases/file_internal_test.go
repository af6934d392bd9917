package cases

import (
	"testing"

	"github.com/regent-policy/regent/rego"
)

// FuzzReadCases is inside the package: it reads files without an engine, which
// would take most of the time.
func FuzzReadCases(f *testing.F) {
	// Seeds are short: the fuzzer takes long ones apart for minutes first.
	for _, text := range []string{
		"- {note: a, request: {kind: network, network: {host: x}}, want: {route: ask}}",
		"- {note: a, input: {kind: tool, tool: {name: x, arguments: {a: [1, 0x10, 1e3, ~, 2020-01-01]}}}, want: {route: deny, rules: []}}",
		"cases: [{note: a, settings: {mode: manual, reviewers: [a/b]}, data: {a: {b: 1}}}]\nenvironment: {cwd: /w}\n",
		"- want: {route: ask, ceiling: {scope: turn, network: {enabled: true}}, failure: deadline}",
		"&a [*a]", "- <<: {}", "? [a]\n: b", "cases: [[]]", "a: &x [*x, *x]", "\xff", "- !!binary x", "%YAML 9\n---\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cases, problems := readCases("a.yaml", rego.Workspace, text)
		if len(cases) == 0 && len(problems) == 0 {
			t.Error("neither a case nor a problem")
		}
		for _, c := range cases {
			if c.note == "" || c.request == nil || c.want.route == "" || c.line < 1 || c.request.Validate() != nil {
				t.Errorf("case = %+v, want it whole", c)
			}
		}
		for _, p := range problems {
			if p.Message == "" || p.File == "" || p.Line < 0 {
				t.Errorf("problem = %+v, want its place and a message", p)
			}
		}
	})
}
