package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/symdepot/symdepot/cab"
)

func crc(b []byte) uint32 { return crc32.ChecksumIEEE(b) }

// cabOf is makeCab for fuzz targets.
func cabOf(tb testing.TB, body []byte) []byte {
	tb.Helper()
	out, err := os.Create(filepath.Join(tb.TempDir(), "c"))
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	if _, err := cab.Create(out, []cab.Source{{Name: "foo.pdb", Size: int64(len(body)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}}}, cab.WriteOptions{Method: cab.LZX}); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// FuzzDecode: whatever a server sends, the output stays within the limit, and a
// damaged file never ends like a complete one of a different size.
func FuzzDecode(f *testing.F) {
	small := content[:2000]
	for _, b := range [][]byte{small, gz(small), zs(small), zl(small), zp(small), zipStored(small), zp(small, small), []byte("SZDD\x88\xf0\x27\x33"), []byte("PK\x03\x04"), []byte("MSCF\x00\x00\x00\x00\x2c")} {
		f.Add(b, byte(0))
	}
	for i, b := range [][]byte{gz(small), zs(small), zl(small), fl(small)} {
		f.Add(b, byte(i+1))
	}
	f.Add(cabOf(f, small), byte(0))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, encoding byte) {
		const limit = 1 << 18
		names := []string{"", "gzip", "zstd", "deflate", "deflate", "br"}
		outer, err := decodeContent(bytes.NewReader(b), []string{names[int(encoding)%len(names)]})
		if err != nil {
			outer.close()
			return
		}
		defer outer.close()
		length := int64(len(b))
		if outer.packed {
			length = -1
		}
		inner, err := decodeContainer(bufio.NewReader(outer), length, limit, dir)
		defer inner.close()
		if err != nil {
			return
		}
		n, err := io.Copy(io.Discard, io.LimitReader(inner, limit))
		if err == nil && n < limit && inner.packed && inner.size >= 0 && n != inner.size {
			t.Errorf("%d bytes of %d, want all", n, inner.size)
		}
		if runtime.GOOS == "windows" { // an open file keeps its name there
			inner.close()
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Error("temporary files have names")
		}
		if errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
