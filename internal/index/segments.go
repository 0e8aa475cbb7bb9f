package index

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/symdepot/symdepot/internal/base/fusefilter"
	"github.com/symdepot/symdepot/internal/index/engine"
)

const (
	// segmentBits: the highest bits of a hash name its segment.
	segmentBits  = 6
	segmentCount = 1 << segmentBits
	// segmentKeys is the number of keys from which on a filter has segments. With
	// fewer keys every process reads them all within a second.
	segmentKeys = 1_000_000
	// releaseEvery: while segments are built, stored or loaded each is in memory several times.
	// What is free is given back after so many.
	releaseEvery = 8
	// formerKinds is the highest kind of builds of versions whose filters have an entry of the whole id too. They look for it,
	// so builds are of other kinds now.
	formerKinds = 2
	// buildLease is how long one process may take to build segments before another
	// one begins.
	buildLease = 10 * time.Minute
)

// segments are an immutable filter of all keys up to a point. Their build is
// stored in the index, so that a process that starts need not read all keys.
type segments struct {
	part           [segmentCount]fusefilter.Filter
	last, tx, late int64 // as of bloom
	keys           int64
	at             int64 // state of the index that was read; 0 if they were loaded
}

func (s *segments) has(h uint64) bool {
	return s != nil && s.part[h>>(64-segmentBits)].Has(h)
}

// loadSegments reads the stored build of a filter. It returns nil if there is
// none or if it is too old to know which older objects gained keys since.
func loadSegments(ctx context.Context, r engine.Reader, kind, floor int64) (*segments, error) {
	var s segments
	var build string
	if err := r.Row(ctx, "SELECT build, last_object, last_tx, late_keys, keys FROM filter WHERE kind = $1", []any{kind},
		&build, &s.last, &s.tx, &s.late, &s.keys); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if build == "" || s.late < floor {
		return nil, nil
	}
	n := 0
	err := r.Each(ctx, false, "SELECT part, body FROM filter_segment WHERE kind = $1 AND build = $2", []any{kind, build},
		func(scan engine.Scan) (bool, error) {
			var part int
			var body []byte
			if err := scan(&part, &body); err != nil {
				return false, err
			}
			if part < 0 || part >= segmentCount {
				return false, nil
			}
			if damaged := s.part[part].UnmarshalBinary(body); damaged != nil {
				return false, nil //nolint:nilerr // a new build replaces it
			}
			giveBack(n)
			n++
			return true, nil
		})
	if err != nil || n != segmentCount {
		return nil, err
	}
	return &s, nil
}

// lease reports whether this process may build the segments of the filter now.
func (f *Filter) lease(ctx context.Context) (is bool, err error) {
	db, kind := f.db, f.queries.kind
	err = db.UpdateUnsynced(ctx, "lease a build of the filter", func(w *engine.Write) error {
		now := db.Now()
		if _, err := w.Exec(`INSERT INTO filter (kind, build, last_object, last_tx, late_keys, keys, lease_until)
			VALUES ($1, '', 0, 0, 0, 0, 0) ON CONFLICT (kind) DO NOTHING`, kind); err != nil {
			return err
		}
		n, err := w.Exec("UPDATE filter SET lease_until = $2 WHERE kind = $1 AND lease_until <= $3",
			kind, now.Add(buildLease).UnixMicro(), now.UnixMicro())
		is = n == 1
		return err
	})
	return is, err
}

// store makes a build the current one and ends the lease, unless writes that it
// includes were undone. Builds of former kinds are deleted. Each segment is a transaction of its own, so that other
// writers do not wait for all of them.
func (f *Filter) store(ctx context.Context, s *segments) error {
	db, kind, build := f.db, f.queries.kind, rand.Text()
	const op = "store the filter"
	for i := range s.part {
		body, err := s.part[i].MarshalBinary()
		if err != nil {
			return err
		}
		if err := db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
			_, err := w.Exec("INSERT INTO filter_segment (kind, build, part, body) VALUES ($1, $2, $3, $4)", kind, build, i, body)
			return err
		}); err != nil {
			return err
		}
		giveBack(i)
	}
	return db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
		var now int64
		var follows bool
		if err := w.Row(followsText, []any{s.at}, &now, &follows); err != nil {
			return err
		}
		if !follows {
			_, err := w.Exec("DELETE FROM filter_segment WHERE kind = $1 AND build = $2", kind, build)
			return err
		}
		if _, err := w.Exec(`UPDATE filter SET build = $2, last_object = $3, last_tx = $4, late_keys = $5, keys = $6, lease_until = 0
			WHERE kind = $1`,
			kind, build, s.last, s.tx, s.late, s.keys); err != nil {
			return err
		}
		if _, err := w.Exec("UPDATE filter SET build = '' WHERE kind <= $1 AND build <> ''", formerKinds); err != nil {
			return err
		}
		_, err := w.Exec("DELETE FROM filter_segment WHERE kind <= $1 OR kind = $2 AND build <> $3", formerKinds, kind, build)
		return err
	})
}

// spool keeps hashes, divided by segment, in one temporary file: a hundred million
// keys do not fit into memory.
type spool struct {
	f      *os.File
	at     int64
	buffer [segmentCount][]uint64
	blocks [segmentCount][]block
}

type block struct {
	at int64
	n  int // hashes
}

const blockHashes = 4096

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "symdepot-filter-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // where the system permits it, nothing is left after a crash
	return &spool{f: f}, nil
}

func (s *spool) close() {
	_ = s.f.Close()
	_ = os.Remove(s.f.Name())
}

func (s *spool) add(h uint64) error {
	i := h >> (64 - segmentBits)
	s.buffer[i] = append(s.buffer[i], h)
	if len(s.buffer[i]) < blockHashes {
		return nil
	}
	return s.flush(i)
}

func (s *spool) flush(i uint64) error {
	b := make([]byte, 0, 8*len(s.buffer[i]))
	for _, h := range s.buffer[i] {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	if _, err := s.f.WriteAt(b, s.at); err != nil {
		return err
	}
	s.blocks[i] = append(s.blocks[i], block{s.at, len(s.buffer[i])})
	s.at += int64(len(b))
	s.buffer[i] = s.buffer[i][:0]
	return nil
}

// build makes the segments of all hashes, one after the other in the same memory.
func (s *spool) build(into *segments) error {
	var builder fusefilter.Builder
	var keys []uint64
	raw := make([]byte, 8*blockHashes)
	for i := range uint64(segmentCount) {
		keys = append(keys[:0], s.buffer[i]...)
		s.buffer[i] = nil
		for _, b := range s.blocks[i] {
			raw := raw[:8*b.n]
			if _, err := s.f.ReadAt(raw, b.at); err != nil {
				return fmt.Errorf("temporary file: %w", err)
			}
			for ; len(raw) > 0; raw = raw[8:] {
				keys = append(keys, binary.LittleEndian.Uint64(raw))
			}
		}
		f, err := builder.Build(keys)
		if err != nil {
			return err
		}
		into.part[i] = *f
		giveBack(int(i))
	}
	return nil
}

// giveBack gives free memory back after each few segments.
func giveBack(done int) {
	if done%releaseEvery == releaseEvery-1 {
		debug.FreeOSMemory()
	}
}
