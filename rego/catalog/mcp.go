package catalog

import (
	"fmt"
	"strings"
)

// form is how a harness names the tools of MCP servers: a prefix, the server,
// a separator, the tool. Without a separator the name tells no server.
type form struct{ prefix, separator string }

// parseForm reads "mcp__{server}__{tool}", "{server}_{tool}" or "MCP:{tool}".
func parseForm(s string) (form, error) {
	rest, ok := strings.CutSuffix(s, "{tool}")
	if !ok {
		return form{}, fmt.Errorf("form %q does not end in {tool}", s)
	}
	prefix, separator, hasServer := strings.Cut(rest, "{server}")
	if strings.ContainsAny(prefix+separator, "{}") {
		return form{}, fmt.Errorf("form %q: use {server} and {tool}, once each", s)
	}
	if hasServer && separator == "" || !hasServer && prefix == "" {
		return form{}, fmt.Errorf("form %q: nothing tells server and tool apart", s)
	}
	return form{prefix: prefix, separator: separator}, nil
}

// split takes a name apart. The server is only told when there is one way to
// do so: with mcp__a__b__c nobody knows whether the server is a or a__b, and a
// guess could borrow the trust that one of them has.
func (f form) split(name string) (server, tool string, ok bool) {
	rest, ok := strings.CutPrefix(name, f.prefix)
	if !ok || rest == "" {
		return "", "", false
	}
	if f.separator == "" {
		return "", rest, true
	}
	at := -1
	for i := 0; i+len(f.separator) <= len(rest); i++ {
		if !strings.HasPrefix(rest[i:], f.separator) || i == 0 || i+len(f.separator) == len(rest) {
			continue
		}
		if at >= 0 {
			return "", "", true
		}
		at = i
	}
	if at < 0 {
		return "", "", false
	}
	return rest[:at], rest[at+len(f.separator):], true
}

// mcpName says whether name has the form of an MCP tool of the harness, and
// whose it is where that is certain.
func (t *table) mcpName(name string) (server, tool string, ok bool) {
	for _, f := range t.mcp {
		s, n, fits := f.split(name)
		if !fits {
			continue
		}
		if ok && (s != server || n != tool) {
			return "", "", true
		}
		server, tool, ok = s, n, true
	}
	return server, tool, ok
}

// of says whether name is the tool of that server in one of the harness's
// forms, and gives its bare name.
func (t *table) of(server, name string) (tool string, ok bool) {
	for _, f := range t.mcp {
		head := f.prefix
		if f.separator != "" {
			head += server + f.separator
		}
		if tool, ok = strings.CutPrefix(name, head); ok && tool != "" {
			return tool, true
		}
	}
	return "", false
}
