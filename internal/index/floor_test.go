package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// step returns a step of the format.
func step(number int, name, text string) engine.Migration {
	file := fmt.Sprintf("steps/%04d_%s.sql", number, name)
	return engine.ReadMigrations(fstest.MapFS{file: {Data: []byte(text)}}, "steps")[0]
}

// versions returns the steps of three versions of the program: the present one, the
// next, which adds a table, and the one after it, which needs the table and deletes
// something that the present one needs.
func versions(t *testing.T) (now, next, later []engine.Migration) {
	t.Helper()
	now = migrations
	if strings.Contains(t.Name(), "/postgres") {
		now = postgresMigrations
	}
	n := len(now)
	add := step(n+1, "add", fmt.Sprintf("-- format_floor: %d\nCREATE TABLE added (n bigint); INSERT INTO added VALUES (7);", n))
	if !strings.Contains(t.Name(), "/postgres") {
		add = step(n+1, "add", fmt.Sprintf("-- format_floor: %d\nCREATE TABLE added (n INTEGER) STRICT; INSERT INTO added VALUES (7);", n))
	}
	remove := step(n+2, "remove", fmt.Sprintf("-- contract\n-- format_floor: %d\nDROP TABLE scrub;", n+1))
	next = append(slices.Clip(now), add)
	return now, next, append(slices.Clip(next), remove)
}

func openVersion(t *testing.T, where string, steps []engine.Migration) *DB {
	t.Helper()
	db, err := Open(t.Context(), where, Options{steps: steps})
	if err != nil {
		t.Fatalf("a program of format %d: %v", len(steps), err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func formatOf(t *testing.T, db *DB) (n int) {
	t.Helper()
	if err := db.base.Points.Row(t.Context(), "SELECT count(*) FROM migration", nil, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestUpgrade has two adjacent versions of the program use one index: the newer
// one adds to it, the older one opens it and writes. When the version after these
// has deleted something, the oldest one is refused.
func TestUpgrade(t *testing.T) { onEngines(t, testUpgrade) }

func testUpgrade(t *testing.T) {
	now, next, later := versions(t)
	where := address(t)
	old := openVersion(t, where, now)
	commitTest(t, old, "", pdb(1))
	newer := openVersion(t, where, next)
	if n := formatOf(t, newer); n != len(next) {
		t.Fatalf("format %d after the next version has opened the index, want %d", n, len(next))
	}
	commitTest(t, old, "", pdb(2))
	commitTest(t, newer, "", pdb(3))
	again := openVersion(t, where, now)
	for n := 1; n <= 3; n++ {
		for _, db := range []*DB{old, newer, again} {
			if len(lookupEntry(t, db, all, pdb(n))) != 1 {
				t.Errorf("object %d is missing for a program of format %d", n, db.base.Format())
			}
		}
	}
	ro, err := Open(t.Context(), where, Options{ReadOnly: true, steps: now})
	if err != nil {
		t.Fatalf("read-only: %v", err)
	}
	_ = ro.Close()
	clean(t, again)
	for _, db := range []*DB{old, again} {
		_ = db.Close()
	}
	last := openVersion(t, where, later)
	if n := formatOf(t, last); n != len(later) {
		t.Fatalf("format %d after the version that contracts, want %d", n, len(later))
	}
	if number := commitTest(t, newer, "", pdb(4)); number != 4 {
		t.Errorf("build %d by the version before, want 4", number)
	}
	_, err = Open(t.Context(), where, Options{steps: now})
	want := fmt.Sprintf("it has format %d, which needs a program that supports format %d, and this program supports formats up to %d", len(later), len(next), len(now))
	if !errors.Is(err, engine.ErrNewer) || !strings.Contains(err.Error(), want) {
		t.Errorf("a program below the floor: %v, want %q", err, want)
	}
}

// TestContractWaits: what an older node still needs is deleted when no such node
// is left, by a node or by the next command.
func TestContractWaits(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		now, next, later := versions(t)
		where := address(t)
		oldDB := openVersion(t, where, now)
		oldNode, err := oldDB.Watch()
		if err != nil {
			t.Fatal(err)
		}
		newer := openVersion(t, where, later)
		if n := formatOf(t, newer); n != len(next) {
			t.Fatalf("format %d beside a node of format %d, want %d", n, len(now), len(next))
		}
		commitTest(t, oldDB, "", pdb(1))
		commitTest(t, newer, "", pdb(2))
		openVersion(t, where, next)
		if n := formatOf(t, newer); n != len(next) {
			t.Fatalf("format %d after another command, want %d", n, len(next))
		}
		_ = oldNode.Close()
		// A minute later, its row says nothing any more.
		if _, err := rawConn(t, where).Exec(t.Context(), "UPDATE node SET asked = asked - interval '2 minutes'"); err != nil {
			t.Fatal(err)
		}
		newNode, err := newer.Watch()
		if err != nil {
			t.Fatal(err)
		}
		defer newNode.Close()
		symtest.Await(t, time.Minute, "the format of the later version without older nodes", func() bool {
			return formatOf(t, newer) == len(later)
		})
		// A process of the old version that has it open still does nothing wrong.
		if _, err := oldDB.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{pdb(3)}}, nil); !errors.Is(err, engine.ErrNewer) || !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("a write below the floor: %v, want %v", err, engine.ErrNewer)
		}
		if _, err := oldDB.Lookup(t.Context(), all, symfile.Lookup{ID: "x"}); !errors.Is(err, engine.ErrNewer) {
			t.Errorf("a lookup below the floor: %v, want %v", err, engine.ErrNewer)
		}
		commitTest(t, newer, "", pdb(4))
		clean(t, newer)
	})
}

