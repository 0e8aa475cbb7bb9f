-- format_floor: 10
-- Stages; the comments are in the migration for SQLite.
ALTER TABLE tx ADD COLUMN branch text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tx ADD COLUMN class text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE tx ADD COLUMN build text COLLATE "C";
ALTER TABLE tx ADD COLUMN labels text COLLATE "C";
ALTER TABLE tx ADD COLUMN manifest bytea;
ALTER TABLE tx ADD COLUMN arrived bigint;
ALTER TABLE tx ADD COLUMN collecting bigint;

CREATE INDEX tx_manifest ON tx (manifest) WHERE manifest IS NOT NULL AND deleted_at IS NULL;

CREATE INDEX tx_collecting ON tx (id) WHERE collecting IS NOT NULL;

CREATE TABLE stage (
  id       text COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  caller   text COLLATE "C" NOT NULL,
  key      text COLLATE "C" NOT NULL,
  product  text COLLATE "C" NOT NULL,
  version  text COLLATE "C" NOT NULL,
  branch   text COLLATE "C" NOT NULL,
  class    text COLLATE "C" NOT NULL,
  comment  text COLLATE "C" NOT NULL,
  build    text COLLATE "C" NOT NULL,
  collects bigint NOT NULL,
  node     text COLLATE "C" NOT NULL,
  opened   bigint NOT NULL,
  used     bigint NOT NULL,
  changes  bigint NOT NULL,
  files    bigint NOT NULL,
  bytes    bigint NOT NULL,
  staged   bigint NOT NULL,
  tx_id    bigint,
  closed   bigint,
  manifest bytea,
  result   text COLLATE "C"
);

CREATE UNIQUE INDEX stage_key ON stage (caller, key) WHERE key <> '';

CREATE INDEX stage_caller ON stage (caller, collects) WHERE closed IS NULL;

CREATE INDEX stage_used ON stage (used);

CREATE INDEX stage_staged ON stage (staged) WHERE staged > 0;

CREATE TABLE stage_file (
  stage_id text COLLATE "C" NOT NULL,
  path     text COLLATE "C" NOT NULL,
  sha256   bytea NOT NULL CHECK (length(sha256) = 32),
  size     bigint NOT NULL CHECK (size >= 0),
  mtime    bigint,
  kind     text COLLATE "C" NOT NULL,
  claim    text COLLATE "C" NOT NULL,
  state    bigint NOT NULL,
  reason   text COLLATE "C" NOT NULL,
  facts    text COLLATE "C",
  PRIMARY KEY (stage_id, path)
);

CREATE INDEX stage_file_content ON stage_file (stage_id, sha256, path);

CREATE INDEX stage_file_awaited ON stage_file (stage_id, sha256) WHERE state = 0;

CREATE TABLE stage_content (
  stage_id text COLLATE "C" NOT NULL,
  sha256   bytea NOT NULL CHECK (length(sha256) = 32),
  size     bigint NOT NULL CHECK (size >= 0),
  state    bigint NOT NULL,
  node     text COLLATE "C" NOT NULL,
  parts    bytea,
  PRIMARY KEY (stage_id, sha256)
);

CREATE INDEX stage_content_sum ON stage_content (sha256) WHERE state = 1;

CREATE TABLE stage_known (
  sha256 bytea NOT NULL CHECK (length(sha256) = 32),
  name   text COLLATE "C" NOT NULL,
  size   bigint NOT NULL,
  facts  text COLLATE "C" NOT NULL,
  used   bigint NOT NULL,
  PRIMARY KEY (sha256, name)
);

CREATE INDEX stage_known_used ON stage_known (used);

CREATE TABLE stage_sha1 (
  sha1   text COLLATE "C" NOT NULL PRIMARY KEY,
  sha256 bytea NOT NULL CHECK (length(sha256) = 32),
  size   bigint NOT NULL,
  used   bigint NOT NULL
);

CREATE INDEX stage_sha1_used ON stage_sha1 (used);
