package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regent-policy/regent/harness/codex"
	"github.com/regent-policy/regent/harness/codex/scripted"
)

// Status is what became of a check.
type Status string

// The statuses. Fail means that there is something that Regent would not be asked
// about, or that it cannot be told.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one thing that was looked at.
type Check struct {
	// Name says what was looked at. A name may come several times.
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Text says what was found, and Advice what to do.
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// Report is what was found.
type Report struct {
	Home string `json:"home"`
	// Codex is its version; empty where it is not known.
	Codex  string  `json:"codex,omitempty"`
	Checks []Check `json:"checks"`
	// HooksRun tells whether Codex runs Regent's hooks.
	HooksRun bool `json:"-"`
}

// Failed tells whether a check has failed.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status == Fail })
}

// Add appends a check.
func (r *Report) Add(c Check) { r.Checks = append(r.Checks, c) }

func (r *Report) ok(name, text string)           { r.Add(Check{name, OK, text, ""}) }
func (r *Report) warn(name, text, advice string) { r.Add(Check{name, Warn, text, advice}) }
func (r *Report) fail(name, text, advice string) { r.Add(Check{name, Fail, text, advice}) }

const install = "run regent install codex"

// Examine looks whether a Codex asks, and whether a request of it arrives here.
// Its home is read by Codex itself, as at every start; nothing in it is changed.
// cwd is the folder whose own configuration counts, too.
func Examine(ctx context.Context, c Codex, home, cwd string) *Report {
	r := &Report{Home: home, Checks: []Check{}}
	config, err := readConfig(home)
	var d *document
	if err == nil {
		d, err = parse(config.path, config.text)
	}
	program, missing := exec.LookPath(c.Program)
	switch {
	case missing != nil:
		r.fail("codex", fmt.Sprintf("%s is not found", c.Program), "install Codex (npm install -g @openai/codex), or name it with --codex")
	case err != nil:
		r.version(ctx, c, program)
	}
	if err != nil {
		r.fail("config", err.Error(), "correct the file: Codex goes on as if there were none")
		return r
	}
	if config.new {
		r.fail("config", config.path+" does not exist, so Codex is as it comes", install)
		if _, err := os.Stat(home); errors.Is(err, fs.ErrNotExist) {
			return r // and it does not start
		}
	}
	if missing != nil {
		r.settings(d.values)
		r.warn("hooks", "whether Codex trusts hooks cannot be told without it", "")
		return r
	}
	s, err := c.open(ctx, home, cwd, false)
	if err != nil {
		r.version(ctx, c, program)
		r.fail("config", err.Error(), "correct the configuration")
		return r
	}
	layers := r.read(s, config, cwd)
	s.close()
	if layers == nil {
		return r
	}
	r.rules(ctx, c, home, layers)
	r.trial(ctx, c, home, d)
	return r
}

// version says which Codex there is where it cannot be started.
func (r *Report) version(ctx context.Context, c Codex, program string) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		r.fail("codex", fmt.Sprintf("%s --version: %v", c.Program, err), "")
		return
	}
	words := strings.Fields(string(out))
	if len(words) > 0 {
		r.tested(words[len(words)-1])
	}
}

func (r *Report) tested(version string) {
	r.Codex = version
	if version == "" {
		r.warn("codex", "Codex does not tell its version", "")
		return
	}
	if older(version, Oldest) || older(Newest, version) {
		r.warn("codex", fmt.Sprintf("Codex %s; this was tested with %s to %s", version, Oldest, Newest), "what follows was found with this version, so it holds; look again after an upgrade")
		return
	}
	r.ok("codex", "Codex "+version)
}

// older compares versions by their numbers.
func older(a, b string) bool {
	one, other := numbers(a), numbers(b)
	return slices.Compare(one, other) < 0
}

func numbers(version string) []int {
	version, _, _ = strings.Cut(version, "-")
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return out
		}
		out = append(out, n)
	}
	return out
}

// layer is one file of the configuration, as Codex has read it.
type layer struct {
	Name struct {
		Type string `json:"type"`
		File string `json:"file"`
		Dir  string `json:"dotCodexFolder"`
	} `json:"name"`
	Config map[string]any `json:"config"`
	// Off says why it does not count.
	Off string `json:"disabledReason"`
}

