-- format_floor: 5
-- Shorter rows of objects and files. What they stand for is in package record, file compact.go.

-- The bytes that ids of the object are spelled from; null: they stand in the row as they are.
ALTER TABLE object ADD COLUMN ident bytea;

-- As the function of SQLite.
CREATE FUNCTION hex(b bytea) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT upper(encode(b, 'hex')) $$;

-- Folders of the files of a transaction. They stay while it is in the trash.
CREATE TABLE tx_dir (
  tx_id bigint NOT NULL,
  no    bigint NOT NULL,
  path  text COLLATE "C" NOT NULL, -- with the separator at its end
  first bigint NOT NULL,           -- all files with it have a tx_file.seq from first to last
  last  bigint NOT NULL,
  PRIMARY KEY (tx_id, no)
);

CREATE INDEX tx_dir_path ON tx_dir (path);

-- tx_dir.no of the folder; null: path is the whole path, else its rest, or '' for the name of the object.
ALTER TABLE tx_file ADD COLUMN dir integer;

ALTER TABLE trash_file ADD COLUMN dir integer;
