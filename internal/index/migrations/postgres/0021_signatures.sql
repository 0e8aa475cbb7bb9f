-- format_floor: 19
-- The IMA signatures of contents, in hex: of files in RPM packages, and of debuginfod
-- servers. One content has one; those of added files come first.
CREATE TABLE content_signature (
  content_id bigint NOT NULL PRIMARY KEY REFERENCES content (id) ON DELETE CASCADE,
  ima        text COLLATE "C" NOT NULL
);