func (l layer) String() string {
	if l.Name.File != "" {
		return l.Name.File
	}
	if l.Name.Dir != "" {
		return filepath.Join(l.Name.Dir, ConfigName)
	}
	return l.Name.Type
}

// read looks at what Codex has read, and returns the folders whose rules count;
// nil where it has not read anything.
func (r *Report) read(s *server, config *config, cwd string) (folders []string) {
	r.tested(s.version)
	var got struct {
		Config map[string]any `json:"config"`
		Layers []layer        `json:"layers"`
	}
	err := s.call("config/read", map[string]any{"includeLayers": true, "cwd": cwd}, &got)
	if err == nil {
		err = s.refused()
	}
	if err != nil {
		r.fail("config", err.Error(), "correct the configuration: Codex goes on as if there were none")
		return nil
	}
	if !config.new {
		r.ok("config", config.path+" is read by Codex")
	}
	for _, w := range s.warnings {
		if w.Path != "" || strings.Contains(w.Summary, "rules") || strings.Contains(w.Summary, "Config") {
			r.warn("config", "Codex says: "+w.String(), "")
		}
	}
	r.settings(got.Config)
	folders = append(folders, filepath.Dir(config.path))
	for _, l := range got.Layers {
		if l.Name.Type == "user" || l.Off != "" {
			continue
		}
		if l.Name.Type == "project" && l.Name.Dir != "" {
			folders = append(folders, l.Name.Dir)
		}
		for _, what := range loosening(l.Config) {
			r.warn("project", fmt.Sprintf("%s has %s", l, what), "remove it there")
		}
	}
	for _, l := range got.Layers {
		if l.Off == "" && l.Name.Type == "user" && l.Config["bypass_hook_trust"] == true {
			r.warn("hooks", fmt.Sprintf("%s has bypass_hook_trust: every hook that is found is run", l), "remove it")
		}
	}
	r.profiles(got.Config, config)
	r.mcp(got.Config)
	r.projects(got.Config)
	r.hooks(s, cwd, got.Layers)
	r.requirements(s)
	return folders
}

// settings looks at what counts in a folder.
func (r *Report) settings(c map[string]any) {
	switch now := c["approval_policy"].(type) {
	case nil:
		r.warn("approvals", "approval_policy is not set: what Codex does then depends on its version, and on the folder", install)
	case string:
		switch now {
		case "on-request", "untrusted":
			r.ok("approvals", "approval_policy is "+now)
		default:
			r.fail("approvals", "approval_policy is "+now+": Codex does not ask", install)
		}
	case map[string]any:
		granular, _ := now["granular"].(map[string]any)
		var off []string
		for _, k := range sortedKeys(granular) {
			if granular[k] == false {
				off = append(off, k)
			}
		}
		switch {
		case granular["sandbox_approval"] == false:
			r.warn("approvals", "approval_policy is granular, with sandbox_approval off: Codex refuses by itself what the sandbox stops", "switch it on for Regent to decide")
		case len(off) > 0:
			r.ok("approvals", "approval_policy is granular; Codex refuses by itself: "+strings.Join(off, ", "))
		default:
			r.ok("approvals", "approval_policy is granular")
		}
	default:
		r.fail("approvals", fmt.Sprintf("approval_policy is %v, which nobody knows", now), install)
	}
	r.sandbox(c)
	switch now := c["approvals_reviewer"]; now {
	case nil, "user":
		r.ok("reviewer", "approvals are put to the client")
	default:
		r.fail("reviewer", fmt.Sprintf("approvals_reviewer is %v: a model answers, and Regent is not asked", now), install)
	}
}

