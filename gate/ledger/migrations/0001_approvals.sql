-- A lease that was ended is 0, and -1 once nothing that it covered is left open.
CREATE TABLE leases (
	instance TEXT PRIMARY KEY CHECK (instance <> ''),
	until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX leases_open ON leases (until_ms) WHERE until_ms >= 0;

-- The columns are what is looked for and compared; body is the whole record. The
-- two never differ, and a reader checks it.
CREATE TABLE approvals (
	n           INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE CHECK (id <> ''),
	revision    INTEGER NOT NULL CHECK (revision > 0),
	state       TEXT NOT NULL CHECK (state IN ('pending', 'decided', 'sent', 'resolved', 'expired', 'cancelled', 'lost', 'unknown')),
	workspace   TEXT NOT NULL,
	run         TEXT NOT NULL,
	session     TEXT NOT NULL,
	instance    TEXT NOT NULL REFERENCES leases (instance),
	deadline_ms INTEGER NOT NULL,
	body        TEXT NOT NULL
) STRICT;

CREATE INDEX approvals_state ON approvals (state, n);
CREATE INDEX approvals_workspace ON approvals (workspace, n);
CREATE INDEX approvals_session ON approvals (session, n);
CREATE INDEX approvals_due ON approvals (deadline_ms) WHERE state = 'pending';

CREATE TABLE events (
	seq       INTEGER PRIMARY KEY,
	at_ms     INTEGER NOT NULL,
	kind      TEXT NOT NULL,
	id        TEXT NOT NULL,
	revision  INTEGER NOT NULL,
	state     TEXT NOT NULL,
	workspace TEXT NOT NULL,
	outcome   TEXT NOT NULL,
	source    TEXT NOT NULL,
	by        TEXT NOT NULL,
	record    TEXT NOT NULL,
	hash      TEXT NOT NULL
) STRICT;

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN
	SELECT raise(ABORT, 'events are append only');
END;

CREATE TRIGGER events_are_never_removed BEFORE DELETE ON events
BEGIN
	SELECT raise(ABORT, 'events are append only');
END;

-- Where the chain ends: without it, rows cut off at the end would not be missed.
CREATE TABLE head (
	one       INTEGER PRIMARY KEY CHECK (one = 1),
	seq       INTEGER NOT NULL,
	hash      TEXT NOT NULL,
	approvals INTEGER NOT NULL
) STRICT;

INSERT INTO head (one, seq, hash, approvals) VALUES (1, 0, '', 0);
