package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checker looks for what the types cannot say. It gathers all faults so that
// the first one in the file is the one that is reported.
type checker struct {
	c        *Config
	faults   []*Error
	warnings []Warning
}

// pos returns where the key at path is written, or the nearest key above it.
func (k *checker) pos(path string) KeyPos {
	for at := path; ; {
		if pos, ok := k.c.keys[at]; ok {
			return KeyPos{Path: path, Line: pos.Line, Column: pos.Column}
		}
		i := strings.LastIndexAny(at, ".[")
		if k.c.keys == nil {
			return KeyPos{Path: path} // no file was read
		}
		if i < 0 {
			return KeyPos{Path: path, Line: 1, Column: 1}
		}
		at = at[:i]
	}
}

func (k *checker) fault(path, message, hint string, cause error) {
	pos := k.pos(path)
	k.faults = append(k.faults, &Error{
		File: k.c.file, Line: pos.Line, Column: pos.Column, Path: path, Message: message, Hint: hint, Err: cause,
	})
}

func (k *checker) warn(path, message, hint string) {
	pos := k.pos(path)
	k.warnings = append(k.warnings, Warning{
		File: k.c.file, Line: pos.Line, Column: pos.Column, Path: path, Message: message, Hint: hint,
	})
}

// first returns the fault that stands first in the file.
func (k *checker) first() *Error {
	if len(k.faults) == 0 {
		return nil
	}
	return slices.MinFunc(k.faults, func(a, b *Error) int {
		return byPosition(KeyPos{a.Path, a.Line, a.Column}, KeyPos{b.Path, b.Line, b.Column})
	})
}

// sorted returns the warnings in the order of the file.
func (k *checker) sorted() []Warning {
	slices.SortStableFunc(k.warnings, func(a, b Warning) int {
		return byPosition(KeyPos{a.Path, a.Line, a.Column}, KeyPos{b.Path, b.Line, b.Column})
	})
	return k.warnings
}

func (k *checker) written(path string) bool {
	_, ok := k.c.keys[path]
	return ok
}

// inOrder returns the names of a section's entries in the order of the file.
func inOrder[V any](k *checker, section string, entries map[string]V) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return byPosition(k.pos(section+"."+readable(a)), k.pos(section+"."+readable(b)))
	})
	return names
}

// values checks everything that can be judged without looking at a file.
func (k *checker) values() {
	k.permissions()
	k.policy()
	k.reviewers()
	k.plugins()
	k.hooks(k.hook)
	k.server()
	k.principals()
	k.notifiers()
	if k.written("ledger.path") {
		k.path("ledger.path", k.c.Ledger.Path)
	}
}

func (k *checker) permissions() {
	p := k.c.Permissions
	if !spaceName.MatchString(p.ReviewerModel) {
		k.fault("permissions.reviewer_model", "is no name of a reviewer", "write two parts, as in default/reviewer", nil)
	}
	for i, server := range p.TrustedMCPServers {
		if strings.ContainsAny(server, "*? \t") {
			k.fault(fmt.Sprintf("permissions.trusted_mcp_servers[%d]", i), quoted(server)+" is no name of a server", "name each server in full", nil)
		}
	}
	for _, path := range []string{"permissions.reviewer_model", "permissions.mode"} {
		if _, ok := k.c.Reviewers[p.ReviewerModel]; ok || p.Mode != ModeModelReview || !k.written(path) {
			continue
		}
		k.warn(path, "no reviewer here is named "+p.ReviewerModel,
			"while there is none, people are asked as with mode manual")
		break
	}
	if p.ReviewTimeoutSeconds > p.RequestTimeoutSeconds {
		path := "permissions.review_timeout_seconds"
		if !k.written(path) {
			path = "permissions.request_timeout_seconds"
		}
		k.warn(path, fmt.Sprintf("a review may take %d seconds, but a request waits for %d", p.ReviewTimeoutSeconds, p.RequestTimeoutSeconds),
			"let the request wait for longer than the review")
	}
}

var (
	builtinName = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)
	hostName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
)

