package gate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate"
	"github.com/regent-policy/regent/gate/approval"
)

// home is a home on disk whose epochs are kept current.
type home struct {
	*testing.T
	*gate.Epochs
	dir  string
	feed *gate.Feed
}

const slow = "policy: {evaluation_timeout_ms: 10000}\n"

func keep(t *testing.T, content map[string]string) *home {
	t.Helper()
	h := &home{T: t, dir: files(t, content), feed: &gate.Feed{}}
	h.open()
	t.Cleanup(func() { h.Epochs.Close() })
	return h
}

func (h *home) open() {
	h.Epochs = gate.OpenEpochs(h.Context(), gate.EpochsOptions{
		Home: h.dir, Feed: h.feed,
		// The tick is out of the way: what is seen is seen by events and by the
		// look before each call.
		Watch: config.WatcherOptions{Debounce: 5 * time.Millisecond, Tick: time.Hour},
	})
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

// write writes a file in place.
func (h *home) write(name, text string) {
	h.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(h.path(name), []byte(text), 0o644); err != nil {
		h.Fatal(err)
	}
}

// replace renames a new file over an old one, as editors do.
func (h *home) replace(name, text string) {
	h.Helper()
	h.write(name+".tmp", text)
	if err := os.Rename(h.path(name+".tmp"), h.path(name)); err != nil {
		h.Fatal(err)
	}
}

func (h *home) remove(name string) {
	h.Helper()
	if err := os.RemoveAll(h.path(name)); err != nil {
		h.Fatal(err)
	}
}

func in(cwd, text string) gate.Question {
	r := command(text)
	r.Environment = &approval.Environment{Cwd: cwd}
	return gate.Question{Request: r}
}

// route asks what would become of a command now.
func (h *home) route(cwd, text string) approval.Route {
	h.Helper()
	q := in(cwd, text)
	return h.Of(h.Context(), q).Standing().Rule(h.Context(), q.Request).Route
}

func (h *home) want(cwd, text string, want approval.Route) {
	h.Helper()
	if got := h.route(cwd, text); got != want {
		h.Errorf("%s is routed to %s, want %s", text, got, want)
	}
}

// status is how a workspace stands.
func (h *home) status(dir string) gate.WorkspaceStatus {
	h.Helper()
	for _, s := range h.Status() {
		if s.Dir == dir {
			return s
		}
	}
	h.Fatalf("%s is not loaded: %+v", dir, h.Status())
	return gate.WorkspaceStatus{}
}

// until waits for events until a condition holds.
func (h *home) until(what string, is func() bool) {
	h.Helper()
	for {
		changed := h.feed.Changed()
		if is() {
			return
		}
		select {
		case <-changed:
		case <-h.Context().Done():
			h.Fatalf("never: %s; %+v", what, h.Status())
		}
	}
}

func (h *home) notices(kind gate.NoticeKind) (n int) {
	for _, one := range h.feed.Notices(0) {
		if one.Kind == kind {
			n++
		}
	}
	return n
}

const (
	homeDeny  = "package home.rules.one\n\n# METADATA\n# custom: {id: ONE}\ndeny contains \"no\" if input.request.command.text == \"%s\"\n"
	homeAllow = "package home.rules.one\n\n# METADATA\n# custom: {id: ONE}\nallow contains \"yes\" if input.request.command.text == \"%s\"\n"
)

func mode(name string) string { return "version: 1\n" + slow + "permissions: {mode: " + name + "}\n" }

// The cases of published failures of other systems, by their number in
// testdata/README.md of policies_test.

func TestReloadRename(t *testing.T) { // RLD-01
	h := keep(t, map[string]string{"config.yaml": mode("model_review")})
	for i, m := range []string{"manual", "auto_allow", "manual", "auto_allow"} {
		h.replace("config.yaml", mode(m))
		want := approval.RouteAsk
		if m == "auto_allow" {
			want = approval.RouteAllow
		}
		if got := h.route("/", "make"); got != want {
			t.Errorf("edit %d to %s: the next call is routed to %s", i, m, got)
		}
	}
}

func TestReloadHalfWritten(t *testing.T) { // RLD-02
	h := keep(t, map[string]string{
		"config.yaml":       mode("manual"),
		"policies/one.rego": fmt.Sprintf(homeDeny, "rm x"),
	})
	before := h.status("").Epoch
	for _, part := range []string{"", "version: 1\nperm", "version: 1\npermissions: {mode: auto_"} {
		h.write("config.yaml", part)
		h.want("/", "make", approval.RouteAsk)
		h.want("/", "rm x", approval.RouteDeny)
		s := h.status("")
		if s.State != "stale" || s.Epoch != before || !strings.Contains(s.Why, "config.yaml") || s.Since.IsZero() {
			t.Errorf("%q: status %+v", part, s)
		}
	}
	h.write("config.yaml", mode("auto_allow"))
	h.want("/", "make", approval.RouteAllow)
	if s := h.status(""); s.State != "current" || s.Why != "" {
		t.Errorf("status %+v", s)
	}
}

func TestReloadDoubleLink(t *testing.T) { // RLD-03
	h := keep(t, map[string]string{
		"..v1/config.yaml": mode("manual"), "..v1/policies/one.rego": fmt.Sprintf(homeDeny, "rm x"),
		"..v2/config.yaml": mode("auto_allow"), "..v2/policies/one.rego": fmt.Sprintf(homeDeny, "rm y"),
	})
	h.Epochs.Close()
	link := func(to, name string) {
		if err := os.Symlink(to, h.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v1", "..data")
	link("..data/config.yaml", "config.yaml")
	link("..data/policies", "policies")
	h.open()
	h.want("/", "make", approval.RouteAsk)
	h.want("/", "rm x", approval.RouteDeny)
	link("..v2", "..tmp")
	if err := os.Rename(h.path("..tmp"), h.path("..data")); err != nil {
		t.Fatal(err)
	}
	h.remove("..v1")
	h.want("/", "make", approval.RouteAllow)
	h.want("/", "rm x", approval.RouteAllow)
	h.want("/", "rm y", approval.RouteDeny)
	// Policies alone, too: then nothing but an event tells.
	h.write("..v3/config.yaml", mode("auto_allow"))
	h.write("..v3/policies/one.rego", fmt.Sprintf(homeDeny, "rm z"))
	link("..v3", "..tmp")
	if err := os.Rename(h.path("..tmp"), h.path("..data")); err != nil {
		t.Fatal(err)
	}
	h.until("the third set in force", func() bool { return h.route("/", "rm z") == approval.RouteDeny })
}

func TestReloadRuleThatDoesNotCompile(t *testing.T) { // RLD-04
	h := keep(t, map[string]string{"config.yaml": mode("manual"), "policies/one.rego": fmt.Sprintf(homeDeny, "rm x")})
	h.replace("policies/one.rego", "package home.rules.one\n\ndeny contains \"no\" if {\n")
	h.until("the fault is told", func() bool { return h.status("").State == "stale" })
	h.want("/", "rm x", approval.RouteDeny)
	if why := h.status("").Why; !strings.Contains(why, "policies/one.rego:") {
		t.Errorf("why: %s", why)
	}
	h.replace("policies/one.rego", fmt.Sprintf(homeDeny, "rm y"))
	h.until("the correction in force", func() bool { return h.route("/", "rm y") == approval.RouteDeny })
	h.want("/", "rm x", approval.RouteAsk)
	if n := h.notices(gate.NoticeFault); n != 1 {
		t.Errorf("the fault was told %d times", n)
	}
}

func TestFirstLoadBroken(t *testing.T) { // RLD-04, first start
	h := keep(t, map[string]string{"config.yaml": mode("auto_allow"), "policies/one.rego": "package home.rules.one\n\nallow contains\n"})
	h.want("/", "make", approval.RouteAsk)
	h.want("/", "ls", approval.RouteAsk)
	s := h.status("")
	if s.State != "asking" || s.Epoch != gate.NoEpoch || !strings.Contains(s.Why, "policies/one.rego:") {
		t.Errorf("status %+v", s)
	}
	h.replace("policies/one.rego", fmt.Sprintf(homeAllow, "make"))
	h.until("the correction in force", func() bool { return h.status("").State == "current" })
	h.want("/", "make", approval.RouteAllow)
}

func TestReloadConfigRemoved(t *testing.T) { // RLD-05
	h := keep(t, map[string]string{"config.yaml": mode("auto_allow"), "policies/one.rego": fmt.Sprintf(homeAllow, "echo hi")})
	h.want("/", "touch x", approval.RouteAllow)
	h.remove("config.yaml")
	h.want("/", "touch x", approval.RouteAsk)
	h.want("/", "echo hi", approval.RouteAllow)
	if s := h.status(""); s.State != "stale" || !strings.Contains(s.Why, "gone") {
		t.Errorf("status %+v", s)
	}
	h.write("config.yaml", mode("auto_allow"))
	h.want("/", "touch x", approval.RouteAllow)
}

func TestWorkspaceConfigRemoved(t *testing.T) {
	project := files(t, map[string]string{
		".regent/config.yaml":       mode("manual"),
		".regent/policies/one.rego": strings.Replace(fmt.Sprintf(homeDeny, "make"), "home.rules", "rules", 1),
		"sub/":                      "",
	})
	h := keep(t, map[string]string{"config.yaml": mode("auto_allow")})
	cwd := filepath.Join(project, "sub")
	h.want(cwd, "make", approval.RouteDeny)
	if err := os.Remove(filepath.Join(project, ".regent/config.yaml")); err != nil {
		t.Fatal(err)
	}
	// The home would allow it; that the workspace lost its file does not.
	h.want(cwd, "make", approval.RouteDeny)
	if err := os.RemoveAll(filepath.Join(project, ".regent")); err != nil {
		t.Fatal(err)
	}
	h.want(cwd, "make", approval.RouteDeny)
	h.want("/", "make", approval.RouteAllow)
}

func TestReloadHiddenEdit(t *testing.T) { // RLD-06
	h := keep(t, map[string]string{"config.yaml": "version: 1\n" + slow + "permissions: {mode: manual}     \n"})
	info, err := os.Stat(h.path("config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	same := "version: 1\n" + slow + "permissions: {mode: auto_allow} \n"
	if int64(len(same)) != info.Size() {
		t.Fatalf("%d bytes are not %d", len(same), info.Size())
	}
	h.write("config.yaml", same)
	if err := os.Chtimes(h.path("config.yaml"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	h.want("/", "make", approval.RouteAllow)
	h.replace("config.yaml", mode("manual"))
	older := info.ModTime().Add(-time.Minute)
	if err := os.Chtimes(h.path("config.yaml"), older, older); err != nil {
		t.Fatal(err)
	}
	h.want("/", "make", approval.RouteAsk)
}

func TestNoPolicyIsNoPermission(t *testing.T) { // RLD-07
	h := keep(t, map[string]string{"config.yaml": "version: 1\n" + slow + "policy: {paths: []}\n"})
	h.remove("config.yaml")
	h.write("config.yaml", "version: 1\npolicy: {paths: [], evaluation_timeout_ms: 10000}\n")
	q := in("/", "curl -s https://example.com")
	ruling := h.Of(t.Context(), q).Standing().Rule(t.Context(), q.Request)
	if ruling.Route != approval.RouteAsk || len(ruling.Reasons) == 0 {
		t.Errorf("ruling %+v", ruling)
	}
}

func TestFailedLoadIsTriedAgain(t *testing.T) { // RLD-08
	h := keep(t, map[string]string{"config.yaml": mode("manual")})
	h.write("policies/a.rego", "package home.rules.a\n\nimport data.home.lib.names\n\ndeny contains \"no\" if names.bad(input.request.command.text)\n")
	h.until("a fails without b", func() bool { return h.status("").State == "stale" })
	h.write("policies/lib/b.rego", "package home.lib.names\n\nbad(text) if text == \"rm x\"\n")
	h.until("a is in force once b is there", func() bool { return h.status("").State == "current" })
	h.want("/", "rm x", approval.RouteDeny)
}

func TestEveryFileIsListed(t *testing.T) { // RLD-09
	h := keep(t, map[string]string{
		"config.yaml":              mode("manual"),
		"policies/extra.rego":      fmt.Sprintf(homeDeny, "curl"),
		"policies/deep/data.json":  `{"home": {"x": 1}}`,
		"policies/notes.txt":       "not a policy",
		"policies/.hidden/no.rego": "package broken",
	})
	kinds := map[string]string{}
	for _, f := range h.Home().Standing().Epoch.Policy.Files() {
		kinds[f.Name] = f.Kind
	}
	want := map[string]string{"policies/extra.rego": "policy", "policies/deep/data.json": "data", "policies/notes.txt": "ignored"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	h.want("/", "curl", approval.RouteDeny)
}

func TestLooseningWaitsForItsOwner(t *testing.T) { // RLD-10
	confirm := func(mode, reads string) string {
		return "version: 1\npolicy: {evaluation_timeout_ms: 10000, confirm_loosening: true}\n" +
			"permissions: {mode: " + mode + ", read_only_commands: " + reads + "}\n"
	}
	h := keep(t, map[string]string{"config.yaml": confirm("manual", "skip")})
	before := h.status("").Epoch
	h.want("/", "ls", approval.RouteSkip)
	// One edit that loosens and tightens: the half that tightens counts at once.
	h.write("config.yaml", confirm("auto_allow", "ask"))
	h.want("/", "make", approval.RouteAsk)
	h.want("/", "ls", approval.RouteAllow) // auto_allow alone: stricter than the skip before
	s := h.status("")
	if s.State != "held" || s.Epoch != before || s.Held == "" || len(s.Loosened) != 1 || !strings.Contains(s.Loosened[0], "permissions.mode") {
		t.Errorf("status %+v", s)
	}
	owner := gate.Principal{ID: "user:sam", Role: gate.RoleOwner}
	for _, by := range []gate.Principal{{ID: "agent:x", Role: gate.RoleAgent}, {ID: "user:kim", Role: gate.RoleMember}, {ID: "user:lee", Role: gate.RoleObserver}, {}} {
		if err := h.Confirm(t.Context(), "", s.Held, by); !errors.Is(err, gate.ErrForbidden) {
			t.Errorf("confirmed by %+v: %v", by, err)
		}
	}
	if err := h.Confirm(t.Context(), "", before, owner); !errors.Is(err, gate.ErrMovedOn) {
		t.Errorf("confirmed something else: %v", err)
	}

	// A restart does not bring it into force either.
	h.Epochs.Close()
	h.open()
	if s := h.status(""); s.State != "unconfirmed" {
		t.Errorf("after a restart: %+v", s)
	}
	h.want("/", "make", approval.RouteAsk)
	if err := h.Confirm(t.Context(), "", h.status("").Epoch, owner); err != nil {
		t.Fatal(err)
	}
	h.want("/", "make", approval.RouteAllow)
	h.Epochs.Close()
	h.open()
	if s := h.status(""); s.State != "current" {
		t.Errorf("confirmed, and after a restart: %+v", s)
	}

	// A change of rules waits too; what it denies counts at once, and putting back
	// what was confirmed needs nobody.
	h.write("policies/one.rego", fmt.Sprintf(homeDeny, "rm x"))
	h.until("the rule is held", func() bool { return h.status("").State == "held" })
	h.want("/", "rm x", approval.RouteDeny)
	h.remove("policies")
	h.until("put back", func() bool { return h.status("").State == "current" })
	h.want("/", "rm x", approval.RouteAllow)
}

// An edit that is made while others can change the workspace, so that it only
// tightens, does not come into force when they no longer can.
func TestLooseningDoesNotSlipInWithTheMode(t *testing.T) {
	text := "version: 1\npolicy: {evaluation_timeout_ms: 10000, confirm_loosening: true}\npermissions: {mode: %s}\n"
	project := files(t, map[string]string{".regent/config.yaml": fmt.Sprintf(text, "manual")})
	path := filepath.Join(project, ".regent/config.yaml")
	chmod := func(bits os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, bits); err != nil {
			t.Fatal(err)
		}
	}
	chmod(0o644)
	h := keep(t, map[string]string{"config.yaml": mode("manual")})
	if _, err := h.Trust().Add(project, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	h.want(project, "make", approval.RouteAsk)
	chmod(0o666)
	h.want(project, "make", approval.RouteAsk)
	if err := os.WriteFile(path, []byte(fmt.Sprintf(text, "auto_allow")), 0o666); err != nil {
		t.Fatal(err)
	}
	h.want(project, "make", approval.RouteAsk)
	chmod(0o644)
	h.want(project, "make", approval.RouteAsk)
}

func TestTighteningNeedsNobody(t *testing.T) {
	text := "version: 1\npolicy: {evaluation_timeout_ms: 10000, confirm_loosening: true}\npermissions: {mode: %s}\n"
	h := keep(t, map[string]string{"config.yaml": fmt.Sprintf(text, "auto_allow")})
	h.write("config.yaml", fmt.Sprintf(text, "manual"))
	h.want("/", "make", approval.RouteAsk)
	if s := h.status(""); s.State != "current" {
		t.Errorf("status %+v", s)
	}
}

func TestLooseningIsTold(t *testing.T) {
	h := keep(t, map[string]string{"config.yaml": mode("manual")})
	h.write("config.yaml", mode("auto_allow"))
	h.want("/", "make", approval.RouteAllow)
	if n := h.notices(gate.NoticeLoosened); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestPartlyInvalidIsWhollyRefused(t *testing.T) { // RLD-16
	h := keep(t, map[string]string{"config.yaml": mode("manual"), "policies/one.rego": fmt.Sprintf(homeDeny, "rm x")})
	h.write("config.yaml", mode("auto_allow")+"reviewers:\n  a/b: {kind: rego}\n")
	h.want("/", "make", approval.RouteAsk)
	h.replace("config.yaml", mode("manual"))
	h.replace("policies/one.rego", fmt.Sprintf(homeAllow, "make")+"\ndeny contains 1 if true\nallow := 7\n")
	h.until("the fault is told", func() bool { return h.status("").State == "stale" })
	h.want("/", "make", approval.RouteAsk)
	h.want("/", "rm x", approval.RouteDeny)
}

func TestTestsGuardTheSwap(t *testing.T) {
	text := "version: 1\npolicy: {evaluation_timeout_ms: 10000, test_before_load: true}\npermissions: {mode: manual}\n"
	test := "package home.rules.one_test\n\nimport data.home.rules.one\n\ntest_rm_denied if {\n\tone.deny with input as {\"request\": {\"command\": {\"text\": \"rm x\"}}}\n\tcount(one.deny) > 0 with input as {\"request\": {\"command\": {\"text\": \"rm x\"}}}\n}\n"
	h := keep(t, map[string]string{
		"config.yaml": text, "policies/one.rego": fmt.Sprintf(homeDeny, "rm x"), "policies/one_test.rego": test,
	})
	if s := h.status(""); s.State != "current" {
		t.Fatalf("status %+v", s)
	}
	h.replace("policies/one.rego", fmt.Sprintf(homeDeny, "rm y"))
	h.until("the failing test keeps the old rules", func() bool { return h.status("").State == "stale" })
	h.want("/", "rm x", approval.RouteDeny)
	if why := h.status("").Why; !strings.Contains(why, "policies/one_test.rego:") {
		t.Errorf("why: %s", why)
	}
	h.replace("policies/one_test.rego", strings.ReplaceAll(test, "rm x", "rm y"))
	h.until("the tests pass", func() bool { return h.status("").State == "current" })
	h.want("/", "rm y", approval.RouteDeny)
}

func TestUnchangedFilesAreNotInstalledAgain(t *testing.T) {
	h := keep(t, map[string]string{"config.yaml": mode("manual"), "policies/one.rego": fmt.Sprintf(homeDeny, "rm x")})
	standing := h.Home().Standing()
	h.replace("config.yaml", mode("manual"))
	h.want("/", "make", approval.RouteAsk)
	if h.Home().Standing() != standing {
		t.Error("the same text under another name was installed anew")
	}
}

func TestFolderOfPoliciesIsReplaced(t *testing.T) {
	h := keep(t, map[string]string{
		"config.yaml": mode("manual"), "policies/one.rego": fmt.Sprintf(homeDeny, "rm x"),
		"next/one.rego": fmt.Sprintf(homeDeny, "rm y"),
	})
	if err := os.Rename(h.path("policies"), h.path("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(h.path("next"), h.path("policies")); err != nil {
		t.Fatal(err)
	}
	h.until("the new folder in force", func() bool { return h.route("/", "rm y") == approval.RouteDeny })
	h.replace("policies/one.rego", fmt.Sprintf(homeDeny, "rm z"))
	h.until("an edit in the new folder in force", func() bool { return h.route("/", "rm z") == approval.RouteDeny })
}

func TestTrust(t *testing.T) {
	project := files(t, map[string]string{
		".regent/config.yaml":       mode("auto_allow"),
		".regent/policies/one.rego": "package rules.one\n\nallow contains \"yes\" if input.request.command.text == \"make\"\n",
		"sub/":                      "",
	})
	cwd := filepath.Join(project, "sub")
	h := keep(t, map[string]string{"config.yaml": mode("manual")})
	h.want(cwd, "make", approval.RouteAsk)
	h.want(cwd, "touch x", approval.RouteAsk)
	one, err := h.Trust().Add(project, "user:sam", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.want(cwd, "make", approval.RouteAllow)
	h.want(cwd, "touch x", approval.RouteAllow)
	if s := h.status(one.Dir); !s.Trusted {
		t.Errorf("status %+v", s)
	}
	// What others can change is trusted no longer, whatever was said before.
	shared := filepath.Join(project, ".regent/config.yaml")
	for bits, want := range map[os.FileMode]approval.Route{0o666: approval.RouteAsk, 0o644: approval.RouteAllow} {
		if err := os.Chmod(shared, bits); err != nil {
			t.Fatal(err)
		}
		h.want(cwd, "make", want)
		if warned := len(h.status(one.Dir).Warnings) > 0; warned != (want == approval.RouteAsk) {
			t.Errorf("mode %o: warnings %q", bits, h.status(one.Dir).Warnings)
		}
	}
	if err := os.Chmod(shared, 0o644); err != nil {
		t.Fatal(err)
	}
	h.want(cwd, "make", approval.RouteAllow)
	// Another process takes it back.
	if _, err := gate.NewTrust(h.dir).Remove(project); err != nil {
		t.Fatal(err)
	}
	h.want(cwd, "make", approval.RouteAsk)
	if _, err := h.Trust().Remove(project); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}

	if _, err := h.Trust().Add(filepath.Join(project, "sub"), "", time.Now()); !errors.Is(err, gate.ErrNoWorkspace) {
		t.Errorf("a folder without a workspace: %v", err)
	}
	if err := os.Chmod(filepath.Join(project, ".regent/config.yaml"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Trust().Add(project, "", time.Now()); !errors.Is(err, gate.ErrUnfit) {
		t.Errorf("a file that everybody may write: %v", err)
	}
	h.write("trust.json", "{")
	if _, err := h.Trust().List(); err == nil || !strings.Contains(err.Error(), "trust.json") {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := h.Trust().Add(project, "", time.Now()); err == nil {
		t.Error("a broken file was replaced")
	}
}

func TestIdleWorkspacesAreUnloaded(t *testing.T) {
	project := files(t, map[string]string{
		".regent/config.yaml":       mode("manual"),
		".regent/policies/one.rego": strings.Replace(fmt.Sprintf(homeDeny, "make"), "home.rules", "rules", 1),
	})
	h := keep(t, map[string]string{"config.yaml": mode("auto_allow")})
	h.Epochs.Close()
	h.Epochs = gate.OpenEpochs(t.Context(), gate.EpochsOptions{Home: h.dir, Feed: h.feed, Idle: 20 * time.Millisecond})
	h.want(project, "make", approval.RouteDeny)
	first := h.Of(t.Context(), in(project, "make"))
	h.until("unloaded", func() bool { return len(h.Status()) == 1 })
	h.want(project, "make", approval.RouteDeny)
	if h.Of(t.Context(), in(project, "make")) == first {
		t.Error("it was not unloaded")
	}
}
