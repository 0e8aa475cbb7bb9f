-- format_floor: 10
-- Disk space day by day; the comments are in the migration for SQLite.
CREATE TABLE usage_day (
  day          bigint NOT NULL,
  product_id   bigint NOT NULL,
  transactions bigint NOT NULL,
  files        bigint NOT NULL,
  bytes        bigint NOT NULL,
  own          bigint NOT NULL,
  cached       bigint NOT NULL,
  garbage      bigint NOT NULL,
  trash        bigint NOT NULL,
  PRIMARY KEY (day, product_id)
);
