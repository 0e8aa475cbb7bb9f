-- Sign-ins of browsers, beside the tokens.
ALTER TABLE token ADD COLUMN kind TEXT;   -- 'signin'; null: a token
ALTER TABLE token ADD COLUMN parent TEXT; -- id of the token that a sign-in was begun with, and ends with
ALTER TABLE token ADD COLUMN facts TEXT;  -- of a sign-in, as JSON

CREATE INDEX token_signin ON token (created_by) WHERE kind = 'signin';
