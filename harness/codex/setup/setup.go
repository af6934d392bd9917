// Package setup makes Codex ask: it edits config.toml of a CODEX_HOME so that
// approvals reach their client and every call reaches Regent's hook, takes that
// back, and looks whether it works.
//
// What is known of Codex was measured with 0.156.1 and 0.171.0.
package setup

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// ErrForm means that a configuration is correct TOML, and that it is written in a
// way that cannot be edited without writing it anew. The error says what stands in
// the way.
var ErrForm = errors.New("the configuration cannot be edited")

// Oldest and Newest are the versions of Codex between which this was tested.
const (
	Oldest = "0.156.1"
	Newest = "0.171.0"
)

// HookTimeout is how long Codex waits for the hook, in seconds. It is more than
// the hook takes, since Codex runs the call when the time is over.
const HookTimeout = 10

// Events are the events that Regent's hook answers.
var Events = []string{"PreToolUse", "PermissionRequest"}

// Want is what a configuration is to have besides the settings that have Codex
// ask.
type Want struct {
	// Hook is the command of the hooks, see [HookCommand]; empty for no hooks.
	Hook string
	// Experimental turns on features that Codex has under development.
	Experimental bool
}

// Change is one thing that is changed in a configuration.
type Change struct {
	Key string `json:"key"`
	// Before and After are values in TOML; empty for none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Why says what it is good for.
	Why string `json:"why"`
}

// Plan is what is to become of a configuration.
type Plan struct {
	// File is config.toml, and Before and After its text.
	File          string
	Before, After []byte
	Changes       []Change
	// Notes say what was left as it is, and why. Warnings are about what may keep
	// requests from Regent.
	Notes, Warnings []string

	// new is set where there was no file.
	new    bool
	record Record
	undo   bool
}

// Changed tells whether there is anything to write.
func (p *Plan) Changed() bool { return !slices.Equal(p.Before, p.After) || p.undo }

// HookCommand is the command with which Codex starts the hook of a program, for a
// home of Regent; an empty home is the one that the environment says.
func HookCommand(program, home string) (string, error) {
	words := []string{program, "codex"}
	if home != "" {
		words = append(words, "--home", home)
	}
	for i, w := range words {
		if !utf8.ValidString(w) || strings.ContainsFunc(w, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", fmt.Errorf("%q cannot be written into a configuration", w)
		}
		words[i] = shellQuote(w)
	}
	if !filepath.IsAbs(program) {
		return "", fmt.Errorf("%s: name the hook by its whole path: Codex runs calls unasked where it cannot start it", program)
	}
	return "exec " + strings.Join(words, " "), nil
}