func (r *Report) sandbox(c map[string]any) {
	name, mode := "sandbox_mode", c["sandbox_mode"]
	if p := c["default_permissions"]; p != nil {
		name, mode = "default_permissions", p
	}
	switch mode {
	case nil:
		r.warn("sandbox", "sandbox_mode is not set: what Codex does then depends on the folder", install)
		return
	case "danger-full-access", ":danger-full-access":
		r.fail("sandbox", fmt.Sprintf("%s is %v: every command runs unasked", name, mode), install)
		return
	case "workspace-write", "read-only", ":workspace", ":read-only":
		r.ok("sandbox", fmt.Sprintf("%s is %v", name, mode))
	default:
		r.warn("sandbox", fmt.Sprintf("%s is %v: what it allows is not asked about", name, mode), "look at what it allows")
	}
	workspace, _ := c["sandbox_workspace_write"].(map[string]any)
	if mode != "workspace-write" || workspace == nil {
		return
	}
	if workspace["network_access"] == true {
		r.warn("sandbox", "sandbox_workspace_write.network_access is true: commands use the network unasked", "switch it off for Regent to be asked")
	}
	roots, _ := workspace["writable_roots"].([]any)
	for _, root := range roots {
		r.warn("sandbox", fmt.Sprintf("commands write below %v unasked (sandbox_workspace_write.writable_roots)", root), "remove it for Regent to be asked")
	}
}

// profiles looks at what Codex can be started with instead.
func (r *Report) profiles(c map[string]any, config *config) {
	found := false
	for _, text := range otherConfigs(filepath.Dir(config.path), "") {
		found = true
		r.warn("profiles", text, "start Codex without it, or change it")
	}
	all, _ := c["profiles"].(map[string]any)
	for _, name := range sortedKeys(all) {
		one, _ := all[name].(map[string]any)
		for k, v := range one {
			if v == nil {
				delete(one, k)
			}
		}
		for _, what := range loosening(one) {
			found = true
			r.warn("profiles", fmt.Sprintf("profile %s has %s", name, what), "remove it: older versions of Codex can be started with it")
		}
	}
	if !found {
		r.ok("profiles", "none loosens")
	}
}

// mcp looks for tools that are approved for good.
func (r *Report) mcp(c map[string]any) {
	servers, _ := c["mcp_servers"].(map[string]any)
	var approved []string
	for _, server := range sortedKeys(servers) {
		approved = append(approved, approvedIn(path{"mcp_servers", server}, servers[server])...)
	}
	for _, where := range []string{"apps", "plugins"} {
		approved = append(approved, approvedIn(path{where}, c[where])...)
	}
	for _, key := range approved {
		r.warn("mcp", key+` is "approve": it is called unasked`, "remove it for Regent to decide")
	}
	if len(approved) == 0 {
		r.ok("mcp", "no tool is approved for good")
	}
}

// approvedIn are the keys that approve tools.
func approvedIn(p path, v any) []string {
	var out []string
	one, _ := v.(map[string]any)
	for _, k := range sortedKeys(one) {
		if one[k] == "approve" && strings.HasSuffix(k, "approval_mode") {
			out = append(out, p.with(k).String())
		}
		out = append(out, approvedIn(p.with(k), one[k])...)
	}
	return out
}

// projects looks at the folders whose own configuration counts.
func (r *Report) projects(c map[string]any) {
	all, _ := c["projects"].(map[string]any)
	trusted, found := 0, false
	for _, dir := range sortedKeys(all) {
		one, _ := all[dir].(map[string]any)
		if one["trust_level"] != "trusted" {
			continue
		}
		trusted++
		file := filepath.Join(dir, ".codex", ConfigName)
		if _, err := os.Stat(file); err != nil {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			continue // Codex cannot read it either
		}
		d, err := parse(file, text)
		if err != nil {
			continue
		}
		for _, what := range loosening(d.values) {
			found = true
			r.warn("projects", fmt.Sprintf("%s has %s, and Codex trusts the folder", file, what), "remove it there")
		}
	}
	if !found {
		r.ok("projects", fmt.Sprintf("%d folders are trusted by Codex, and none loosens", trusted))
	}
}

