-- format_floor: 19
-- What a process has found wrong with the stored bytes of a content: the comment is in the
-- migration for SQLite.
ALTER TABLE content ADD COLUMN damage text COLLATE "C";

CREATE INDEX content_damage ON content (id) WHERE damage IS NOT NULL;
