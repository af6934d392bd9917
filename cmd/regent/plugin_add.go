package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/regent-policy/regent/config"
	"github.com/regent-policy/regent/plugin"
)

type pluginAddOptions struct {
	env []string
}

func newPluginAdd(a *app) *cobra.Command {
	o := &pluginAddOptions{}
	cmd := &cobra.Command{
		Use:   "add NAME [-- PROGRAM [ARG...]]",
		Short: "Add a plugin to config.yaml with its digest, or pin it anew",
		Long: `Add a plugin to config.yaml with the SHA-256 digest of its program, or pin one
that is there anew. It goes into the home's file, or into that of --workspace;
comments and everything else in the file stay as they are. The program is not
started. Its arguments are not pinned: make a script executable, and add it
itself instead of its interpreter.`,
		Example: `  $ regent plugin add acme --env HTTPS_PROXY -- /bin/true
  pinned acme ... in /home/sam/home/.regent/config.yaml
  $ regent plugin verify
  PLUGIN  STATE   SHA256 ... REVIEWERS  COMMAND
  acme    pinned ... /bin/true
  $ regent plugin add acme
  unchanged acme ... in /home/sam/home/.regent/config.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch at := cmd.ArgsLenAtDash(); {
			case len(args) == 0 || at == 0:
				return usagef("name the plugin")
			case len(args) > 1 && at != 1:
				return usagef("write the program after --, as in: %s acme -- bin/acme-reviewer", cmd.CommandPath())
			case at == 1 && len(args) == 1:
				return usagef("there is no program after --")
			}
			return nil
		},
		RunE: action(func(cmd *cobra.Command, args []string) error {
			return a.pluginAdd(o, args[0], args[1:])
		}),
	}
	cmd.Flags().StringArrayVar(&o.env, "env", nil, "let the plugin see the variable `NAME` of the environment; may be repeated")
	exits(cmd, exitDone, exitFailed, exitUsage)
	return cmd
}

// pluginAdded is what `regent plugin add` prints.
type pluginAdded struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	Changed bool   `json:"changed"`
}

func (a *app) pluginAdd(o *pluginAddOptions, name string, command []string) error {
	file, err := a.configFile()
	if err != nil {
		return err
	}
	// A link is followed: its target is what is to change, not what it is.
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	mode := fs.FileMode(0o600)
	if errors.Is(err, fs.ErrNotExist) {
		before = []byte("version: 1\n")
	} else if err != nil {
		return err
	} else if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	old, _, err := config.Parse(file, before)
	if err != nil {
		if old = lackingPlugin(file, before, name, command); old == nil {
			return badInput(err)
		}
	}
	p, known := old.Plugins[name]
	switch {
	case len(command) == 0 && !known:
		return usagef("no plugin is named %q in %s; write its program after --", name, file)
	case len(command) > 0 && known && !slices.Equal(command[1:], p.Command[1:]):
		return usagef("%s is in %s with other arguments; change them there, and then pin it with: regent plugin add %s", name, file, name)
	case len(o.env) > 0 && known:
		return usagef("%s is in %s already; write env there", name, file)
	}
	if len(command) > 0 {
		path, err := filepath.Abs(command[0])
		if err != nil {
			return err
		}
		if known && path != p.Command[0] {
			return usagef("%s is in %s with another program, %s; change it there first", name, file, p.Command[0])
		}
		p.Command = append([]string{path}, command[1:]...)
	}
	if info, err := os.Stat(p.Command[0]); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0 {
		return usagef("%s is not executable; run chmod +x on it", p.Command[0])
	}
	sum, err := plugin.Sum(p.Command[0])
	if err != nil {
		return badInput(err)
	}
	added := pluginAdded{Name: name, File: file, SHA256: sum, Changed: !known || !strings.EqualFold(p.SHA256, sum)}
	if added.Changed {
		if !known {
			p.Env = o.env
		}
		p.SHA256 = sum
		after, err := withPlugin(before, old, file, name, p)
		if err != nil {
			return badInput(err)
		}
		// People edit this file too, and hold no lock. One that did so meanwhile wins.
		if now, err := os.ReadFile(file); (err == nil && !bytes.Equal(now, before)) || (err != nil && !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("%s changed meanwhile; run this again", file)
		}
		if err := config.WriteFile(file, after); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		if err := os.Chmod(file, mode); err != nil {
			return err
		}
	}
	if a.global.json() {
		return writeJSON(a.stdout, added, true)
	}
	word := "pinned"
	if !added.Changed {
		word = "unchanged"
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s %s in %s\n", word, printable(name), sum, printable(file))
	return err
}

// lackingPlugin is the configuration of a file with which nothing is wrong but that
// it names a plugin which it does not have yet; nil where that is not so.
func lackingPlugin(file string, text []byte, name string, command []string) *config.Config {
	if len(command) == 0 {
		return nil
	}
	path, err := filepath.Abs(command[0])
	if err != nil {
		return nil
	}
	text, err = editPlugin(text, name, config.Plugin{
		Command: append([]string{path}, command[1:]...), SHA256: strings.Repeat("0", 64), // any will do here
	})
	if err != nil {
		return nil
	}
	c, _, err := config.Parse(file, text)
	if err != nil {
		return nil
	}
	lacking := *c
	lacking.Plugins = maps.Clone(c.Plugins)
	delete(lacking.Plugins, name)
	return &lacking
}

// withPlugin writes a plugin into the text of a configuration, and leaves the rest
// as it is. The result is read again: an edit that means anything else than what
// was to be is an error.
func withPlugin(text []byte, old *config.Config, file, name string, p config.Plugin) ([]byte, error) {
	after, err := editPlugin(text, name, p)
	if err != nil {
		return nil, err
	}
	got, _, err := config.Parse(file, after)
	if err != nil {
		return nil, fmt.Errorf("%s is written in a way that cannot be edited here; add this by hand: plugins: {%s: %s} (%w)", file, name, flowPlugin(p), err)
	}
	want := *old
	want.Plugins = map[string]config.Plugin{}
	for n, other := range old.Plugins {
		want.Plugins[n] = other
	}
	want.Plugins[name] = p
	if !sameJSON(&want, got) {
		return nil, fmt.Errorf("%s is written in a way that cannot be edited here; add this by hand: plugins: {%s: %s}", file, name, flowPlugin(p))
	}
	return after, nil
}

func sameJSON(one, other *config.Config) bool {
	first, err := json.Marshal(one)
	second, otherErr := json.Marshal(other)
	return err == nil && otherErr == nil && bytes.Equal(first, second)
}

// flowPlugin is a plugin in one line of YAML.
func flowPlugin(p config.Plugin) string {
	quoted := func(words []string) string {
		for i, w := range words {
			words[i] = quoteYAML(w)
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	text := "{command: " + quoted(slices.Clone(p.Command)) + `, sha256: "` + p.SHA256 + `"`
	if len(p.Env) > 0 {
		text += ", env: " + quoted(slices.Clone(p.Env))
	}
	return text + "}"
}

// quoteYAML is a word as text in quotes. JSON's form is YAML's, too.
func quoteYAML(s string) string {
	var b bytes.Buffer
	if err := writeJSON(&b, s, false); err != nil {
		panic(err) // text always has a JSON form
	}
	return strings.TrimSpace(b.String())
}

// editPlugin changes the text in one place: the pin of a plugin that is there, or a
// new entry before the others.
func editPlugin(text []byte, name string, p config.Plugin) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the configuration is no mapping")
	}
	pin := `sha256: "` + p.SHA256 + `"`
	_, plugins := member(document.Content[0], "plugins")
	if plugins == nil {
		if !bytes.HasSuffix(text, []byte("\n")) {
			text = append(slices.Clip(text), '\n')
		}
		return append(slices.Clip(text), "\nplugins:\n  "+quoteName(name)+": "+flowPlugin(p)+"\n"...), nil
	}
	if _, entry := member(plugins, name); entry != nil {
		if _, old := member(entry, "sha256"); old != nil {
			from := offset(text, old)
			end := from + len(old.Value)
			if old.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
				end += 2
			}
			return splice(text, from, end, `"`+p.SHA256+`"`)
		}
		return insert(text, entry, pin)
	}
	return insert(text, plugins, quoteName(name)+": "+flowPlugin(p))
}

// quoteName leaves a plain name as people write it.
func quoteName(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == "" {
		return name
	}
	return quoteYAML(name)
}

// insert writes a member before the others of a mapping.
func insert(text []byte, mapping *yaml.Node, member string) ([]byte, error) {
	if mapping.Kind != yaml.MappingNode {
		return nil, errors.New("plugins is no mapping")
	}
	if mapping.Style&yaml.FlowStyle != 0 {
		at := offset(text, mapping)
		if at >= len(text) || text[at] != '{' {
			return nil, errors.New("plugins is written in a way that cannot be edited here")
		}
		if len(mapping.Content) > 0 {
			member += ", "
		}
		return splice(text, at+1, at+1, member)
	}
	if len(mapping.Content) == 0 {
		return nil, errors.New("plugins is written in a way that cannot be edited here")
	}
	first := mapping.Content[0]
	at := offset(text, first)
	return splice(text, at, at, member+"\n"+strings.Repeat(" ", first.Column-1))
}

func member(mapping *yaml.Node, key string) (name, value *yaml.Node) {
	if mapping.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if mapping.Content[i].Value == key {
				return mapping.Content[i], mapping.Content[i+1]
			}
		}
	}
	return nil, nil
}

// offset is where a node starts. A column counts characters.
func offset(text []byte, n *yaml.Node) int {
	at := 0
	for range n.Line - 1 {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return len(text)
		}
		at += end + 1
	}
	line := string(text[at:])
	count := 0
	for i := range line {
		if count == n.Column-1 {
			return at + i
		}
		count++
	}
	return len(text)
}

func splice(text []byte, from, to int, with string) ([]byte, error) {
	if from > to || to > len(text) {
		return nil, errors.New("the configuration is written in a way that cannot be edited here")
	}
	return slices.Concat(text[:from], []byte(with), text[to:]), nil
}
