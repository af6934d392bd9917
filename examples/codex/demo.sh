#!/bin/sh
# The whole story of this folder: a real Codex with a scripted model, governed by
# these rules, and a person who answers. `make demo-codex` builds what it needs and
# starts this. REGENT_DEMO_CODEX names the Codex.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
codex=${REGENT_DEMO_CODEX:-}
[ -n "$codex" ] || codex=$(command -v codex) || {
	echo 'demo: Codex is not installed: npm install -g @openai/codex' >&2
	exit 1
}

# The demo has a home, a Codex and a project of its own, and leaves nothing.
demo=$(mktemp -d)
demo=$(cd "$demo" && pwd -P)
HOME=$demo
REGENT_HOME=$demo/home
CODEX_HOME=$demo/codex
export HOME REGENT_HOME CODEX_HOME
daemon=
agent=
cleanup() {
	for process in $agent $daemon; do
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
	exec 9>&- # which ends the model
	rm -rf "$demo"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mkdir -p "$REGENT_HOME" "$CODEX_HOME" "$demo/work/app/.regent/policies" "$demo/work/notes" "$demo/work/site" "$demo/bin"
chmod 700 "$REGENT_HOME"
cp "$here/config.yaml" "$demo/work/app/.regent/"
cp "$here"/policies/data.yaml "$demo/work/app/.regent/policies/"
for rules in "$here"/policies/*.rego; do
	case $rules in *_test.rego) ;; *) cp "$rules" "$demo/work/app/.regent/policies/" ;; esac
done
chmod -R u+w,go-w "$demo/work"
# What the agent runs here only says so.
for program in go git; do
	printf '#!/bin/sh\necho "%s $*: ok"\n' "$program" >"$demo/bin/$program"
	chmod +x "$demo/bin/$program"
done
PATH=$demo/bin:$PATH

mkfifo "$demo/open"
scripted-model "$here/model/script.json" <"$demo/open" >"$demo/model.url" &
exec 9>"$demo/open"
until [ -s "$demo/model.url" ]; do sleep 0.05; done
cat >"$CODEX_HOME/config.toml" <<TOML
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false
suppress_unstable_features_warning = true
[model_providers.scripted]
name = "scripted"
base_url = "$(cat "$demo/model.url")"
wire_api = "responses"
supports_websockets = false
[analytics]
enabled = false
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
[features]
request_permissions_tool = true
plugins = false
remote_plugin = false
apps = false
TOML

cd "$demo/work/app"
regent serve 2>"$demo/serve.log" &
daemon=$!
until regent status >/dev/null 2>&1; do
	kill -0 "$daemon" 2>/dev/null || { cat "$demo/serve.log" >&2; exit 1; }
	sleep 0.05
done
# Who started this may have ended, as in a build that runs by itself. Then the
# daemon cannot tell that nobody here is an agent; a session of its own tells.
if regent status | grep -q '(agent)$' && [ -z "${REGENT_TOUR:-}" ] && command -v setsid >/dev/null; then
	cleanup
	trap - EXIT
	REGENT_TOUR=1 exec setsid -w sh "$here/demo.sh"
fi
regent trust .regent >/dev/null

echo "\$ regent codex exec 'publish the fix'    # $("$codex" --version 2>/dev/null)"
regent codex exec --codex "$codex" 'publish the fix' >"$demo/said.txt" 2>"$demo/codex.log" &
agent=$!

# waits shows the request that waits next, and sets id.
waits() {
	id=
	until [ -n "$id" ]; do
		kill -0 "$agent" 2>/dev/null || { cat "$demo/codex.log" >&2; exit 1; }
		id=$(regent permission list --state pending --output json | sed -n 's/.*"id": *"\([a-z0-9]\{20,\}\)".*/\1/p' | head -1)
	done
	printf '\n# %s\n' "$1"
	regent permission info "$id" | grep -E '^(PENDING|asks for|says|where|why|ceiling|            write)'
}
decide() {
	option=$1
	shift
	printf "\$ regent permission decide ID --expected-revision 1 --decision '%s' --reason '%s'\n" "$option" "$2"
	regent permission decide "$id" --expected-revision 1 --decision "$option" "$@"
}

waits 'The tests ran and the push to main was refused, both by rule. The agent was told why, and tries a branch. That is for you.'
decide '"accept"' --reason 'a branch is fine'

waits 'It asks for the network and a folder. The ceiling leaves the folder, whatever you answer.'
decide '"allow"' --reason 'for the note'

waits 'A patch leaves the project, and what was granted. Its paths are those that Codex would change.'
decide '"accept"' --reason 'the page'

code=0
wait "$agent" || code=$?
agent=
printf '\n# What was asked and decided, as it came.\n'
grep '^regent codex exec: [A-Z]' "$demo/codex.log" | cut -c 1-150
printf '\n# What the agent says, and what stands in the ledger.\n'
cat "$demo/said.txt"
regent permission list
regent ledger verify
exit "$code"
