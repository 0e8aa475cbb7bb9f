-- The disk space that products took, day by day. A row has the figures of the last
-- time on its day at which they were computed.
CREATE TABLE usage_day (
  day          INTEGER NOT NULL, -- days since 1970, UTC
  product_id   INTEGER NOT NULL, -- 0: the whole depot
  transactions INTEGER NOT NULL, -- live ones
  files        INTEGER NOT NULL, -- of these
  bytes        INTEGER NOT NULL, -- disk space of these
  own          INTEGER NOT NULL, -- of it what no other product holds
  cached       INTEGER NOT NULL, -- the rest is 0 for products: cached files and unfinished pushes
  garbage      INTEGER NOT NULL, -- what gc would free
  trash        INTEGER NOT NULL, -- what gc would free after the trash
  PRIMARY KEY (day, product_id)
) STRICT, WITHOUT ROWID;
