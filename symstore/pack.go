package symstore

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/symdepot/symdepot/cab"
)

// shareFrom is the size in bytes from which several goroutines compress one
// file. Smaller files keep the processors busy by their number.
const shareFrom = 32 << 20

// pack writes a cabinet of the form that symstore.exe writes: one folder with
// one file under its plain name. It reads the cabinet back and compares the
// content.
func (g *stager) pack(ctx context.Context, w *worker, it *item, in source, k *stagedKey) error {
	f, err := g.create(w, k)
	if err != nil {
		return err
	}
	method, workers := cab.MSZIP, 1
	if g.compress == LZX {
		method = cab.LZX
	}
	if in.info.Size() >= shareFrom {
		workers = runtime.GOMAXPROCS(0)
	}
	content := cab.Source{
		Name: k.Key.Name, Modified: in.info.ModTime().Local(), Attributes: cab.AttrArchive, Size: in.info.Size(),
		Open: func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(in, 0, in.info.Size()+1)), nil
		},
	}
	_, sums, err := cab.CreateChecked(ctx, storeFile{f}, []cab.Source{content}, cab.WriteOptions{Method: method, Workers: workers})
	if err == nil {
		it.sum, it.summed = sums[0], true
		return g.finishFile(w, f, in, k)
	}
	f.Close()
	if errors.Is(err, cab.ErrTooLarge) {
		_ = g.ws.root.Remove(k.staged) // the file may be stored uncompressed instead
	}
	return err
}

// storeFile marks errors of writing as the store's.
type storeFile struct{ *os.File }

func (w storeFile) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	return n, asStoreError(err)
}

// unpack writes the content of the only file in a cabinet to w.
func unpack(r io.ReaderAt, size int64, w io.Writer) error {
	f, err := cab.OpenSingle(r, size, cab.Options{})
	if err != nil {
		return err
	}
	_, err = f.Extract(w)
	return err
}