// TestOutdatedNode: a node below the floor stops to answer with its next question.
func TestOutdatedNode(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		now, _, later := versions(t)
		where := address(t)
		oldDB := openVersion(t, where, now)
		// It was silent for longer than a minute when the index was contracted.
		openVersion(t, where, later)
		w, err := oldDB.Watch()
		if err == nil {
			_ = w.Close()
			t.Error("a watch below the floor starts")
		}
		if !errors.Is(err, engine.ErrNewer) {
			t.Errorf("a watch below the floor: %v, want %v", err, engine.ErrNewer)
		}
		if _, err := oldDB.Generation(t.Context()); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("the generation below the floor: %v, want %v", err, engine.ErrUnavailable)
		}
	})
}

// TestContractRefusesOlder: a version that needs a step after one that waits does
// not open beside a node two versions older.
func TestContractRefusesOlder(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		now, _, later := versions(t)
		n := len(later)
		after := append(slices.Clip(later), step(n+1, "more", fmt.Sprintf("-- format_floor: %d\nCREATE TABLE more (n bigint);", n)))
		where := address(t)
		w, err := openVersion(t, where, now).Watch()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		_, err = Open(t.Context(), where, Options{steps: after})
		if err == nil || !strings.Contains(err.Error(), "still run: stop them") {
			t.Errorf("three versions at once: %v, want an error that names the running processes", err)
		}
	})
}

// TestUpgradeKilled: an upgrade that ends before or after any step is finished by
// the next program, also by two at once.
func TestUpgradeKilled(t *testing.T) { onEngines(t, testUpgradeKilled) }

