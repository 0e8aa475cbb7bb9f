-- Objects that gained keys after they were added.
CREATE TABLE late_object (
  no        bigint NOT NULL,
  object_id bigint NOT NULL,
  PRIMARY KEY (no, object_id)
);

ALTER TABLE state ADD COLUMN late_floor bigint NOT NULL DEFAULT 0;

UPDATE state SET late_floor = late_keys;
