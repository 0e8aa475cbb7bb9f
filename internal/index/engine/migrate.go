package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Migration is one numbered step from the empty database to the current format.
// A released step must not be edited: databases store the hashes of their steps.
//
// Programs of two adjacent versions may use one index at the same time. So a
// version that changes the schema only adds to it, and says with a comment
// "-- format_floor: N" that programs of format N may go on. What nothing needs any
// more is deleted by a step of the next version, with a higher floor and the
// comment "-- contract". Such a step waits until no node of a lower format is
// left; its program works before and after it.
//
// What follows a line "-- if empty: TABLE" in a step is applied only if the table has no rows. In another index its
// program does the same in the background.
type Migration struct {
	Number   int
	Name     string
	Text     string
	SHA256   string
	Floor    int  // the oldest format that a program must know to use the index afterwards
	Contract bool // waits for older nodes
}

// ReadMigrations returns the steps in a folder. Their numbers are 1, 2, 3…, which a test
// checks.
func ReadMigrations(fsys fs.FS, dir string) []Migration {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil // impossible: the folder is embedded
	}
	var list []Migration
	for _, e := range entries {
		b, err := fs.ReadFile(fsys, path.Join(dir, e.Name()))
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
	floorComment = regexp.MustCompile(`(?m)^-- format_floor: (\d+)$`)
	emptyComment = regexp.MustCompile(`(?m)^-- if empty: (\w+)$`)
)

// newMigration reads the comments of a step. Without a floor only programs that
// know the step can use the index afterwards.
func newMigration(number int, name, text string) Migration {
	sum := sha256.Sum256([]byte(text))
	m := Migration{Number: number, Name: name, Text: text, SHA256: hex.EncodeToString(sum[:]), Floor: number,
		Contract: strings.Contains("\n"+text+"\n", "\n-- contract\n")}
	if strings.Contains(text, "format_floor: ") { // every start of the program reads all steps
		if f := floorComment.FindStringSubmatch(text); f != nil {
			m.Floor, _ = strconv.Atoi(f[1]) // digits; a test checks the range
		}
	}
	return m
}

// needed returns the format below which a program with these steps cannot work:
// steps at the end that only wait for older nodes are not needed.
func needed(steps []Migration) int {
	n := len(steps)
	for n > 0 && steps[n-1].Contract {
		n--
	}
	return n
}

// setFloor raises the floor of the index, and never lowers it.
var setFloor = "UPDATE state SET format_floor = " + Larger("format_floor", "$1") + " WHERE one = 1"

// unreleased asks whether an index is of a program of before release 0.1.0: its first step
// had another name.
const unreleased = "SELECT EXISTS (SELECT 1 FROM migration WHERE number = 1 AND name = '0001_initial')"

// errOlder is the error of a reader that cannot upgrade the index.
func errOlder(format, known int) error {
	return fmt.Errorf("it has format %d, and this program reads format %d: %w", format, known, ErrOlder)
}

// checkFormat returns an error if a program with these steps cannot use an index
// of a format. floor is that of the index; 0 if it has none.
func checkFormat(steps []Migration, format, floor int) error {
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
func migrate(ctx context.Context, e engine, version int, now func() time.Time) (waiting *Migration, err error) {
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
				if m.Contract {
					oldest, err := e.oldestNode(s)
					if err != nil {
						return err
					}
					if oldest < m.Floor {
						waiting = &m
						return nil
					}
				}
				if err := m.apply(e, s, now()); err != nil {
					return fmt.Errorf("migrate to step %s: %w", m.Name, err)
				}
				version = m.Number
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
var migrationTable = Dialects(`CREATE TABLE IF NOT EXISTS migration (
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

// apply applies a step within a write transaction.
func (m Migration) apply(e engine, s session, now time.Time) error {
	if err := s.Script(migrationTable); err != nil {
		return err
	}
	if err := m.run(s); err != nil {
		return err
	}
	if err := e.setFormat(s, m); err != nil {
		return err
	}
	_, err := s.Exec("INSERT INTO migration (number, name, sha256, applied) VALUES ($1, $2, $3, $4)",
		m.Number, m.Name, m.SHA256, now.UnixMilli())
	return err
}

// run runs the text of a step.
func (m Migration) run(s session) error {
	at := emptyComment.FindStringSubmatchIndex(m.Text)
	if at == nil {
		return s.Script(m.Text)
	}
	if err := s.Script(m.Text[:at[0]]); err != nil {
		return err
	}
	var empty bool
	if err := s.Row("SELECT NOT EXISTS (SELECT 1 FROM "+m.Text[at[2]:at[3]]+")", nil, &empty); err != nil || !empty {
		return err
	}
	return s.Script(m.Text[at[1]:])
}

// verifyMigrations checks that the database has gone through exactly the known
// steps, apart from those of newer versions and those that wait.
func verifyMigrations(ctx context.Context, steps []Migration, r Reader) error {
	n := 0
	err := r.Each(ctx, true, "SELECT number, name, sha256 FROM migration ORDER BY number", nil, func(scan Scan) (bool, error) {
		var number int
		var name, sum string
		if err := scan(&number, &name, &sum); err != nil {
			return false, err
		}
		if number != n+1 || number <= len(steps) && sum != steps[n].SHA256 {
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
