package blob_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
)

// BenchmarkBatch adds 2,000 files and commits them, with two at work. "known"
// adds them to a store that has them.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		for _, known := range []bool{false, true} {
			name := fmt.Sprintf("%dKiB", size>>10)
			if known {
				name += "/known"
			}
			b.Run(name, func(b *testing.B) {
				const files = 2000
				b.SetBytes(int64(size) * files)
				dir := b.TempDir()
				if known {
					addFiles(b, openDisk(b, dir), size, files, 0)
				}
				b.ResetTimer()
				for i := 0; b.Loop(); i++ {
					if known {
						i = 0
					}
					addFiles(b, openDisk(b, dir), size, files, i)
				}
			})
		}
	}
}

// addFiles adds files of which all differ from those of other rounds.
func addFiles(b *testing.B, d *blob.Disk, size, files, round int) {
	b.Helper()
	batch, err := d.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	const workers = 2
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			content := blobtest.Content(1, size)
			for i := w; i < files; i += workers {
				binary.LittleEndian.PutUint64(content, uint64(round*files+i))
				if _, _, err := batch.Put(b.Context(), int64(size), bytes.NewReader(content)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := batch.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
}
