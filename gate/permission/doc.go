// Package permission says what may be granted to an agent: network access and
// access to places in the file system.
//
// # What a profile means
//
// A [Profile] gives every path one of four answers: nothing is said, read,
// write, or denied. An entry for a path speaks for that path and everything
// below it, compared by whole components: /w/app says nothing of
// /w/app-secrets. Write includes read. Deny always wins, however narrow the
// allow and however wide the deny, and in whatever order they were written.
// Path entries are literal; only glob patterns are patterns, and they may only
// deny. A pattern that matches a folder denies what is in the folder too.
//
// Network access is either to every host or to a list of hosts, compared as
// whole names.
//
// # How profiles are used
//
// [Normalise] turns what was typed into what is meant in one [Environment]:
// absolute paths, symbolic links followed, "~" and special places replaced.
// Everything after that ([Intersect], [Merge], [Covers], [Decide], [Settle])
// works on normalised profiles and only compares. An entry that was not
// normalised is never guessed at: as an allow it grants nothing, as a deny its
// extent is unknown, and a deny of unknown extent denies every path.
//
// A normalised profile is true of the moment it was normalised. A link made
// later is followed by [Check], which is to be asked again whenever a path is
// used; that the answer still holds when the kernel opens the file is the
// business of a sandbox, not of this package.
//
// Profiles say nothing of the environment they belong to. Keep them apart by
// environment: no function here can tell that two profiles speak of different
// machines.
//
// # Letter case
//
// Some volumes take two spellings for one name. An allow never covers a spelling
// other than its own. A deny covers other spellings wherever the volume, asked
// through [FS], does not rule out that they are the same file.
//
// All functions are safe for concurrent use, leave their arguments alone and
// return values that share no memory with them. The FS that is passed in must
// be safe for concurrent use if the caller is concurrent.
package permission
