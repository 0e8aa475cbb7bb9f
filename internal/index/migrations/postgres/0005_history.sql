-- format_floor: 4
-- Failover and upgrades. Programs of format 4 may go on: the columns have
-- defaults, and a trigger makes the salts.

-- salt:         random number of the generation
-- timeline:     history of the server that made the last durable write
-- promoted:     when the timeline changed last, by the clock of that server;
--               null if it never did
-- format_floor: the oldest format that a program must know to use the index
ALTER TABLE state
  ADD COLUMN salt         bigint NOT NULL DEFAULT 0,
  ADD COLUMN timeline     text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN promoted     timestamptz,
  ADD COLUMN format_floor bigint NOT NULL DEFAULT 4;

-- The newest format that the program of a node knows.
ALTER TABLE node ADD COLUMN format bigint NOT NULL DEFAULT 4;

-- The generations of the last day. A process that does not find the generation
-- that it knows here, with its salt, knows of writes that a restore or a failover
-- has undone.
CREATE TABLE history (
  generation bigint NOT NULL PRIMARY KEY,
  salt       bigint NOT NULL,
  made       timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX history_made ON history (made);

CREATE FUNCTION make_history() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  random text := gen_random_uuid()::text;
BEGIN
  NEW.salt := ('x' || left(random, 8) || right(random, 8))::bit(64)::bigint;
  INSERT INTO history (generation, salt) VALUES (NEW.generation, NEW.salt)
    ON CONFLICT (generation) DO UPDATE SET salt = excluded.salt, made = excluded.made;
  RETURN NEW;
END $$;

CREATE TRIGGER make_history BEFORE UPDATE OF generation ON state FOR EACH ROW EXECUTE FUNCTION make_history();

UPDATE state SET generation = generation + 1;

-- The timeline of the server, which a promotion changes. Servers that do not show
-- it have their start time instead.
CREATE FUNCTION server_timeline() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
EXCEPTION WHEN OTHERS THEN
  RETURN pg_postmaster_start_time()::text;
END $$;