func testUpgradeKilled(t *testing.T) {
	symtest.Sequential(t)
	now, _, later := versions(t)
	killed := errors.New("killed")
	for at := 1; at <= len(later)-len(now); at++ {
		for _, after := range []bool{false, true} {
			where := address(t)
			db := openVersion(t, where, now)
			commitTest(t, db, "", pdb(1))
			_ = db.Close()
			if at > 1 || after {
				steps := later[:len(now)+at-1]
				if after {
					steps = later[:len(now)+at]
				}
				_ = openVersion(t, where, steps).Close()
			}
			if !after { // in the middle of a step
				db := openVersion(t, where, later[:len(now)+at-1])
				err := db.base.Update(t.Context(), "migrate", func(w *engine.Write) error {
					if err := w.Script(later[len(now)+at-1].Text); err != nil {
						return err
					}
					return killed
				})
				if !errors.Is(err, killed) {
					t.Fatal(err)
				}
				_ = db.Close()
			}
			errs := make(chan error)
			for range 2 {
				go func() {
					db, err := Open(context.Background(), where, Options{steps: later})
					if err == nil {
						err = db.Close()
					}
					errs <- err
				}()
			}
			for range 2 {
				if err := <-errs; err != nil {
					t.Errorf("step %d: %v", at, err)
				}
			}
			db = openVersion(t, where, later)
			if n := formatOf(t, db); n != len(later) {
				t.Errorf("step %d: format %d, want %d", at, n, len(later))
			}
			if len(lookupEntry(t, db, all, pdb(1))) != 1 {
				t.Errorf("step %d: the object is missing", at)
			}
			commitTest(t, db, "", pdb(2))
			clean(t, db)
		}
	}
}

// TestFloors: each step names a floor that a program before it can have, unless
// older programs cannot use the index after it.
func TestFloors(t *testing.T) {
	for _, steps := range [][]engine.Migration{migrations, postgresMigrations} {
		floor := 0
		for i, m := range steps {
			if m.Floor < 1 || m.Floor > m.Number {
				t.Errorf("migration %s: floor %d, want 1 to %d", m.Name, m.Floor, m.Number)
			}
			if m.Contract && (i == 0 || m.Floor <= floor) {
				t.Errorf("migration %s: it contracts, and its floor %d is not above that of the step before", m.Name, m.Floor)
			}
			floor = m.Floor
		}
	}
}

// TestUnreleased: an index of a program of before release 0.1.0 is refused with a sentence
// that says what to do, however it is opened, and stays as it is.
func TestUnreleased(t *testing.T) { onEngines(t, testUnreleased) }

func testUnreleased(t *testing.T) {
	inFile := !strings.Contains(t.Name(), "/postgres")
	for _, last := range []int{1, 2, len(migrations) + 21} {
		where := address(t)
		db := openVersion(t, where, nil)
		commitTest(t, db, "", pdb(1))
		statements := []string{
			"DELETE FROM migration WHERE number > 1",
			"UPDATE migration SET name = '0001_initial', sha256 = 'x'",
			"WITH RECURSIVE k (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < " + fmt.Sprint(last) + `)
				INSERT INTO migration (number, name, sha256, applied) SELECT n, 'step', 'x', 1 FROM k WHERE n > 1`,
		}
		if inFile {
			statements = append(statements, fmt.Sprintf("PRAGMA user_version = %d", last))
		} else if last < 5 {
			statements = append(statements, "ALTER TABLE state DROP COLUMN format_floor")
		}
		for _, text := range statements {
			if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error { return w.Script(text) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		var before []byte
		if inFile {
			before = fileBytes(t, where)
		}
		for _, opt := range []Options{{}, {ReadOnly: true}, {MustExist: true}} {
			_, err := Open(t.Context(), where, opt)
			want := "it is of a version before release 0.1.0: write its files to a folder with symdepot export of that version"
			if !errors.Is(err, engine.ErrUnreleased) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%d steps, %+v: %v, want one line with %q", last, opt, err, want)
			}
		}
		if !inFile {
			continue
		}
		if _, err := OpenTarget(t.Context(), where); !errors.Is(err, engine.ErrUnreleased) {
			t.Errorf("%d steps, as the target of a restore: %v, want %v", last, err, engine.ErrUnreleased)
		}
		if err := SnapshotFile(t.Context(), where, where+".copy", nil); !errors.Is(err, engine.ErrUnreleased) {
			t.Errorf("%d steps, as the source of a copy: %v, want %v", last, err, engine.ErrUnreleased)
		}
		if !bytes.Equal(fileBytes(t, where), before) {
			t.Errorf("%d steps: the file was changed", last)
		}
	}
}

func fileBytes(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
