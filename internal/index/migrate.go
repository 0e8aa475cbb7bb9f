package index

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// applicationID is stored in the header of the database file: "symd".
const applicationID = 0x73796d64

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered step from the empty database to the current format.
// A released step must not be edited: databases store the hashes of their steps.
type migration struct {
	number int
	name   string
	text   string
	sha256 string
}

var migrations = readMigrations()

// formatCurrent is the current format version: the number of migrations.
var formatCurrent = len(migrations)

// readMigrations returns the embedded steps. Their numbers are 1, 2, 3…, which a
// test checks.
func readMigrations() []migration {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return nil // impossible: the folder is embedded
	}
	var list []migration
	for _, e := range entries {
		b, err := migrationFiles.ReadFile(path.Join("migrations", e.Name()))
		if err != nil {
			return nil
		}
		number, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil
		}
		sum := sha256.Sum256(b)
		list = append(list, migration{n, strings.TrimSuffix(e.Name(), ".sql"), string(b), hex.EncodeToString(sum[:])})
	}
	return list
}

// formatVersion returns the format version of an existing database, or an error
// if this program cannot use it. It opens the file read-only.
func (db *DB) formatVersion(ctx context.Context) (int, error) {
	ro, err := openPool(db.path, "ro", 1, 64, time.Minute)
	if err != nil {
		return 0, db.fail("open", err)
	}
	defer func() { _ = ro.Close() }()
	var version, app, tables int
	// One statement, so that all three values are consistent.
	const q = `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
	                  (SELECT count(*) FROM sqlite_schema)`
	if err := ro.QueryRowContext(ctx, q).Scan(&version, &app, &tables); err != nil {
		return 0, db.fail("open", err)
	}
	if app == 0 && version == 0 && tables == 0 {
		return 0, nil // its creation was interrupted
	}
	if app != applicationID {
		return 0, fmt.Errorf("%s: %w: it is the database of a different program (application id %#x)", db.path, ErrCorrupt, app)
	}
	if version > formatCurrent {
		return 0, fmt.Errorf("index %s has format %d, and this program supports formats up to %d: %w; use that version", db.path, version, formatCurrent, ErrNewer)
	}
	return version, nil
}

// migrate applies the missing steps, each in its own transaction. Another
// process may do the same at the same time.
func (db *DB) migrate(ctx context.Context, version int) error {
	for version < formatCurrent {
		err := db.update(ctx, "migrate", func(w *write) error {
			if err := w.row("PRAGMA user_version", nil, &version); err != nil {
				return err
			}
			if version >= formatCurrent {
				return nil
			}
			m := migrations[version]
			if err := w.migrate(m, db.now()); err != nil {
				return fmt.Errorf("step %s: %w", m.name, err)
			}
			version = m.number
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *write) migrate(m migration, now time.Time) error {
	for _, text := range []string{
		`CREATE TABLE IF NOT EXISTS migration (
		   number  INTEGER NOT NULL PRIMARY KEY,
		   name    TEXT NOT NULL,
		   sha256  TEXT NOT NULL,
		   applied INTEGER NOT NULL
		 ) STRICT`,
		m.text,
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", m.number),
	} {
		if _, err := w.tx.ExecContext(w.ctx, text); err != nil {
			return err
		}
	}
	_, err := w.exec("INSERT INTO migration (number, name, sha256, applied) VALUES ($1, $2, $3, $4)", m.number, m.name, m.sha256, now.UnixMilli())
	return err
}

// verifyMigrations checks that the database has gone through exactly the known
// steps.
func (db *DB) verifyMigrations(ctx context.Context) error {
	n := 0
	err := db.scans.each(ctx, true, "SELECT number, name, sha256 FROM migration ORDER BY number", nil, func(scan func(...any) error) (bool, error) {
		var number int
		var name, sum string
		if err := scan(&number, &name, &sum); err != nil {
			return false, err
		}
		if number != n+1 || number > len(migrations) || sum != migrations[n].sha256 {
			return false, fmt.Errorf("%w: migration %d (%s) differs from that of this program", ErrCorrupt, number, name)
		}
		n++
		return true, nil
	})
	if err == nil && n != formatCurrent {
		err = fmt.Errorf("%w: %d of %d migrations are recorded", ErrCorrupt, n, formatCurrent)
	}
	return db.fail("open", err)
}
