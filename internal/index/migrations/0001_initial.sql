-- Times are milliseconds since 1970, UTC. "Folded" means lower case, as
-- layout.Fold does it; folded columns are compared byte by byte.

-- One row: counters that must not need a scan.
CREATE TABLE state (
  one        INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  last_tx    INTEGER NOT NULL, -- newest transaction number given out
  generation INTEGER NOT NULL, -- grows with every change of what can be seen
  contents   INTEGER NOT NULL,
  bytes      INTEGER NOT NULL, -- sum of content.size
  objects    INTEGER NOT NULL,
  lookups    INTEGER NOT NULL
) STRICT;

INSERT INTO state (one, last_tx, generation, contents, bytes, objects, lookups) VALUES (1, 0, 1, 0, 0, 0, 0);

CREATE TABLE product (
  id   INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE -- '' for transactions without one
) STRICT;

-- Transactions. The number is given when the transaction is committed, so
-- numbers have no holes. A removed transaction keeps its row.
CREATE TABLE tx (
  id            INTEGER NOT NULL PRIMARY KEY,
  kind          TEXT NOT NULL,
  product_id    INTEGER NOT NULL REFERENCES product (id),
  version       TEXT NOT NULL,
  comment       TEXT NOT NULL,
  who           TEXT NOT NULL,
  host          TEXT NOT NULL,
  tool          TEXT NOT NULL,
  time          INTEGER NOT NULL,
  files         INTEGER NOT NULL,
  bytes         INTEGER NOT NULL,
  origin_store  TEXT,    -- where a transaction that was taken over came from,
  origin_number TEXT,    -- its number there
  origin_time   INTEGER, -- and its date there; null for our own
  deleted_at    INTEGER
) STRICT;

-- Bytes, each kept once. Something refers to a content as long as one of its
-- objects can be seen or something was derived into it.
CREATE TABLE content (
  id                 INTEGER NOT NULL PRIMARY KEY,
  sha256             BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
  size               INTEGER NOT NULL CHECK (size >= 0),
  added              INTEGER NOT NULL,
  unreferenced_since INTEGER -- null while something refers to it
) STRICT;

CREATE INDEX content_unreferenced ON content (unreferenced_since, id) WHERE unreferenced_since IS NOT NULL;

-- One symbol object: one content under one name as one kind.
CREATE TABLE object (
  id         INTEGER NOT NULL PRIMARY KEY,
  content_id INTEGER NOT NULL REFERENCES content (id),
  name       TEXT NOT NULL,    -- as given
  kind       INTEGER NOT NULL, -- layout.Kind
  name_fold  TEXT NOT NULL,
  role       INTEGER NOT NULL, -- layout.Role
  code_name  TEXT NOT NULL,
  code_id    TEXT NOT NULL,
  debug_id   TEXT NOT NULL,    -- debugid.ID.Breakpad
  info_age   INTEGER NOT NULL,
  build_id   TEXT NOT NULL,
  of_kind    INTEGER NOT NULL, -- layout.Kind
  flags      INTEGER NOT NULL, -- 1 PDB without DBI, 2 debug companion, 4 program
  version    INTEGER NOT NULL,
  hash       TEXT NOT NULL,
  arch       TEXT NOT NULL,
  features   TEXT NOT NULL,    -- words with blanks between them
  debug_size INTEGER NOT NULL,
  UNIQUE (content_id, name, kind)
) STRICT;

CREATE INDEX object_name ON object (name_fold);

-- Who has which key: every spelling under which an object answers.
CREATE TABLE lookup (
  id        TEXT NOT NULL CHECK (id <> ''), -- folded
  name      TEXT NOT NULL,                  -- folded
  object_id INTEGER NOT NULL REFERENCES object (id),
  role      INTEGER NOT NULL,               -- roles in which it answers here
  form      INTEGER NOT NULL DEFAULT 0,     -- 0 file, 1 pointer, 2 derived
  PRIMARY KEY (id, name, object_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX lookup_object ON lookup (object_id);

-- The files of the transactions that were not removed.
CREATE TABLE tx_file (
  tx_id     INTEGER NOT NULL REFERENCES tx (id),
  seq       INTEGER NOT NULL, -- order of adding, from 1
  object_id INTEGER NOT NULL REFERENCES object (id),
  path      TEXT NOT NULL,    -- as it was added
  archive   TEXT NOT NULL,    -- archive that it came from, or ''
  mtime     INTEGER,
  by_path   INTEGER NOT NULL, -- 1: an ELF object that is also searched by path
  PRIMARY KEY (object_id, tx_id, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX tx_file_order ON tx_file (tx_id, seq);

CREATE INDEX tx_file_path ON tx_file (path) WHERE by_path = 1;

-- The products through which an object is seen, and for each the newest
-- transaction that holds it. An object without a row here is hidden.
CREATE TABLE seen (
  object_id  INTEGER NOT NULL REFERENCES object (id),
  product_id INTEGER NOT NULL REFERENCES product (id),
  tx_id      INTEGER NOT NULL REFERENCES tx (id),
  PRIMARY KEY (object_id, product_id)
) STRICT, WITHOUT ROWID;

-- What a tool made of a content.
CREATE TABLE derived (
  source_id    INTEGER NOT NULL REFERENCES content (id),
  tool         TEXT NOT NULL,
  tool_version INTEGER NOT NULL,
  content_id   INTEGER REFERENCES content (id), -- null: tried, and not worth keeping
  added        INTEGER NOT NULL,
  PRIMARY KEY (source_id, tool, tool_version)
) STRICT, WITHOUT ROWID;

CREATE INDEX derived_content ON derived (content_id) WHERE content_id IS NOT NULL;
