package depot

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestMigrateWhileCooling migrates a depot to another folder and to a bucket. While its
// contents are copied, some become cold and the plain bytes of others are deleted.
func TestMigrateWhileCooling(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, c *clock) (*Depot, error){
		"disk": func(t *testing.T, c *clock) (*Depot, error) {
			return Open(t.Context(), filepath.Join(t.TempDir(), "new"), Options{Now: c.now})
		},
		"bucket": func(t *testing.T, c *clock) (*Depot, error) {
			return Open(t.Context(), filepath.Join(t.TempDir(), "new"), Options{Now: c.now, Bucket: bucketOf(t, buckettest.S3(t))})
		},
	} {
		for _, copied := range []int{1, 5} { // contents, before the plain bytes go
			t.Run(name, func(t *testing.T) {
				d, c := roomyDepot(t)
				ctx := t.Context()
				n := newNightly("app.so", 7, 9000)
				want := map[string][]byte{}
				night := func() {
					f, path := n.build(len(want))
					want[path] = f.body
					add(t, d, "app", f)
					c.advance(24 * time.Hour)
				}
				for range 4 {
					night()
				}
				if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 3 {
					t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
				}
				night()
				if err := d.Cold.Pause(ctx, true); err != nil {
					t.Fatal(err)
				}
				to, err := open(t, c)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = to.Close() })
				steps := 0
				m, err := d.Migrate(ctx, to, func(int64, int64) {
					if steps++; steps != copied+1 {
						return
					}
					if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 1 {
						t.Errorf("cool meanwhile: %+v, %v, want 1 content", sum, err)
					}
					c.advance(2 * time.Hour)
					if n, err := d.Cold.Strip(ctx, coldstore.CoolGrace); err != nil || n != 4 {
						t.Errorf("strip meanwhile: %d, %v, want 4 contents", n, err)
					}
				})
				if err != nil || m.Contents != 5 { // four cold files and the newest build
					t.Fatalf("migrate: %+v, %v, want 5 contents", m, err)
				}
				answers(t, to, want)
				if v, faults := verified(t, to, check.Options{Restore: true}); len(faults) > 0 || v.Cold != 4 || v.Restored != 4 {
					t.Errorf("verify: %+v, %+v, want 4 cold contents and no faults", v, faults)
				}
				s, err := to.Cold.Stats(ctx)
				if err != nil || s.Contents != 4 || s.Both != 0 {
					t.Errorf("sums %+v, %v, want 4 cold contents without plain bytes", s, err)
				}
				if p, err := to.Cold.Progress(ctx); err != nil || !p.Paused {
					t.Errorf("cooling is paused: %v, %v, want that it is, as before", p.Paused, err)
				}
				c.advance(10 * 24 * time.Hour)
				for range 2 { // takes the plain bytes that were copied for nothing
					if _, err := to.Collect(ctx, time.Hour, false); err != nil {
						t.Fatal(err)
					}
				}
				answers(t, to, want)
				if v, faults := verified(t, to, check.Options{Restore: true}); len(faults) > 0 || v.Strays != 0 {
					t.Errorf("verify after gc: %+v, %+v, want no faults and no strays", v, faults)
				}
			})
		}
	}
}
