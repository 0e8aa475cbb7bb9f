-- format_floor: 11
-- contract
-- From here on blocks of old keys are written in version 2, which programs below format 11 do not read. The step of
-- SQLite changes an index too.

-- Blocks of old keys behind the one that begins with this text may have version 1; null: none has.
ALTER TABLE old_keys ADD COLUMN long_after text COLLATE "C";

UPDATE old_keys SET long_after = '' WHERE EXISTS (SELECT 1 FROM old_key);
