package rules.publish_test

import data.rules.publish

_run(text) := {"request": {"kind": "command", "command": {"shell": "bash", "text": text}}}

test_publishing_asks[text] if {
	some text in [
		"npm publish",
		"npm publish --access public",
		"npm --registry https://registry.example.com publish",
		"npm run build && npm publish",
		"yarn npm publish",
		"pnpm publish -r",
		"cargo publish -p core",
		"twine upload dist/*",
		"python3 -m twine upload dist/*",
		"poetry run twine upload dist/*",
		"npx semantic-release",
		"npx --yes lerna publish",
		"bundle exec gem push x.gem",
		"docker push registry.example.com/app:1",
		"docker image push app",
		"docker buildx build --push -t app .",
		"gh release create v1.0.0",
		"helm push chart.tgz oci://registry.example.com",
		"env NPM_TOKEN=x npm publish",
		"sudo npm publish",
		"bash -lc 'cd pkg && npm publish'",
		"n'p'm \"publish\"",
		"ls packages | xargs -I{} npm publish {}",
		"for p in a b; do (cd $p && cargo publish); done",
		"npm publish --dry-run && npm publish",
	]
	count(publish.ask) > 0 with input as _run(text)
}

test_other_commands_do_not_ask[text] if {
	some text in [
		"npm publish --dry-run",
		"cargo publish --dry-run",
		"npm install publish",
		"npm run test",
		"cargo build",
		"docker build -t app .",
		"docker pull app",
		"gh release list",
		"gem list",
		"twine check dist/*",
		"python3 -m venv .venv",
		"echo npm publish",
		"git commit -m 'npm publish'",
	]
	count(publish.ask) == 0 with input as _run(text)
}

test_the_list_of_commands_is_data if {
	count(publish.ask) > 0 with input as _run("shipit now prod")
		with data.rules.publish.commands as {"shipit": [["now"]]}
}

test_a_call_without_a_command_is_silent if {
	count(publish.ask) == 0 with input as {"request": {"kind": "network", "network": {"host": "registry.example.com"}}}
}
