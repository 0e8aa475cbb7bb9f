-- format_floor: 10
-- Cold contents; the comments are in the migration for SQLite. The floor becomes 18
-- with the first cold content.
CREATE TABLE cold (
  content_id  bigint NOT NULL PRIMARY KEY REFERENCES content (id),
  base_id     bigint REFERENCES content (id),
  made        bigint NOT NULL,
  plain_since bigint,
  reads       bigint NOT NULL DEFAULT 0,
  reads_since bigint NOT NULL DEFAULT 0
);

CREATE INDEX cold_base ON cold (base_id) WHERE base_id IS NOT NULL;

CREATE INDEX cold_plain ON cold (plain_since) WHERE plain_since IS NOT NULL;

CREATE TABLE cooling (
  one      bigint NOT NULL PRIMARY KEY CHECK (one = 1),
  paused   bigint NOT NULL,
  owner    text COLLATE "C" NOT NULL,
  updated  bigint NOT NULL,
  position text COLLATE "C" NOT NULL,
  started  bigint,
  finished bigint,
  contents bigint NOT NULL,
  before   bigint NOT NULL,
  after    bigint NOT NULL
);

INSERT INTO cooling (one, paused, owner, updated, position, contents, before, after) VALUES (1, 0, '', 0, '', 0, 0, 0);
