package depot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/publicform"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// working does the jobs of a depot until the end of a test.
func working(t *testing.T, d *Depot) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Jobs().Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// publicly asks for the public form at a path, and waits until it is made.
func publicly(t *testing.T, d *Depot, path string) (body []byte, ref blob.Ref, err error) {
	t.Helper()
	segs, err := layout.Segments(path)
	if err != nil {
		t.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }
	// The scope of the question must not count.
	q := answer.Question{Scope: answer.Scope{}, Request: req, Hold: hold}
	f, err := d.Public(t.Context(), audience.ScopeOf(false, []string{"app"}), q)
	if err != nil {
		return nil, ref, err
	}
	defer f.Answer().Close()
	body, err = io.ReadAll(io.NewSectionReader(f.Answer(), 0, f.Answer().Size))
	return body, f.Answer().Ref, err
}

// TestPublicFormLife: the public form of a cold file can be made, is made once, is made again if its
// bytes are lost, and goes with the file.
func TestPublicFormLife(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		working(t, d)
		n := newNightly("app", 7, 4000)
		var paths []string
		var bodies [][]byte
		for no := range 3 {
			f, path := n.build(no)
			f.body = append(f.body, "FILE 0 /secret/source.cpp\n"...)
			add(t, d, "app", f)
			c.advance(24 * time.Hour)
			paths, bodies = append(paths, path), append(bodies, f.body)
		}
		sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{})
		if err != nil || sum.Contents == 0 {
			t.Fatalf("cool: %+v, %v; want some cold files", sum, err)
		}
		c.advance(48 * time.Hour)
		if _, err := d.Cold.Strip(t.Context(), coldstore.CoolGrace); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Cold.Store().Below().Stat(t.Context(), blob.Sum(bodies[0])); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("plain bytes of a cold file: %v, want fs.ErrNotExist", err)
		}
		var forms []blob.Ref
		for i, path := range paths {
			var first blob.Ref
			for again := range 3 {
				body, ref, err := publicly(t, d, path)
				if err != nil || bytes.Contains(body, []byte("secret")) || !bytes.Contains(body, []byte("ns::Class1::")) || bytes.Equal(body, bodies[i]) {
					t.Fatalf("%s: %d bytes, %v; want the public form", path, len(body), err)
				}
				if again == 0 {
					first = ref
					forms = append(forms, ref)
				}
				if ref != first || ref != blob.Sum(body) {
					t.Errorf("%s: the form has the hash %s, then %s", path, first, ref)
				}
			}
		}
		list, err := d.Jobs().List(t.Context(), jobs.Filter{Kind: publicform.Kind})
		if err != nil || len(list) != len(paths) {
			t.Errorf("%d jobs, %v; want one for each of %d files", len(list), err, len(paths))
		}
		if err := d.blobs.Delete(t.Context(), forms[0]); err != nil {
			t.Fatal(err)
		}
		if body, ref, err := publicly(t, d, paths[0]); err != nil || ref != forms[0] || len(body) == 0 {
			t.Errorf("a form whose bytes were lost: %d bytes, %v; want it to be made again", len(body), err)
		}
		txs, err := d.List(t.Context(), answer.Scope{}, ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range txs {
			if _, err := d.Retention.Remove(t.Context(), tx.Number, "test"); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := publicly(t, d, paths[1]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the form of a removed file: %v, want fs.ErrNotExist", err)
		}
		c.advance(48 * time.Hour)
		for range 3 { // what is made of what was made goes later
			if _, err := d.Collect(t.Context(), time.Hour, false); err != nil {
				t.Fatal(err)
			}
			c.advance(48 * time.Hour)
		}
		for _, form := range forms {
			if known, err := d.db.HasContent(t.Context(), form); err != nil || known {
				t.Errorf("the form %s is still stored after its file was collected, %v", form, err)
			}
		}
	})
}