// hooks looks whether Codex runs Regent's hooks.
func (r *Report) hooks(s *server, cwd string, layers []layer) {
	for _, l := range layers {
		if f, ok := l.Config["features"].(map[string]any); ok && l.Off == "" && f["hooks"] == false {
			r.warn("hooks", fmt.Sprintf("%s has features.hooks = false: no hook is run", l), install)
			return
		}
	}
	all, err := s.hooks(cwd)
	if err != nil {
		r.warn("hooks", err.Error(), "")
		return
	}
	running := map[string]bool{}
	found := false
	for _, h := range all {
		if !IsHook(h.Command) {
			continue
		}
		found = true
		event := strings.ToUpper(h.Event[:min(1, len(h.Event))]) + h.Event[min(1, len(h.Event)):]
		switch fault := programFault(h.Command); {
		case !h.runs():
			r.warn("hooks", fmt.Sprintf("Codex skips the hook of %s: it is %s%s", event, h.Trust, off(h)), install+", or trust it with /hooks in Codex")
		case fault != "":
			r.fail("hooks", fmt.Sprintf("the hook of %s cannot be started: %s; Codex runs the call then", event, fault), install)
		default:
			running[event] = true
		}
	}
	if !found {
		r.warn("hooks", "Regent's hooks are not there: calls that the sandbox permits are not seen", install)
		return
	}
	var names []string
	for _, e := range Events {
		if running[e] {
			names = append(names, e)
		}
	}
	if len(names) == len(Events) {
		r.HooksRun = true
		r.ok("hooks", "Codex runs them at "+strings.Join(names, " and "))
	} else if len(names) > 0 {
		r.HooksRun = true
		r.warn("hooks", "Codex runs them at "+strings.Join(names, " and ")+" only", install)
	}
}

// programFault says why the program of a command that [HookCommand] has made
// cannot be started; empty where it can, or where the command is another.
func programFault(command string) string {
	word, ok := strings.CutPrefix(command, "exec ")
	if !ok {
		return ""
	}
	if strings.HasPrefix(word, "'") {
		i := strings.Index(word, "' codex")
		if i < 0 {
			return ""
		}
		word = strings.ReplaceAll(word[1:i], `'\''`, "'")
	} else {
		word, _, _ = strings.Cut(word, " ")
	}
	if _, err := exec.LookPath(word); err != nil {
		return err.Error()
	}
	return ""
}

// requirements looks at what the system's administrators want.
func (r *Report) requirements(s *server) {
	var got struct {
		Requirements *struct {
			Policies  []any           `json:"allowedApprovalPolicies"`
			Reviewers []string        `json:"allowedApprovalsReviewers"`
			Sandboxes []string        `json:"allowedSandboxModes"`
			Features  map[string]bool `json:"featureRequirements"`
		} `json:"requirements"`
	}
	if err := s.call("configRequirements/read", map[string]any{}, &got); err != nil {
		r.warn("requirements", err.Error(), "")
		return
	}
	q := got.Requirements
	if q == nil {
		r.ok("requirements", "none: whoever starts Codex can have it not ask (regent install codex --print-requirements prints some)")
		return
	}
	before := len(r.Checks)
	if q.Policies != nil && !slices.ContainsFunc(q.Policies, func(p any) bool {
		_, granular := p.(map[string]any)
		return p == "on-request" || granular
	}) {
		r.fail("requirements", "they do not allow on-request, so Codex does not ask", "have allowed_approval_policies changed")
	}
	if q.Reviewers != nil && !slices.Contains(q.Reviewers, "user") {
		r.fail("requirements", "they do not allow the user as the reviewer, so a model answers", "have allowed_approvals_reviewers changed")
	}
	if on, ok := q.Features["hooks"]; ok && !on {
		r.warn("requirements", "they switch hooks off", "have the features changed")
	}
	if len(r.Checks) > before {
		return
	}
	var strict []string
	if q.Policies != nil && !slices.Contains(q.Policies, any("never")) {
		strict = append(strict, "approval policies")
	}
	if len(q.Reviewers) == 1 {
		strict = append(strict, "reviewers")
	}
	if q.Sandboxes != nil && !slices.Contains(q.Sandboxes, "danger-full-access") {
		strict = append(strict, "sandbox modes")
	}
	if len(strict) == 0 {
		r.ok("requirements", "they do not hold for what has Codex ask")
		return
	}
	r.ok("requirements", "they hold whatever Codex is started with: "+strings.Join(strict, ", "))
}

