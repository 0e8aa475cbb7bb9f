-- format_floor: 7
-- contract
-- From here on rows are written short, which programs below format 7 do not read.
UPDATE old_keys SET position = '';

DROP INDEX tx_file_path;

CREATE INDEX tx_file_path ON tx_file (path) WHERE by_path = 1 AND dir IS NULL;
