-- format_floor: 5
-- contract
-- From here on keys are packed, which programs below format 5 do not find.
UPDATE old_keys SET position = '';
