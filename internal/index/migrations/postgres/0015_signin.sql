-- format_floor: 10
-- Sign-ins of browsers; the comments are in the migration for SQLite. Programs of the
-- versions before list them as tokens without rights, and accept none.
ALTER TABLE token ADD COLUMN kind text COLLATE "C";
ALTER TABLE token ADD COLUMN parent text COLLATE "C";
ALTER TABLE token ADD COLUMN facts text COLLATE "C";

CREATE INDEX token_signin ON token (created_by) WHERE kind = 'signin';
