package scan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// ErrZip is wrapped by errors about a malformed zip archive.
var ErrZip = errZip

// ZipMember is a file in a zip archive that is read at random.
type ZipMember struct {
	Name string // as the archive has it: data, not a path
	// Size is the number of bytes of the file, and Packed that of its content in the
	// archive. Both are claims: reading checks them.
	Size, Packed int64
	Modified     time.Time // zero if unknown

	e     *zipEntry
	r     io.ReaderAt
	limit int64 // offset of the directory
}

// ZipMembers visits the files in the zip archive of size bytes at r, in the order of its
// directory, and keeps none of them. Folders and links are left out. The error is that of
// visit or of reading, or it says how the directory is damaged.
func ZipMembers(r io.ReaderAt, size int64, visit func(ZipMember) error) error {
	d, err := findZipDirectory(r, size)
	if err != nil {
		return err
	}
	z := newZipReader(r, d)
	for {
		e, err := z.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.skipped() {
			continue
		}
		if err := visit(ZipMember{Name: e.name, Size: e.size, Packed: e.packed, Modified: e.mod, e: e, r: r, limit: d.off}); err != nil {
			return err
		}
	}
}

// Open returns the content of the member, which must be stored or deflated. Reading checks
// the size and the checksum.
func (m ZipMember) Open() (io.ReadCloser, error) {
	if m.e.flags&1 != 0 {
		return nil, zipError("%s is encrypted", truncate.Quoted(m.Name))
	}
	off, err := m.e.local(m.r, m.limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", truncate.Quoted(m.Name), err)
	}
	raw := bufio.NewReaderSize(io.NewSectionReader(m.r, off, m.e.packed), int(min(max(m.e.packed, 512), 32<<10)))
	switch m.e.method {
	case 0:
		return io.NopCloser(&sumReader{r: raw, want: m.e.crc, left: m.e.size}), nil
	case 8:
		return m.e.inflate(raw)
	}
	return nil, zipError("%s has the unknown method %d", truncate.Quoted(m.Name), m.e.method)
}
