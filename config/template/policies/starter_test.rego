# METADATA
# title: Tests of the rules to start from
package rules.starter_test

import data.rules.starter

test_force_push_denied if {
	every text in [
		"git push --force origin main",
		"git push -f",
		"git push origin +main",
		"git push --mirror backup",
	] {
		count(starter.deny) == 1 with input as _call(text)
	}
}

test_careful_push_not_denied if {
	every text in [
		"git push origin main",
		"git push --force-with-lease origin main",
		"git commit -m push",
		"rsync --force push",
	] {
		count(starter.deny) == 0 with input as _call(text)
	}
}

test_publishing_asks if {
	every text in ["npm publish", "cargo publish --token x", "twine upload dist/*"] {
		count(starter.ask) == 1 with input as _call(text)
	}
}

test_other_package_commands_do_not_ask if {
	every text in ["npm install", "cargo build", "echo npm publish"] {
		count(starter.ask) == 0 with input as _call(text)
	}
}

test_throwing_work_away_asks if {
	every text in ["git reset --hard HEAD~1", "git clean -f", "git clean --force"] {
		count(starter.ask) == 1 with input as _call(text)
	}
}

test_keeping_work_does_not_ask if {
	every text in ["git reset --soft HEAD~1", "git clean -n", "git status"] {
		count(starter.ask) == 0 with input as _call(text)
	}
}

test_no_command_matches_nothing if {
	count(starter.deny | starter.ask) == 0 with input as {"request": {"kind": "tool", "tool": {"name": "read_file"}}}
}

_call(text) := {"request": {"kind": "command", "command": {"shell": "bash", "text": text}}}
