-- Filters of all keys of a large index, which processes read instead of the keys.
-- They are derived from the keys: rows may be deleted at any time.

-- One row for each kind of filter: the build to use, and what it includes.
CREATE TABLE filter (
  kind        INTEGER NOT NULL PRIMARY KEY, -- 1: entries of ids, 2: of products and ids
  build       TEXT NOT NULL,                -- random; '' before the first build
  last_object INTEGER NOT NULL,             -- highest object of which the keys are included
  last_tx     INTEGER NOT NULL,             -- newest transaction of which they are
  late_keys   INTEGER NOT NULL,             -- state.late_keys at that time
  keys        INTEGER NOT NULL,             -- number of keys
  lease_until INTEGER NOT NULL              -- a process is making a build until then
) STRICT;

INSERT INTO filter VALUES (1, '', 0, 0, 0, 0, 0), (2, '', 0, 0, 0, 0, 0);

CREATE TABLE filter_segment (
  kind  INTEGER NOT NULL,
  build TEXT NOT NULL,
  part  INTEGER NOT NULL, -- the highest bits of the hashes in it
  body  BLOB NOT NULL,
  PRIMARY KEY (kind, build, part)
) STRICT, WITHOUT ROWID;
