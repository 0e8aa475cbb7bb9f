-- Objects that gained keys after they were added, so that a filter need not read
-- all keys again.
CREATE TABLE late_object (
  no        INTEGER NOT NULL, -- state.late_keys once the keys were there
  object_id INTEGER NOT NULL,
  PRIMARY KEY (no, object_id)
) STRICT, WITHOUT ROWID;

-- All such objects with a higher number than this are in late_object.
ALTER TABLE state ADD COLUMN late_floor INTEGER NOT NULL DEFAULT 0;

UPDATE state SET late_floor = late_keys;