const (
	// trialTime bounds the trial.
	trialTime = 2 * time.Minute
	// probe is the program that the trial has Codex ask about.
	probe  = "regent-doctor-probe"
	prompt = "regent doctor: run the probe"
	// marker is what the probe leaves behind when it runs.
	marker = "ran"
)

// trial has Codex ask for something harmless, with a model that does what it is
// told, in a copy of the home, and refuses it.
func (r *Report) trial(ctx context.Context, c Codex, home string, d *document) {
	if runtime.GOOS == "windows" {
		r.warn("trial", "whether a request arrives is not tried on this system", "")
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, trialTime, errors.New("it takes too long"))
	defer cancel()
	t, err := newTrial(home, d)
	if err == nil {
		err = t.run(ctx, c)
		err = errors.Join(err, t.close())
	}
	const again = "this is what Regent depends on; look at the checks above"
	switch {
	case err != nil:
		r.fail("trial", fmt.Sprintf("whether a request arrives cannot be told: %v", err), again)
	case t.ran && t.asked:
		r.fail("trial", "Codex ran a command outside its sandbox although that was refused", again)
	case t.ran:
		r.fail("trial", "Codex ran a command outside its sandbox and did not ask", again)
	case t.asked:
		r.ok("trial", "Codex asked before it left the sandbox, and took no for an answer")
	case t.reviewed:
		r.fail("trial", "Codex asked a model and not the client", again)
	case t.blocked:
		r.warn("trial", "a managed hook refused the request before it was asked for", "start the daemon (regent serve) and look again")
	default:
		r.fail("trial", "Codex refused to leave the sandbox and did not ask: "+t.told, again)
	}
	if err == nil && t.wrote {
		r.fail("sandbox", "a command in the sandbox wrote where it may not: the sandbox does not work here", "see what Codex says of sandboxes on this system")
	}
}

// trial is one run of the real Codex.
type trial struct {
	dir   string
	model *scripted.Server
	// confined is set where the sandbox has to stop the second command.
	confined bool

	asked, reviewed, blocked, ran, wrote bool
	told                                 string
}

// newTrial copies what counts of a home into a folder of its own.
func newTrial(home string, d *document) (*trial, error) {
	dir, err := os.MkdirTemp("", "regent-doctor-")
	if err != nil {
		return nil, err
	}
	t := &trial{}
	if t.dir, err = filepath.EvalSymlinks(dir); err == nil {
		t.model, err = scripted.Listen()
	}
	if err == nil {
		err = t.fill(home, d)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *trial) close() error {
	if t.model != nil {
		t.model.Close()
	}
	if t.dir == "" {
		return nil
	}
	return os.RemoveAll(t.dir)
}

func (t *trial) home() string    { return filepath.Join(t.dir, "codex") }
func (t *trial) work() string    { return filepath.Join(t.dir, "work") }
func (t *trial) outside() string { return filepath.Join(t.dir, "outside") }

func (t *trial) fill(home string, d *document) error {
	for _, dir := range []string{t.home(), filepath.Join(t.home(), "rules"), t.work(), t.outside()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	text, err := t.config(d)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.home(), ConfigName), text, 0o600); err != nil {
		return err
	}
	for _, f := range ruleFiles(home) {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(t.home(), "rules", filepath.Base(f)), text, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(t.work(), probe), []byte("#!/bin/sh\n: > '"+filepath.Join(t.outside(), marker)+"'\n"), 0o700) //nolint:gosec // it is a program
}

