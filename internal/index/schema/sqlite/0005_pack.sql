-- format_floor: 4
-- contract
-- From here on keys are packed, which programs below format 4 do not find.
UPDATE old_keys SET position = '';
