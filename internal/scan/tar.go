package scan

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"
)

// tar goes through a tar archive. Members of one that stands uncompressed in
// place are read there.
func (w *walk) tar(in *input, r io.Reader) error {
	t := tar.NewReader(r)
	for !w.ended() {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are only data
			return fmt.Errorf("tar: %w", err)
		}
		if err := in.meter.entry(); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse {
			continue // folders, links, devices; a hard link's file comes by itself
		}
		w.progress(in)
		m := in.child(h.Name, h.Size, h.ModTime)
		m.once = t
		if sparse(h) {
			m.once = &meterReader{w.ctx, t, in.meter} // holes cost the archive nothing
		} else if at, ok := r.(io.Seeker); ok && in.at != nil {
			off, err := at.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			if h.Size <= in.size-off { // else let the inner reader find the cut
				m.once, m.at = nil, io.NewSectionReader(in.at, off, h.Size)
			}
		}
		_ = w.visit(m) // a broken stream shows at the next header
	}
	return nil
}

// sparse says that a member's size is not what it takes in the archive.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return true
		}
	}
	return false
}
