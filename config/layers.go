package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Loosening is a key by which one configuration allows more, or is watched
// less, than another.
type Loosening struct {
	// File, Line and Column say where the key is written. Line and Column are 0
	// where it is not: a key that was removed can loosen too.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Path is the key.
	Path string `json:"path"`
	// From and To are the values before and after, as far as they can be said in
	// a word.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Reason says in words why this is looser.
	Reason string `json:"reason"`
}

func (l Loosening) String() string {
	message := l.Reason
	if l.From != "" || l.To != "" {
		message = fmt.Sprintf("%s (from %s to %s)", l.Reason, said(l.From), said(l.To))
	}
	if l.File == "" {
		return l.Path + ": " + message
	}
	return place(l.File, l.Line, l.Column, l.Path, message, "")
}

func said(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
}

// change is a Loosening before it has a place.
type change struct{ path, from, to, reason string }

// setting is what the layers know about one key.
type setting struct {
	path string
	// rule says for the reference what is looser; it is empty where nothing is.
	rule string
	// looser lists what other loosens; nil means that nothing can.
	looser func(base, other *Config) []change
	// take copies the value into a copy of base. Nil means that the key never
	// comes from a workspace that is not trusted.
	take func(into, from *Config)
	// common copies the part of the value that loosens nothing, where the whole
	// does.
	common func(into, from *Config)
	// never lists what is written and never comes from a workspace that is not
	// trusted, whether or not it loosens. It stands in place of take.
	never func(found *Config) []change
}

