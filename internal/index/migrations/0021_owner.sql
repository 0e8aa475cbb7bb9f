-- format_floor: 20
-- Stages belong to a credential, not to a name: two tokens may have one name. Those
-- of before belong to no credential; their pushes begin anew.
ALTER TABLE stage ADD COLUMN owner TEXT NOT NULL DEFAULT ''; -- method and credential; '': of a program of an earlier version

UPDATE stage SET owner = 'name:' || caller;

DROP INDEX stage_key;

CREATE UNIQUE INDEX stage_key ON stage (owner, key) WHERE key <> '' AND owner <> '';

CREATE INDEX stage_owner ON stage (owner, collects) WHERE closed IS NULL;
