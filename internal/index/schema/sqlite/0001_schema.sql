-- Times are milliseconds since 1970, UTC. "Folded" means lower case, as
-- symfile.Fold makes it; folded columns are compared byte by byte.

-- One row: counters that must not need a scan.
CREATE TABLE state (
  one          INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  last_tx      INTEGER NOT NULL, -- newest transaction number given out
  generation   INTEGER NOT NULL, -- grows with every change of what can be seen
  contents     INTEGER NOT NULL,
  bytes        INTEGER NOT NULL, -- sum of content.size
  objects      INTEGER NOT NULL,
  lookups      INTEGER NOT NULL,
  -- Object ids are never given out twice, and keys that an older object gets are counted:
  -- who knows all keys up to an id can read just the rest.
  last_object  INTEGER NOT NULL DEFAULT 0,
  late_keys    INTEGER NOT NULL DEFAULT 0,
  -- All objects that got keys later, with a higher number than this, are in late_object.
  late_floor   INTEGER NOT NULL DEFAULT 0,
  -- The oldest format that a program must know to use the index.
  format_floor INTEGER NOT NULL DEFAULT 1
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
  deleted_at    INTEGER,
  source        TEXT, -- null where the id is positive
  -- What a transaction was pushed with.
  branch        TEXT NOT NULL DEFAULT '',
  class         TEXT NOT NULL DEFAULT '',
  build         TEXT,    -- JSON: the CI job that made the files
  labels        TEXT,    -- JSON: an object of texts
  manifest      BLOB,    -- SHA-256 of the list of all pushed files
  arrived       INTEGER, -- time of the commit
  collecting    INTEGER, -- 1 while files are still added to it
  -- A removed transaction can be restored until then; null: it was removed without a trash,
  -- or its files are not held any more.
  trash_until   INTEGER
) STRICT;

-- Bytes, each kept once. Something refers to a content as long as one of its
-- objects can be seen or something was derived into it.
CREATE TABLE content (
  id                 INTEGER NOT NULL PRIMARY KEY,
  sha256             BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32),
  size               INTEGER NOT NULL CHECK (size >= 0),
  added              INTEGER NOT NULL,
  unreferenced_since INTEGER, -- null while something refers to it
  -- The object of the content in the bucket; null for a content on disk.
  place              TEXT,
  -- What a process has found wrong with the stored bytes; null: nothing. Every process that
  -- would rely on these bytes reads them again first.
  damage             TEXT
) STRICT;

CREATE INDEX content_unreferenced ON content (unreferenced_since, id) WHERE unreferenced_since IS NOT NULL;

-- One symbol object: one content under one name as one kind.
CREATE TABLE object (
  id         INTEGER NOT NULL PRIMARY KEY,
  content_id INTEGER NOT NULL REFERENCES content (id),
  name       TEXT NOT NULL,    -- as given
  kind       INTEGER NOT NULL, -- symfile.Kind
  name_fold  TEXT NOT NULL,
  role       INTEGER NOT NULL, -- symfile.Role
  code_name  TEXT NOT NULL,
  code_id    TEXT NOT NULL,
  debug_id   TEXT NOT NULL, -- debugid.ID.Breakpad
  info_age   INTEGER NOT NULL,
  build_id   TEXT NOT NULL,
  of_kind    INTEGER NOT NULL, -- symfile.Kind
  flags      INTEGER NOT NULL, -- 1 PDB without DBI, 2 debug companion, 4 program
  version    INTEGER NOT NULL,
  hash       TEXT NOT NULL,
  arch       TEXT NOT NULL,
  features   TEXT NOT NULL, -- words with blanks between them
  debug_size INTEGER NOT NULL,
  UNIQUE (content_id, name, kind)
) STRICT;

CREATE INDEX object_name ON object (name_fold);