// settings has every key that a file can write, or a key above it. A key that
// is missing here is never taken from a workspace that is not trusted, and
// there is a test that none is missing.
var settings = []setting{
	{path: "version"},
	{
		path:   "permissions.mode",
		rule:   "model_review after manual, auto_allow after either",
		looser: ordered("permissions.mode", func(c *Config) Mode { return c.Permissions.Mode }, ModeManual, ModeModelReview, ModeAutoAllow),
		take:   func(into, from *Config) { into.Permissions.Mode = from.Permissions.Mode },
	},
	{
		path:   "permissions.harness_mode",
		rule:   "auto_allow after manual",
		looser: ordered("permissions.harness_mode", func(c *Config) HarnessMode { return c.Permissions.HarnessMode }, HarnessManual, HarnessAutoAllow),
		take:   func(into, from *Config) { into.Permissions.HarnessMode = from.Permissions.HarnessMode },
	},
	{
		path: "permissions.reviewer_model",
		rule: "another reviewer, if there is one of that name",
		looser: func(base, other *Config) []change {
			from, to := base.Permissions.ReviewerModel, other.Permissions.ReviewerModel
			if _, ok := other.Reviewers[to]; from == to || !ok {
				return nil
			}
			return []change{{"permissions.reviewer_model", from, to, "another reviewer gives the verdicts"}}
		},
		take: func(into, from *Config) { into.Permissions.ReviewerModel = from.Permissions.ReviewerModel },
	},
	{
		path: "permissions.review_timeout_seconds",
		take: func(into, from *Config) {
			into.Permissions.ReviewTimeoutSeconds = from.Permissions.ReviewTimeoutSeconds
		},
	},
	{
		path: "permissions.request_timeout_seconds",
		take: func(into, from *Config) {
			into.Permissions.RequestTimeoutSeconds = from.Permissions.RequestTimeoutSeconds
		},
	},
	{
		path:   "permissions.read_only_commands",
		rule:   "skip after ask",
		looser: ordered("permissions.read_only_commands", func(c *Config) ReadOnlyCommands { return c.Permissions.ReadOnlyCommands }, ReadOnlyAsk, ReadOnlySkip),
		take:   func(into, from *Config) { into.Permissions.ReadOnlyCommands = from.Permissions.ReadOnlyCommands },
	},
	listed("permissions.trusted_mcp_servers", "an added server", "the hints of this server are believed",
		func(c *Config) *[]string { return &c.Permissions.TrustedMCPServers }),
	{
		path:   "approval_policy",
		rule:   "on_request after unless_trusted, either after never, a kind of request that was refused",
		looser: approvalLooser,
		take:   func(into, from *Config) { into.ApprovalPolicy = from.ApprovalPolicy },
	},
	{
		path:   "policy.paths",
		rule:   "a removed path, in another reading of the same file",
		looser: pathsLooser,
	},
	{
		path: "policy.organization",
		rule: "any change",
		looser: func(base, other *Config) []change {
			from, to := base.Policy.Organization.Path, other.Policy.Organization.Path
			if from == to {
				return nil
			}
			return []change{{"policy.organization.path", from, to, "other rules stand above all others"}}
		},
	},
	{
		path: "policy.evaluation_timeout_ms",
		rule: "a longer time",
		looser: func(base, other *Config) []change {
			from, to := base.Policy.EvaluationTimeoutMS, other.Policy.EvaluationTimeoutMS
			if to <= from {
				return nil
			}
			return []change{{"policy.evaluation_timeout_ms", strconv.Itoa(from), strconv.Itoa(to), "rules may take longer over each call"}}
		},
		take: func(into, from *Config) { into.Policy.EvaluationTimeoutMS = from.Policy.EvaluationTimeoutMS },
	},
	switched("policy.test_before_load", "rules take effect untested",
		func(c *Config) *bool { return &c.Policy.TestBeforeLoad }),
	switched("policy.confirm_loosening", "what loosens takes effect unconfirmed",
		func(c *Config) *bool { return &c.Policy.ConfirmLoosening }),
	listed("policy.capabilities.allow_builtins", "an added function", "rules may call this function",
		func(c *Config) *[]string { return &c.Policy.Capabilities.AllowBuiltins }),
	listed("policy.capabilities.allow_net", "an added host", "rules may reach this host",
		func(c *Config) *[]string { return &c.Policy.Capabilities.AllowNet }),
	{
		path: "reviewers",
		rule: "an added or changed reviewer",
		looser: func(base, other *Config) []change {
			return entriesLooser("reviewers", "this reviewer gives verdicts", base.Reviewers, other.Reviewers)
		},
	},
	{
		path: "plugins",
		rule: "an added or changed plugin",
		looser: func(base, other *Config) []change {
			return entriesLooser("plugins", "this program takes part", base.Plugins, other.Plugins)
		},
	},
	{
		path: "request_permissions.enabled",
		rule: "true after false",
		looser: func(base, other *Config) []change {
			if base.RequestPermissions.Enabled || !other.RequestPermissions.Enabled {
				return nil
			}
			return []change{{"request_permissions.enabled", "false", "true", "agents can ask for more than they have"}}
		},
		take: func(into, from *Config) { into.RequestPermissions.Enabled = from.RequestPermissions.Enabled },
	},
	hooked("request_permissions.before", func(c *Config) []Hook { return c.RequestPermissions.Before }),
	hooked("request_permissions.after", func(c *Config) []Hook { return c.RequestPermissions.After }),
	{
		path: "server.http",
		rule: "an added or changed address",
		looser: func(base, other *Config) []change {
			from, to := base.Server.HTTP, other.Server.HTTP
			if from == to || to == "" {
				return nil
			}
			return []change{{"server.http", from, to, "the daemon listens at this address"}}
		},
	},
	{path: "server.socket"},
	{
		path: "principals.owner",
		rule: "an added owner",
		looser: listed("principals.owner", "", "this principal becomes an owner",
			func(c *Config) *[]string { return &c.Principals.Owner }).looser,
	},
	{
		path:   "principals.members",
		rule:   "an added principal, observer after member",
		looser: membersLooser,
	},
	{
		path:   "principals.step_up",
		rule:   "false after true",
		looser: switched("principals.step_up", "answers count without fresh proof", func(c *Config) *bool { return &c.Principals.StepUp }).looser,
	},
	{
		path:   "notifiers",
		rule:   "an added, changed or removed notifier",
		looser: notifiersLooser,
	},
	{path: "ledger.driver"},
	{path: "ledger.path"},
}

// ordered judges a word by its place in words, which start with the tightest.
// A word that is not among them is looser than all that are.
func ordered[T ~string](path string, get func(*Config) T, words ...T) func(base, other *Config) []change {
	rank := func(word T) int {
		if i := slices.Index(words, word); i >= 0 {
			return i
		}
		return len(words)
	}
	return func(base, other *Config) []change {
		from, to := get(base), get(other)
		if rank(to) <= rank(from) && rank(to) < len(words) {
			return nil
		}
		return []change{{path, string(from), string(to), "fewer calls are put to a person"}}
	}
}

