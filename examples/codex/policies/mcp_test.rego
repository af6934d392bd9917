package rules.codex.mcp_test

import data.rules.codex.mcp

_call(server, name) := {"request": {"kind": "mcp", "tool": {"server": server, "name": name, "arguments": {}}}}

test_reading_is_allowed if count(mcp.allow) == 1 with input as _call("tracker", "get_issue")

test_the_same_tool_of_another_server_is_not if count(mcp.allow) == 0 with input as _call("lab", "get_issue")

test_deleting_is_denied if count(mcp.deny) == 1 with input as _call("tracker", "delete_issue")

test_a_name_that_only_holds_the_word_is_not_denied if {
	count(mcp.deny) == 0 with input as _call("tracker", "undelete_issue")
}

test_a_tool_of_no_server_is_left_alone if {
	count(mcp.allow | mcp.deny) == 0 with input as {"request": {"kind": "tool", "tool": {"name": "delete_x"}}}
}
