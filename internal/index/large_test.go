package index

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// largeBuild returns the files of a build, of which half are those of the one before.
func largeBuild(build, files int) []record.Entry {
	entries := make([]record.Entry, files)
	for i := range entries {
		n := build*files/2 + i
		var g debugid.GUID
		binary.BigEndian.PutUint32(g[:], uint32(n+1))
		g[15] = 1
		name := fmt.Sprintf("m%d.pdb", n)
		o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: name, DebugID: debugid.ID{GUID: g, Age: 1}, InfoAge: 1}
		entries[i] = record.Entry{Object: o, Ref: blob.Sum([]byte(name)), Size: 1000, Aliases: o.Aliases(), Path: "/build/" + name}
	}
	return entries
}

// TestLargeBuilds: the time that a build takes in the index grows with its files, not with
// their square, in a database that has no statistics of it. What is done at all moments of
// the life of a build is done with a small one and with one of eight times as many files.
func TestLargeBuilds(t *testing.T) {
	symtest.Unraced(t, "compares times")
	if testing.Short() {
		t.Skip("compares times of 4,000 files: needs a run without -short")
	}
	onEngines(t, testLargeBuilds)
}

func testLargeBuilds(t *testing.T) {
	const small, times = 500, 8
	took := map[string][2]time.Duration{}
	var order []string
	for i, files := range []int{small, small * times} {
		db := openTest(t, Options{})
		step := func(name string, do func(ctx context.Context) error) {
			t.Helper()
			began := time.Now()
			if err := do(t.Context()); err != nil {
				t.Fatalf("%s of %d files: %v", name, files, err)
			}
			of := took[name]
			of[i] = time.Since(began)
			took[name] = of
			if i == 0 {
				order = append(order, name)
			}
		}
		var numbers []int64
		for b := range 3 {
			entries := largeBuild(b, files)
			step(fmt.Sprint("commit ", b), func(context.Context) error {
				numbers = append(numbers, commitTest(t, db, "app", entries...))
				return nil
			})
			step(fmt.Sprint("confirm ", b), func(ctx context.Context) error {
				lost, err := db.Unfound(ctx, numbers[b], entries)
				if err == nil && len(lost) > 0 {
					err = fmt.Errorf("%d files are not found", len(lost))
				}
				return err
			})
		}
		until := time.Now().Add(time.Hour)
		for b, n := range numbers {
			step(fmt.Sprint("to the trash ", b), func(ctx context.Context) error {
				_, err := db.Trash.Remove(ctx, removals.Removal{Number: n, At: time.Now(), Until: until})
				return err
			})
		}
		step("undo", func(ctx context.Context) error { _, err := db.Trash.Undo(ctx, numbers[2]); return err })
		step("purge of a live build", func(ctx context.Context) error {
			_, _, err := db.Trash.Purge(ctx, removals.Removal{Number: numbers[2], At: time.Now()})
			return err
		})
		step("purge of a removed build", func(ctx context.Context) error {
			_, _, err := db.Trash.Purge(ctx, removals.Removal{Number: numbers[1], At: time.Now()})
			return err
		})
		step("end of the trash", func(ctx context.Context) error { return db.Trash.GiveUp(ctx, numbers[:1], until) })
	}
	for _, name := range order {
		// A square would be 64 times; twice the linear time and a second are what a busy machine adds.
		of := took[name]
		t.Logf("%-26s %8.1f ms  %8.1f ms", name, 1e3*of[0].Seconds(), 1e3*of[1].Seconds())
		if most := of[0]*times*2 + time.Second; of[1] > most {
			t.Errorf("%s: %v with %d files and %v with %d, want %v at most", name, of[0], small, of[1], small*times, most)
		}
	}
}
