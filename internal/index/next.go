//go:build symdepot_next || symdepot_later

package index

import "fmt"

// A program that is built with the tag symdepot_next plays the next version in
// tests of upgrades: it adds a table. With the tag symdepot_later it plays the
// version after that: it deletes a table that the present version needs.
func init() {
	n := len(postgresMigrations)
	postgresMigrations = append(postgresMigrations, newMigration(n+1, "next", fmt.Sprintf("-- format_floor: %d\nCREATE TABLE next_version (n bigint);", n)))
	if later {
		postgresMigrations = append(postgresMigrations, newMigration(n+2, "later", fmt.Sprintf("-- contract\n-- format_floor: %d\nCOMMENT ON TABLE state IS 'contracted';", n+1)))
	}
}
