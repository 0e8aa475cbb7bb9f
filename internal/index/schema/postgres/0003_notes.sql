-- format_floor: 1
ALTER TABLE derived ADD COLUMN note text;