func (k *checker) policy() {
	p := k.c.Policy
	for i, path := range p.Paths {
		k.path(fmt.Sprintf("policy.paths[%d]", i), path)
	}
	if p.Organization.Path != "" {
		k.path("policy.organization.path", p.Organization.Path)
	}
	for i, name := range p.Capabilities.AllowBuiltins {
		if !builtinName.MatchString(name) {
			k.fault(fmt.Sprintf("policy.capabilities.allow_builtins[%d]", i), quoted(name)+" is no name of a built-in function", "write it as Rego does, as in http.send", nil)
		}
	}
	for i, host := range p.Capabilities.AllowNet {
		if _, err := netip.ParseAddr(host); err != nil && !hostName.MatchString(host) {
			k.fault(fmt.Sprintf("policy.capabilities.allow_net[%d]", i), quoted(host)+" is no name of a host", "write it in full and in lower case, without scheme, port and wildcards", nil)
		}
	}
	opened := slices.ContainsFunc(p.Capabilities.AllowBuiltins, func(name string) bool {
		return name == "http.send" || strings.HasPrefix(name, "net.")
	})
	if opened && len(p.Capabilities.AllowNet) == 0 {
		k.warn("policy.capabilities.allow_builtins", "opens the network, but no host may be reached", "name the hosts in allow_net")
	}
	if !opened && len(p.Capabilities.AllowNet) > 0 {
		k.warn("policy.capabilities.allow_net", "names hosts, but no function that reaches them is opened", "name http.send in allow_builtins")
	}
}

// path refuses what a shell would expand: this file is not read by one.
func (k *checker) path(key, path string) {
	if strings.HasPrefix(path, "~") {
		k.fault(key, "~ is not expanded", "write the whole path", nil)
	} else if strings.Contains(path, "$") {
		k.fault(key, "variables are not expanded", "write the whole path", nil)
	}
}

// reviewerKeys are the keys that a kind of reviewer takes besides kind and
// timeout_seconds.
var reviewerKeys = map[ReviewerKind]struct{ required, optional []string }{
	ReviewerModel: {required: []string{"provider", "model"}, optional: []string{
		"api", "base_url", "api_key_env", "api_key_file", "ca_file", "stream", "guidance", "guidance_file",
		"max_evidence_bytes", "max_output_tokens", "price",
	}},
	ReviewerPlugin:  {required: []string{"plugin"}, optional: []string{"args"}},
	ReviewerCommand: {required: []string{"command"}},
	ReviewerRego:    {required: []string{"query"}},
	ReviewerChain:   {required: []string{"members"}, optional: []string{"decide", "quorum"}},
}

// maxMembers is how many members one chain may have.
const maxMembers = 16

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	regoPath     = regexp.MustCompile(`^data(\.[A-Za-z_][A-Za-z0-9_]*)+$`)
)

func (k *checker) reviewers() {
	for _, name := range inOrder(k, "reviewers", k.c.Reviewers) {
		k.reviewer("reviewers."+name, k.c.Reviewers[name])
	}
	k.cycles()
}

