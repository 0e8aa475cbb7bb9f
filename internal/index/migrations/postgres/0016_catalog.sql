-- format_floor: 10
-- Lists that people read in pages; the comments are in the migration for SQLite.
CREATE TABLE listed_name (
  product_id bigint NOT NULL,
  name       text COLLATE "C" NOT NULL,
  PRIMARY KEY (product_id, name)
);

INSERT INTO listed_name (product_id, name) SELECT DISTINCT 0, name_fold FROM object;

INSERT INTO listed_name (product_id, name) SELECT DISTINCT s.product_id, o.name_fold FROM seen s JOIN object o ON o.id = s.object_id;

CREATE FUNCTION list_objects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO listed_name (product_id, name) SELECT DISTINCT 0, name_fold FROM added ON CONFLICT (product_id, name) DO NOTHING;
  RETURN NULL;
END $$;

CREATE TRIGGER list_objects AFTER INSERT ON object REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION list_objects();

CREATE FUNCTION list_seen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO listed_name (product_id, name) SELECT DISTINCT a.product_id, o.name_fold FROM added a JOIN object o ON o.id = a.object_id
    ON CONFLICT (product_id, name) DO NOTHING;
  RETURN NULL;
END $$;

CREATE TRIGGER list_seen AFTER INSERT ON seen REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION list_seen();

CREATE FUNCTION unlist_objects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM listed_name USING
    (SELECT DISTINCT g.name_fold FROM gone g WHERE NOT EXISTS (SELECT 1 FROM object o WHERE o.name_fold = g.name_fold)) AS n,
    (SELECT 0 AS id UNION ALL SELECT id FROM product) AS p
    WHERE listed_name.product_id = p.id AND listed_name.name = n.name_fold;
  RETURN NULL;
END $$;

CREATE TRIGGER unlist_objects AFTER DELETE ON object REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION unlist_objects();

-- It takes the place of object_name: the objects of a name are read newest first.
CREATE INDEX object_newest ON object (name_fold, id DESC);

DROP INDEX object_name;

CREATE INDEX seen_product ON seen (product_id, object_id);

CREATE INDEX content_size ON content (size, id);

CREATE INDEX tx_product ON tx (product_id, id);

CREATE INDEX tx_version ON tx (product_id, version, id) INCLUDE (time, files, bytes) WHERE deleted_at IS NULL;