// listed is a setting whose every item allows something more.
func listed(path, rule, reason string, get func(*Config) *[]string) setting {
	return setting{
		path: path,
		rule: rule,
		looser: func(base, other *Config) []change {
			var found []change
			for _, item := range *get(other) {
				if !slices.Contains(*get(base), item) {
					found = append(found, change{path, "", item, reason})
				}
			}
			return found
		},
		take: func(into, from *Config) { *get(into) = slices.Clone(*get(from)) },
		common: func(into, from *Config) {
			kept := []string{}
			for _, item := range *get(from) {
				if slices.Contains(*get(into), item) {
					kept = append(kept, item)
				}
			}
			*get(into) = kept
		},
	}
}

// switched is a safeguard: off is looser than on.
func switched(path, reason string, get func(*Config) *bool) setting {
	return setting{
		path: path,
		rule: "false after true",
		looser: func(base, other *Config) []change {
			if *get(base) && !*get(other) {
				return []change{{path, "true", "false", reason}}
			}
			return nil
		},
		take: func(into, from *Config) { *get(into) = *get(from) },
	}
}

// hooked is a list of hooks. A hook only ever takes away, so an added one
// loosens nothing. It runs a program all the same, so a workspace that is not
// trusted adds none.
func hooked(path string, get func(*Config) []Hook) setting {
	return setting{
		path:   path,
		rule:   "a removed, changed or moved hook",
		looser: func(base, other *Config) []change { return hooksLooser(path, get(base), get(other)) },
		never: func(found *Config) []change {
			var all []change
			for i, h := range get(found) {
				all = append(all, change{fmt.Sprintf("%s[%d]", path, i), "", h.name(), "this hook takes part in requests"})
			}
			return all
		},
	}
}

// hooksLooser looks for the hooks of base in other, in their order: a hook sees
// what the ones before it have left, and stops less of it once they are others.
func hooksLooser(path string, base, other []Hook) []change {
	var found []change
	next := 0
	for _, before := range base {
		if i := slices.IndexFunc(other[next:], before.same); i >= 0 {
			next += i + 1
			continue
		}
		if i := slices.IndexFunc(other, func(h Hook) bool { return h.name() == before.name() }); i >= 0 {
			found = append(found, change{fmt.Sprintf("%s[%d]", path, i), "", "", "this hook takes part in another way or in another place"})
			continue
		}
		found = append(found, change{path, before.name(), "", "this hook no longer takes part"})
	}
	return found
}

// approvalLooser compares what each policy lets be asked. Of two that let the
// same be asked, the one under which more commands are asked about is tighter.
func approvalLooser(base, other *Config) []change {
	from, to := base.ApprovalPolicy, other.ApprovalPolicy
	before, after := from.asks(), to.asks()
	added := slices.DeleteFunc(slices.Clone(after), func(kind string) bool { return slices.Contains(before, kind) })
	switch {
	case len(added) > 0:
		return []change{{"approval_policy", from.String(), to.String(), "may now be asked for: " + list(added)}}
	case len(after) > 0 && from.Name == ApprovalUnlessTrusted && to.Name != ApprovalUnlessTrusted:
		return []change{{"approval_policy", from.String(), to.String(), "fewer commands are asked about"}}
	}
	return nil
}

// asks returns the kinds of request that the policy lets be asked, by key.
func (p ApprovalPolicy) asks() []string {
	kinds := []string{}
	fields := reflect.TypeFor[Granular]()
	for i := range fields.NumField() {
		key, _ := keyOf(fields.Field(i))
		if p.Granular != nil {
			if reflect.ValueOf(*p.Granular).Field(i).Bool() {
				kinds = append(kinds, key)
			}
		} else if p.Name != ApprovalNever {
			kinds = append(kinds, key)
		}
	}
	return kinds
}

// String returns the policy in a word, or the kinds that granular lets be
// asked.
func (p ApprovalPolicy) String() string {
	if p.Granular == nil {
		return string(p.Name)
	}
	return "granular{" + list(p.asks()) + "}"
}

