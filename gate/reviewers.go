package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/gate/approval"
	"github.com/regent-policy/regent/reviewer"
)

// reviewers are the identities of those whom a ruling has asked, as they are
// configured at this moment. A name that is not configured has no fingerprint.
func (s *Standing) reviewers(r *approval.Ruling) []approval.ReviewerIdentity {
	var out []approval.ReviewerIdentity
	for _, name := range r.Reviewers {
		one := approval.ReviewerIdentity{Name: name}
		if s.Epoch != nil {
			one.Fingerprint = s.Epoch.fingerprint(name)
		}
		out = append(out, one)
	}
	return out
}

// others are the reviewers, the plugins and the request_permissions section of a
// configuration as text, "" where they are the defaults: they are part of what an
// epoch is. What stands below the folders in dirs is named relative to them, so
// that the text is the same on every machine. programs are the digests of [programs].
func others(c *config.Config, programs map[string]string, dirs ...string) (string, error) {
	requests := &c.RequestPermissions
	if requests.Enabled && len(requests.Before) == 0 && len(requests.After) == 0 {
		requests = nil
	}
	if len(c.Reviewers) == 0 && len(c.Plugins) == 0 && requests == nil {
		return "", nil
	}
	plugins := make(map[string]config.Plugin, len(c.Plugins))
	for name, p := range c.Plugins {
		plugins[name] = identified(p, programs[name])
	}
	text, err := json.Marshal(struct {
		Reviewers map[string]config.Reviewer
		Plugins   map[string]config.Plugin
		// Left out where it is the default, so that it changes no fingerprint then.
		RequestPermissions *config.RequestPermissions `json:",omitempty"`
	}{c.Reviewers, plugins, requests})
	if err != nil {
		return "", fmt.Errorf("encode reviewers, plugins and hooks: %w", err)
	}
	out := string(text)
	for i, dir := range dirs {
		below, err := json.Marshal(dir + string(filepath.Separator))
		if err != nil {
			return "", fmt.Errorf("encode reviewers, plugins and hooks: %w", err)
		}
		if dir != "" {
			// The mark tells the folders apart, and holds a character that no value
			// holds: what is another path, or no path, stays another text.
			out = strings.ReplaceAll(out, strings.TrimSuffix(string(below), `"`), fmt.Sprintf("\"\x00%d/", i))
		}
	}
	return out, nil
}

// programs are the digests of the programs of plugins, by the names of the plugins,
// as they are now. An epoch reads them once: they can be large.
func programs(c *config.Config) map[string]string {
	sums := make(map[string]string, len(c.Plugins))
	for name, p := range c.Plugins {
		if p.SHA256 == "" && len(p.Command) > 0 {
			sums[name] = operand(p.Command[0]).SHA256
		}
	}
	return sums
}

// identified is a plugin with the digest of its program where the configuration
// pins none: another program is another plugin.
func identified(p config.Plugin, program string) config.Plugin {
	if p.SHA256 == "" {
		p.SHA256 = program
	}
	return p
}

// fingerprint is the SHA-256, in hexadecimal, of what makes a reviewer judge as it
// does: its configuration with the text of its guidance, what every model is told,
// the configuration of its plugin, and those of the members of a chain. Where a key
// to it is kept, which file its guidance comes from and what it costs have no part
// in it.
func (e *Epoch) fingerprint(name string) string {
	c := e.Config
	type part struct {
		Name     string
		Reviewer config.Reviewer
		Plugin   *config.Plugin `json:",omitempty"`
		// Instructions is the version of what models are told; 0 for other kinds.
		Instructions int `json:",omitempty"`
	}
	var parts []part
	seen := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		r, ok := c.Reviewers[name]
		if !ok || seen[name] {
			return
		}
		seen[name] = true
		r.APIKeyEnv, r.APIKeyFile, r.GuidanceFile, r.Price = "", "", "", config.Price{}
		p := part{Name: name, Reviewer: r}
		if r.Kind == config.ReviewerModel {
			p.Instructions = reviewer.InstructionsVersion
		}
		if plugin, ok := c.Plugins[r.Plugin]; ok {
			plugin = identified(plugin, e.programs[r.Plugin])
			p.Plugin = &plugin
		}
		parts = append(parts, p)
		for _, member := range r.Members {
			add(member)
		}
	}
	add(name)
	if len(parts) == 0 {
		return ""
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "" // text, numbers and lists of them always have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
