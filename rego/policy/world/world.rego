# METADATA
# title: World
# description: >-
#   The only place where the built-in policies look at the machine. Each function
#   is a non-deterministic built-in, computed when a rule asks and remembered for
#   the rest of the decision.
package regent.world

# METADATA
# description: |
#   says whether reading with git below dir can start a program that the
#   repository's own configuration names: {"inert": bool, "unknown": bool, "reasons": [string]}
git(dir) := regent.git_config(dir)

# METADATA
# description: |
#   facts of a request that came without them, as it does in a unit test of
#   rules, where input is written by hand
facts(request, environment) := regent.facts(request, environment)
