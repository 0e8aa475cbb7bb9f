-- format_floor: 5
-- Which database may delete objects of the bucket: the bucket's marker holds the
-- turn too. It changes every few hours, so that a copy of the database, which
-- stays behind, is recognized.
ALTER TABLE identity ADD COLUMN turn text COLLATE "C";
ALTER TABLE identity ADD COLUMN previous text COLLATE "C";
ALTER TABLE identity ADD COLUMN turned bigint;

-- When all objects of the bucket were last compared with the index.
ALTER TABLE identity ADD COLUMN audited bigint;
