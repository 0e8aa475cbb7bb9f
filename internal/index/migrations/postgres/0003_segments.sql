-- Filters of all keys of a large index, which nodes read instead of the keys.
CREATE TABLE filter (
  kind        bigint NOT NULL PRIMARY KEY,
  build       text COLLATE "C" NOT NULL,
  last_object bigint NOT NULL,
  last_tx     bigint NOT NULL,
  late_keys   bigint NOT NULL,
  keys        bigint NOT NULL,
  lease_until bigint NOT NULL
);

INSERT INTO filter VALUES (1, '', 0, 0, 0, 0, 0), (2, '', 0, 0, 0, 0, 0);

CREATE TABLE filter_segment (
  kind  bigint NOT NULL,
  build text COLLATE "C" NOT NULL,
  part  bigint NOT NULL,
  body  bytea NOT NULL,
  PRIMARY KEY (kind, build, part)
);

-- Fingerprints do not compress.
ALTER TABLE filter_segment ALTER COLUMN body SET STORAGE EXTERNAL;
