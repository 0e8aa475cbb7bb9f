-- Tokens that say under what uploads are filed, and tokens that were exchanged for
-- the id token of a CI job.
ALTER TABLE token ADD COLUMN uploads TEXT; -- JSON
ALTER TABLE token ADD COLUMN origin BLOB;  -- identifies the id token
ALTER TABLE token ADD COLUMN keep INTEGER; -- time after which the row of an exchanged token is deleted

CREATE UNIQUE INDEX token_origin ON token (origin) WHERE origin IS NOT NULL;

CREATE INDEX token_keep ON token (keep) WHERE origin IS NOT NULL;
