package rules.files_test

import data.rules.files

_environment := {"cwd": "/workspace/app", "home": "/home/dev"}

_run(text) := _in(_environment, {"kind": "command", "command": {"shell": "bash", "text": text}})

_in(environment, request) := {
	"request": object.union(request, {"environment": environment}),
	"environment": environment,
}

_write(path) := {"kind": "tool", "tool": {"name": "write_file", "arguments": {"path": path, "content": "x"}}}

test_commands_that_write_elsewhere_ask[text] if {
	some text in [
		"echo x > /etc/hosts",
		"echo x >> ~/.bashrc",
		"echo x >| ../sibling/file",
		"cp a.txt /opt/tool/",
		"rm -rf /workspace/other",
		"rm -rf ../*",
		"cd .. && touch x",
		"cd /opt && touch x",
		"tee /usr/local/bin/x",
		"sed -i s/a/b/ /etc/fstab",
		"sudo tee /etc/hosts",
		"bash -c 'echo x > /etc/hosts'",
		"mkdir -p /workspace/app-secrets",
	]
	count(files.ask) > 0 with input as _run(text)
}

test_places_that_cannot_be_told_ask[text] if {
	some text in [
		"echo x > \"$TARGET\"",
		"cd \"$DIR\" && touch x",
		"find . -name '*.o' | xargs rm",
		"rm \"$FILE\"",
	]
	count(files.ask) > 0 with input as _run(text)
}

test_writes_inside_do_not_ask[text] if {
	some text in [
		"echo x > notes.txt",
		"touch ./src/../x",
		"rm -rf /workspace/app/build",
		"cd src && touch x",
		"make 2>/dev/null",
		"ls > /dev/null 2>&1",
		"echo x > /tmp/scratch.txt",
		"cat /etc/hosts",
	]
	count(files.ask) == 0 with input as _run(text)
}

test_tools_and_patches_are_judged_alike if {
	count(files.ask) > 0 with input as _in(_environment, _write("/etc/hosts"))
	count(files.ask) > 0 with input as _in(_environment, _write("../x"))
	count(files.ask) == 0 with input as _in(_environment, _write("src/x"))
	move := {"kind": "file_change", "changes": [{"path": "a", "operation": "update", "move_path": "/home/dev/a"}]}
	count(files.ask) > 0 with input as _in(_environment, move)
}

test_project_roots_stand_for_the_workspace if {
	roots := {"cwd": "/workspace/app", "project_roots": ["/workspace/app", "/workspace/lib"]}
	count(files.ask) == 0 with input as _in(roots, _write("/workspace/lib/x"))
	count(files.ask) > 0 with input as _in(roots, _write("/workspace/other/x"))
}

test_the_folder_for_temporary_files_is_scratch if {
	tmp := {"cwd": "/workspace/app", "tmp_dir": "/home/dev/tmp"}
	count(files.ask) == 0 with input as _in(tmp, _write("/home/dev/tmp/x"))
	count(files.ask) > 0 with input as _in(_environment, _write("/home/dev/tmp/x"))
}

test_without_a_workspace_everything_is_outside if {
	count(files.ask) > 0 with input as _in({}, _write("/workspace/app/x"))
}
