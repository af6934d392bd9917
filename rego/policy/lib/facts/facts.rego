# METADATA
# title: Facts
# description: >-
#   What Regent worked out about a request before the rules ran. A decision
#   carries the facts in its input; a unit test, whose input is written by hand,
#   gets them worked out from input.request.
package regent.lib.facts

# METADATA
# description: all facts, as input.facts describes them
all := input.facts if {
	input.facts
} else := data.regent.world.facts(object.get(input, "request", {}), object.get(input, "environment", {}))
