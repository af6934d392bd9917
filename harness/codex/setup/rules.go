package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// rule is a prefix_rule of Codex's exec policy.
type rule struct {
	file string
	line int
	// pattern has the words that each place of a command may have; nil where it is
	// not written down in the rule itself.
	pattern  [][]string
	decision string
}

// String is the rule's pattern as people write it.
func (r rule) String() string {
	var words []string
	for _, p := range r.pattern {
		words = append(words, strings.Join(p, "|"))
	}
	return strings.Join(words, " ")
}

// word is a token of Starlark: an identifier, a string or a sign.
type word struct {
	kind byte // 'i', 's' or the sign
	text string
	line int
}

// words reads Starlark as far as it takes to find calls and their arguments.
func words(text string) []word {
	var out []word
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '"' || c == '\'':
			value, next := stringAt(text, i)
			out = append(out, word{'s', value, line})
			line += strings.Count(text[i:next], "\n")
			i = next
		case name(c):
			from := i
			for i < len(text) && (name(text[i]) || text[i] >= '0' && text[i] <= '9') {
				i++
			}
			out = append(out, word{'i', text[from:i], line})
		default:
			out = append(out, word{c, text[i : i+1], line})
			i++
		}
	}
	return out
}

func name(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// stringAt reads the string that starts at i, and returns where it has ended.
func stringAt(text string, i int) (value string, next int) {
	end := text[i : i+1]
	if long := strings.Repeat(end, 3); strings.HasPrefix(text[i:], long) {
		end = long
	}
	i += len(end)
	var b strings.Builder
	for i < len(text) {
		switch {
		case strings.HasPrefix(text[i:], end):
			return b.String(), i + len(end)
		case text[i] == '\\' && i+1 < len(text):
			b.WriteByte(text[i+1])
			i += 2
		default:
			b.WriteByte(text[i])
			i++
		}
	}
	return b.String(), i
}

// readRules finds the rules for commands in a file. Codex has the last word on
// what they mean: see [Codex.allows].
func readRules(file, text string) []rule {
	all := words(text)
	var out []rule
	for i, w := range all {
		if w.kind != 'i' || w.text != "prefix_rule" || i+1 >= len(all) || all[i+1].kind != '(' {
			continue
		}
		r := rule{file: file, line: w.line, decision: "allow"} // what Codex takes where none is said
		depth := 0
		for j := i + 1; j < len(all); j++ {
			switch all[j].kind {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth--
			}
			if depth == 0 {
				break
			}
			if depth != 1 || all[j].kind != 'i' || j+2 >= len(all) || all[j+1].kind != '=' {
				continue
			}
			switch all[j].text {
			case "pattern":
				r.pattern = patternOf(all[j+2:])
			case "decision":
				r.decision = all[j+2].text // of a variable, its name, which is no decision
			}
		}
		out = append(out, r)
	}
	return out
}

// patternOf reads a list of words and of lists of words; nil where it is more.
func patternOf(all []word) [][]string {
	if len(all) == 0 || all[0].kind != '[' {
		return nil
	}
	var out [][]string
	inner := -1
	for _, w := range all[1:] {
		switch {
		case w.kind == ']' && inner >= 0:
			if len(out[inner]) == 0 {
				return nil
			}
			inner = -1
		case w.kind == ']':
			return out
		case w.kind == '[' && inner < 0:
			out, inner = append(out, nil), len(out)
		case w.kind == 's' && inner >= 0:
			out[inner] = append(out[inner], w.text)
		case w.kind == 's':
			out = append(out, []string{w.text})
		case w.kind == ',':
		default:
			return nil
		}
	}
	return nil
}

// runners start whatever they are told to: a rule that allows one of them allows
// everything.
var runners = []string{
	"sh", "bash", "zsh", "dash", "ksh", "fish", "env", "sudo", "doas", "xargs", "nohup", "nice", "timeout", "time", "exec", "eval", "command",
	"python", "python3", "node", "deno", "bun", "perl", "ruby", "php", "lua", "ssh", "docker", "powershell", "pwsh", "cmd",
}

// everything tells whether whatever is wanted can be run by a rule.
func (r rule) everything() bool {
	if len(r.pattern) == 0 {
		return false
	}
	for _, first := range r.pattern[0] {
		if !slices.Contains(runners, filepath.Base(first)) {
			continue
		}
		if len(r.pattern) == 1 || len(r.pattern) == 2 && slices.ContainsFunc(r.pattern[1], func(s string) bool { return strings.HasPrefix(s, "-") && strings.HasSuffix(s, "c") }) {
			return true
		}
	}
	return false
}

// ruleFiles are the files of rules in a folder.
func ruleFiles(dir string) []string {
	found, _ := filepath.Glob(filepath.Join(dir, "rules", "*.rules")) // the pattern is well formed
	slices.Sort(found)
	return found
}

// errRules means that Codex cannot read a file of rules.
var errRules = errors.New("codex cannot read the rules")

// allows asks Codex what files of rules say of a command.
func (c Codex) allows(ctx context.Context, home string, files, argv []string) (bool, error) {
	args := []string{"execpolicy", "check"}
	for _, f := range files {
		args = append(args, "--rules", f)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("codex execpolicy takes too long"))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Program, slices.Concat(args, []string{"--"}, argv)...)
	cmd.Env = c.env(home, false)
	said := &tail{}
	cmd.Stderr = said
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return false, fmt.Errorf("%w: %s", errRules, said.rulesFault())
	} else if err != nil {
		return false, err
	}
	var answer struct {
		Decision string `json:"decision"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return false, fmt.Errorf("codex execpolicy answers in another form: %w", err)
	}
	return answer.Decision == "allow", nil
}

// rulesFault is what Codex says of rules that it cannot read.
func (t *tail) rulesFault() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.text)
	if i := strings.Index(text, "starlark error: "); i >= 0 {
		lines := strings.SplitN(text[i:], "\n", 3)
		if len(lines) > 1 {
			return strings.TrimSpace(lines[0]) + " " + strings.TrimSpace(lines[1])
		}
	}
	return faultOf(text)
}

// maxAsked bounds how many rules Codex is asked about.
const maxAsked = 50

// rules looks for rules by which commands run without a question, and outside the
// sandbox.
func (r *Report) rules(ctx context.Context, c Codex, home string, folders []string) {
	var files []string
	for _, dir := range folders {
		files = append(files, ruleFiles(dir)...)
	}
	var readable []string
	var all []rule
	for _, f := range files {
		if _, err := c.allows(ctx, home, []string{f}, []string{"regent-doctor"}); err != nil {
			r.warn("rules", fmt.Sprintf("%s: %v", f, err), "correct the file: until then Codex applies no rules of yours at all, those that forbid among them")
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			r.warn("rules", err.Error(), "")
			continue
		}
		readable = append(readable, f)
		all = append(all, readRules(f, string(text))...)
	}
	quiet, asked := 0, 0
	for _, one := range all {
		where := fmt.Sprintf("%s:%d", one.file, one.line)
		switch one.decision {
		case "prompt", "forbidden", "prompt-user":
			continue
		case "allow":
		default:
			one.pattern = nil
		}
		if one.pattern == nil {
			quiet++
			r.warn("rules", where+": a rule that is not written down as it is, and may allow", "look at it: what a rule allows runs unasked, and outside the sandbox")
			continue
		}
		if asked++; asked <= maxAsked {
			var argv []string
			for _, p := range one.pattern {
				argv = append(argv, p[0])
			}
			if allowed, err := c.allows(ctx, home, readable, argv); err == nil && !allowed {
				continue // another rule is stricter
			}
		}
		quiet++
		if one.everything() {
			r.fail("rules", fmt.Sprintf("%s: %s ... may run anything, unasked and outside the sandbox", where, one), "remove the rule")
			continue
		}
		r.warn("rules", fmt.Sprintf("%s: %s ... runs unasked, and outside the sandbox", where, one), "remove the rule where Regent is to decide")
	}
	if quiet == 0 && len(readable) == len(files) {
		r.ok("rules", fmt.Sprintf("%d files of rules, and none allows anything", len(files)))
	}
}
