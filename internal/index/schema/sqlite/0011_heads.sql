-- format_floor: 11
-- contract
-- From here on contents are found by the first bytes of their hashes, in an index half as large. Programs below format
-- 11 rely on an index of whole hashes. The contents come into a table with that index in the background: see file
-- heads.go of package contents. Blocks of old keys get version 2.

-- Blocks of old keys behind the one that begins with this text may have version 1; null: none has.
ALTER TABLE old_keys ADD COLUMN long_after TEXT;

UPDATE old_keys SET long_after = '' WHERE EXISTS (SELECT 1 FROM old_key);

CREATE TABLE content_copy (
  id                 INTEGER NOT NULL PRIMARY KEY,
  sha256             BLOB NOT NULL CHECK (length(sha256) = 32), -- each once; the writer sees to it
  size               INTEGER NOT NULL CHECK (size >= 0),
  added              INTEGER NOT NULL,
  unreferenced_since INTEGER,
  place              TEXT,
  damage             TEXT
) STRICT;

CREATE INDEX content_by_head ON content_copy (substr(sha256, 1, 5));

CREATE INDEX content_by_unreferenced ON content_copy (unreferenced_since, id) WHERE unreferenced_since IS NOT NULL;

CREATE INDEX content_by_size ON content_copy (size);

CREATE INDEX content_by_damage ON content_copy (id) WHERE damage IS NOT NULL;

-- One row: contents up to the id last are copied, and later ones than the id ends when they are written.
CREATE TABLE content_copied (
  one  INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  last INTEGER NOT NULL,
  ends INTEGER NOT NULL
) STRICT;

INSERT INTO content_copied (one, last, ends) SELECT 1, 0, coalesce(max(id), 0) FROM content;

CREATE TRIGGER copy_new_content AFTER INSERT ON content
BEGIN
  INSERT INTO content_copy (id, sha256, size, added, unreferenced_since, place, damage)
    VALUES (NEW.id, NEW.sha256, NEW.size, NEW.added, NEW.unreferenced_since, NEW.place, NEW.damage);
END;

CREATE TRIGGER copy_changed_content AFTER UPDATE ON content
BEGIN
  UPDATE content_copy SET size = NEW.size, added = NEW.added, unreferenced_since = NEW.unreferenced_since, place = NEW.place,
    damage = NEW.damage WHERE id = NEW.id;
END;

CREATE TRIGGER copy_dropped_content AFTER DELETE ON content
BEGIN
  DELETE FROM content_copy WHERE id = OLD.id;
END;
-- if empty: content
DROP TABLE content;

DROP TABLE content_copied;

ALTER TABLE content_copy RENAME TO content;