func shellQuote(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("/._-+@%:,=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

var ourHook = regexp.MustCompile(`(^|[/\\\s'"])regent(-hook(\.exe)?['"]?|(\.exe)?['"]?\s+hook)\s+codex(\s|$)`)

// IsHook tells whether a command of a hook starts Regent's.
func IsHook(command string) bool { return ourHook.MatchString(command) }

// feature is a switch of Codex that has more requests reach its client.
type feature struct {
	name, why    string
	experimental bool
}

var features = []feature{
	{"write_stdin_approval", "input to a program that runs outside the sandbox is asked about", false},
	{"request_permissions_tool", "the agent can ask for permissions in a request of its own", true},
	{"exec_permission_approvals", "a command can ask for some permissions instead of leaving the sandbox", true},
}

// draft is a plan that is being made.
type draft struct {
	plan *Plan
	doc  *document
	// allowed are the places that may differ in the end.
	allowed []path
}

func newDraft(file string, text []byte, record Record) (*draft, error) {
	doc, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	record.Edits = slices.Clone(record.Edits)
	return &draft{plan: &Plan{File: file, Before: text, After: text, record: record}, doc: doc}, nil
}

// MakePlan says what has to change in a text so that Codex asks. The file is for
// errors, and the record has what an earlier installation did.
//
// Nothing but what the plan lists is changed: comments, order and form of the
// text stay. An error is a [*SyntaxError] or wraps [ErrForm].
func MakePlan(file string, text []byte, record Record, want Want) (*Plan, error) {
	d, err := newDraft(file, text, record)
	if err != nil {
		return nil, err
	}
	steps := []func() error{d.approvals, d.sandbox, d.reviewer, func() error { return d.features(want.Experimental) }}
	if want.Hook != "" {
		steps = append(steps, func() error { return d.hooks(want.Hook) })
	} else if len(d.ours()) > 0 {
		d.note("the hooks of Regent that are there stay; --undo takes them away")
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	d.profiles()
	return d.finish()
}

func (d *draft) note(format string, args ...any) {
	d.plan.Notes = append(d.plan.Notes, fmt.Sprintf(format, args...))
}

func (d *draft) warn(format string, args ...any) {
	d.plan.Warnings = append(d.plan.Warnings, fmt.Sprintf(format, args...))
}

func (d *draft) approvals() error {
	const on = `"on-request"`
	why := "commands that the sandbox stops are asked about"
	switch now := d.doc.get("approval_policy").(type) {
	case nil:
	case string:
		switch now {
		case "on-request":
			return nil
		case "never":
			why = "with never nothing is asked, and what the sandbox stops fails"
		case "untrusted":
			why = "untrusted keeps Codex from starting since " + Oldest + " at the latest"
		}
	case map[string]any:
		if _, granular := now["granular"]; granular {
			d.note("approval_policy is granular and stays: what it switches off is refused by Codex, not run")
			return nil
		}
	}
	return d.set(nil, "approval_policy", on, why)
}

func (d *draft) sandbox() error {
	const workspace = `"workspace-write"`
	// A file with both goes by default_permissions (0.156.1 and 0.171.0).
	if now := d.doc.get("default_permissions"); now != nil {
		if now == ":danger-full-access" {
			return d.set(nil, "default_permissions", `":workspace"`, "without a sandbox every command runs unasked")
		}
		d.note("default_permissions is %v and stays: what it allows is not asked about", now)
		return nil
	}
	switch d.doc.get("sandbox_mode") {
	case "workspace-write", "read-only":
		return nil
	case "danger-full-access":
		return d.set(nil, "sandbox_mode", workspace, "without a sandbox every command runs unasked")
	}
	return d.set(nil, "sandbox_mode", workspace, "what goes beyond the workspace has to be asked for")
}

func (d *draft) reviewer() error {
	switch now := d.doc.get("approvals_reviewer"); now {
	case "user":
		return nil
	case nil:
		return d.set(nil, "approvals_reviewer", `"user"`, "requests go to the client and not to a model")
	default:
		return d.set(nil, "approvals_reviewer", `"user"`, fmt.Sprintf("with %v a model answers, and Regent is not asked", now))
	}
}

func (d *draft) features(experimental bool) error {
	for _, f := range features {
		now := d.doc.get("features", f.name)
		if now == true || f.experimental && !experimental {
			continue
		}
		if err := d.set(path{"features"}, f.name, "true", f.why); err != nil {
			return err
		}
	}
	return nil
}

// profiles warns of what an invocation can choose instead.
func (d *draft) profiles() {
	all, _ := d.doc.get("profiles").(map[string]any)
	for _, name := range sortedKeys(all) {
		one, _ := all[name].(map[string]any)
		for _, what := range loosening(one) {
			d.warn("profile %s has %s; it counts where an older Codex is started with it", name, what)
		}
	}
}

// loosening says which keys of a configuration keep requests from a client.
func loosening(c map[string]any) []string {
	var out []string
	if v := c["approval_policy"]; v == "never" || v == "on-failure" {
		out = append(out, fmt.Sprintf("approval_policy = %q", v))
	}
	if c["sandbox_mode"] == "danger-full-access" {
		out = append(out, `sandbox_mode = "danger-full-access"`)
	}
	if c["default_permissions"] == ":danger-full-access" {
		out = append(out, `default_permissions = ":danger-full-access"`)
	}
	if v, ok := c["approvals_reviewer"]; ok && v != "user" {
		out = append(out, fmt.Sprintf("approvals_reviewer = %q", fmt.Sprint(v)))
	}
	if c["bypass_hook_trust"] == true {
		out = append(out, "bypass_hook_trust = true")
	}
	if f, ok := c["features"].(map[string]any); ok && f["hooks"] == false {
		out = append(out, "features.hooks = false")
	}
	return out
}

// set gives a key of a table a value, which is in TOML.
func (d *draft) set(table path, key, value, why string) error {
	p := table.with(key)
	change := Change{Key: p.String(), After: value, Why: why}
	if e := d.doc.find(p); e != nil {
		change.Before = d.doc.raw(e.value)
		if err := d.replace(e, value); err != nil {
			return err
		}
	} else {
		if d.doc.get(p...) != nil {
			return fmt.Errorf("%w: %s is a table of its own", ErrForm, p)
		}
		in, err := d.doc.placeOf(table, key, value)
		if err != nil {
			return err
		}
		if err := d.insert(in, Edit{Path: p, After: value}); err != nil {
			return err
		}
	}
	d.plan.Changes = append(d.plan.Changes, change)
	return nil
}

func (d *document) raw(s span) string { return string(d.text[s.from:s.to]) }

// replace puts a value in the place of another, and notes it: in the edit that
// has inserted the other, or as an edit of its own.
func (d *draft) replace(e *entry, value string) error {
	p, place, before := slices.Clone(e.path), e.value, d.doc.raw(e.value)
	d.allowed = append(d.allowed, p)
	amended := false
	for i := range slices.Backward(d.plan.record.Edits) {
		one := &d.plan.record.Edits[i]
		start, ok := d.doc.once(one.Text)
		if !ok || place.from < start || place.to > start+len(one.Text) {
			continue
		}
		one.Text = one.Text[:place.from-start] + value + one.Text[place.to-start:]
		if one.After == before {
			one.After = value
		}
		amended = true
		break
	}
	if !amended {
		d.plan.record.Edits = append(d.plan.record.Edits, Edit{Path: p, Before: before, After: value})
	}
	return d.become(d.doc.replaced(d.plan.File, place, value))
}

// once is where a text is found, if it is found once.
func (d *document) once(text string) (at int, ok bool) {
	if text == "" {
		return 0, false
	}
	at = strings.Index(string(d.text), text)
	return at, at >= 0 && at == strings.LastIndex(string(d.text), text)
}

func (d *draft) insert(in insertion, e Edit) error {
	e.Text = in.text
	d.allowed = append(d.allowed, e.Path)
	d.plan.record.Edits = append(d.plan.record.Edits, e)
	return d.become(d.doc.replaced(d.plan.File, span{in.at, in.at}, in.text))
}

// become goes on with a document. What is no TOML any more was written in a way
// that an edit has not expected.
func (d *draft) become(doc *document, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	d.doc = doc
	return nil
}

// finish checks that nothing differs but what was meant to.
func (d *draft) finish() (*Plan, error) {
	before, err := parse(d.plan.File, d.plan.Before)
	if err != nil {
		return nil, err
	}
	if err := d.only(before.values); err != nil {
		return nil, err
	}
	d.plan.After = d.doc.text
	return d.plan, nil
}

func (d *draft) only(before map[string]any) error {
	for _, p := range differences(before, d.doc.values) {
		if !slices.ContainsFunc(d.allowed, p.below) {
			return fmt.Errorf("%w: %s would change as well", ErrForm, p)
		}
	}
	return nil
}

// handler is a hook in a configuration.
type handler struct {
	path    path // of the handler
	event   string
	command string
	matcher string
	timeout any
	// group and index are its numbers among those of the event.
	group, index int
}

// handlers are the hooks of an event.
func (d *document) handlers(event string) []handler {
	var out []handler
	groups, _ := d.get("hooks", event).([]any)
	for i, g := range groups {
		group, _ := g.(map[string]any)
		hooks, _ := group["hooks"].([]any)
		for j, h := range hooks {
			one, _ := h.(map[string]any)
			command, _ := one["command"].(string)
			matcher, _ := group["matcher"].(string)
			out = append(out, handler{
				path: path{"hooks", event, at(i), "hooks", at(j)}, event: event, command: command, matcher: matcher,
				timeout: one["timeout"], group: i, index: j,
			})
		}
	}
	return out
}

// ours are the hooks that start Regent's.
func (d *draft) ours() []handler {
	var out []handler
	for _, event := range Events {
		for _, h := range d.doc.handlers(event) {
			if IsHook(h.command) {
				out = append(out, h)
			}
		}
	}
	return out
}

func (d *draft) hooks(command string) error {
	if d.doc.get("features", "hooks") == false {
		if err := d.set(path{"features"}, "hooks", "true", "hooks do not run without it"); err != nil {
			return err
		}
	}
	for _, event := range Events {
		if err := d.hook(event, command); err != nil {
			return err
		}
	}
	return nil
}

var whyHook = map[string]string{
	"PreToolUse":        "every call of a tool passes by Regent's rules, asked about or not",
	"PermissionRequest": "what rules deny is declined in the words of the rule",
}

func (d *draft) hook(event, command string) error {
	all := d.doc.handlers(event)
	ours := slices.IndexFunc(all, func(h handler) bool { return IsHook(h.command) })
	if same := slices.IndexFunc(all, func(h handler) bool { return h.command == command }); same >= 0 {
		ours = same
	}
	if ours >= 0 {
		h := all[ours]
		if h.matcher != "" && h.matcher != "*" {
			d.warn("the hook of %s is for tools that match %q only", event, h.matcher)
		}
		if h.command != command {
			if err := d.correct(h, "command", quote(command), "the hook is this one"); err != nil {
				return err
			}
		}
		if seconds, ok := h.timeout.(int64); ok && seconds < HookTimeout {
			return d.correct(h, "timeout", strconv.Itoa(HookTimeout), "Codex runs the call when the time of the hook is over")
		}
		return nil
	}
	group := path{"hooks", event, at(d.groups(event))}
	d.plan.Changes = append(d.plan.Changes, Change{Key: "hooks." + event, After: quote(command), Why: whyHook[event]})
	inline := fmt.Sprintf(`{ matcher = "", hooks = [ { type = "command", command = %s, timeout = %d } ] }`, quote(command), HookTimeout)
	if e := d.doc.find(path{"hooks", event}); e != nil {
		if e.kind != unstable.Array {
			return fmt.Errorf("%w: hooks.%s is no array", ErrForm, event)
		}
		return d.insert(d.doc.inArray(e, inline), Edit{Path: group})
	}
	if e := d.doc.find(path{"hooks"}); e != nil {
		if e.kind != unstable.InlineTable {
			return fmt.Errorf("%w: hooks is no table", ErrForm)
		}
		return d.insert(d.doc.inInline(e, event+" = [ "+inline+" ]"), Edit{Path: group})
	}
	block := strings.Join([]string{
		"[[hooks." + event + "]]", `matcher = ""`, "[[hooks." + event + ".hooks]]",
		`type = "command"`, "command = " + quote(command), "timeout = " + strconv.Itoa(HookTimeout),
	}, d.doc.newline)
	return d.insert(d.doc.atEnd(block), Edit{Path: group})
}

func (d *draft) groups(event string) int {
	groups, _ := d.doc.get("hooks", event).([]any)
	return len(groups)
}

func (d *draft) correct(h handler, key, value, why string) error {
	e := d.doc.find(h.path.with(key))
	if e == nil {
		return fmt.Errorf("%w: the %s of the hook of %s is not found", ErrForm, key, h.event)
	}
	d.plan.Changes = append(d.plan.Changes, Change{Key: "hooks." + h.event + "." + key, Before: d.doc.raw(e.value), After: value, Why: why})
	return d.replace(e, value)
}

// Trusted is the trust in one hook: the name under which Codex keeps it, and the
// hash of what is trusted.
type Trusted struct{ Key, Hash string }

// Trust adds to a plan that hooks are trusted, which Codex skips otherwise.
func (p *Plan) Trust(all []Trusted) (*Plan, error) {
	d, err := newDraft(p.File, p.After, p.record)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		place := path{"hooks", "state", t.Key}
		if d.doc.get(place.with("enabled")...) == false {
			d.warn("a hook of Regent is switched off in hooks.state.%s", quoteKey(t.Key))
		}
		if d.doc.get(place.with("trusted_hash")...) == t.Hash {
			continue
		}
		if err := d.set(place, "trusted_hash", quote(t.Hash), "Codex skips a hook that is not trusted"); err != nil {
			return nil, err
		}
	}
	next, err := d.finish()
	if err != nil {
		return nil, err
	}
	next.Before, next.new = p.Before, p.new
	next.Changes = slices.Concat(p.Changes, next.Changes)
	next.Notes = slices.Concat(p.Notes, next.Notes)
	next.Warnings = slices.Concat(p.Warnings, next.Warnings)
	return next, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Record is what has been done once the plan is written, by this installation and
// those before.
func (p *Plan) Record() Record { return p.record }
