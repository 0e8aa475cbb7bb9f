-- format_floor: 7
-- What a node tells the others besides: JSON that only the depot understands.
ALTER TABLE node ADD COLUMN facts text NOT NULL DEFAULT '';
