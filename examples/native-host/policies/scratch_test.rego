package rules.scratch_test

import data.rules.scratch

_environment := {"cwd": "/home/dev/agent/work", "home": "/home/dev/agent/work"}

_in(environment, request) := {
	"request": object.union(request, {"environment": environment}),
	"environment": environment,
}

_file(path) := {"kind": "tool", "tool": {"name": "write_file", "arguments": {"path": path, "content": "x"}}}

_write(path) := _in(_environment, _file(path))

_list := {"kind": "command", "command": {"shell": "sh", "text": "ls"}}

_run(text) := _in(_environment, {"kind": "command", "command": {"shell": "sh", "text": text}})

test_writes_in_the_own_folder_are_allowed[path] if {
	some path in ["notes.txt", "./a/../b", "/home/dev/agent/work/sub/x"]
	count(scratch.allow) == 1 with input as _write(path)
}

test_writes_elsewhere_are_not[path] if {
	some path in ["../shared/x", "/home/dev/agent/work-2/x", "/etc/hosts", "~kim/x"]
	count(scratch.allow) == 0 with input as _write(path)
}

test_commands_are_not_allowed_for_where_they_write if {
	count(scratch.allow) == 0 with input as _run("sort notes.txt > sorted.txt")
}

test_without_a_folder_nothing_is_allowed if {
	count(scratch.allow) == 0 with input as _in({}, _file("/x"))
}

test_hosts_are_denied[text] if {
	some text in ["curl -s https://example.com", "git clone https://example.com/x.git"]
	count(scratch.deny) > 0 with input as _run(text)
}

test_commands_without_hosts_are_not_denied if {
	count(scratch.deny) == 0 with input as _run("sort notes.txt")
}

test_the_ceiling_is_the_folder_around if {
	entries := scratch.ceiling.file_system.entries with input as _run("ls")
	entries == [{"path": {"type": "path", "path": "/home/dev/agent"}, "access": "write"}]
}

test_without_a_folder_the_ceiling_is_nothing[environment] if {
	some environment in [{}, {"cwd": "/"}, {"cwd": "/work"}]
	entries := scratch.ceiling.file_system.entries with input as _in(environment, _list)
	entries == []
}
