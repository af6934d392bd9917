#!/bin/sh
# A tour of this folder: what an agent asked, and what Regent answers. Nothing
# that is decided here is run. `make demo` builds regent and starts this script.
set -eu
cd "$(dirname "$0")"

# The tour shows this folder's rules alone, whatever the user's own say.
REGENT_HOME=$(mktemp -d)
export REGENT_HOME
trap 'rmdir "$REGENT_HOME"' EXIT

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
	regent "$@"
}

say "A command that only reads needs nobody's answer."
show check --workspace . --input requests/read-only.json

say "A force push to main is denied, wherever it hides in the command."
show check --workspace . --input requests/force-push.json

say "So is a key file, whichever tool would read it."
show check --workspace . --input requests/secret.json

say "A whole session, one request a line: SKIP and DENY are settled, ASK waits for a person."
show check --workspace . --input requests/session.jsonl

say "Why: what each command of a call does by itself."
show classify -- "cat list.txt | xargs rm -f; grep -n TODO main.go"

say "The rules, and where they stand."
show policy list --workspace .

say "Their tests, and how much of them the tests reach."
show test --workspace . --coverage