// config is the user's own with another model, and without what starts programs
// of the user's.
func (t *trial) config(d *document) ([]byte, error) {
	draft, err := newDraft(ConfigName, d.text, Record{})
	if err != nil {
		return nil, err
	}
	set := func(table path, key, value string) {
		if err == nil {
			err = draft.set(table, key, value, "")
		}
	}
	set(nil, "model", `"gpt-5.5"`)
	set(nil, "model_provider", `"regent-doctor"`)
	if d.get("notify") != nil {
		set(nil, "notify", "[]")
	}
	if d.get("bypass_hook_trust") != nil {
		set(nil, "bypass_hook_trust", "false")
	}
	provider := path{"model_providers", "regent-doctor"}
	for _, one := range [][2]string{
		{"name", `"regent doctor"`},
		{"base_url", quote(t.model.URL())},
		{"wire_api", `"responses"`},
		{"request_max_retries", "0"},
		{"stream_max_retries", "0"},
		{"supports_websockets", "false"},
	} {
		set(provider, one[0], one[1])
	}
	servers, _ := d.get("mcp_servers").(map[string]any)
	for _, name := range sortedKeys(servers) {
		set(path{"mcp_servers", name}, "enabled", "false")
	}
	if mode := d.get("sandbox_mode"); (mode == nil || mode == "workspace-write") && d.get("default_permissions") == nil {
		// The folder of the trial is a temporary one.
		set(path{"sandbox_workspace_write"}, "exclude_slash_tmp", "true")
		set(path{"sandbox_workspace_write"}, "exclude_tmpdir_env_var", "true")
	}
	if err != nil {
		return nil, err
	}
	return draft.doc.text, nil
}

func (t *trial) run(ctx context.Context, c Codex) error {
	t.model.Script(prompt,
		scripted.Say(scripted.Escalated("leave", filepath.Join(t.work(), probe))),
		scripted.Say(scripted.Exec("stay", "touch "+shellQuote(filepath.Join(t.outside(), "stayed")))),
		scripted.Say(scripted.Message("done")))
	s, err := c.open(ctx, t.home(), t.work(), true)
	if err != nil {
		return err
	}
	defer s.close()
	var thread struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
		Sandbox struct {
			Type  string   `json:"type"`
			Roots []string `json:"writableRoots"`
			NoTmp bool     `json:"excludeSlashTmp"`
		} `json:"sandbox"`
	}
	if err := s.call("thread/start", map[string]any{"cwd": t.work(), "ephemeral": true}, &thread); err != nil {
		return err
	}
	t.confined = thread.Sandbox.Type == "readOnly" || thread.Sandbox.Type == "workspaceWrite" && thread.Sandbox.NoTmp &&
		!slices.ContainsFunc(thread.Sandbox.Roots, func(root string) bool { return strings.HasPrefix(t.dir+"/", strings.TrimSuffix(root, "/")+"/") })
	over, failed := false, ""
	s.heard = func(m codex.Message) any {
		var p struct {
			ThreadID string `json:"threadId"`
			Turn     struct {
				Status string `json:"status"`
				Error  *struct {
					Message string `json:"message"`
				} `json:"error"`
			} `json:"turn"`
			Run struct {
				Status string `json:"status"`
			} `json:"run"`
		}
		if json.Unmarshal(m.Params, &p) != nil || p.ThreadID != thread.Thread.ID {
			return nil
		}
		switch m.Method {
		case "item/commandExecution/requestApproval":
			t.asked = true
			return map[string]any{"decision": "decline"}
		case "item/autoApprovalReview/started":
			t.reviewed = true
		case "hook/completed":
			t.blocked = t.blocked || p.Run.Status == "blocked"
		case "turn/completed":
			over = true
			if p.Turn.Error != nil {
				failed = p.Turn.Error.Message
			} else if p.Turn.Status != "completed" {
				failed = "the turn is " + p.Turn.Status
			}
		}
		return nil
	}
	if err := s.call("turn/start", map[string]any{
		"threadId": thread.Thread.ID, "input": []any{map[string]any{"type": "text", "text": prompt}},
	}, nil); err != nil {
		return err
	}
	for !over {
		if err := s.listen(); err != nil {
			return err
		}
	}
	t.ran = exists(filepath.Join(t.outside(), marker))
	t.wrote = t.confined && exists(filepath.Join(t.outside(), "stayed"))
	if requests := t.model.Requests(prompt); len(requests) > 0 {
		t.told = strings.TrimSpace(requests[len(requests)-1].Output("leave"))
	}
	if failed != "" && !t.asked {
		return errors.New(failed)
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Lstat(file)
	return err == nil
}
