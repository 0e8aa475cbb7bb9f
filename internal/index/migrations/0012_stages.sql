-- What a transaction was pushed with, besides its labels so far.
ALTER TABLE tx ADD COLUMN branch TEXT NOT NULL DEFAULT '';
ALTER TABLE tx ADD COLUMN class TEXT NOT NULL DEFAULT '';
ALTER TABLE tx ADD COLUMN build TEXT;         -- JSON: the CI job that made the files
ALTER TABLE tx ADD COLUMN labels TEXT;        -- JSON: an object of texts
ALTER TABLE tx ADD COLUMN manifest BLOB;      -- SHA-256 of the list of all pushed files
ALTER TABLE tx ADD COLUMN arrived INTEGER;    -- time of the commit; null for older transactions
ALTER TABLE tx ADD COLUMN collecting INTEGER; -- 1 while files are still added to it

CREATE INDEX tx_manifest ON tx (manifest) WHERE manifest IS NOT NULL AND deleted_at IS NULL;

CREATE INDEX tx_collecting ON tx (id) WHERE collecting IS NOT NULL;

-- Stages: pushes that are not a transaction yet.
CREATE TABLE stage (
  id       TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  caller   TEXT NOT NULL, -- the only one that may use it
  key      TEXT NOT NULL, -- names the stage for its caller; '' for none
  product  TEXT NOT NULL,
  version  TEXT NOT NULL,
  branch   TEXT NOT NULL,
  class    TEXT NOT NULL,
  comment  TEXT NOT NULL,
  build    TEXT NOT NULL,    -- JSON
  collects INTEGER NOT NULL, -- 1: each file is added to the transaction at once
  node     TEXT NOT NULL,    -- which node opened it; '' if there is only one
  opened   INTEGER NOT NULL,
  used     INTEGER NOT NULL, -- last request
  changes  INTEGER NOT NULL, -- rises with every change of its files
  files    INTEGER NOT NULL,
  bytes    INTEGER NOT NULL, -- sum of the files' sizes
  staged   INTEGER NOT NULL, -- sum of the sizes of its contents that have arrived or begun to
  tx_id    INTEGER,          -- the transaction, once there is one
  closed   INTEGER,          -- time of the commit; null for an open one
  manifest BLOB,             -- of a committed one
  result   TEXT              -- JSON: the answer to the commit
) STRICT;

CREATE UNIQUE INDEX stage_key ON stage (caller, key) WHERE key <> '';

CREATE INDEX stage_caller ON stage (caller, collects) WHERE closed IS NULL;

CREATE INDEX stage_used ON stage (used);

CREATE INDEX stage_staged ON stage (staged) WHERE staged > 0;

CREATE TABLE stage_file (
  stage_id TEXT NOT NULL,
  path     TEXT NOT NULL,
  sha256   BLOB NOT NULL CHECK (length(sha256) = 32),
  size     INTEGER NOT NULL CHECK (size >= 0),
  mtime    INTEGER,
  kind     TEXT NOT NULL,    -- as the client says, or ''
  claim    TEXT NOT NULL,    -- the id as the client says, or ''
  state    INTEGER NOT NULL, -- 0 awaited, 1 arrived, 2 known before, 3 refused
  reason   TEXT NOT NULL,    -- of a refusal
  facts    TEXT,             -- JSON: the objects in the file
  PRIMARY KEY (stage_id, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX stage_file_content ON stage_file (stage_id, sha256, path);

CREATE INDEX stage_file_awaited ON stage_file (stage_id, sha256) WHERE state = 0;

-- The contents of a stage that have begun to arrive.
CREATE TABLE stage_content (
  stage_id TEXT NOT NULL,
  sha256   BLOB NOT NULL CHECK (length(sha256) = 32),
  size     INTEGER NOT NULL CHECK (size >= 0),
  state    INTEGER NOT NULL, -- 0 parts, 1 whole
  node     TEXT NOT NULL,    -- which node has the parts; '' if there is only one
  parts    BLOB,             -- a bit for each part that has arrived
  PRIMARY KEY (stage_id, sha256)
) STRICT, WITHOUT ROWID;

CREATE INDEX stage_content_sum ON stage_content (sha256) WHERE state = 1;

-- Files whose objects are not simply the whole file: what a push need not send
-- again if the depot has these objects.
CREATE TABLE stage_known (
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
  name   TEXT NOT NULL, -- folded base name
  size   INTEGER NOT NULL,
  facts  TEXT NOT NULL, -- JSON: the objects in the file
  used   INTEGER NOT NULL,
  PRIMARY KEY (sha256, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX stage_known_used ON stage_known (used);

-- The SHA-1 of files that came by protocols which name them by it.
CREATE TABLE stage_sha1 (
  sha1   TEXT NOT NULL PRIMARY KEY, -- hex
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32),
  size   INTEGER NOT NULL,
  used   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX stage_sha1_used ON stage_sha1 (used);
