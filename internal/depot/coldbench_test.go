package depot

import (
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestBenchCold measures how long the first reader of a cold file of 50 MB waits, for
// the first 64 KiB and for 64 KiB in the middle, and how fast it gets all of it, with an
// empty near cache.
func TestBenchCold(t *testing.T) {
	if os.Getenv("SYMDEPOT_BENCH") == "" {
		t.Skip("measures for a minute: runs with scripts/bench cold (SYMDEPOT_BENCH=1)")
	}
	d, c := roomyDepot(t)
	n := newNightly("large.so", 11, 720_000)
	var refs []blob.Ref
	var size int64
	for i := range 9 {
		f, _ := n.build(i)
		refs, size = append(refs, blob.Sum(f.body)), int64(len(f.body))
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour})
	if err != nil || sum.Contents != 8 {
		t.Fatalf("cool: %+v, %v, want 8 contents", sum, err)
	}
	f, _ := n.build(9) // the content before it becomes a key
	add(t, d, "app", f)
	c.advance(24 * time.Hour)
	if sum, err = d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v, want a key", sum, err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var first, middle []time.Duration
	var whole float64
	reads := 0
	for k := range 8 {
		fresh, err := Open(t.Context(), d.dir, Options{Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range refs[:8] { // the deltas
			at := int64(k%2) * (1<<20 + rng.Int64N(size-2<<20))
			begin := time.Now()
			f, err := fresh.blobs.Open(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.ReadAt(make([]byte, 64<<10), at); err != nil {
				t.Fatal(err)
			}
			if at > 0 {
				middle = append(middle, time.Since(begin))
			} else {
				first = append(first, time.Since(begin))
				_, err = io.Copy(io.Discard, io.NewSectionReader(f, 0, size))
				whole += time.Since(begin).Seconds()
				reads++
			}
			_ = f.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p := func(list []time.Duration, of int) time.Duration {
		slices.Sort(list)
		return list[len(list)*of/100].Round(100 * time.Microsecond)
	}
	t.Logf("files of %.1f MB, %d reads each: first 64 KiB p50 %v, p95 %v; a range in the middle p50 %v, p95 %v; all of it %.0f MB/s", float64(size)/1e6, reads,
		p(first, 50), p(first, 95), p(middle, 50), p(middle, 95), float64(size)*float64(reads)/1e6/whole)
}
