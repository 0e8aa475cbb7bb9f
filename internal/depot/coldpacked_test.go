package depot

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// packers are the forms in which a test keeps a file packed, by the end of the name.
var packers = map[string]func(t testing.TB, plain []byte) []byte{
	"pd_": inCabinet,
	"gz": func(t testing.TB, plain []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		return written(t, &b, plain, w, w)
	},
	"nupkg": func(t testing.TB, plain []byte) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range []string{"lib.nuspec", "lib/net8.0/lib.pdb"} {
			w, err := z.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if name == "lib.nuspec" {
				_, _ = io.WriteString(w, "<package/>")
				continue
			}
			_, _ = w.Write(plain)
		}
		return written(t, &b, nil, io.Discard, z)
	},
}

func written(t testing.TB, b *bytes.Buffer, plain []byte, w io.Writer, c io.Closer) []byte {
	t.Helper()
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func inCabinet(t testing.TB, plain []byte) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a.cab"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = cab.Create(f, []cab.Source{{Name: "a.pdb", Size: int64(len(plain)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(plain)), nil
	}}}, cab.WriteOptions{Method: cab.MSZIP})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// addPacked adds a file by its SHA-1, and returns the path under which it is asked for.
func addPacked(t *testing.T, d *Depot, product, name string, body []byte) (path string) {
	t.Helper()
	tx, err := d.Begin(t.Context(), TxInfo{Product: product})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Add(t.Context(), Source{Path: name, As: "sha1", Content: bytesContent{Reader: bytes.NewReader(body)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/sha1-%x/%s", name, sha1.Sum(body), name)
}

// TestColdPacked: builds of a packed file become cold as the file itself does: an added one costs
// next to nothing. They are read whole and by ranges, and become plain again.
func TestColdPacked(t *testing.T) {
	symtest.Sequential(t)
	for end, pack := range packers {
		t.Run(end, func(t *testing.T) {
			d, c := roomyDepot(t)
			n := newNightly("app.so", 11, 30000)
			want := map[string][]byte{}
			var bodies [][]byte
			for i := range 5 {
				f, _ := n.build(i)
				body := pack(t, f.body)
				bodies = append(bodies, body)
				want[addPacked(t, d, "app", "app."+end, body)] = body
				c.advance(24 * time.Hour)
			}
			sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour})
			if err != nil || sum.Contents != 4 || sum.After*100 > 3*sum.Before {
				t.Fatalf("cool: %+v, %v, want 4 contents and at most 3 per cent of the bytes", sum, err)
			}
			rnd := rand.New(rand.NewPCG(12, 1))
			for _, body := range bodies {
				f, err := d.Cold.Store().Open(t.Context(), blob.Sum(body))
				if err != nil {
					t.Fatal(err)
				}
				for range 20 {
					p := make([]byte, 1+rnd.IntN(100_000))
					at := rnd.IntN(len(body) - len(p))
					if _, err := f.ReadAt(p, int64(at)); err != nil || !bytes.Equal(p, body[at:at+len(p)]) {
						t.Fatalf("%d bytes at %d: %v", len(p), at, err)
					}
				}
				_ = f.Close() // opened for reading
			}
			answers(t, d, want)
			if v, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 || v.Restored != 4 {
				t.Errorf("verify: %+v, %+v, want 4 cold contents and no faults", v, faults)
			}
			if w, err := d.Cold.WarmAll(t.Context(), coldstore.Warming{}); err != nil || w.Contents != 4 || w.Failed != 0 {
				t.Errorf("warm: %+v, %v; want 4 contents", w, err)
			}
			answers(t, d, want)
		})
	}
}

// TestColdBeside: a packed file whose file is cold in the same product is built from what that is
// built from, and never from what another product has.
func TestColdBeside(t *testing.T) {
	d, c := roomyDepot(t)
	n := newNightly("app.so", 13, 30000)
	var files []file
	for i := range 4 {
		f, _ := n.build(i)
		files = append(files, f)
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
		t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
	}
	packed := inCabinet(t, files[1].body)
	bodies, want := map[string][]byte{}, map[string][]byte{}
	newest, _ := newNightly("other.so", 14, 20000).build(0)
	for _, product := range []string{"app", "other"} {
		bodies[product] = append(bytes.Clone(packed), product...)
		for _, body := range [][]byte{bodies[product], append(inCabinet(t, newest.body), product...)} {
			want[addPacked(t, d, product, product+".sy_", body)] = body
			c.advance(time.Hour)
		}
	}
	c.advance(24 * time.Hour)
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 2 {
		t.Fatalf("cool: %+v, %v, want 2 contents", sum, err)
	}
	row, err := d.Cold.Of(t.Context(), blob.Sum(bodies["app"]))
	if err != nil || row.Base == nil || row.Base.Ref != blob.Sum(files[3].body) || row.File.Size*100 > 3*row.Size {
		t.Errorf("the packed file: %+v, %v, want at most 3 per cent of it, built from the newest file", row, err)
	}
	if row, err := d.Cold.Of(t.Context(), blob.Sum(bodies["other"])); err != nil || row.Base != nil {
		t.Errorf("that of the other product: %+v, %v, want a key", row, err)
	}
	answers(t, d, want)
	if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
		t.Errorf("faults %+v, want none", faults)
	}
}

// TestColdPackedDamage: a damaged cold file of a cabinet is named, the cabinet is absent, and
// adding it again heals it.
func TestColdPackedDamage(t *testing.T) {
	symtest.Sequential(t)
	d, c := roomyDepot(t)
	n := newNightly("app.so", 15, 30000)
	var bodies [][]byte
	var paths []string
	for i := range 3 {
		f, _ := n.build(i)
		bodies = append(bodies, inCabinet(t, f.body))
		paths = append(paths, addPacked(t, d, "app", "app.sy_", bodies[i]))
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 2 {
		t.Fatalf("cool: %+v, %v, want 2 contents", sum, err)
	}
	row, err := d.Cold.Of(t.Context(), blob.Sum(bodies[0]))
	if err != nil {
		t.Fatal(err)
	}
	hash := row.File.Ref.String()
	path := filepath.Join(d.dir, "blobs", hash[:2], hash[2:])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, faults := verified(t, d, check.Options{}); len(faults) != 2 {
		t.Errorf("%d faults %+v, want the cold file and its content", len(faults), faults)
	}
	if _, _, err := get(t, d, answer.Scope{}, paths[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the damaged cabinet: %v, want fs.ErrNotExist", err)
	}
	addPacked(t, d, "app", "app.sy_", bodies[0])
	answers(t, d, map[string][]byte{paths[0]: bodies[0], paths[1]: bodies[1], paths[2]: bodies[2]})
}
