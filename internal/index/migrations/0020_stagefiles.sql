-- A file of a stage is a path with one content and one claim about it: uploads of
-- other tools name several files by one base name. joins: several clients add files.
ALTER TABLE stage ADD COLUMN joins INTEGER NOT NULL DEFAULT 0;

CREATE TABLE stage_file_next (
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
  PRIMARY KEY (stage_id, path, sha256, kind, claim)
) STRICT, WITHOUT ROWID;

INSERT INTO stage_file_next (stage_id, path, sha256, size, mtime, kind, claim, state, reason, facts)
  SELECT stage_id, path, sha256, size, mtime, kind, claim, state, reason, facts FROM stage_file;

DROP TABLE stage_file;

ALTER TABLE stage_file_next RENAME TO stage_file;

CREATE INDEX stage_file_content ON stage_file (stage_id, sha256, path, kind, claim);

CREATE INDEX stage_file_awaited ON stage_file (stage_id, sha256) WHERE state = 0;
