-- format_floor: 10
-- Source files; the comments are in the migration for SQLite.
CREATE INDEX tx_file_source ON tx_file (tx_id, path) WHERE by_path = 2;

UPDATE tx_file SET by_path = 2 WHERE tx_id > 0 AND object_id IN (SELECT id FROM object WHERE kind = 16);
