-- format_floor: 7

-- Crash dumps that are kept for some time. Their contents have no objects: no lookup finds them.
CREATE TABLE dump (
  no         INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE,                        -- drawn at random
  content_id INTEGER NOT NULL REFERENCES content (id),
  name       TEXT NOT NULL,                               -- of the file, as it was sent
  who        TEXT NOT NULL,                               -- who sent it; '': nobody that is named
  crash_key  TEXT NOT NULL,                               -- equal for crashes of one cause
  reason     TEXT NOT NULL,
  at         INTEGER NOT NULL,
  until      INTEGER NOT NULL
) STRICT;

CREATE INDEX dump_content ON dump (content_id);
CREATE INDEX dump_until ON dump (until);
