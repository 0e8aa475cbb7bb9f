//go:build unix

package coldstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

// TestBenchBases adds the series that scripts/coldseries has made to a depot, and makes them cold:
// all at once, and day by day, each build when it is two weeks old. Which build is built from which
// is written beside the series then, for TestBenchCold of package cold.
func TestBenchBases(t *testing.T) {
	for name, builds := range symtest.ColdSeries(t) {
		for _, daily := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, daily %v", name, daily), func(t *testing.T) { benchBases(t, name, builds, daily) })
		}
	}
}

func benchBases(t *testing.T, name string, builds []string, daily bool) {
	const age = 14 * 24 * time.Hour
	h := hometest.Open(t, t.TempDir())
	refs := make([]blob.Ref, len(builds))
	var used time.Duration
	cool := func(f func() error) {
		from := processorTime(t)
		if err := f(); err != nil {
			t.Fatal(err)
		}
		used += processorTime(t) - from
	}
	var plain int64
	for i, path := range builds {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		plain += int64(len(body))
		refs[i] = addBuild(t, h, fmt.Sprint(i), body)
		h.Later(24 * time.Hour)
		if daily {
			cool(func() error {
				_, err := h.Cold.Cool(t.Context(), coldstore.CoolOptions{After: age})
				return err
			})
		}
	}
	h.Later(age)
	cool(func() error { return h.Cold.CoolAll(t.Context()) })

	at := make(map[blob.Ref]int)
	for i, ref := range refs {
		at[ref] = i
	}
	var keys []int
	var sum, deltas int64
	var list strings.Builder
	for i, ref := range refs {
		row, err := h.Cold.Of(t.Context(), ref)
		if err != nil {
			t.Fatalf("build %d: %v", i, err)
		}
		base := i
		if row.Base == nil {
			keys = append(keys, i)
		} else {
			base, deltas = at[row.Base.Ref], deltas+row.File.Size
		}
		sum += row.File.Size
		fmt.Fprintln(&list, base)
	}
	mean, when := float64(plain)/float64(len(builds)), "all at once"
	if daily {
		when = "day by day"
		if err := os.WriteFile(filepath.Join(filepath.Dir(builds[0]), "bases"), []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s, %s: %d builds of %.1f MB; %d keys (%v), added build %.2f %%, series with its keys %.2f %% of plain; bases and cold files %.0f MB/s",
		name, when, len(builds), mean/1e6, len(keys), keys, 100*float64(deltas)/float64(len(builds)-len(keys))/mean, 100*float64(sum)/float64(plain),
		float64(plain)/1e6/used.Seconds())
}

// addBuild adds one build of a file.
func addBuild(t *testing.T, h *hometest.Home, version string, body []byte) blob.Ref {
	t.Helper()
	file := "app"
	if bytes.HasPrefix(body, []byte("Microsoft C/C++")) {
		file = "app.pdb"
	}
	objects, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), file, objfile.Options{})
	if err != nil || len(objects) != 1 {
		t.Fatalf("objects %v, %v; want one", objects, err)
	}
	batch, err := h.Blobs.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Abort()
	ref, _, err := batch.Put(t.Context(), int64(len(body)), bytes.NewReader(body))
	if err == nil {
		err = batch.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	o := objects[0]
	_, err = h.DB.Commit(t.Context(), record.Tx{Kind: "add", Product: "app", Version: version, Time: h.Now(), Entries: []record.Entry{{
		Object: o.Object, Arch: o.Arch, Features: o.Features.Words(), Ref: ref, Size: o.Size, Aliases: o.Aliases(), Path: "build/" + file, ModTime: h.Now(),
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// processorTime is what this process has used.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
