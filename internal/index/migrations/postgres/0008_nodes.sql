-- format_floor: 7
-- What the processes of several machines share besides the index.

-- address is where other nodes reach a node; empty if they cannot. epoch is the
-- epoch of remembered misses that the node knows; 0 if its program knows none.
ALTER TABLE node
  ADD COLUMN address text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN epoch bigint NOT NULL DEFAULT 0;

-- Counters that rise when processes must drop what they remember: "miss" when
-- misses are forgotten.
CREATE TABLE epoch (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  n    bigint NOT NULL
) WITH (fillfactor = 10);

INSERT INTO epoch (name, n) VALUES ('miss', 1);

-- Chores that one process does at a time: the holder of the lease, and the end of
-- the last run.
CREATE TABLE duty (
  name  text COLLATE "C" NOT NULL PRIMARY KEY,
  node  text COLLATE "C" NOT NULL,
  until timestamptz NOT NULL,
  done  timestamptz
);

CREATE INDEX duty_until ON duty (until);

-- Upstreams that asked not to be asked before a time.
CREATE TABLE pause (
  source text COLLATE "C" NOT NULL PRIMARY KEY,
  until  timestamptz NOT NULL,
  why    text NOT NULL
);

-- Hashes of Kerberos authenticators that were used. A crash of the server
-- empties the table.
CREATE UNLOGGED TABLE replay (
  key   bytea NOT NULL PRIMARY KEY CHECK (length(key) = 16),
  until timestamptz NOT NULL
);

CREATE INDEX replay_until ON replay (until);
