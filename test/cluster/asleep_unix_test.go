//go:build unix

package cluster

import (
	"bytes"
	"database/sql"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestAddAsleep stops an add after its first uploads (SIGSTOP) until its leases have
// ended and a gc has given the uploads up. Woken up, it uploads them again and commits.
func TestAddAsleep(t *testing.T) {
	t.Parallel()
	const files = 600 // more than one group of uploads
	b := commandtest.NewBucketDepot(t)
	b.Times = "1s,1s,1h,1h"
	src := t.TempDir()
	commandtest.SymFiles(t, filepath.Join(src, "first"), 1, 1, 100)
	b.Must(t, "add", filepath.Join(src, "first"))
	commandtest.SymFiles(t, filepath.Join(src, "many"), 2, files, 2000)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "index.db")+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	count := func(query string) (n int) {
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			return -1 // busy
		}
		return n
	}
	cmd := b.Command(t, "add", filepath.Join(src, "many"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	symtest.Await(t, time.Minute, "a group of uploads", func() bool { return count("SELECT count(*) FROM upload WHERE done = 1") > 0 })
	// Stopped in a write transaction, it would keep all other writers out.
	writer, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "index.db")+"?mode=rw&_txlock=immediate&_pragma=busy_timeout(20)")
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	symtest.Await(t, time.Minute, "a stop outside of a write build", func() bool {
		if err := cmd.Process.Signal(signalStop); err != nil {
			t.Fatal(err)
		}
		// The signal has returned before all threads stand still.
		symtest.Await(t, time.Minute, "a process that stands still", func() bool {
			state, err := exec.CommandContext(t.Context(), symtest.Tool(t, "ps"), "-o", "state=", "-p", strconv.Itoa(cmd.Process.Pid)).Output()
			if err != nil {
				t.Fatalf("the state of the stopped add: %v", err)
			}
			return strings.HasPrefix(strings.TrimSpace(string(state)), "T")
		})
		if tx, err := writer.BeginTx(t.Context(), nil); err == nil {
			return tx.Rollback() == nil
		}
		if err := cmd.Process.Signal(signalContinue); err != nil {
			t.Fatal(err)
		}
		return false
	})
	if n := count("SELECT count(*) FROM tx"); n != 1 {
		t.Fatalf("%d builds when the add was stopped, want 1: the test proves nothing", n)
	}
	uploads := count("SELECT count(*) FROM upload WHERE done = 1")
	symtest.Await(t, time.Minute, "the uploads to be given up", func() bool {
		b.Must(t, "gc")
		return count("SELECT count(*) FROM upload WHERE done = 1") == 0
	})
	if n := count("SELECT count(*) FROM doomed"); n < uploads || uploads == 0 {
		t.Errorf("%d uploads were given up, want at least %d", n, uploads)
	}
	if err := cmd.Process.Signal(signalContinue); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("add: %v\n%s", err, out.String())
	}
	if !strings.HasPrefix(out.String(), "build 2") {
		t.Errorf("add: %s, want build 2", out.String())
	}
	for _, i := range []int{0, files - 1} {
		b.Must(t, "find", commandtest.SymID(2, i))
	}
	if got := b.Must(t, "verify"); !strings.HasPrefix(got, "clean: ") {
		t.Errorf("verify: %s, want %q at the beginning", got, "clean: ")
	}
	t.Logf("%d uploads were made twice", uploads)
}
