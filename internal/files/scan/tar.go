package scan

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"strings"
)

// tar reads a tar archive. Members of an uncompressed archive with random
// access are read in place.
func (w *walk) tar(in *input, r io.Reader) error {
	at, seekable := r.(io.Seeker)
	below := &tarStream{r: r}
	if !seekable {
		r = below
	}
	t := tar.NewReader(r)
	for !w.ended() {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are not used as paths
			return fmt.Errorf("tar: %w", err)
		}
		if err := in.meter.entry(); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse {
			continue // folders, links and devices; the file of a hard link is a member of its own
		}
		w.progress(in)
		m := in.child(h.Name, h.Size, h.ModTime)
		m.once = t
		if sparse(h) {
			m.once = &meterReader{w.ctx, t, in.meter} // holes take no space in the archive
		} else if !seekable {
			m.once, m.place = &direct{below, h.Size}, in.place.member(below.pos, h.Size)
		} else if in.at != nil {
			off, err := at.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			m.place = in.place.member(off, h.Size)
			if h.Size <= in.size-off { // otherwise the inner reader finds the truncation
				m.once, m.at = nil, io.NewSectionReader(in.at, off, h.Size)
			}
		}
		_ = w.visit(m) // if the stream is damaged, the next header fails
	}
	return nil
}

// sparse reports whether a member takes less space in the archive than its
// size.
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
