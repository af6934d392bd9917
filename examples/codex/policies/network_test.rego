package rules.codex.network_test

import data.rules.codex.network

_reach(host, protocol) := {"request": {"kind": "network", "network": {"host": host, "protocol": protocol}}}

test_a_registry_is_allowed[host] if {
	some host in ["packages.example.com", "Modules.Example.org", "npm.packages.example.com"]
	count(network.allow) == 1 with input as _reach(host, "https")
}

test_a_name_that_ends_alike_is_not if {
	count(network.allow) == 0 with input as _reach("evilpackages.example.com", "https")
}

test_without_encryption_it_is_not if {
	count(network.allow) == 0 with input as _reach("packages.example.com", "http")
}

test_the_metadata_service_is_denied if count(network.deny) == 1 with input as _reach("169.254.169.254", "http")

test_a_request_without_a_host_is_left_alone if {
	count(network.allow | network.deny) == 0 with input as {"request": {"kind": "network"}}
}
