-- format_floor: 16
-- Source files: by_path is 2 for the files that debug information may name. Programs
-- of earlier versions write 0 for them, so that they are found by name only.
CREATE INDEX tx_file_source ON tx_file (tx_id, path) WHERE by_path = 2;

UPDATE tx_file SET by_path = 2 WHERE tx_id > 0 AND object_id IN (SELECT id FROM object WHERE kind = 16);
