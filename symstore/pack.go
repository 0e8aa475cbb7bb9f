package symstore

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"

	"github.com/symdepot/symdepot/cab"
)

// shareFrom is the size in bytes from which one file is compressed by several
// goroutines: below it the other files keep the processors busy.
const shareFrom = 32 << 20

// pack writes a cabinet in the shape of the genuine tool's: one folder, one file,
// the plain name. The cabinet is read back and compared.
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
		_ = g.ws.root.Remove(k.staged) // it may be stored plainly
	}
	return err
}

// storeFile marks errors of writing as the store's.
type storeFile struct{ *os.File }

func (w storeFile) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	return n, ofStore(err)
}

// unpack writes the content of the only file of a cabinet.
func unpack(r io.ReaderAt, size int64, w io.Writer) error {
	f, err := cab.OpenSingle(r, size, cab.Options{})
	if err != nil {
		return err
	}
	_, err = f.Extract(w)
	return err
}