func (k *checker) reviewer(path string, r Reviewer) {
	takes := reviewerKeys[r.Kind]
	for _, key := range takes.required {
		if !k.written(path + "." + key) {
			k.fault(path+"."+key, "is missing", "a reviewer of kind "+string(r.Kind)+" needs it", nil)
		}
	}
	for _, key := range []string{
		"provider", "api", "model", "base_url", "api_key_env", "api_key_file", "ca_file", "stream", "guidance", "guidance_file",
		"max_evidence_bytes", "max_output_tokens", "price", "plugin", "args", "command", "query", "members", "decide", "quorum",
	} {
		if k.written(path+"."+key) && !slices.Contains(takes.required, key) && !slices.Contains(takes.optional, key) {
			k.fault(path+"."+key, "means nothing to a reviewer of kind "+string(r.Kind),
				"such a reviewer takes "+list(slices.Concat(takes.required, takes.optional, []string{"timeout_seconds"})), nil)
		}
	}
	if r.API != "" && r.Provider != "" && r.Provider != ProviderOpenAI {
		k.fault(path+".api", "means nothing to provider "+string(r.Provider), "it is for provider "+string(ProviderOpenAI), nil)
	}
	if r.BaseURL != "" {
		k.baseURL(path+".base_url", r.BaseURL)
	}
	if r.APIKeyEnv != "" && !variableName.MatchString(r.APIKeyEnv) {
		k.fault(path+".api_key_env", "is no name of an environment variable", "name the variable that holds the key, not the key", nil)
	}
	if r.APIKeyEnv != "" && r.APIKeyFile != "" {
		k.fault(path+".api_key_file", "stands beside api_key_env", "keep one of the two", nil)
	}
	if r.Guidance != "" && r.GuidanceFile != "" {
		k.fault(path+".guidance_file", "stands beside guidance", "keep one of the two", nil)
	}
	k.path(path+".api_key_file", r.APIKeyFile)
	k.path(path+".ca_file", r.CAFile)
	k.path(path+".guidance_file", r.GuidanceFile)
	if r.Plugin != "" {
		if _, ok := k.c.Plugins[r.Plugin]; !ok {
			k.fault(path+".plugin", "no plugin is named "+readable(r.Plugin), k.declared("plugins", inOrder(k, "plugins", k.c.Plugins), r.Plugin), nil)
		}
	}
	if k.written(path + ".command") {
		k.command(path+".command", r.Command)
	}
	if r.Query != "" && !regoPath.MatchString(r.Query) {
		k.fault(path+".query", quoted(r.Query)+" is no path of a rule", "write it as in data.home.review.verdict", nil)
	}
	if k.written(path+".members") && len(r.Members) == 0 {
		k.fault(path+".members", "is empty", "name at least one reviewer", nil)
	}
	if len(r.Members) > maxMembers {
		k.fault(path+".members", fmt.Sprintf("are more than %d", maxMembers), "make a chain of some of them", nil)
	}
	switch {
	case r.Decide == ChainQuorum && r.Quorum == 0:
		k.fault(path+".quorum", "is missing", "decide: quorum needs it", nil)
	case r.Decide != ChainQuorum && r.Quorum != 0 && r.Kind == ReviewerChain:
		k.fault(path+".quorum", "means nothing without decide: quorum", "write that, or remove this", nil)
	case r.Quorum > len(r.Members) && r.Kind == ReviewerChain:
		k.fault(path+".quorum", "is more than there are members", "so many can never allow", nil)
	}
	for i, member := range r.Members {
		if _, ok := k.c.Reviewers[member]; !ok {
			k.fault(fmt.Sprintf("%s.members[%d]", path, i), "no reviewer is named "+readable(member), k.declared("reviewers", inOrder(k, "reviewers", k.c.Reviewers), member), nil)
		}
	}
}

// declared says which entries a section has for a name that is not there.
func (k *checker) declared(section string, names []string, wanted string) string {
	if len(names) == 0 {
		return "declare it below " + section
	}
	if meant, ok := nearest(wanted, names); ok {
		return "did you mean " + meant + "?"
	}
	return "declare it below " + section
}

func (k *checker) baseURL(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		k.fault(path, "is no web address", "write it as in https://api.example.com/v1", nil)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		// Each is a place where people put a key.
		k.fault(path, "carries a user, a query or a fragment", "write the address alone; use api_key_env or api_key_file for the key", nil)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		k.fault(path, "would send the key and the requests over the network unencrypted", "use https", nil)
	}
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// cycles reports a chain that comes back to itself, once for each chain that
// closes a circle.
func (k *checker) cycles() {
	const open, done = 1, 2
	state := make(map[string]int, len(k.c.Reviewers))
	var visit func(name string)
	visit = func(name string) {
		state[name] = open
		for i, member := range k.c.Reviewers[name].Members {
			switch state[member] {
			case open:
				k.fault(fmt.Sprintf("reviewers.%s.members[%d]", name, i), "makes "+member+" ask itself", "remove it from the chain", nil)
			case 0:
				visit(member)
			}
		}
		state[name] = done
	}
	for _, name := range inOrder(k, "reviewers", k.c.Reviewers) {
		if state[name] == 0 {
			visit(name)
		}
	}
}

func (k *checker) command(path string, command []string) {
	if len(command) == 0 {
		k.fault(path, "is empty", "write the program and its arguments", nil)
		return
	}
	k.path(path+"[0]", command[0])
}

var digest = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (k *checker) plugins() {
	for _, name := range inOrder(k, "plugins", k.c.Plugins) {
		path, plugin := "plugins."+name, k.c.Plugins[name]
		k.command(path+".command", plugin.Command)
		if plugin.SHA256 == "" {
			k.warn(path, "is not pinned", "write the digest of its program as sha256")
		} else if !digest.MatchString(plugin.SHA256) {
			k.fault(path+".sha256", "is no SHA-256 digest", fmt.Sprintf("write 64 hexadecimal digits; these are %d characters", len([]rune(plugin.SHA256))), nil)
		}
		k.variables(path+".env", plugin.Env)
	}
}

