-- format_floor: 6
-- The depot that this index is a copy of, and the generation after the copy: an
-- interrupted migration recognizes its own work.
ALTER TABLE identity ADD COLUMN copied_from text COLLATE "C";
ALTER TABLE identity ADD COLUMN copied_generation bigint;
