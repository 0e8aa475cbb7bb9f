package depot

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// TestAddedOutranksFetched: a file that an upstream sent for an id never
// answers once the operator added a file of the same id, for each role.
func TestAddedOutranksFetched(t *testing.T) {
	own := testdata(t, "elf/prog-sha1")
	stripped := testdata(t, "elf/prog-sha1.stripped").body
	forged := bytes.Clone(stripped)
	forged[len(forged)/2] ^= 1
	debug := testdata(t, "elf/prog-sha1.debug")
	// The upstream's debug information is larger than the genuine one.
	bigger := bytes.Clone(own.body)
	bigger[len(bigger)/2] ^= 1
	for _, c := range []struct {
		what, path, name string
		fetched          []byte
		added            file
	}{
		{"executable", "buildid/" + progID + "/executable", "prog-sha1", forged, own},
		{"debug information", "buildid/" + progID + "/debuginfo", "prog-sha1", bigger, debug},
		{"Breakpad file", symPath, "app.sym", symFile(symID, 9000), file{"app.sym", symFile(symID, 500)}},
		{"PDB", "test.pdb/" + pdbKey(t, 7) + "/test.pdb", "test.pdb", append(bytes.Clone(pdbBytes(t, 7)), make([]byte, 512)...), file{"test.pdb", pdbBytes(t, 7)}},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := &elsewhere{name: "s"}
			s.sends(c.name, c.fetched)
			d, clock := withUpstreams(t, Options{}, s)
			if got, err := fetched(t.Context(), t, d, c.path); err != nil || !bytes.Equal(got, c.fetched) {
				t.Fatalf("before the add: %d bytes, %v; want the %d bytes of the upstream", len(got), err, len(c.fetched))
			}
			wantCached(t, d, 1)
			clock.t = clock.t.Add(time.Hour)
			add(t, d, "own", c.added)
			_, got, err := get(t, d, answer.Scope{}, c.path)
			if err != nil || !bytes.Equal(got, c.added.body) {
				t.Errorf("after the add: %d bytes, %v; want the %d bytes that were added", len(got), err, len(c.added.body))
			}
			wantCached(t, d, 0)
		})
	}
}

// TestFetchedAfterAdded: a file that is downloaded after an added file with the
// same id does not take precedence over it.
func TestFetchedAfterAdded(t *testing.T) {
	hits := []record.Hit{
		{Role: symfile.AnyRole, Stored: record.Stored{Object: symfile.Object{Kind: symfile.ELF}, Source: "s", Size: 1, DebugSize: 100, Added: time.Unix(2, 0)}},
		{Role: symfile.AnyRole, Stored: record.Stored{Object: symfile.Object{Kind: symfile.ELF}, Size: 9, DebugSize: 1, Added: time.Unix(1, 0)}},
	}
	for bit := range 16 {
		role := symfile.Role(1) << bit
		for _, role := range []symfile.Role{role, role | symfile.Debug, role | symfile.Companion, symfile.AnyRole} {
			list := []record.Hit{hits[0], hits[1]}
			answer.Rank(list, role)
			if list[0].Source != "" {
				t.Errorf("rank for role %#x: the fetched file is first, want the added one", role)
			}
		}
	}
}

// wantCached fails unless so many cached files are listed. A download is
// entered before its last bytes are returned.
func wantCached(t *testing.T, d *Depot, want int) {
	t.Helper()
	n := 0
	for _, err := range d.Cache.Files(t.Context(), cache.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != want {
		t.Errorf("%d cached files, want %d", n, want)
	}
}

func pdbBytes(t *testing.T, n byte) []byte {
	t.Helper()
	b, _ := pdbOf(t, n)
	return b
}

func pdbKey(t *testing.T, n byte) string {
	t.Helper()
	_, g := pdbOf(t, n)
	return fmt.Sprintf("%s1", g.Upper())
}

// TestEvictionLeavesRoomOnTheDisk: without a limit in bytes, the disk sets one.
func TestEvictionLeavesRoomOnTheDisk(t *testing.T) {
	for _, c := range []struct {
		what              string
		limit             int64
		total, free, want int64 // want: cached files left of one
	}{
		{"enough", 0, 1000, 50, 1},
		{"too little", 0, 1000, 49, 0},
		{"more than 2 GiB of a large disk", 0, 1 << 50, 2 << 30, 1},
		{"too little of a large disk", 0, 1 << 50, 2<<30 - 1, 0},
		{"no limit", -1, 1000, 0, 1},
		{"a limit of its own", 1 << 30, 1000, 0, 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			s := &elsewhere{name: "s"}
			s.sends("app.sym", symFile(symID, 1000))
			d, _ := withUpstreams(t, Options{Cache: cache.Limits{MaxBytes: c.limit}}, s)
			if _, err := fetched(t.Context(), t, d, symPath); err != nil {
				t.Fatal(err)
			}
			d.Cache = cache.New(d.db, d.blobs, cache.Limits{MaxBytes: c.limit}, func() (int64, int64, error) { return c.total, c.free, nil }, d.now)
			if _, err := d.Cache.Evict(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantCached(t, d, int(c.want))
		})
	}
}

// lateContent is a content whose Add waits, after its bytes were taken, until another Add has
// ended.
type lateContent struct {
	bytesContent
	taken chan<- struct{}
	other <-chan struct{}
}

func (c lateContent) Changed() bool {
	close(c.taken)
	<-c.other
	return false
}

// TestAddEqualAtOnce: of two equal files that are added at once, the one that is entered first
// counts as new, whichever has stored the bytes.
func TestAddEqualAtOnce(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	tx, err := d.Begin(t.Context(), TxInfo{Product: "app", Origin: &record.Origin{Store: "store", Number: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	body := bytesContent{Reader: bytes.NewReader([]byte("MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 a.so\nPUBLIC 1000 0 f\n"))}
	taken, other := make(chan struct{}), make(chan struct{})
	late := make(chan []Added, 1)
	go func() {
		got, err := tx.Add(t.Context(), Source{Path: "a/a.so.sym", Content: lateContent{body, taken, other}})
		if err != nil {
			t.Error(err)
		}
		late <- got
	}()
	<-taken
	first, err := tx.Add(t.Context(), Source{Path: "b/a.so.sym", Content: body})
	close(other)
	second := <-late
	if err != nil || len(first) != 1 || len(second) != 1 {
		t.Fatalf("%+v and %+v, %v; want one object each", first, second, err)
	}
	if first[0].Known || first[0].Again || !second[0].Known || !second[0].Again {
		t.Errorf("the file that was entered first: %+v; want it new\nthe other one: %+v; want it known and there again", first[0], second[0])
	}
}
