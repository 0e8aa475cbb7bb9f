-- format_floor: 10
-- The depot that this index is a copy of, and the generation after the copy: an
-- interrupted migration recognizes its own work.
ALTER TABLE identity ADD COLUMN copied_from TEXT;
ALTER TABLE identity ADD COLUMN copied_generation INTEGER;
