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

//go:embed migrations/*.sql migrations/postgres/*.sql
var migrationFiles embed.FS

// migration is one numbered step from the empty database to the current format.
// A released step must not be edited: databases store the hashes of their steps.
type migration struct {
	number int
	name   string
	text   string
	sha256 string
}

// migrations are the steps of SQLite, postgresMigrations those of PostgreSQL.
var migrations, postgresMigrations = readMigrations("migrations"), readMigrations("migrations/postgres")

// formatCurrent is the current format of an SQLite file: the number of migrations.
var formatCurrent = len(migrations)

// readMigrations returns the embedded steps. Their numbers are 1, 2, 3…, which a
// test checks.
func readMigrations(dir string) []migration {
	entries, err := migrationFiles.ReadDir(dir)
	if err != nil {
		return nil // impossible: the folder is embedded
	}
	var list []migration
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		b, err := migrationFiles.ReadFile(path.Join(dir, e.Name()))
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

// migrate applies the steps that a database of the given format misses, each in
// a transaction of its own. Another process may do the same at the same time.
func migrate(ctx context.Context, e engine, version int, now func() time.Time) error {
	for version < len(e.steps()) {
		err := inTransaction(ctx, e, true, func(s session) (err error) {
			if version, err = e.format(s); err != nil || version >= len(e.steps()) {
				return err
			}
			m := e.steps()[version]
			if err := m.apply(e, s, now()); err != nil {
				return fmt.Errorf("migrate to step %s: %w", m.name, err)
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

// migrationTable creates the table of applied migrations.
var migrationTable = each(`CREATE TABLE IF NOT EXISTS migration (
	   number  INTEGER NOT NULL PRIMARY KEY,
	   name    TEXT NOT NULL,
	   sha256  TEXT NOT NULL,
	   applied INTEGER NOT NULL
	 ) STRICT`, `CREATE TABLE IF NOT EXISTS migration (
	   number  bigint NOT NULL PRIMARY KEY,
	   name    text NOT NULL,
	   sha256  text NOT NULL,
	   applied bigint NOT NULL
	 )`)

func (m migration) apply(e engine, s session, now time.Time) error {
	if err := s.script(migrationTable); err != nil {
		return err
	}
	if err := s.script(m.text); err != nil {
		return err
	}
	if err := e.setFormat(s, m.number); err != nil {
		return err
	}
	_, err := s.exec("INSERT INTO migration (number, name, sha256, applied) VALUES ($1, $2, $3, $4)", m.number, m.name, m.sha256, now.UnixMilli())
	return err
}

// verifyMigrations checks that the database has gone through exactly the known
// steps.
func verifyMigrations(ctx context.Context, steps []migration, r reader) error {
	n := 0
	err := r.each(ctx, true, "SELECT number, name, sha256 FROM migration ORDER BY number", nil, func(scan func(...any) error) (bool, error) {
		var number int
		var name, sum string
		if err := scan(&number, &name, &sum); err != nil {
			return false, err
		}
		if number != n+1 || number > len(steps) || sum != steps[n].sha256 {
			return false, fmt.Errorf("%w: migration %d (%s) differs from that of this program", ErrCorrupt, number, name)
		}
		n++
		return true, nil
	})
	if err == nil && n != len(steps) {
		err = fmt.Errorf("%w: %d of %d migrations are recorded", ErrCorrupt, n, len(steps))
	}
	return err
}