-- Who has which key: every spelling under which an object answers.
CREATE TABLE lookup (
  id        TEXT NOT NULL CHECK (id <> ''), -- folded
  name      TEXT NOT NULL,                  -- folded
  object_id INTEGER NOT NULL REFERENCES object (id),
  role      INTEGER NOT NULL,           -- roles in which it answers here
  form      INTEGER NOT NULL DEFAULT 0, -- 0 file, 1 pointer, 2 derived
  PRIMARY KEY (id, name, object_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX lookup_object ON lookup (object_id);

-- The files of the transactions that were not removed.
CREATE TABLE tx_file (
  tx_id     INTEGER NOT NULL REFERENCES tx (id),
  seq       INTEGER NOT NULL, -- order of adding, from 1
  object_id INTEGER NOT NULL REFERENCES object (id),
  path      TEXT NOT NULL, -- as it was added
  archive   TEXT NOT NULL, -- archive that it came from, or ''
  mtime     INTEGER,
  by_path   INTEGER NOT NULL, -- 1: an ELF object that is also searched by path, 2: a file that debug information may name
  -- The time of a cached file itself, where the source told it; mtime is when the file was
  -- downloaded. Null for added files, whose time is mtime.
  own_mtime INTEGER,
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

-- Transactions that were taken over are looked up by where they came from.
CREATE INDEX tx_origin ON tx (origin_store, origin_number) WHERE origin_store IS NOT NULL;

CREATE UNIQUE INDEX tx_source ON tx (source, product_id) WHERE source IS NOT NULL;

-- Files that were fetched from elsewhere and can be let go of. Each source and product has
-- one row in tx with a negative id: never listed, never removed. Its files stand in tx_file
-- and seen like those of any transaction, so that one question finds both, and what was
-- added comes before what was fetched. There, tx.files and tx.bytes count the rows in
-- cached, and tx_file.mtime is when the file was fetched.
CREATE TABLE cached (
  content_id INTEGER NOT NULL REFERENCES content (id),
  tx_id      INTEGER NOT NULL REFERENCES tx (id) CHECK (tx_id < 0),
  name       TEXT NOT NULL, -- as the source calls it
  url        TEXT NOT NULL, -- without secrets
  tag        TEXT NOT NULL, -- entity tag, or ''
  fetched    INTEGER NOT NULL,
  used       INTEGER NOT NULL, -- last use
  PRIMARY KEY (content_id, tx_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX cached_used ON cached (used);

CREATE INDEX cached_source ON cached (tx_id, used);

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
  started      INTEGER, -- of the last attempt
  finished     INTEGER,
  lease_until  INTEGER,
  worker       TEXT NOT NULL, -- who has it, or had it last
  token        TEXT NOT NULL, -- of the last lease; '' when that was given back
  outcome      TEXT NOT NULL, -- class of the last outcome
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
  created_by TEXT NOT NULL,
  -- What uploads with the token are filed under, and tokens that were exchanged for the id
  -- token of a CI job.
  uploads    TEXT,    -- JSON
  origin     BLOB,    -- identifies the id token
  keep       INTEGER, -- time after which the row of an exchanged token is deleted
  -- Sign-ins of browsers, beside the tokens.
  kind       TEXT, -- 'signin'; null: a token
  parent     TEXT, -- id of the token that a sign-in was begun with, and ends with
  facts      TEXT  -- of a sign-in, as JSON
) STRICT;

-- One row: how far the background check of all stored contents has come.
CREATE TABLE scrub (
  one           INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  owner         TEXT NOT NULL, -- process that checks
  updated       INTEGER NOT NULL,
  position      INTEGER NOT NULL, -- content.id of the last one checked in this pass
  started       INTEGER,          -- this pass; null between two passes
  contents      INTEGER NOT NULL, -- checked in this pass; so the next two
  bytes         INTEGER NOT NULL,
  damaged       INTEGER NOT NULL,
  last_finished INTEGER, -- the last whole pass; null before it
  last_contents INTEGER NOT NULL,
  last_bytes    INTEGER NOT NULL,
  last_damaged  INTEGER NOT NULL
) STRICT;

INSERT INTO scrub (one, owner, updated, position, started, contents, bytes, damaged, last_finished, last_contents, last_bytes, last_damaged)
  VALUES (1, '', 0, 0, NULL, 0, 0, 0, NULL, 0, 0, 0);

-- Contents in a bucket: each upload of a content has a name of its own, its place, that is
-- never used again. A place is in one of three tables: upload, content, doomed, in this
-- order.

-- Uploads that no commit has referred to yet. The row is written before the
-- first byte is sent.
CREATE TABLE upload (
  place       TEXT NOT NULL PRIMARY KEY CHECK (place <> ''),
  node        TEXT NOT NULL, -- process that uploads
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
  one               INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  depot             TEXT NOT NULL,
  -- Which database may delete objects of the bucket: the bucket's marker holds the turn too.
  -- It changes every few hours, so that a copy of the database, which stays behind, is
  -- recognized.
  turn              TEXT,
  previous          TEXT,
  turned            INTEGER,
  -- When all objects of the bucket were last compared with the index.
  audited           INTEGER,
  -- The depot that this index is a copy of, and the generation after the copy: an
  -- interrupted copy recognizes its own work.
  copied_from       TEXT,
  copied_generation INTEGER
) STRICT;

-- Random keys of a depot without a folder.
CREATE TABLE secret (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

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

-- Objects that gained keys after they were added, so that a filter need not read
-- all keys again.
CREATE TABLE late_object (
  no        INTEGER NOT NULL, -- state.late_keys once the keys were there
  object_id INTEGER NOT NULL,
  PRIMARY KEY (no, object_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX tx_manifest ON tx (manifest) WHERE manifest IS NOT NULL AND deleted_at IS NULL;

CREATE INDEX tx_collecting ON tx (id) WHERE collecting IS NOT NULL;

-- Stages: pushes that are not a transaction yet.
CREATE TABLE stage (
  id       TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  caller   TEXT NOT NULL, -- name of the principal, for people
  key      TEXT NOT NULL, -- names the stage for its owner; '' for none
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
  bytes    INTEGER NOT NULL,           -- sum of the files' sizes
  staged   INTEGER NOT NULL,           -- sum of the sizes of its contents that have arrived or begun to
  tx_id    INTEGER,                    -- the transaction, once there is one
  closed   INTEGER,                    -- time of the commit; null for an open one
  manifest BLOB,                       -- of a committed one
  result   TEXT,                       -- JSON: the answer to the commit
  joins    INTEGER NOT NULL DEFAULT 0, -- 1: several clients add files
  owner    TEXT NOT NULL DEFAULT ''    -- method and credential: two tokens may have one name
) STRICT;

CREATE UNIQUE INDEX stage_key ON stage (owner, key) WHERE key <> '' AND owner <> '';

CREATE INDEX stage_owner ON stage (owner, collects) WHERE closed IS NULL;

CREATE INDEX stage_caller ON stage (caller, collects) WHERE closed IS NULL;

CREATE INDEX stage_used ON stage (used);

CREATE INDEX stage_staged ON stage (staged) WHERE staged > 0;

-- A file of a stage is a path with one content and one claim about it: uploads of other
-- tools name several files by one base name.
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
  PRIMARY KEY (stage_id, path, sha256, kind, claim)
) STRICT, WITHOUT ROWID;

CREATE INDEX stage_file_content ON stage_file (stage_id, sha256, path, kind, claim);

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

CREATE UNIQUE INDEX token_origin ON token (origin) WHERE origin IS NOT NULL;

CREATE INDEX token_keep ON token (keep) WHERE origin IS NOT NULL;

CREATE INDEX tx_trash ON tx (trash_until) WHERE trash_until IS NOT NULL;

-- The files of transactions in the trash. A content that only these hold is
-- unreferenced since the end of the trash, and the rows of its objects go with it: nothing
-- here refers to object.
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
  ends   INTEGER, -- the last day, in days since 1970; null: it does not end
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
  kind    TEXT NOT NULL, -- apply or schedule
  outcome TEXT NOT NULL, -- running, done, brake, clock, failed
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
  plan   TEXT NOT NULL -- its number, or ''
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

-- The disk space that products took, day by day. A row has the figures of the last
-- time on its day at which they were computed.
CREATE TABLE usage_day (
  day          INTEGER NOT NULL, -- days since 1970, UTC
  product_id   INTEGER NOT NULL, -- 0: the whole depot
  transactions INTEGER NOT NULL, -- live ones
  files        INTEGER NOT NULL, -- of these
  bytes        INTEGER NOT NULL, -- disk space of these
  own          INTEGER NOT NULL, -- of it what no other product holds
  cached       INTEGER NOT NULL, -- the rest is 0 for products: cached files and unfinished pushes
  garbage      INTEGER NOT NULL, -- what gc would free
  trash        INTEGER NOT NULL, -- what gc would free after the trash
  PRIMARY KEY (day, product_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX token_signin ON token (created_by) WHERE kind = 'signin';

-- Lists that people read in pages.

-- The distinct folded names of objects: with the product 0 those of all objects, and
-- with another one at least those of the objects that are visible in the product.
CREATE TABLE listed_name (
  product_id INTEGER NOT NULL,
  name       TEXT NOT NULL,
  PRIMARY KEY (product_id, name)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER list_object AFTER INSERT ON object
  WHEN NOT EXISTS (SELECT 1 FROM listed_name WHERE product_id = 0 AND name = NEW.name_fold)
BEGIN
  INSERT INTO listed_name (product_id, name) VALUES (0, NEW.name_fold);
END;

CREATE TRIGGER list_seen AFTER INSERT ON seen
BEGIN
  INSERT INTO listed_name (product_id, name) SELECT NEW.product_id, o.name_fold FROM object o
    WHERE o.id = NEW.object_id AND NOT EXISTS (SELECT 1 FROM listed_name k WHERE k.product_id = NEW.product_id AND k.name = o.name_fold);
END;

CREATE TRIGGER unlist_object AFTER DELETE ON object
  WHEN NOT EXISTS (SELECT 1 FROM object WHERE name_fold = OLD.name_fold)
BEGIN
  DELETE FROM listed_name WHERE name = OLD.name_fold AND product_id IN (SELECT 0 UNION ALL SELECT id FROM product);
END;

CREATE INDEX seen_product ON seen (product_id, object_id);

CREATE INDEX content_size ON content (size);

CREATE INDEX tx_product ON tx (product_id);

CREATE INDEX tx_version ON tx (product_id, version, id, time, files, bytes) WHERE deleted_at IS NULL;

CREATE INDEX tx_file_source ON tx_file (tx_id, path) WHERE by_path = 2;

-- Cold contents: the bytes of a content as differences from a similar one, its base.
CREATE TABLE cold (
  content_id  INTEGER NOT NULL PRIMARY KEY REFERENCES content (id),
  base_id     INTEGER REFERENCES content (id), -- null: a key, which has no base
  made        INTEGER NOT NULL,
  plain_since INTEGER, -- the plain bytes are stored too, since then; null: they are not
  reads       INTEGER NOT NULL DEFAULT 0,
  reads_since INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX cold_base ON cold (base_id) WHERE base_id IS NOT NULL;

CREATE INDEX cold_plain ON cold (plain_since) WHERE plain_since IS NOT NULL;

-- One row: the progress of cooling.
CREATE TABLE cooling (
  one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  paused   INTEGER NOT NULL,
  owner    TEXT NOT NULL,
  updated  INTEGER NOT NULL,
  position TEXT NOT NULL,    -- the name that was last looked at
  started  INTEGER,          -- of the present pass; null between two passes
  finished INTEGER,          -- of the last one
  contents INTEGER NOT NULL, -- made cold in the present pass, or in the last one
  before   INTEGER NOT NULL, -- bytes of these as they were
  after    INTEGER NOT NULL  -- bytes of these now
) STRICT;

INSERT INTO cooling (one, paused, owner, updated, position, contents, before, after) VALUES (1, 0, '', 0, '', 0, 0, 0);

-- The IMA signatures of contents, in hex: of files in RPM packages, and of debuginfod
-- servers. One content has one; those of added files come first.
CREATE TABLE content_signature (
  content_id INTEGER NOT NULL PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
  ima        TEXT NOT NULL
) STRICT;

CREATE INDEX content_damage ON content (id) WHERE damage IS NOT NULL;
