# METADATA
# title: Tools
# description: The tool that an agent called, by its own name or by the MCP server that offers it.
package regent.lib.tools

import data.regent.lib.facts

# METADATA
# description: true for the harness's own tool of this name
called(name) if {
	facts.all.tool.key == name
	not facts.all.tool.mcp
}

# METADATA
# description: true for a tool of an MCP server
called_on(server, name) if {
	facts.all.tool.mcp
	facts.all.tool.server == server
	facts.all.tool.tool == name
}

# METADATA
# description: true for any tool of an MCP server
on_server(server) if {
	facts.all.tool.mcp
	facts.all.tool.server == server
}

# METADATA
# description: the arguments of the call as they came, {} when there are none
arguments(request) := object.get(object.get(request, "tool", {}), "arguments", {})

# METADATA
# description: the hosts that the call names, in lower case
hosts := facts.all.hosts

# METADATA
# description: true when host is domain or a name below it
host_below(host, domain) if host == domain

host_below(host, domain) if endswith(host, concat("", [".", domain]))
