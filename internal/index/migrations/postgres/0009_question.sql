-- format_floor: 7
-- The number of the last question of a node. An earlier one that the network has
-- delayed must not say what the node knows now.
ALTER TABLE node ADD COLUMN question bigint NOT NULL DEFAULT 0;
