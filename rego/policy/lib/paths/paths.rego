# METADATA
# title: Paths
# description: >-
#   The files that a call names, absolute and with symbolic links resolved, and
#   tests on them that compare whole components.
package regent.lib.paths

import data.regent.lib.facts

# METADATA
# description: paths that the call would write, create, move or delete
write_targets(_) := facts.all.paths.write

# METADATA
# description: paths that the call would read
read_targets(_) := facts.all.paths.read

# METADATA
# description: paths that the call names for reading or writing
targets(_) := array.concat(facts.all.paths.read, facts.all.paths.write)

# METADATA
# description: true when some path that the call names cannot be told from its text
unclear(_) if count(facts.all.paths.unresolved) > 0

# METADATA
# description: true when path is dir or stands below it
below(path, dir) if path == dir

below(path, dir) if startswith(path, concat("", [trim_suffix(dir, "/"), "/"]))

# METADATA
# description: true when path is one of the folders, or stands below one
below_any(path, dirs) if {
	some dir in dirs
	below(path, dir)
}

# METADATA
# description: the last component of a path
name(path) := last if {
	parts := split(path, "/")
	last := parts[count(parts) - 1]
}

# METADATA
# description: |
#   true when path matches one of the patterns: ** spans folders, * does not;
#   a pattern without a slash is tried against the last component
matches(path, patterns) if {
	some pattern in patterns
	contains(pattern, "/")
	glob.match(pattern, ["/"], path)
}

matches(path, patterns) if {
	some pattern in patterns
	not contains(pattern, "/")
	glob.match(pattern, ["/"], name(path))
}
