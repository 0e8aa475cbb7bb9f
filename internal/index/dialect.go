package index

// postgresTexts are the statements that PostgreSQL spells differently, by their
// SQLite text.
var postgresTexts = map[string]string{}

// each returns the SQLite text of a statement, under which the engine for
// PostgreSQL finds its own. Most statements are the same in both dialects.
func each(sqlite, postgres string) string {
	postgresTexts[sqlite] = postgres
	return sqlite
}

// larger returns an expression for the larger of two numbers: the function is
// max in SQLite and greatest in PostgreSQL.
func larger(a, b string) string {
	return "CASE WHEN " + b + " > " + a + " THEN " + b + " ELSE " + a + " END"
}
