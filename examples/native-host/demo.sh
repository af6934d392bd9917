#!/bin/sh
# The whole story of this folder: a daemon, the host with its scripted agent, and
# a person who answers. `make demo-host` builds both programs and starts this.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# The demo has a home, rules and a scratch folder of its own, and leaves nothing.
demo=$(mktemp -d)
REGENT_HOME=$demo/home
export REGENT_HOME
daemon=
host=
cleanup() {
	for process in $host $daemon; do
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	rm -rf "$demo"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir -p "$REGENT_HOME" "$demo/rules/policies"
chmod 700 "$REGENT_HOME"
cp "$here/config.yaml" "$demo/rules/"
cp "$here/policies/scratch.rego" "$demo/rules/policies/"
chmod -R u+w,go-w "$demo/rules"
cd "$demo"

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
	REGENT_TOUR=1 exec setsid -w sh "$here/demo.sh"
fi
regent trust rules >/dev/null

# The host runs beside the person: what it starts is an agent, and answers nothing.
native-host --workspace rules --scratch agent/work >host.txt 2>&1 &
host=$!

# waits shows the request that waits next, and sets id.
waits() {
	id=
	until [ -n "$id" ]; do
		kill -0 "$host" 2>/dev/null || { cat host.txt >&2; exit 1; }
		id=$(regent permission list --state pending --output json | sed -n 's/.*"id": *"\([a-z0-9]\{20,\}\)".*/\1/p' | head -1)
	done
	printf '\n# %s\n' "$1"
	regent permission info "$id" | grep -E '^(PENDING|asks for|says|where|why|ceiling|            write)'
}
decide() {
	option=$1
	shift
	printf "\$ regent permission decide ID --expected-revision 1 --decision '%s'" "$option"
	for word in "$@"; do
		case $word in
		*[!A-Za-z0-9./=_-]*) printf " '%s'" "$word" ;;
		*) printf ' %s' "$word" ;;
		esac
	done
	echo
	regent permission decide "$id" --expected-revision 1 --decision "$option" "$@"
}

waits 'The agent asks for a folder beside its own. You grant it, for this turn.'
decide '"allow"' --reason 'for now'

waits 'The next turn holds nothing of that, so that you are asked again.'
decide '"deny"' --reason 'ask first'

waits 'It asks, and for too much. You give it all that, until the session ends.'
printf '{"permissions": {"file_system": {"write": ["%s", "/etc"]}}, "scope": "session"}\n' "$demo/agent/shared" >grant.json
decide '"allow"' --grant grant.json --reason 'until you are done'

waits 'No grant covers a command. While this one waits, you take the grant back.'
grant=$(regent grants list --output json | sed -n 's/.*"id": *"\([a-z0-9]\{20,\}\)".*/\1/p' | head -1)
echo '$ regent grants revoke ID'
regent grants revoke "$grant"
decide '"allow"' --reason yes

waits 'So the next write is asked about.'
decide '"allow"' --reason 'this one'

wait "$host"
host=
printf '\n# What the host has said meanwhile.\n'
cat host.txt
printf '\n# What there is in the folders, and what stands in the ledger.\n'
find agent -type f | sort
regent permission list
