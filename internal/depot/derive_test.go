package depot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// cabinetPath is the path of the first object's cabinet.
func cabinetPath(t *testing.T, d *Depot, number int64) (plain, packed string) {
	t.Helper()
	err := d.Files(t.Context(), number, func(f TxFile) error {
		plain = layout.SymStore.Paths(f.Object)[0]
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plain, plain[:len(plain)-1] + "_"
}

func unpack(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := cab.Open(bytes.NewReader(b), int64(len(b)), cab.Options{})
	if err != nil || len(r.Files()) != 1 {
		t.Fatal(err)
	}
	rc, err := r.Files()[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCabinets: a cabinet is not found until it has been made in the
// background, after the first request for it and only if enabled.
func TestCabinets(t *testing.T) {
	for _, make := range []bool{false, true} {
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{MakeCabinets: make})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pdb/hello-x64.pdb", "pe/x64.exe", "ppdb/tiny.pdb"} {
			body := testdata(t, name)
			_, packed := cabinetPath(t, d, add(t, d, "", body))
			if _, _, err := get(t, d, answer.Scope{}, packed); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s before it was made: %v, want the error %v", packed, err, fs.ErrNotExist)
			}
			if n := len(d.forms.Queue()); n != map[bool]int{false: 0, true: 1}[make] {
				t.Fatalf("%d jobs, want one if cabinets are made, else none", n)
			}
			if !make {
				continue
			}
			before, err := d.db.Generation(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.forms.Derive(t.Context(), <-d.forms.Queue()); err != nil {
				t.Fatal(err)
			}
			if after, err := d.db.Generation(t.Context()); err != nil || after == before {
				t.Errorf("the generation stays %d and the miss would be remembered, want a new one; %v", after, err)
			}
			f, b, err := get(t, d, answer.Scope{}, packed)
			if err != nil || !bytes.Equal(unpack(t, b), body.body) {
				t.Fatalf("get(%s): %d bytes that are not the packed content, error %v; want a cabinet of it", packed, len(b), err)
			}
			if e, err := d.Encoded(t.Context(), f, []string{"zstd"}); e != nil || err != nil {
				t.Errorf("a cabinet is compressed again: %+v, %v", e, err)
			}
			if f.ETag != blob.Sum(b).String()[:32] || f.Size != int64(len(b)) {
				t.Errorf("tag %s, size %d of %d; want those of the content", f.ETag, f.Size, len(b))
			}
		}
		if make {
			if _, packed := cabinetPath(t, d, add(t, d, "", testdata(t, "elf/prog-sha1"))); packed != "" {
				if _, _, err := get(t, d, answer.Scope{}, packed); !errors.Is(err, fs.ErrNotExist) || len(d.forms.Queue()) != 0 {
					t.Errorf("a cabinet of an ELF file: %v; want not found and no job", err)
				}
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCabinetTooLarge: after a cabinet turned out to be too large, making it is
// not repeated.
func TestCabinetTooLarge(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{MakeCabinets: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	body := testdata(t, "pdb/hello-x64.pdb")
	_, packed := cabinetPath(t, d, add(t, d, "", body))
	if err := d.db.PutDerived(t.Context(), blob.Sum(body.body), record.Tool{Name: transcode.Cab.Name, Version: transcode.Cab.Version}, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := get(t, d, answer.Scope{}, packed); !errors.Is(err, fs.ErrNotExist) || len(d.forms.Queue()) != 0 {
		t.Errorf("%v, %d jobs; want the error %v and 0 in queue", err, len(d.forms.Queue()), fs.ErrNotExist)
	}
}

// TestDeriveOnce: concurrent calls for one form make it once; a caller that
// gives up does not cancel it, and Close does.
func TestDeriveOnce(t *testing.T) {
	d, _ := newDepot(t)
	body := testdata(t, "pdb/hello-x64.pdb")
	add(t, d, "", body)
	want := forms.Form{Ref: blob.Sum(body.body), Tool: transcode.Cab, Name: "hello-x64.pdb", Time: time.Unix(1e9, 0)}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.forms.Derive(gone, want); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var wg sync.WaitGroup
	got := make([]record.Content, 8)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = d.forms.Derive(t.Context(), want); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, c := range got {
		if c != got[0] || c.Size == 0 {
			t.Errorf("cabinet %+v, then %+v; want the same both times", c, got[0])
		}
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, ".scratch-*")); len(left) != 0 {
		t.Errorf("left behind: %q, want 0 in left", left)
	}
	if _, err := d.forms.Derive(t.Context(), forms.Form{Ref: blob.Sum([]byte("?")), Tool: transcode.Cab}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a content that is not there: %v, want the error %v", err, fs.ErrNotExist)
	}
	d.forms.Close()
	if _, err := d.forms.Derive(t.Context(), forms.Form{Ref: blob.Sum([]byte("!")), Tool: transcode.Cab}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v, want the error %v", err, context.Canceled)
	}
}