// pathsLooser compares two readings of one file. The rules of different files
// stand beside each other, so neither takes away what the other has.
func pathsLooser(base, other *Config) []change {
	if base.Path != other.Path {
		return nil
	}
	var found []change
	for _, path := range base.Policy.Paths {
		if !slices.Contains(other.Policy.Paths, path) {
			found = append(found, change{"policy.paths", path, "", "the rules there no longer count"})
		}
	}
	return found
}

func entriesLooser[V any](section, reason string, base, other map[string]V) []change {
	var found []change
	for _, name := range slices.Sorted(maps.Keys(other)) {
		before, ok := base[name]
		switch {
		case !ok:
			found = append(found, change{section + "." + name, "", "", reason})
		case !reflect.DeepEqual(before, other[name]):
			found = append(found, change{section + "." + name, "", "", reason + " in another way"})
		}
	}
	return found
}

// notifiersLooser counts each change: a notifier that is added or changed is told
// of what agents ask, and one that is removed no longer is.
func notifiersLooser(base, other *Config) []change {
	found := entriesLooser("notifiers", "this notifier is told of requests", base.Notifiers, other.Notifiers)
	for _, name := range slices.Sorted(maps.Keys(base.Notifiers)) {
		if _, ok := other.Notifiers[name]; !ok {
			found = append(found, change{"notifiers." + name, "", "", "this notifier is no longer told of requests"})
		}
	}
	return found
}

func membersLooser(base, other *Config) []change {
	var found []change
	for _, name := range slices.Sorted(maps.Keys(other.Principals.Members)) {
		from, to := base.Principals.Members[name], other.Principals.Members[name]
		if from == to || from == RoleObserver || slices.Contains(base.Principals.Owner, name) {
			continue
		}
		found = append(found, change{"principals.members." + readable(name), string(from), string(to), "this principal sees more"})
	}
	return found
}

// Looser lists the keys by which other is looser than base. Both are whole
// configurations: two readings of one file, before and after an edit, or what
// Overlay and TightenOnly return. A key that is not written counts with its
// default, so removing a line can loosen. Timeouts of people and reviewers
// loosen nothing, since past them nothing is allowed.
//
// What the rules say is not judged here; of policy.paths a removed path counts,
// when base and other are readings of the same file.
func Looser(base, other *Config) []Loosening {
	var found []Loosening
	for _, s := range settings {
		if s.looser != nil {
			found = append(found, placed(other, s.looser(base, other))...)
		}
	}
	return found
}

// placed says where the keys stand in the file of c, or the nearest key above
// them.
func placed(c *Config, changes []change) []Loosening {
	found := make([]Loosening, 0, len(changes))
	for _, ch := range changes {
		l := Loosening{File: c.file, Path: ch.path, From: ch.from, To: ch.to, Reason: ch.reason}
		for at := ch.path; at != ""; {
			if pos, ok := c.keys[at]; ok {
				l.Line, l.Column = pos.Line, pos.Column
				break
			}
			i := strings.LastIndexByte(at, '.')
			at = at[:max(i, 0)]
		}
		found = append(found, l)
	}
	return found
}

// TightenOnly lays found, the file of a workspace that nobody has said to
// trust, over base. Of what found writes only that is taken which loosens
// nothing; the rest is listed and has no effect. The result is what calls in
// the workspace are decided by: its Path, Dir and Policy.Paths are those of
// found, everything else that found does not tighten is that of base. So
// Looser(base, result) is empty.
//
// Reviewers, plugins, hooks and an organization run programs or outrank other
// rules and are never taken. Of found's policy.paths those are kept that lie, with
// symbolic links followed, in the folder of the workspace, or in the one that
// holds it where it is called .regent: other files of this machine are not for
// its rules to read. A path that cannot be resolved is not kept.
func TightenOnly(base, found *Config) (*Config, []Loosening) {
	result := *base
	var refused []Loosening
	for _, s := range settings {
		if !found.writes(s.path) {
			continue
		}
		if s.path == "policy.paths" || homeOnly(s.path) {
			continue // dealt with below
		}
		if s.never != nil {
			refused = append(refused, placed(found, s.never(found))...)
			continue
		}
		candidate := result
		if s.take == nil {
			// Judged with found's value in place, so that repeating what the base
			// says is no loosening.
			overlay(&candidate, found, s.path)
		} else {
			s.take(&candidate, found)
		}
		var changes []change
		if s.looser != nil {
			changes = s.looser(&result, &candidate)
		}
		refused = append(refused, placed(found, changes)...)
		switch {
		case s.take == nil:
		case len(changes) == 0:
			result = candidate
		case s.common != nil:
			s.common(&result, found)
		}
	}
	result.adopt(found)
	result.Policy.Paths = nil
	for i, path := range found.Policy.Paths {
		if within(found.root(), path) {
			result.Policy.Paths = append(result.Policy.Paths, path)
			continue
		}
		refused = append(refused, placed(found, []change{{
			path: fmt.Sprintf("policy.paths[%d]", i), to: path, reason: "lies outside the workspace",
		}})...)
	}
	refused = append(refused, found.homeOnlyRefused()...)
	return &result, refused
}

