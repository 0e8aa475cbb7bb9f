-- Work for somebody: a transcoder here, or a worker on another machine. Ids are
-- never given out twice, because workers name them.
CREATE TABLE job (
  id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  kind         TEXT NOT NULL,
  key          TEXT NOT NULL,
  variant      INTEGER NOT NULL, -- such as a major version
  payload      BLOB,             -- JSON
  state        INTEGER NOT NULL, -- 1 queued, 2 running, 3 done, 4 failed, 5 cancelled
  priority     INTEGER NOT NULL, -- higher ones first
  attempts     INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  created      INTEGER NOT NULL,
  not_before   INTEGER NOT NULL,
  started      INTEGER,          -- of the last attempt
  finished     INTEGER,
  lease_until  INTEGER,
  worker       TEXT NOT NULL,    -- who has it, or had it last
  token        TEXT NOT NULL,    -- of the last lease; '' when that was given back
  outcome      TEXT NOT NULL,    -- class of the last outcome
  detail       TEXT NOT NULL,
  result       BLOB CHECK (length(result) = 32)
) STRICT;

-- One at a time for each purpose.
CREATE UNIQUE INDEX job_active ON job (kind, key, variant) WHERE state <= 2;

CREATE INDEX job_key ON job (kind, key, variant, id);

CREATE INDEX job_queue ON job (priority DESC, id) WHERE state = 1;

CREATE INDEX job_lease ON job (lease_until) WHERE state = 2;

CREATE INDEX job_finished ON job (finished) WHERE finished IS NOT NULL;

-- What a tool could not make of a content, remembered for a while.
CREATE TABLE failure (
  source  BLOB NOT NULL CHECK (length(source) = 32), -- SHA-256 of the content
  tool    TEXT NOT NULL,
  version TEXT NOT NULL,
  class   TEXT NOT NULL,
  detail  TEXT NOT NULL,
  since   INTEGER NOT NULL, -- first failure
  ends    INTEGER NOT NULL, -- not believed from then on
  tries   INTEGER NOT NULL,
  PRIMARY KEY (source, tool, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX failure_ends ON failure (ends);

-- Tokens that let somebody in. The secret itself is nowhere.
CREATE TABLE token (
  id         TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  hash       BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  name       TEXT NOT NULL,
  scopes     TEXT NOT NULL, -- JSON: list of words
  products   TEXT,          -- JSON: list of names; null for all
  created    INTEGER NOT NULL,
  expires    INTEGER,
  last_used  INTEGER,
  revoked    INTEGER,
  created_by TEXT NOT NULL
) STRICT;
