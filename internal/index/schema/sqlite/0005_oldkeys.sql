-- format_floor: 1
-- Keys of objects that came long ago. They are packed: a row holds those of the ids from first
-- on, up to the first of the next row. A key is here or in lookup, never in both.
CREATE TABLE old_key (
  first TEXT NOT NULL PRIMARY KEY, -- no id of the row is before it
  keys  INTEGER NOT NULL,          -- how many there are in body
  body  BLOB NOT NULL              -- as package oldkeys packs them
) STRICT;

-- One row: how far the packing of keys has come.
CREATE TABLE old_keys (
  one         INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  last_object INTEGER NOT NULL, -- no packed key is of an object with a higher id
  position    TEXT NOT NULL,    -- the id with which the present pass goes on
  begins      INTEGER,          -- no key is packed before; null: that has not been decided
  finished    INTEGER           -- when the last whole pass ended; null before it
) STRICT;

INSERT INTO old_keys (one, last_object, position) VALUES (1, 0, '');
