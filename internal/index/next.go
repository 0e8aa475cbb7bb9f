//go:build symdepot_next || symdepot_later

package index

import "fmt"

// A program that is built with the tag symdepot_next stands for the next version in
// tests of upgrades: it adds a table. With symdepot_later it stands for the
// version after that: it deletes what the present version needs.
func init() {
	n := len(postgresMigrations)
	postgresMigrations = append(postgresMigrations, newMigration(n+1, "next", fmt.Sprintf("-- format_floor: %d\nCREATE TABLE next_version (n bigint);", n)))
	if later {
		postgresMigrations = append(postgresMigrations, newMigration(n+2, "later", fmt.Sprintf("-- contract\n-- format_floor: %d\nCOMMENT ON TABLE state IS 'contracted';", n+1)))
	}
}
