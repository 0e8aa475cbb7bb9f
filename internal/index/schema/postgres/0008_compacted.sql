-- format_floor: 7
-- contract
-- From here on rows are written short, which programs below format 7 do not read.
UPDATE old_keys SET position = '';
