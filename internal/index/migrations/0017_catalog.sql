-- format_floor: 16
-- Lists that people read in pages. Triggers fill the new table, so that programs of
-- format 16 may go on.

-- The distinct folded names of objects: with the product 0 those of all objects, and
-- with another one at least those of the objects that are visible in the product.
CREATE TABLE listed_name (
  product_id INTEGER NOT NULL,
  name       TEXT NOT NULL,
  PRIMARY KEY (product_id, name)
) STRICT, WITHOUT ROWID;

INSERT INTO listed_name (product_id, name) SELECT DISTINCT 0, name_fold FROM object;

INSERT INTO listed_name (product_id, name) SELECT DISTINCT s.product_id, o.name_fold FROM seen s JOIN object o ON o.id = s.object_id;

CREATE TRIGGER list_object AFTER INSERT ON object
  WHEN NOT EXISTS (SELECT 1 FROM listed_name WHERE product_id = 0 AND name = NEW.name_fold)
BEGIN
  INSERT INTO listed_name (product_id, name) VALUES (0, NEW.name_fold);
END;

CREATE TRIGGER list_seen AFTER INSERT ON seen
BEGIN
  INSERT INTO listed_name (product_id, name) SELECT NEW.product_id, o.name_fold FROM object o
    WHERE o.id = NEW.object_id AND NOT EXISTS (SELECT 1 FROM listed_name k WHERE k.product_id = NEW.product_id AND k.name = o.name_fold);
END;

CREATE TRIGGER unlist_object AFTER DELETE ON object
  WHEN NOT EXISTS (SELECT 1 FROM object WHERE name_fold = OLD.name_fold)
BEGIN
  DELETE FROM listed_name WHERE name = OLD.name_fold AND product_id IN (SELECT 0 UNION ALL SELECT id FROM product);
END;

CREATE INDEX seen_product ON seen (product_id, object_id);

CREATE INDEX content_size ON content (size);

CREATE INDEX tx_product ON tx (product_id);

CREATE INDEX tx_version ON tx (product_id, version, id, time, files, bytes) WHERE deleted_at IS NULL;
