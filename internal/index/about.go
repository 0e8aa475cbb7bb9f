package index

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// About describes the database of an index.
type About struct {
	Database  string        // SQLite or PostgreSQL, with its version
	RoundTrip time.Duration // of one small query
	// Clock is the time of the database, and Here that of this machine at the same
	// moment.
	Clock, Here time.Time
	// Format is the number of the last applied migration, and Known that of the last
	// one that this program knows.
	Format, Known int
	Migrations    []Migration
}

// Migration is a step of the format that was applied to an index.
type Migration struct {
	Number  int       `json:"number"`
	Name    string    `json:"name"`
	Applied time.Time `json:"applied"`
}

var versionQuery = engine.Dialects("SELECT 'SQLite ' || sqlite_version()", "SELECT 'PostgreSQL ' || current_setting('server_version')")

// AboutOf asks the database of an index what it is.
func AboutOf(ctx context.Context, db *DB) (About, error) {
	a := About{Known: db.base.Format()}
	began := time.Now()
	err := db.base.Scans.Row(ctx, versionQuery, nil, &a.Database)
	a.RoundTrip = time.Since(began)
	if err != nil {
		return a, db.base.Fail("ask for the version", err)
	}
	a.Clock, a.Here = db.base.Now(), time.Now()
	err = db.base.Scans.Each(ctx, true, "SELECT number, name, applied FROM migration ORDER BY number", nil,
		func(scan engine.Scan) (bool, error) {
			var m Migration
			var applied int64
			if err := scan(&m.Number, &m.Name, &applied); err != nil {
				return false, err
			}
			m.Applied = time.UnixMilli(applied).UTC()
			a.Migrations, a.Format = append(a.Migrations, m), m.Number
			return true, nil
		})
	return a, db.base.Fail("list the migrations", err)
}
