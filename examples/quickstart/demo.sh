#!/bin/sh
# A tour: the daemon serves a copy of this folder, an agent asks, policy and a
# person answer, a rule is edited while it runs. Nothing that is decided here is
# run. `make demo` builds regent and starts this script.
set -eu
quickstart=$(cd "$(dirname "$0")" && pwd)

# The tour has a home and a project of its own, and leaves nothing behind.
tour=$(mktemp -d)
REGENT_HOME=$tour/home
export REGENT_HOME
project=$tour/project
daemon=
cleanup() {
	if [ -n "$daemon" ]; then
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
	fi
	rm -rf "$tour"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir -p "$REGENT_HOME" "$project/.regent/policies"
chmod 700 "$REGENT_HOME"
cp "$quickstart/config.yaml" "$project/.regent/"
cp "$quickstart"/policies/* "$project/.regent/policies/"
chmod -R u+w,go-w "$project/.regent"
cd "$project"

say() { printf '\n# %s\n' "$*"; }
show() {
	printf '$ regent'
	for word in "$@"; do
		case $word in
		*[!A-Za-z0-9./=_-]*) printf " '%s'" "$word" ;;
		*) printf ' %s' "$word" ;;
		esac
	done
	echo
	# An answer that is no is what a tour wants to show, and no reason to stop.
	regent "$@" || [ $? -eq 3 ]
}
# call writes what an agent would ask about a command to a file.
call() {
	printf '{"kind": "command", "command": {"text": "%s"}, "environment": {"cwd": "%s"},\n "session": {"id": "s1"}, "subject": {"id": "agent:demo", "on_behalf_of": "user:you"}}\n' "$2" "$project" >"$1.json"
}
call reads 'grep -rn TODO src | head -20'
call force 'make test && git push --force origin main'
call publish 'npm publish --access public'
call build 'make build'

regent serve 2>serve.log &
daemon=$!
until regent status >/dev/null 2>&1; do
	kill -0 "$daemon" 2>/dev/null || { cat serve.log >&2; exit 1; }
	sleep 0.05
done
# Who started this may have ended, as in a build that runs by itself. Then the
# daemon cannot tell that nobody here is an agent; a session of its own tells.
if regent status | grep -q '(agent)$' && [ -z "${REGENT_TOUR:-}" ] && command -v setsid >/dev/null; then
	cleanup
	trap - EXIT
	REGENT_TOUR=1 exec setsid -w sh "$quickstart/demo.sh"
fi
say "The daemon of a home holds requests until they are answered, and records them."
echo '$ regent serve &'
grep '^regent serve: ' serve.log

say "A workspace that was merely found can only tighten. You say that you trust this one."
show trust .

say "A command that only reads needs nobody's answer, and leaves no record."
show ask --input reads.json

say "A force push to main is denied, wherever it hides in the command."
show ask --input force.json

say "Publishing a package needs a person. The agent waits."
echo '$ regent ask --input publish.json &'
regent ask --input publish.json >publish.txt 2>&1 &
agent=$!
id=
until [ -n "$id" ]; do
	id=$(regent permission list --state pending --output json | sed -n 's/.*"id": *"\([a-z0-9]\{20,\}\)".*/\1/p' | head -1)
done
show permission list --state pending

say "You look at it, and answer. The agent hears of it at once."
show permission info "$id"
show permission decide "$id" --expected-revision 1 --decision '"allow"' --reason 'released by hand last time, too'
wait "$agent" || true
cat publish.txt

say "A rule is added while the daemon runs. The next call is denied by it."
show check --input build.json
cat >.regent/policies/freeze.rego <<'RULE'
# METADATA
# title: Nothing is built during the freeze
# custom: {id: FREEZE-001, severity: medium}
package rules.freeze

import data.regent.lib.command

deny contains "nothing is built during the freeze" if {
	some _ in command.invocations("make")
}
RULE
echo '$ cat .regent/policies/freeze.rego'
cat .regent/policies/freeze.rego
until regent check --input build.json | grep -q '^DENY'; do sleep 0.05; done
show ask --input build.json

say "What was decided stands in a ledger whose events are chained: an edit of it shows."
show permission list
show ledger verify
say "The end: the daemon is told to stop, and everything of the tour is removed."
