package policies_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/rego"
)

// RTE-05: a deny that cannot be evaluated is not one that does not match.
func TestADenyThatFailsAsks(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ body, kind string }{
		"a built-in that fails":           {`to_number(input.request.reason) == 1`, "evaluation"},
		"a value of the wrong type":       {`lower(json.unmarshal(input.request.reason).owner) == "x"`, "evaluation"},
		"a function that says two things": {`two(1) == 1`, "conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := workspace(t, `package rules.owner

# METADATA
# custom: {id: OWN-001}
deny contains "x" if {
	`+tt.body+`
}

allow contains "everything" if input.request

two(x) := y if {
	some y in [x, x + 1]
}
`)
			src.Settings.Mode, src.Settings.ReadOnlyCommands = "auto_allow", "skip"
			p := load(t, src)
			r := bash("ls", "")
			r.Reason = `{"owner": 1}`
			got := p.Rule(t.Context(), r)
			if got.Route != approval.RouteAsk || got.Failure == nil {
				t.Fatalf("route %s, failure %v, want ask with a failure", got.Route, got.Failure)
			}
			if f := got.Failure; f.Kind != tt.kind || f.File != "policies/rules.rego" || f.Line == 0 || f.Kind == "evaluation" && f.Rule != "OWN-001" {
				t.Errorf("failure = %+v, want kind %s, the place and the rule OWN-001", *f, tt.kind)
			}
			if !slices.Contains(got.Effects, approval.EffectUnknown) {
				t.Errorf("effects %v, want unknown", got.Effects)
			}
		})
	}
}

// RTE-05, as written elsewhere: a rule that looks at a part which the input
// never has does not load.
func TestARuleOnAFieldThatNoInputHasDoesNotLoad(t *testing.T) {
	t.Parallel()
	_, err := rego.Load(t.Context(), workspace(t, "package rules.x\n\ndeny contains \"x\" if input.meta.owner.name == \"x\"\n"))
	load, ok := errors.AsType[*rego.LoadError](err)
	if !ok || !strings.Contains(err.Error(), "undefined ref: input.meta.owner.name") {
		t.Fatalf("error = %v, want the reference that is undefined", err)
	}
	if p := load.Problems[0]; p.File != "policies/rules.rego" || p.Line != 3 || p.Hint == "" {
		t.Errorf("problem = %+v, want its line and a hint", p)
	}
}

// RTE-06: rules cannot reach out, and cannot run for ever.
func TestRulesCannotReachOut(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		`http.send({"method": "get", "url": "https://example.com"}).status_code == 200`,
		`net.lookup_ip_addr("example.com") == set()`,
		`opa.runtime().env.HOME == "x"`,
		`time.now_ns() > 0`,
		`rand.intn("x", 2) == 0`,
		`uuid.rfc4122("x") == "x"`,
	} {
		_, err := rego.Load(t.Context(), workspace(t, "package rules.x\n\nallow contains \"x\" if "+call+"\n"))
		if !errors.Is(err, rego.ErrLoad) {
			t.Errorf("%s: error = %v, want ErrLoad", call, err)
		}
	}
}

func TestRulesThatRunForEverAreStopped(t *testing.T) {
	t.Parallel()
	src := workspace(t, `package rules.slow

allow contains "x" if count([1 | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000); a + b == 0]) == 0
`)
	src.Settings.Timeout = 50 * time.Millisecond
	p := load(t, src)
	got := p.Rule(t.Context(), bash("ls", ""))
	if got.Route != approval.RouteAsk || got.Failure == nil || got.Failure.Kind != "deadline" {
		t.Errorf("route %s, failure %v, want ask past the deadline", got.Route, got.Failure)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the call was withdrawn"))
	got = p.Rule(ctx, bash("ls", ""))
	if got.Route != approval.RouteAsk || got.Failure == nil || !strings.Contains(got.Failure.Message, "withdrawn") {
		t.Errorf("route %s, failure %v, want ask with the cause", got.Route, got.Failure)
	}
}

// RLD-07: nothing loaded, and nothing that speaks, is not permission.
func TestNoPolicyAsks(t *testing.T) {
	t.Parallel()
	download := bash("curl -s https://example.com", "")
	for name, src := range map[string]rego.Source{
		"no layer":              {Settings: settings()},
		"a layer without rules": workspace(t, "package rules.empty\n"),
		"rules that are undefined": workspace(t, `package rules.never

allow contains "x" if data.rules.nothing.here
`),
	} {
		t.Run(name, func(t *testing.T) {
			got := rule(t, load(t, src), download)
			if got.Route != approval.RouteAsk || len(got.Rules) != 0 || len(got.Reasons) == 0 {
				t.Errorf("route %s by %v, reasons %q, want ask with a reason", got.Route, got.Rules, got.Reasons)
			}
		})
	}

	s := settings()
	s.Mode, s.ReadOnlyCommands = "auto_allow", "skip"
	_, err := rego.Load(t.Context(), workspace(t, "package rules.broken\n\nallow contains\n"))
	if err == nil {
		t.Fatal("a broken rule loads")
	}
	got := rego.Unloaded(err, s)
	if got.Route != approval.RouteAsk || got.Failure == nil || got.Failure.Kind != "load" || got.Failure.Line == 0 {
		t.Errorf("ruling = %+v, want ask with the load error and its line", got)
	}
}

// RTE-11: an allow rule covers a call only where it covers each of its commands.
func TestAnAllowCoversEveryCommand(t *testing.T) {
	t.Parallel()
	p := load(t, workspace(t, `package rules.allowed

import data.regent.lib.command

# METADATA
# custom: {id: ALLOW-001}
allow contains "cd, go test and npm run" if command.covered([["cd"], ["go", "test"], ["npm", "run"]])
`))
	for text, want := range map[string]approval.Route{
		"cd src":                         approval.RouteAllow,
		"go test ./...":                  approval.RouteAllow,
		"cd src && go test ./... | tail": approval.RouteAllow,
		"go test ./... 2>&1 | head -20":  approval.RouteAllow,
		"go test ./... > /dev/null":      approval.RouteAllow,
		"bash -c 'go test ./...'":        approval.RouteAllow,

		"cd src && python3 tool.py":            approval.RouteAsk,
		"cd src; rm -rf x":                     approval.RouteAsk,
		"go build && go test":                  approval.RouteAsk,
		"go test ./... > result.txt":           approval.RouteAsk,
		"go test ./... & rm x":                 approval.RouteAsk,
		"go test $(curl -s https://x.example)": approval.RouteAsk,
		"GOFLAGS=-toolexec=./x go test ./...":  approval.RouteAsk,
		"PATH=./bin:$PATH; go test ./...":      approval.RouteAsk,
		"export PATH=./bin && go test ./...":   approval.RouteAsk,
		"./go test ./...":                      approval.RouteAsk,
		"echo x | xargs go test":               approval.RouteAsk,
		"sudo go test ./...":                   approval.RouteAsk,
		"go() { rm x; }; go test":              approval.RouteAsk,
		"alias go=rm; go test":                 approval.RouteAsk,
		"go test ./... <<< \"$(rm x)\"":        approval.RouteAsk,
		"go test 'unfinished":                  approval.RouteAsk,
		"go\ttest\nrm x":                       approval.RouteAsk,
	} {
		got := rule(t, p, bash(text, ""))
		if got.Route != want {
			t.Errorf("%q: route %s, want %s; effects %v", text, got.Route, want, got.Effects)
		}
	}
}

// RTE-12: a redirection is a write, and is judged by the rules about files.
func TestARedirectionIsAWrite(t *testing.T) {
	t.Parallel()
	const plain = `package rules.allowed

import data.regent.lib.command

allow contains "echo and mkdir" if command.covered([["echo"], ["mkdir"]])
`
	const redirecting = `package rules.allowed

import data.regent.lib.command
import data.regent.lib.paths

allow contains "echo and mkdir below bar" if {
	every node in command.all {
		node.program in {"echo", "mkdir"}
		count(object.get(node, "problems", [])) == 0
	}
	not command.unclear
	not paths.unclear(input.request)
	every target in paths.write_targets(input.request) {
		paths.below(target, "/workspace/app/bar")
	}
}
`
	for name, tt := range map[string]struct {
		rules, text string
		want        approval.Route
	}{
		"the rule says nothing of files":            {plain, "mkdir -p bar && echo hi > bar/test.md", approval.RouteAsk},
		"the rule is about the commands alone":      {plain, "mkdir -p bar && echo hi", approval.RouteAllow},
		"the rule is about files too":               {redirecting, "mkdir -p bar && echo hi > bar/test.md", approval.RouteAllow},
		"the target is outside of what it grants":   {redirecting, "mkdir -p bar && echo hi > other/test.md", approval.RouteAsk},
		"the target leaves what it grants by dots":  {redirecting, "echo hi > bar/../../x", approval.RouteAsk},
		"the target cannot be told":                 {redirecting, `echo hi > "bar/$X"`, approval.RouteAsk},
		"errors are redirected as well":             {redirecting, "echo hi 2> /etc/x", approval.RouteAsk},
		"the redirection stands before the command": {redirecting, "> /etc/x echo hi", approval.RouteAsk},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := rule(t, load(t, workspace(t, tt.rules)), bash(tt.text, "")); got.Route != tt.want {
				t.Errorf("route %s, want %s; %q", got.Route, tt.want, got.Reasons)
			}
		})
	}
}

// RTE-13: what a rule allows in one place it does not allow where the repository
// is another, nor behind a wrapper.
func TestAnAllowDoesNotReachFurtherThanItSays(t *testing.T) {
	t.Parallel()
	src := workspace(t, `package rules.allowed

import data.regent.lib.command
import data.regent.lib.paths

allow contains "git status here" if {
	paths.below(input.environment.cwd, "/workspace/app")
	command.covered([["git", "status"]])
}
`)
	p := load(t, src)
	for name, tt := range map[string]struct {
		text, cwd string
		want      approval.Route
	}{
		"here":                    {"git status", "/workspace/app", approval.RouteAllow},
		"below":                   {"git status", "/workspace/app/sub", approval.RouteAllow},
		"in another checkout":     {"git status", "/workspace/other", approval.RouteAsk},
		"in one of a longer name": {"git status", "/workspace/app-evil", approval.RouteAsk},
		"by an option":            {"git -C /workspace/other status", "/workspace/app", approval.RouteAsk},
		"with a setting":          {"git -c core.fsmonitor=./x status", "/workspace/app", approval.RouteAsk},
		"with a variable":         {"GIT_DIR=/x git status", "/workspace/app", approval.RouteAsk},
		"by env":                  {"env GIT_DIR=/x git status", "/workspace/app", approval.RouteAsk},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rule(t, p, bash(tt.text, tt.cwd)); got.Route != tt.want {
				t.Errorf("route %s, want %s; effects %v", got.Route, tt.want, got.Effects)
			}
		})
	}
}

// PTH-18: to skip comes after every deny, also for a file that a command reads.
func TestAFileThatIsDeniedIsNotReadByACommandThatSkips(t *testing.T) {
	t.Parallel()
	src := workspace(t, `package rules.keys

import data.regent.lib.paths

# METADATA
# custom: {id: KEY-001}
deny contains sprintf("%s is a key", [path]) if {
	some path in paths.targets(input.request)
	paths.below(path, "/home/dev/.ssh")
}
`)
	src.Settings.ReadOnlyCommands = "skip"
	p := load(t, src)
	for text, want := range map[string]approval.Route{
		"grep -c . /home/dev/.ssh/id_ed25519":      approval.RouteDeny,
		"grep -c . ~/.ssh/id_ed25519":              approval.RouteDeny,
		"cd /home/dev && cat .ssh/id_ed25519":      approval.RouteDeny,
		"cat < /home/dev/.ssh/id_ed25519":          approval.RouteDeny,
		"head -c5 -- /home/dev/x/../.ssh/id":       approval.RouteDeny,
		"cat /home/dev/.ssh/*":                     approval.RouteDeny,
		"diff <(cat /home/dev/.ssh/id) x":          approval.RouteDeny,
		"grep -c . /home/dev/.ssh-notes/README.md": approval.RouteSkip,
		"grep -c . README.md":                      approval.RouteSkip,
		// What is read cannot be told, so it is not certain that it only reads.
		`grep -c . "$KEY"`:              approval.RouteAsk,
		`cd "$DIR" && cat x`:            approval.RouteAsk,
		"cat $(echo ~/.ssh/id_ed25519)": approval.RouteAsk,
	} {
		got := rule(t, p, bash(text, ""))
		if got.Route != want {
			t.Errorf("%q: route %s, want %s; effects %v, %q", text, got.Route, want, got.Effects, got.Reasons)
		}
	}
	read := request(t, `{"kind": "tool", "tool": {"name": "read_file", "arguments": {"path": "../../home/dev/.ssh/id"}}, `+environment+`}`)
	wantRoute(t, rule(t, p, read), approval.RouteDeny, "KEY-001")
}
