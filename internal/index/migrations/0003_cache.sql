-- Files that were fetched from elsewhere and can be let go of. Each source and
-- product has one row in tx with a negative id: never listed, never removed.
-- Its files stand in tx_file and seen like those of any transaction, so that
-- one question finds both, and what was added comes before what was fetched.
-- There, tx.files and tx.bytes count the rows in cached, and tx_file.mtime is
-- when the file was fetched.
ALTER TABLE tx ADD COLUMN source TEXT; -- null where the id is positive

CREATE UNIQUE INDEX tx_source ON tx (source, product_id) WHERE source IS NOT NULL;

CREATE TABLE cached (
  content_id INTEGER NOT NULL REFERENCES content (id),
  tx_id      INTEGER NOT NULL REFERENCES tx (id) CHECK (tx_id < 0),
  name       TEXT NOT NULL,    -- as the source calls it
  url        TEXT NOT NULL,    -- without secrets
  tag        TEXT NOT NULL,    -- entity tag, or ''
  fetched    INTEGER NOT NULL,
  used       INTEGER NOT NULL, -- last use
  PRIMARY KEY (content_id, tx_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX cached_used ON cached (used);

CREATE INDEX cached_source ON cached (tx_id, used);

-- Object ids are never given out twice, and keys that an older object gets are
-- counted: whoever knows all keys up to an id can read just the rest.
ALTER TABLE state ADD COLUMN last_object INTEGER NOT NULL DEFAULT 0;

ALTER TABLE state ADD COLUMN late_keys INTEGER NOT NULL DEFAULT 0;

UPDATE state SET last_object = (SELECT coalesce(max(id), 0) FROM object);

-- How many rows there are in the tables that are bounded.
CREATE TABLE tally (
  name TEXT NOT NULL PRIMARY KEY,
  n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO tally (name, n) VALUES ('miss', 0), ('wanted', 0);

-- What sources were found not to have. A row that is written again becomes the
-- newest: no is the order of writing.
CREATE TABLE miss (
  no     INTEGER NOT NULL PRIMARY KEY,
  key    TEXT NOT NULL,
  source TEXT NOT NULL,
  class  INTEGER NOT NULL,
  ends   INTEGER NOT NULL, -- not believed from then on
  since  INTEGER NOT NULL,
  detail TEXT NOT NULL,
  UNIQUE (key, source)
) STRICT;

CREATE INDEX miss_ends ON miss (ends, class);

-- What clients asked for and nobody had.
CREATE TABLE wanted (
  no     INTEGER NOT NULL PRIMARY KEY,
  name   TEXT NOT NULL,
  id     TEXT NOT NULL,
  client TEXT NOT NULL, -- kind of client
  kind   TEXT NOT NULL, -- kind of file, or ''
  count  INTEGER NOT NULL,
  first  INTEGER NOT NULL,
  last   INTEGER NOT NULL,
  UNIQUE (name, id, client)
) STRICT;

CREATE INDEX wanted_count ON wanted (count);

CREATE INDEX wanted_last ON wanted (last);
