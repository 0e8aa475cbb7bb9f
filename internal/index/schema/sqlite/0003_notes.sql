-- format_floor: 1
-- What a tool says of its result, as JSON.
ALTER TABLE derived ADD COLUMN note TEXT;
