-- format_floor: 1
-- Keys of objects that came long ago. They are packed: a row holds those of the ids from first
-- on, up to the first of the next row. A key is here or in lookup, never in both.
CREATE TABLE old_key (
  first text COLLATE "C" NOT NULL PRIMARY KEY, -- no id of the row is before it
  keys  bigint NOT NULL,          -- how many there are in body
  body  bytea NOT NULL              -- as package oldkeys packs them
);

-- One row: how far the packing of keys has come.
CREATE TABLE old_keys (
  one         bigint NOT NULL PRIMARY KEY CHECK (one = 1),
  last_object bigint NOT NULL, -- no packed key is of an object with a higher id
  position    text COLLATE "C" NOT NULL,    -- the id with which the present pass goes on
  begins      bigint,          -- no key is packed before; null: that has not been decided
  finished    bigint           -- when the last whole pass ended; null before it
);

INSERT INTO old_keys (one, last_object, position) VALUES (1, 0, '');
