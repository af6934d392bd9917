# METADATA
# title: Tools of MCP servers
# description: >-
#   Codex asks about a tool unless its server says that it only reads. Here the team
#   says which tools do; a server's own word allows nothing.
# schemas:
#   - input: schema.request
package rules.codex.mcp

import data.regent.lib.tools

# METADATA
# title: Tools that read may be called
# custom:
#   id: CDX-030
#   severity: low
allow contains sprintf("%s of %s only reads", [name, server]) if {
	some server, names in data.rules.codex.reading
	some name in names
	tools.called_on(server, name)
}

# METADATA
# title: Nothing is deleted for good
# custom:
#   id: CDX-031
#   severity: high
deny contains sprintf("%s deletes what nobody can bring back", [input.request.tool.name]) if {
	input.request.kind == "mcp"
	startswith(input.request.tool.name, "delete_")
}
