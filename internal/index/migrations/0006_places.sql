-- Contents in a bucket: each upload of a content has a name of its own, its
-- place, that is never used again. A place is in one of three tables: upload,
-- content, doomed, in this order.

-- The object of the content in the bucket; null for a content on disk.
ALTER TABLE content ADD COLUMN place TEXT;

-- Uploads that no commit has referred to yet. The row is written before the
-- first byte is sent.
CREATE TABLE upload (
  place       TEXT NOT NULL PRIMARY KEY CHECK (place <> ''),
  node        TEXT NOT NULL,    -- process that uploads
  sha256      BLOB NOT NULL CHECK (length(sha256) = 32),
  size        INTEGER NOT NULL CHECK (size >= 0),
  done        INTEGER NOT NULL, -- 1: the store has acknowledged the whole object
  lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX upload_content ON upload (sha256) WHERE done = 1;

CREATE INDEX upload_lease ON upload (lease_until);

-- Objects that nothing refers to any more. They are deleted after a delay.
CREATE TABLE doomed (
  place  TEXT NOT NULL PRIMARY KEY CHECK (place <> ''),
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
  size   INTEGER NOT NULL,
  since  INTEGER NOT NULL,
  swept  INTEGER -- time of the deletion in the store; null before it
) STRICT, WITHOUT ROWID;

CREATE INDEX doomed_since ON doomed (since) WHERE swept IS NULL;

CREATE INDEX doomed_swept ON doomed (swept) WHERE swept IS NOT NULL;

-- One row: the random id of the depot, which its bucket records too.
CREATE TABLE identity (
  one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  depot TEXT NOT NULL
) STRICT;

-- Random keys of a depot without a folder.
CREATE TABLE secret (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