// Overlay lays over, the file of a workspace that its owner trusts, over base.
// Each key that over writes takes the place of base's: a list as a whole,
// reviewers and plugins entry by entry. Hooks take no other's place: over's come
// after those of base. The result has over's Path, Dir and Policy.Paths. What over may not change is listed and has no effect: the keys
// that only a home's file may hold, and the organization where base has one.
func Overlay(base, over *Config) (*Config, []Loosening) {
	result := *base
	var refused []Loosening
	for _, s := range settings {
		if !over.writes(s.path) || s.path == "policy.paths" || homeOnly(s.path) {
			continue
		}
		if s.path == "policy.organization" && base.Policy.Organization.Path != "" {
			candidate := result
			overlay(&candidate, over, s.path)
			refused = append(refused, placed(over, s.looser(base, &candidate))...)
			continue
		}
		if s.take != nil {
			s.take(&result, over)
		} else {
			overlay(&result, over, s.path)
		}
	}
	result.adopt(over)
	return &result, append(refused, over.homeOnlyRefused()...)
}

// overlay copies the keys that have no take of their own.
func overlay(into, from *Config, path string) {
	switch path {
	case "version":
	case "policy.organization":
		into.Policy.Organization = from.Policy.Organization
	case "reviewers":
		into.Reviewers = joined(into.Reviewers, from.Reviewers)
	case "plugins":
		into.Plugins = joined(into.Plugins, from.Plugins)
	case "request_permissions.before":
		into.RequestPermissions.Before = slices.Concat(into.RequestPermissions.Before, from.RequestPermissions.Before)
	case "request_permissions.after":
		into.RequestPermissions.After = slices.Concat(into.RequestPermissions.After, from.RequestPermissions.After)
	default:
		panic("config: no way to lay " + path + " over another file")
	}
}

func joined[V any](base, over map[string]V) map[string]V {
	all := make(map[string]V, len(base)+len(over))
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}

// adopt makes c, a copy of a base, the configuration of the workspace whose
// file is from.
func (c *Config) adopt(from *Config) {
	c.Path, c.Dir, c.file = from.Path, from.Dir, from.file
	c.Policy.Paths = slices.Clone(from.Policy.Paths)
	c.SHA256, c.keys = "", nil
}

// writes reports whether the file has the key at path or one below it.
func (c *Config) writes(path string) bool {
	_, ok := c.keys[path]
	return ok
}

func homeOnly(path string) bool {
	return slices.ContainsFunc(homeSections, func(section string) bool {
		return path == section || strings.HasPrefix(path, section+".")
	})
}

func (c *Config) homeOnlyRefused() []Loosening {
	var refused []Loosening
	for _, pos := range c.HomeOnly() {
		refused = append(refused, Loosening{
			File: c.file, Line: pos.Line, Column: pos.Column, Path: pos.Path,
			Reason: "only the file of a home may hold this key",
		})
	}
	return refused
}

// root is the folder that belongs to a workspace.
func (c *Config) root() string {
	if filepath.Base(c.Dir) == WorkspaceDir {
		return filepath.Dir(c.Dir)
	}
	return c.Dir
}

// within reports whether path is dir or lies below it once both are resolved.
func within(dir, path string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
