-- format_floor: 16
-- Cold contents: the bytes of a content as differences from a similar one, its base.
-- Programs of earlier versions may go on until the first content is cold; then the
-- floor of the index becomes 19, and it falls again when none is left.

CREATE TABLE cold (
  content_id  INTEGER NOT NULL PRIMARY KEY REFERENCES content (id),
  base_id     INTEGER REFERENCES content (id), -- null: a key, which has no base
  made        INTEGER NOT NULL,
  plain_since INTEGER, -- the plain bytes are stored too, since then; null: they are not
  reads       INTEGER NOT NULL DEFAULT 0,
  reads_since INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX cold_base ON cold (base_id) WHERE base_id IS NOT NULL;

CREATE INDEX cold_plain ON cold (plain_since) WHERE plain_since IS NOT NULL;

-- One row: the progress of cooling.
CREATE TABLE cooling (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  paused   INTEGER NOT NULL,
  owner    TEXT NOT NULL,
  updated  INTEGER NOT NULL,
  position TEXT NOT NULL, -- the name that was last looked at
  started  INTEGER,       -- of the present pass; null between two passes
  finished INTEGER,       -- of the last one
  contents INTEGER NOT NULL, -- made cold in the present pass, or in the last one
  before   INTEGER NOT NULL, -- bytes of these as they were
  after    INTEGER NOT NULL  -- bytes of these now
) STRICT;

INSERT INTO cooling (one, paused, owner, updated, position, contents, before, after) VALUES (1, 0, '', 0, '', 0, 0, 0);
