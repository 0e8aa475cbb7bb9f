-- format_floor: 1
-- Logins of programs: each is a family of refresh tokens, of which one counts. Their access
-- tokens are rows of token with the kind 'access' and the login as parent.
CREATE TABLE login (
  id         TEXT NOT NULL PRIMARY KEY CHECK (id <> ''),
  family     BLOB NOT NULL UNIQUE CHECK (length(family) = 32), -- hash of what its refresh tokens have in common
  hash       BLOB NOT NULL CHECK (length(hash) = 32),          -- of the refresh token that counts
  name       TEXT NOT NULL,
  created_by TEXT NOT NULL,
  credential TEXT NOT NULL, -- of whoever allowed it, as JSON
  parent     TEXT,          -- id of the token with which it was allowed, and ends
  machine    TEXT NOT NULL,
  address    TEXT NOT NULL,
  agent      TEXT NOT NULL,
  created    INTEGER NOT NULL,
  used       INTEGER NOT NULL,
  expires    INTEGER NOT NULL, -- without another refresh
  ends       INTEGER NOT NULL  -- at the latest
) STRICT;

CREATE INDEX login_owner ON login (created_by);

CREATE INDEX token_access ON token (parent) WHERE kind = 'access';

-- What programs ask for before a login begins: codes, and requests that a person answers at
-- another machine.
CREATE TABLE login_request (
  hash       BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32), -- of the code
  user_code  BLOB UNIQUE CHECK (length(user_code) = 32),          -- hash of what the person types; null: nothing
  state      TEXT NOT NULL, -- asked, allowed, denied, used
  challenge  TEXT NOT NULL,
  redirect   TEXT NOT NULL,
  name       TEXT NOT NULL, -- of whoever answered, and so the next two
  created_by TEXT NOT NULL,
  credential TEXT NOT NULL,
  parent     TEXT,
  machine    TEXT NOT NULL,
  address    TEXT NOT NULL,
  agent      TEXT NOT NULL,
  created    INTEGER NOT NULL,
  expires    INTEGER NOT NULL,
  ends       INTEGER,          -- when the login ends at the latest
  asked      INTEGER,          -- when the program asked last; null: never
  pace       INTEGER NOT NULL, -- how long it must wait before it asks again
  login      TEXT              -- id of the login that began with it
) STRICT;

CREATE INDEX login_request_address ON login_request (address);
