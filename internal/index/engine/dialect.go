package engine

// postgresTexts are the statements that PostgreSQL spells differently, by their
// SQLite text.
var postgresTexts = map[string]string{}

// Dialects returns the SQLite text of a statement, under which the engine for
// PostgreSQL finds its own. Most statements are the same in both dialects. It is called
// for variables of packages only: once statements run, the texts are read by all
// goroutines, without a lock.
func Dialects(sqlite, postgres string) string {
	postgresTexts[sqlite] = postgres
	return sqlite
}

// Larger returns an expression for the larger of two numbers: the function is
// max in SQLite and greatest in PostgreSQL.
func Larger(a, b string) string {
	return "CASE WHEN " + b + " > " + a + " THEN " + b + " ELSE " + a + " END"
}
