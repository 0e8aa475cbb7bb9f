-- One row: how far the background check of all stored contents has come.
CREATE TABLE scrub (
  one           INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  owner         TEXT NOT NULL,    -- process that checks
  updated       INTEGER NOT NULL,
  position      INTEGER NOT NULL, -- content.id of the last one checked in this pass
  started       INTEGER,          -- this pass; null between two passes
  contents      INTEGER NOT NULL, -- checked in this pass; so the next two
  bytes         INTEGER NOT NULL,
  damaged       INTEGER NOT NULL,
  last_finished INTEGER,          -- the last whole pass; null before it
  last_contents INTEGER NOT NULL,
  last_bytes    INTEGER NOT NULL,
  last_damaged  INTEGER NOT NULL
) STRICT;

INSERT INTO scrub (one, owner, updated, position, started, contents, bytes, damaged, last_finished, last_contents, last_bytes, last_damaged)
  VALUES (1, '', 0, 0, NULL, 0, 0, 0, NULL, 0, 0, 0);

-- The time of a cached file itself, where the source told it; tx_file.mtime is
-- when the file was downloaded. Null for added files, whose time is mtime.
ALTER TABLE tx_file ADD COLUMN own_mtime INTEGER;
