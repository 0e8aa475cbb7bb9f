-- format_floor: 9
-- Which database may delete objects of the bucket: the bucket's marker holds the
-- turn too. It changes every few hours, so that a copy of the database, which
-- stays behind, is recognized.
ALTER TABLE identity ADD COLUMN turn TEXT;
ALTER TABLE identity ADD COLUMN previous TEXT;
ALTER TABLE identity ADD COLUMN turned INTEGER;

-- When all objects of the bucket were last compared with the index.
ALTER TABLE identity ADD COLUMN audited INTEGER;
