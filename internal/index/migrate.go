package index

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations/sqlite/*.sql migrations/postgres/*.sql
var migrationFiles embed.FS

// migration is one numbered step from the empty database to the current format.
// A released step must not be edited: databases store the hashes of their steps.
//
// Programs of two adjacent versions may use one index at the same time. So a
// version that changes the schema only adds to it, and says with a comment
// "-- format_floor: N" that programs of format N may go on. What nothing needs any
// more is deleted by a step of the next version, with a higher floor and the
// comment "-- contract". Such a step waits until no node of a lower format is
// left; its program works before and after it.
type migration struct {
	number   int
	name     string
	text     string
	sha256   string
	floor    int  // the oldest format that a program must know to use the index afterwards
	contract bool // waits for older nodes
}

// migrations are the steps of SQLite, postgresMigrations those of PostgreSQL.
var migrations, postgresMigrations = readMigrations("migrations/sqlite"), readMigrations("migrations/postgres")

// readMigrations returns the embedded steps. Their numbers are 1, 2, 3…, which a
// test checks.
func readMigrations(dir string) []migration {
	entries, err := migrationFiles.ReadDir(dir)
	if err != nil {
		return nil // impossible: the folder is embedded
	}
	var list []migration
	for _, e := range entries {
		b, err := migrationFiles.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return nil
		}
		number, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil
		}
		list = append(list, newMigration(n, strings.TrimSuffix(e.Name(), ".sql"), string(b)))
	}
	return list
}

var (
	floorComment    = regexp.MustCompile(`(?m)^-- format_floor: (\d+)$`)
	contractComment = regexp.MustCompile(`(?m)^-- contract$`)
)

// newMigration reads the comments of a step. Without a floor only programs that
// know the step can use the index afterwards.
func newMigration(number int, name, text string) migration {
	sum := sha256.Sum256([]byte(text))
	m := migration{number: number, name: name, text: text, sha256: hex.EncodeToString(sum[:]), floor: number,
		contract: contractComment.MatchString(text)}
	if f := floorComment.FindStringSubmatch(text); f != nil {
		m.floor, _ = strconv.Atoi(f[1]) // digits; a test checks the range
	}
	return m
}

// needed returns the format below which a program with these steps cannot work:
// steps at the end that only wait for older nodes are not needed.
func needed(steps []migration) int {
	n := len(steps)
	for n > 0 && steps[n-1].contract {
		n--
	}
	return n
}

// setFloor raises the floor of the index, and never lowers it.
var setFloor = "UPDATE state SET format_floor = " + larger("format_floor", "$1") + " WHERE one = 1"

// unreleased asks whether an index is of a program of before release 0.1.0: its first step
// had another name.
const unreleased = "SELECT EXISTS (SELECT 1 FROM migration WHERE number = 1 AND name = '0001_initial')"

// errOlder is the error of a reader that cannot upgrade the index.
func errOlder(format, known int) error {
	return fmt.Errorf("it has format %d, and this program reads format %d: %w", format, known, ErrOlder)
}

// checkFormat returns an error if a program with these steps cannot use an index
// of a format. floor is that of the index; 0 if it has none.
func checkFormat(steps []migration, format, floor int) error {
	if format <= len(steps) || 0 < floor && floor <= len(steps) {
		return nil
	}
	if floor > 0 {
		return fmt.Errorf("it has format %d, which needs a program that supports format %d, and this program supports formats up to "+
			"%d: %w; use that version", format, floor, len(steps), ErrNewer)
	}
	return fmt.Errorf("it has format %d, and this program supports formats up to %d: %w; use that version", format, len(steps), ErrNewer)
}

// migrate applies the steps that a database of the given format misses, each in
// a transaction of its own, or all in one if it is new. Another process may do the same at the same time.
// waiting is the step that waits for older nodes, or nil.
func migrate(ctx context.Context, e engine, version int, now func() time.Time) (waiting *migration, err error) {
	for version < len(e.steps()) {
		err := inTransaction(ctx, e, &Waits{}, true, func(s session) (err error) {
			waiting = nil
			if version, err = e.format(s); err != nil || version >= len(e.steps()) {
				return err
			}
			// A new index takes all steps at once: nobody uses it yet, and one commit
			// is faster than many.
			for fresh := version == 0; version < len(e.steps()); {
				m := e.steps()[version]
				if m.contract {
					oldest, err := e.oldestNode(s)
					if err != nil {
						return err
					}
					if oldest < m.floor {
						waiting = &m
						return nil
					}
				}
				if err := m.apply(e, s, now()); err != nil {
					return fmt.Errorf("migrate to step %s: %w", m.name, err)
				}
				version = m.number
				if !fresh {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if waiting != nil {
			break
		}
	}
	if waiting != nil && version < needed(e.steps()) {
		return nil, fmt.Errorf("it has format %d, and processes of a version that needs it still run: stop them or start them with the "+
			"version before this one first", version)
	}
	return waiting, nil
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
	if err := e.setFormat(s, m); err != nil {
		return err
	}
	_, err := s.exec("INSERT INTO migration (number, name, sha256, applied) VALUES ($1, $2, $3, $4)",
		m.number, m.name, m.sha256, now.UnixMilli())
	return err
}

// verifyMigrations checks that the database has gone through exactly the known
// steps, apart from those of newer versions and those that wait.
func verifyMigrations(ctx context.Context, steps []migration, r reader) error {
	n := 0
	err := r.each(ctx, true, "SELECT number, name, sha256 FROM migration ORDER BY number", nil, func(scan scanFunc) (bool, error) {
		var number int
		var name, sum string
		if err := scan(&number, &name, &sum); err != nil {
			return false, err
		}
		if number != n+1 || number <= len(steps) && sum != steps[n].sha256 {
			return false, fmt.Errorf("%w: migration %d (%s) differs from that of this program", ErrCorrupt, number, name)
		}
		n++
		return true, nil
	})
	if err == nil && n < needed(steps) {
		err = fmt.Errorf("%w: %d of %d migrations are recorded", ErrCorrupt, n, len(steps))
	}
	return err
}
