# METADATA
# title: Hosts
# description: Codex asks about a host where its managed network is on.
# schemas:
#   - input: schema.request
package rules.codex.network

import data.regent.lib.tools

# METADATA
# title: Registries may be reached
# custom:
#   id: CDX-040
#   severity: low
allow contains sprintf("%s is a registry", [input.request.network.host]) if {
	input.request.kind == "network"
	some domain in data.rules.codex.hosts
	tools.host_below(lower(input.request.network.host), domain)
	input.request.network.protocol == "https"
}

# METADATA
# title: No host hands out credentials
# custom:
#   id: CDX-041
#   severity: high
deny contains "the metadata service hands out credentials of this machine" if {
	input.request.kind == "network"
	input.request.network.host in {"169.254.169.254", "metadata.google.internal", "fd00:ec2::254"}
}
