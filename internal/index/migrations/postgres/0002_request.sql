-- Transactions whose COMMIT was sent: a process that has lost the answer finds
-- its transaction here if it was committed. Rows are deleted after an hour.
CREATE TABLE request (
  id   text COLLATE "C" NOT NULL PRIMARY KEY,
  made timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX request_made ON request (made);
