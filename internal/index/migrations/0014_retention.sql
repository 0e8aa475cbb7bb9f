-- Retention: which transactions are kept, and what became of the others.

-- A removed transaction can be restored until then; null: it was removed without
-- a trash, or its files are not held any more.
ALTER TABLE tx ADD COLUMN trash_until INTEGER;

CREATE INDEX tx_trash ON tx (trash_until) WHERE trash_until IS NOT NULL;

-- The files of transactions in the trash. A content that only these hold is
-- unreferenced since the end of the trash. Programs of the version before delete
-- objects without looking here, so nothing refers to object.
CREATE TABLE trash_file (
  tx_id     INTEGER NOT NULL,
  seq       INTEGER NOT NULL,
  object_id INTEGER NOT NULL,
  path      TEXT NOT NULL,
  archive   TEXT NOT NULL,
  mtime     INTEGER,
  by_path   INTEGER NOT NULL,
  own_mtime INTEGER,
  PRIMARY KEY (tx_id, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX trash_file_object ON trash_file (object_id);

-- The last day on which a content was read.
CREATE TABLE content_read (
  content_id INTEGER NOT NULL PRIMARY KEY,
  day        INTEGER NOT NULL -- days since 1970, UTC
) STRICT;

-- What protects a transaction from removal.
CREATE TABLE hold (
  tx_id  INTEGER NOT NULL,
  name   TEXT NOT NULL, -- tells the holds on one transaction apart
  who    TEXT NOT NULL,
  reason TEXT NOT NULL,
  placed INTEGER NOT NULL,
  ends   INTEGER,       -- the last day, in days since 1970; null: it does not end
  PRIMARY KEY (tx_id, name)
) STRICT, WITHOUT ROWID;

-- Transactions that must be kept as long as another one is.
CREATE TABLE tx_needs (
  tx_id INTEGER NOT NULL,
  needs INTEGER NOT NULL,
  PRIMARY KEY (tx_id, needs)
) STRICT, WITHOUT ROWID;

-- Changes of classes.
CREATE TABLE promotion (
  no         INTEGER NOT NULL PRIMARY KEY,
  tx_id      INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  who        TEXT NOT NULL,
  from_class TEXT NOT NULL,
  to_class   TEXT NOT NULL
) STRICT;

CREATE INDEX promotion_tx ON promotion (tx_id);

-- Policies; the one with the highest number is in force.
CREATE TABLE policy (
  no   INTEGER NOT NULL PRIMARY KEY,
  text TEXT NOT NULL, -- as it was set; '' keeps everything
  hash TEXT NOT NULL,
  at   INTEGER NOT NULL,
  who  TEXT NOT NULL
) STRICT;

-- Previewed plans.
CREATE TABLE plan (
  number TEXT NOT NULL PRIMARY KEY CHECK (number <> ''),
  ticket TEXT NOT NULL, -- JSON: what must be the same when it is applied
  who    TEXT NOT NULL,
  made   INTEGER NOT NULL,
  ends   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Runs of the policy that removed something, or were refused.
CREATE TABLE retention_run (
  no      INTEGER NOT NULL PRIMARY KEY,
  plan    TEXT NOT NULL,
  kind    TEXT NOT NULL,    -- apply or schedule
  outcome TEXT NOT NULL,    -- running, done, brake, clock, failed
  who     TEXT NOT NULL,
  begun   INTEGER NOT NULL,
  ended   INTEGER,
  policy  TEXT NOT NULL,    -- its text
  hash    TEXT NOT NULL,    -- of the policy
  removed INTEGER NOT NULL, -- transactions so far
  until   INTEGER,          -- the end of the trash; null without one
  facts   TEXT NOT NULL     -- JSON: sums, or the cause of a refusal
) STRICT;

CREATE INDEX retention_run_plan ON retention_run (plan);

-- Which transactions a run removes, and why.
CREATE TABLE run_removal (
  run    INTEGER NOT NULL,
  tx_id  INTEGER NOT NULL,
  class  TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (run, tx_id)
) STRICT, WITHOUT ROWID;

-- Who removed a transaction, and why.
CREATE TABLE removal (
  tx_id  INTEGER NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL,
  who    TEXT NOT NULL,
  class  TEXT NOT NULL, -- by which it was judged
  reason TEXT NOT NULL, -- expired, cap, rm or purge
  detail TEXT NOT NULL,
  plan   TEXT NOT NULL  -- its number, or ''
) STRICT;

-- Files that a removal hid from a product, and every id that found them.
CREATE TABLE removed_file (
  tx_id  INTEGER NOT NULL,
  no     INTEGER NOT NULL,
  name   TEXT NOT NULL,
  folded TEXT NOT NULL, -- name
  kind   INTEGER NOT NULL,
  id     TEXT NOT NULL, -- for people
  size   INTEGER NOT NULL,
  sha256 BLOB NOT NULL,
  PRIMARY KEY (tx_id, no)
) STRICT, WITHOUT ROWID;

CREATE INDEX removed_file_name ON removed_file (folded);

CREATE TABLE removed_key (
  id    TEXT NOT NULL, -- folded
  tx_id INTEGER NOT NULL,
  no    INTEGER NOT NULL,
  PRIMARY KEY (id, tx_id, no)
) STRICT, WITHOUT ROWID;

CREATE INDEX removed_key_tx ON removed_key (tx_id);
