// Package schema has the tables of an index, as the steps by which they are made. Those of
// SQLite and of PostgreSQL mean the same. A released step is never edited: databases store
// the hashes of their steps.
package schema

import "embed"

// Files has the steps, in a folder for each kind of database: sqlite and postgres.
//
//go:embed sqlite/*.sql postgres/*.sql
var Files embed.FS