// hooks calls each for every hook, with the path that it stands at.
func (k *checker) hooks(each func(path string, h *Hook)) {
	r := &k.c.RequestPermissions
	for i := range r.Before {
		each(fmt.Sprintf("request_permissions.before[%d]", i), &r.Before[i])
	}
	for i := range r.After {
		each(fmt.Sprintf("request_permissions.after[%d]", i), &r.After[i])
	}
}

func (k *checker) hook(path string, h *Hook) {
	command, reviewer := k.written(path+".command"), k.written(path+".reviewer")
	switch {
	case command && reviewer:
		k.fault(path+".reviewer", "stands beside command", "keep one of the two", nil)
	case command:
		k.command(path+".command", h.Command)
	case reviewer:
		if _, ok := k.c.Reviewers[h.Reviewer]; !ok {
			k.fault(path+".reviewer", "no reviewer is named "+readable(h.Reviewer), k.declared("reviewers", inOrder(k, "reviewers", k.c.Reviewers), h.Reviewer), nil)
		}
		if k.written(path + ".env") {
			k.fault(path+".env", "means nothing to a hook that is a reviewer", "such a hook takes reviewer, timeout_seconds", nil)
		}
	default:
		k.fault(path, "has neither command nor reviewer", "write one of the two", nil)
	}
	k.variables(path+".env", h.Env)
}

// variables refuses what is no name of an environment variable.
func (k *checker) variables(path string, names []string) {
	for i, name := range names {
		if !variableName.MatchString(name) {
			k.fault(fmt.Sprintf("%s[%d]", path, i), "is no name of an environment variable", "name the variable alone; its value comes from the environment", nil)
		}
	}
}

func (k *checker) server() {
	if k.written("server.socket") {
		k.path("server.socket", k.c.Server.Socket)
	}
	if k.c.Server.HTTP == "" {
		return
	}
	host, port, err := net.SplitHostPort(k.c.Server.HTTP)
	number, portErr := strconv.ParseUint(port, 10, 16)
	_, addrErr := netip.ParseAddr(host)
	switch {
	case err != nil || portErr != nil || number == 0 || (addrErr != nil && host != "localhost"):
		k.fault("server.http", quoted(k.c.Server.HTTP)+" is no address and port", "write it as in 127.0.0.1:7340", nil)
	case !loopback(host):
		k.fault("server.http", "other machines can reach "+quoted(k.c.Server.HTTP)+", and the daemon listens for this machine alone", "write it as in 127.0.0.1:7340", nil)
	}
}

func (k *checker) principals() {
	p := k.c.Principals
	for i, name := range p.Owner {
		path := fmt.Sprintf("principals.owner[%d]", i)
		if why := principalFault(name); why != "" {
			k.fault(path, quoted(name)+" is no name of a principal", why, nil)
		} else if isAgent(name) {
			k.fault(path, "an agent cannot be an owner", "name a person", nil)
		}
		if _, ok := p.Members[name]; ok {
			k.fault("principals.members."+readable(name), "is an owner too", "list each principal once", nil)
		}
	}
}

func isAgent(principal string) bool { return strings.HasPrefix(strings.ToLower(principal), "agent:") }

// notifierKeys are the keys that a kind of notifier takes besides kind, events
// and details.
var notifierKeys = map[NotifierKind]struct{ required, optional []string }{
	NotifierWebhook: {required: []string{"url"}, optional: []string{"secret_env", "secret_file", "ca_file"}},
	NotifierDesktop: {},
	NotifierCommand: {required: []string{"command"}, optional: []string{"env"}},
	NotifierPlugin:  {required: []string{"plugin"}},
}

func (k *checker) notifiers() {
	for _, name := range inOrder(k, "notifiers", k.c.Notifiers) {
		k.notifier("notifiers."+name, k.c.Notifiers[name])
	}
}

