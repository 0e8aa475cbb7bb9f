-- format_floor: 1

CREATE TABLE login (
  id         text COLLATE "C" NOT NULL PRIMARY KEY CHECK (id <> ''),
  family     bytea NOT NULL UNIQUE CHECK (length(family) = 32),
  hash       bytea NOT NULL CHECK (length(hash) = 32),
  name       text COLLATE "C" NOT NULL,
  created_by text COLLATE "C" NOT NULL,
  credential text COLLATE "C" NOT NULL,
  parent     text COLLATE "C",
  machine    text COLLATE "C" NOT NULL,
  address    text COLLATE "C" NOT NULL,
  agent      text COLLATE "C" NOT NULL,
  created    bigint NOT NULL,
  used       bigint NOT NULL,
  expires    bigint NOT NULL,
  ends       bigint NOT NULL
);

CREATE INDEX login_owner ON login (created_by);

CREATE INDEX token_access ON token (parent) WHERE kind = 'access';

CREATE TABLE login_request (
  hash       bytea NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  user_code  bytea UNIQUE CHECK (length(user_code) = 32),
  state      text COLLATE "C" NOT NULL,
  challenge  text COLLATE "C" NOT NULL,
  redirect   text COLLATE "C" NOT NULL,
  name       text COLLATE "C" NOT NULL,
  created_by text COLLATE "C" NOT NULL,
  credential text COLLATE "C" NOT NULL,
  parent     text COLLATE "C",
  machine    text COLLATE "C" NOT NULL,
  address    text COLLATE "C" NOT NULL,
  agent      text COLLATE "C" NOT NULL,
  created    bigint NOT NULL,
  expires    bigint NOT NULL,
  ends       bigint,
  asked      bigint,
  pace       bigint NOT NULL,
  login      text COLLATE "C"
);

CREATE INDEX login_request_address ON login_request (address);
