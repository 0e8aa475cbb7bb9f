-- format_floor: 20
-- What a process has found wrong with the stored bytes of a content; null: nothing. Every
-- process that would rely on these bytes reads them again first.
ALTER TABLE content ADD COLUMN damage TEXT;

CREATE INDEX content_damage ON content (id) WHERE damage IS NOT NULL;
