package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/symcache"
)

// onDisk is a file to add.
type onDisk struct {
	*os.File
	size int64
}

func (o onDisk) Size() int64 { return o.size }
func (onDisk) Changed() bool { return false }

// peak returns the most memory that a process had, in MiB.
func peak(t *testing.T, pid string) (mib int) {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	if _, err := fmt.Sscan(rest, &mib); err != nil {
		t.Fatal(err)
	}
	return mib >> 10
}

// TestHugePDB: a PDB of 4.5 GiB is sent from the depot to a worker's transcoder
// with little memory on both sides.
func TestHugePDB(t *testing.T) {
	if !torture() {
		t.Skip("copies 14 GiB; set SYMDEPOT_TORTURE")
	}
	const size = 4608 << 20
	w := newWorkshop(t, depot.JobOptions{})
	plain, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "huge.pdb")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadFrom(bytes.NewReader(plain)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	tx, err := w.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Add(t.Context(), depot.Source{Path: "huge.pdb", Content: onDisk{f, size}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := debugid.ParseBreakpad("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	p := w.worker(t)
	w.workers(t, 1)
	began := time.Now()
	if st, err := w.SymCache().WaitSymCache(t.Context(), symcache.Key{Name: "huge.pdb", ID: id}, v310); err != nil || st != jobs.Done {
		t.Errorf("WaitSymCache: %v, error %v; want %v", st, err, jobs.Done)
	}
	worker, server := peak(t, fmt.Sprint(p.Process.Pid)), peak(t, "self")
	t.Logf("%v; resident memory at the most: worker %d MiB, server with this test %d MiB", time.Since(began).Round(time.Second), worker, server)
	if worker > 128 || server > 128 {
		t.Errorf("resident memory: worker %d MiB, server %d MiB; want at most 128 each", worker, server)
	}
}