func (k *checker) notifier(path string, n Notifier) {
	takes := notifierKeys[n.Kind]
	for _, key := range takes.required {
		if !k.written(path + "." + key) {
			k.fault(path+"."+key, "is missing", "a notifier of kind "+string(n.Kind)+" needs it", nil)
		}
	}
	for _, key := range []string{"url", "secret_env", "secret_file", "ca_file", "command", "env", "plugin"} {
		if k.written(path+"."+key) && !slices.Contains(takes.required, key) && !slices.Contains(takes.optional, key) {
			k.fault(path+"."+key, "means nothing to a notifier of kind "+string(n.Kind),
				"such a notifier takes "+list(slices.Concat(takes.required, takes.optional, []string{"events", "details"})), nil)
		}
	}
	if n.URL != "" {
		k.webhook(path+".url", n.URL)
	}
	if n.SecretEnv != "" && !variableName.MatchString(n.SecretEnv) {
		k.fault(path+".secret_env", "is no name of an environment variable", "name the variable that holds the secret, not the secret", nil)
	}
	switch {
	case n.SecretEnv != "" && n.SecretFile != "":
		k.fault(path+".secret_file", "stands beside secret_env", "keep one of the two", nil)
	case n.Kind == NotifierWebhook && n.SecretEnv == "" && n.SecretFile == "":
		k.warn(path, "is not signed, so that its receiver cannot tell who sends", "give it a secret_env or a secret_file")
	}
	k.path(path+".secret_file", n.SecretFile)
	k.path(path+".ca_file", n.CAFile)
	if k.written(path + ".command") {
		k.command(path+".command", n.Command)
	}
	k.variables(path+".env", n.Env)
	if n.Plugin != "" {
		if _, ok := k.c.Plugins[n.Plugin]; !ok {
			k.fault(path+".plugin", "no plugin is named "+readable(n.Plugin), k.declared("plugins", inOrder(k, "plugins", k.c.Plugins), n.Plugin), nil)
		}
	}
	if k.written(path+".events") && len(n.Events) == 0 {
		k.fault(path+".events", "is empty", "name what it is told of, or remove the notifier", nil)
	}
}

func (k *checker) webhook(path, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		k.fault(path, "is no web address", "write it as in https://hooks.example.com/regent", nil)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		k.fault(path, "carries a user, a query or a fragment", "write the address alone; secret_env or secret_file is what the receiver knows us by", nil)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		k.fault(path, "would tell of requests over the network unencrypted", "use https", nil)
	}
}

// resolve makes the paths absolute, brings digests into one form and fills in
// the defaults of items. It is for values that have been checked.
func (k *checker) resolve() {
	c := k.c
	abs := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(c.Dir, *path)
		} else if *path != "" {
			*path = filepath.Clean(*path)
		}
	}
	for i := range c.Policy.Paths {
		abs(&c.Policy.Paths[i])
	}
	abs(&c.Policy.Organization.Path)
	abs(&c.Server.Socket)
	abs(&c.Ledger.Path)
	for name, r := range c.Reviewers {
		abs(&r.APIKeyFile)
		abs(&r.CAFile)
		abs(&r.GuidanceFile)
		if len(r.Command) > 0 {
			abs(&r.Command[0])
		}
		c.Reviewers[name] = r
	}
	for name, p := range c.Plugins {
		abs(&p.Command[0])
		p.SHA256 = strings.ToLower(p.SHA256)
		c.Plugins[name] = p
	}
	for name, n := range c.Notifiers {
		abs(&n.SecretFile)
		abs(&n.CAFile)
		if len(n.Command) > 0 {
			abs(&n.Command[0])
		}
		if len(n.Events) == 0 {
			n.Events = []NotifierEvent{NotifyPending}
		}
		if n.Details == "" {
			n.Details = DetailsSummary
		}
		c.Notifiers[name] = n
	}
	k.hooks(func(_ string, h *Hook) {
		if len(h.Command) == 0 {
			return
		}
		abs(&h.Command[0])
		if h.TimeoutSeconds == 0 {
			h.TimeoutSeconds = hookSeconds
		}
	})
}

