-- format_floor: 19
-- The owners of stages; the comments are in the migration for SQLite.
ALTER TABLE stage ADD COLUMN owner text COLLATE "C" NOT NULL DEFAULT '';

UPDATE stage SET owner = 'name:' || caller;

DROP INDEX stage_key;

CREATE UNIQUE INDEX stage_key ON stage (owner, key) WHERE key <> '' AND owner <> '';

CREATE INDEX stage_owner ON stage (owner, collects) WHERE closed IS NULL;
