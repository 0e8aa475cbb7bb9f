-- format_floor: 1

-- Files that the stack of a crash lacked: when one arrives, whoever sent the crash asks again.
CREATE TABLE wish (
  no    INTEGER NOT NULL PRIMARY KEY,
  id    TEXT NOT NULL CHECK (id <> ''), -- folded, like name
  name  TEXT NOT NULL,                  -- '': any
  role  INTEGER NOT NULL,               -- symfile.Role: one of them is enough
  owner TEXT NOT NULL,                  -- whose share of the wishes it is
  made  INTEGER NOT NULL,               -- last time
  UNIQUE (id, name, role, owner)
) STRICT;

CREATE INDEX wish_owner ON wish (owner, made);
CREATE INDEX wish_made ON wish (made);

-- Wishes that a build has fulfilled. Numbers are never given out twice.
CREATE TABLE arrival (
  no    INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  id    TEXT NOT NULL,
  name  TEXT NOT NULL,
  tx_id INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  UNIQUE (tx_id, id, name)
) STRICT;

INSERT INTO tally (name, n) VALUES ('wish', 0), ('arrival', 0);