// files checks that what the configuration refers to is there.
func (k *checker) files() {
	c := k.c
	for i, path := range c.Policy.Paths {
		k.policyFile(fmt.Sprintf("policy.paths[%d]", i), path, ".rego", ".json", ".yaml", ".yml", ".tar.gz")
	}
	if c.Policy.Organization.Path != "" {
		k.policyFile("policy.organization.path", c.Policy.Organization.Path, ".tar.gz")
	}
	for _, name := range inOrder(k, "reviewers", c.Reviewers) {
		r := c.Reviewers[name]
		if len(r.Command) > 0 {
			k.program("reviewers."+name+".command[0]", r.Command[0])
		}
		if r.APIKeyFile != "" {
			k.secretFile("reviewers."+name+".api_key_file", r.APIKeyFile)
		}
		if r.CAFile != "" {
			k.plainFile("reviewers."+name+".ca_file", r.CAFile)
		}
		if r.GuidanceFile != "" {
			r.Guidance = k.guidance("reviewers."+name+".guidance_file", r.GuidanceFile)
			c.Reviewers[name] = r
		}
	}
	for _, name := range inOrder(k, "plugins", c.Plugins) {
		k.program("plugins."+name+".command[0]", c.Plugins[name].Command[0])
	}
	k.hooks(func(path string, h *Hook) {
		if len(h.Command) > 0 {
			k.program(path+".command[0]", h.Command[0])
		}
	})
	for _, name := range inOrder(k, "notifiers", c.Notifiers) {
		n := c.Notifiers[name]
		if len(n.Command) > 0 {
			k.program("notifiers."+name+".command[0]", n.Command[0])
		}
		if n.SecretFile != "" {
			k.secretFile("notifiers."+name+".secret_file", n.SecretFile)
		}
		if n.CAFile != "" {
			k.plainFile("notifiers."+name+".ca_file", n.CAFile)
		}
	}
}

// plainFile checks that path is a file.
func (k *checker) plainFile(key, path string) (fs.FileInfo, bool) {
	info, ok := k.stat(key, path, "")
	if ok && !info.Mode().IsRegular() {
		k.fault(key, path+" is not a file", "", nil)
		return nil, false
	}
	return info, ok
}

// secretFile checks a file that others had better not read.
func (k *checker) secretFile(key, path string) {
	if info, ok := k.plainFile(key, path); ok && info.Mode().Perm()&0o077 != 0 {
		k.warn(key, "others can read "+path, "run chmod 600 on it")
	}
}

// guidance reads the text for a reviewer. It holds to what the text in a
// configuration does.
func (k *checker) guidance(key, path string) string {
	data, fault := read(path)
	if fault != nil {
		k.fault(key, path+" "+fault.Message, "", fault.Err)
		return ""
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	switch {
	case len(text) > MaxGuidance:
		k.fault(key, fmt.Sprintf("%s is longer than %d bytes", path, MaxGuidance), "", nil)
	case strings.TrimSpace(text) == "":
		k.fault(key, path+" is empty", "", nil)
	case !utf8.ValidString(text):
		k.fault(key, path+" is not UTF-8", "", nil)
	default:
		for _, r := range text {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				k.fault(key, fmt.Sprintf("%s holds the character %U", path, r), "leave out what cannot be seen", nil)
				break
			}
		}
	}
	return text
}

func (k *checker) stat(key, path, hint string) (fs.FileInfo, bool) {
	info, err := os.Stat(path)
	if err == nil {
		return info, true
	}
	if errors.Is(err, fs.ErrNotExist) {
		k.fault(key, path+" does not exist", hint, err)
	} else {
		k.fault(key, path+" cannot be looked at: "+reason(err), hint, err)
	}
	return nil, false
}

// reason returns what the system said, without the operation and the path.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

func (k *checker) policyFile(key, path string, endings ...string) {
	info, ok := k.stat(key, path, "create it or remove it here")
	if !ok || info.IsDir() {
		return
	}
	named := slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(path, ending) })
	if !info.Mode().IsRegular() || !named {
		k.fault(key, path+" is not a folder and not a file that ends in "+list(endings), "", nil)
	}
}

func (k *checker) program(key, path string) {
	info, ok := k.stat(key, path, "programs are not looked up in PATH: write the path of this one")
	switch {
	case !ok:
	case !info.Mode().IsRegular():
		k.fault(key, path+" is not a program", "", nil)
	case info.Mode().Perm()&0o111 == 0:
		k.fault(key, path+" is not executable", "run chmod +x on it", nil)
	case info.Mode().Perm()&0o002 != 0:
		k.warn(key, "anyone can change "+path, "run chmod o-w on it")
	}
}
