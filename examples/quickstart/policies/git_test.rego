package rules.git_test

import data.rules.git

_run(text) := {"request": {
	"kind": "command",
	"command": {"shell": "bash", "text": text},
	"environment": {"cwd": "/workspace/app", "home": "/home/dev"},
}}

# Every way in which git is told to rewrite or delete a protected branch.
test_rewriting_a_protected_branch_is_denied[text] if {
	some text in [
		"git push --force origin main",
		"git push -f origin main",
		"git push -uf origin main",
		"git push origin main -f",
		"git push --forc origin main",
		"git push --force-with-lease origin main",
		"git push --force-with-lease=main:0a1b2c origin main",
		"git push origin +main",
		"git push origin +HEAD:main",
		"git push origin +feature:refs/heads/main",
		"git push --force origin feature:release/1.2",
		"git push --delete origin main",
		"git push -d origin production",
		"git push origin :main",
		"git -C sub push --force origin main",
		"git fetch && git push --force origin main",
		"sudo git push --force origin main",
		"env GIT_TRACE=1 git push --force origin main",
		"timeout 60 git push --force origin main",
		"bash -c 'git push --force origin main'",
		"git pu'sh' \"--force\" origin m\\ain",
		"/usr/bin/git push --force origin main",
		"if true; then git push --force origin main; fi",
		"echo $(git push --force origin main)",
		"git push -f origin 'refs/heads/rel*:refs/heads/rel*'",
	]
	some message in git.deny with input as _run(text)
	contains(message, "protected branch")
}

test_rewriting_all_branches_is_denied[text] if {
	some text in [
		"git push --mirror backup",
		"git push --force --all origin",
		"git push -f --branches origin",
		"git push origin +refs/heads/*:refs/heads/*",
		"git push --prune origin 'refs/heads/*'",
	]
	some message in git.deny with input as _run(text)
	contains(message, "every branch")
}

test_other_pushes_are_not_denied[text] if {
	some text in [
		"git push origin main",
		"git push -u origin feature",
		"git push --force origin feature/main",
		"git push --force origin main-menu",
		"git push --force-with-lease origin release",
		"git push -f origin 'feature/*:feature/*'",
		"git push origin :feature",
		"git push origin :",
		"git push --tags origin",
		"git push --all origin",
		"git fetch --force origin main",
		"git commit -m 'git push --force origin main'",
		"echo git push --force origin main",
	]
	count(git.deny) == 0 with input as _run(text)
}

test_a_forced_push_without_a_branch_asks[text] if {
	some text in [
		"git push --force",
		"git push -f origin",
		"git push --force origin HEAD",
		"git push --force origin \"$BRANCH\"",
		"git push $FLAGS origin main",
		"git push origin \"$(cat branch)\"",
		"echo main | xargs git push --force origin",
		"echo +main | xargs git push origin",
		"git -c remote.origin.push=+main push",
	]
	count(git.ask) > 0 with input as _run(text)
}

test_a_named_branch_does_not_ask[text] if {
	some text in ["git push", "git push origin HEAD", "git push --force origin feature"]
	count(git.ask) == 0 with input as _run(text)
}

test_the_list_of_branches_is_data if {
	count(git.deny) > 0 with input as _run("git push -f origin trunk") with data.rules.git.protected as ["trunk"]
	count(git.deny) == 0 with input as _run("git push -f origin main") with data.rules.git.protected as ["trunk"]
}

# A list that is missing is as false to the rule, and protects everything.
test_no_list_protects_every_branch if {
	count(git.deny) > 0 with input as _run("git push -f origin feature") with data.rules.git.protected as false
}

test_a_call_without_a_command_is_silent if {
	request := {"kind": "tool", "tool": {"name": "read_file", "arguments": {"path": "README.md"}}}
	count(git.deny) == 0 with input as {"request": request}
	count(git.ask) == 0 with input as {"request": request}
}
