-- format_floor: 7

-- One row: which rows may still be long, because a program below format 7 wrote them.
CREATE TABLE long_rows (
  one         bigint NOT NULL PRIMARY KEY CHECK (one = 1),
  object      bigint NOT NULL, -- objects from this one to last_object
  last_object bigint NOT NULL,
  tx          bigint NOT NULL, -- files of transactions from this one to last_tx, of this one from number seq on
  seq         bigint NOT NULL,
  last_tx     bigint NOT NULL
);

INSERT INTO long_rows (one, object, last_object, tx, seq, last_tx)
SELECT 1, 1, (SELECT coalesce(max(id), 0) FROM object), 1, 0, last_tx FROM state WHERE one = 1;
