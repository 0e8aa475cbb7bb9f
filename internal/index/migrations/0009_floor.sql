-- format_floor: 8
-- The oldest format that a program must know to use the index.
ALTER TABLE state ADD COLUMN format_floor INTEGER NOT NULL DEFAULT 8;
