package blob_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
)

// childEnv makes the test binary a process that writes to the store named, to
// be killed; its value is the seed, a colon, the directory.
const childEnv = "SYMDEPOT_BLOB_TEST_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// child puts blobs for ever, one by one and in batches by turns, and prints
// the refs of each as soon as it is promised to be there.
func child(job string) error {
	first, dir, _ := strings.Cut(job, ":")
	seed, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return err
	}
	d, err := blob.OpenDisk(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(seed, 0))
	content := func() []byte {
		return blobtest.Content(rng.Uint64N(1<<16), rng.IntN(200_000))
	}
	for {
		one := content()
		if err := d.Put(ctx, blob.Sum(one), int64(len(one)), bytes.NewReader(one)); err != nil {
			return err
		}
		promised := blob.Sum(one).String() + "\n"
		b, err := d.Begin(ctx)
		if err != nil {
			return err
		}
		for range 1 + rng.IntN(60) {
			ref, _, err := b.Put(ctx, -1, bytes.NewReader(content()))
			if err != nil {
				return err
			}
			promised += ref.String() + "\n"
			fmt.Println("put")
		}
		if err := b.Commit(ctx); err != nil {
			return err
		}
		if _, err := io.WriteString(os.Stdout, promised); err != nil {
			return err
		}
	}
}

// TestKill kills processes that write at random points. What they said was
// there must be there, and all that is visible must be whole.
func TestKill(t *testing.T) {
	t.Parallel() // waits for the disk, mostly
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d := openDisk(t, dir)
	const kills = 10
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 0), 1))
	for i := range kills {
		promised := killOne(t, exec.Command(exe), fmt.Sprintf("%d:%s", i, dir), 1+rng.IntN(250))
		for _, ref := range promised {
			if _, err := d.Stat(t.Context(), ref); err != nil {
				t.Errorf("promised and lost: %v", err)
			}
		}
		blobtest.Check(t, d)
	}
	if n, err := d.Sweep(t.Context(), -time.Hour); err != nil {
		t.Error(err)
	} else {
		t.Logf("%d blobs, %d leftovers swept", blobtest.Check(t, d), n)
	}
	left, err := os.ReadDir(dir + "/tmp")
	if err != nil || len(left) > 0 {
		t.Errorf("left after the sweep: %d, %v; want 0", len(left), err)
	}
}

// killOne kills the command after a number of lines, which finds it in the
// midst of what comes next, and returns the refs that it has printed.
func killOne(t *testing.T, cmd *exec.Cmd, job string, lines int) []blob.Ref {
	t.Helper()
	var promised []blob.Ref
	for scan := symtest.Lines(t, cmd, childEnv+"="+job); scan.Scan(); {
		if ref, err := blob.ParseRef(scan.Text()); err == nil {
			promised = append(promised, ref)
		}
		if lines--; lines == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || lines > 0 {
		t.Errorf("the child ended by itself: %v", err)
	}
	return promised
}
