-- format_floor: 4
-- Failover and upgrades. Programs of format 4 may go on: the columns have
-- defaults, and a trigger makes the salts.

-- salt:         random number of the generation
-- server:       the server and the database that made the last durable write:
--               the start of the server and the number of the database
-- moved:        when that was a different one before, by the clock of the server;
--               null if it never was
-- format_floor: the oldest format that a program must know to use the index
ALTER TABLE state
  ADD COLUMN salt         bigint NOT NULL DEFAULT 0,
  ADD COLUMN server       text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN moved        timestamptz,
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

CREATE FUNCTION this_server() RETURNS text LANGUAGE sql AS $$
  SELECT extract(epoch FROM pg_postmaster_start_time())::text || ' ' || oid FROM pg_database WHERE datname = current_database()
$$;
