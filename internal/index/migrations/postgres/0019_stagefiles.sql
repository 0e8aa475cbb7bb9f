-- A file of a stage is a path with one content and one claim about it: uploads of
-- other tools name several files by one base name. joins: several clients add files.
ALTER TABLE stage ADD COLUMN joins BIGINT NOT NULL DEFAULT 0;

ALTER TABLE stage_file DROP CONSTRAINT stage_file_pkey;

ALTER TABLE stage_file ADD PRIMARY KEY (stage_id, path, sha256, kind, claim);

DROP INDEX stage_file_content;

CREATE INDEX stage_file_content ON stage_file (stage_id, sha256, path, kind, claim);
