package rules.codex.permissions_test

import data.rules.codex.permissions

_asks(cwd) := {"request": {"kind": "permissions"}, "environment": {"cwd": cwd}}

test_the_ceiling_is_beside_the_project if {
	entries := permissions.ceiling.file_system.entries with input as _asks("/home/dev/app")
	entries == [{"path": {"type": "path", "path": "/home/dev"}, "access": "write"}]
}

test_near_the_root_nothing_can_be_granted if {
	entries := permissions.ceiling.file_system.entries with input as _asks("/app")
	entries == []
}

test_other_requests_have_no_ceiling_here if {
	not permissions.ceiling with input as {"request": {"kind": "command"}, "environment": {"cwd": "/home/dev/app"}}
}
