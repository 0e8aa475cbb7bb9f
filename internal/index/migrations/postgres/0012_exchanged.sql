-- format_floor: 10
-- The comments are in the migration for SQLite.
ALTER TABLE token ADD COLUMN uploads text COLLATE "C";
ALTER TABLE token ADD COLUMN origin bytea;
ALTER TABLE token ADD COLUMN keep bigint;

CREATE UNIQUE INDEX token_origin ON token (origin) WHERE origin IS NOT NULL;

CREATE INDEX token_keep ON token (keep) WHERE origin IS NOT NULL;
