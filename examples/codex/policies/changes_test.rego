package rules.codex.changes_test

import data.rules.codex.changes

_patch(list) := {"request": {"kind": "file_change", "changes": list, "harness": {"name": "codex"}}}

test_secrets_are_not_changed[path] if {
	some path in ["/workspace/app/.env", "/home/dev/.ssh/id_rsa", "/workspace/app/.env.production", "/etc/tls/key.pem"]
	count(changes.deny) == 1 with input as _patch([{"path": path, "operation": "update"}])
}

test_a_move_counts if {
	change := {"path": "/workspace/a", "operation": "update", "move_path": "/workspace/.env"}
	count(changes.deny) == 1 with input as _patch([change])
}

test_other_files_are_not_denied[path] if {
	some path in ["/workspace/app/environment.go", "/workspace/app/.envrc", "/workspace/app/pem.go"]
	count(changes.deny) == 0 with input as _patch([{"path": path, "operation": "add"}])
}

test_what_runs_by_itself_asks[path] if {
	some path in ["/workspace/app/.git/hooks/pre-commit", "/workspace/app/.github/workflows/ci.yaml"]
	count(changes.ask) == 1 with input as _patch([{"path": path, "operation": "add"}])
}

test_a_patch_without_changes_is_left_to_the_engine if {
	count(changes.deny | changes.ask) == 0 with input as {"request": {"kind": "file_change"}}
}
