package scan

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/files/hfsplus"
	"github.com/symdepot/symdepot/internal/files/udif"
)

// imageName reports whether a file has the name of a disk image of macOS. Images have no magic at their beginning.
func imageName(name string) bool { return strings.EqualFold(filepath.Ext(name), ".dmg") }

// image reads a disk image, which needs random access: the files of its HFS+ volumes. It reports other volumes.
func (w *walk) image(in *input, rest func() io.Reader) error {
	in, drop, err := w.seekable(in, rest)
	if err != nil {
		return err
	}
	defer drop()
	disk, err := udif.Open(in.at, in.size, in.meter.add)
	if errors.Is(err, udif.ErrEncrypted) {
		w.skip(in.path, ReasonEncrypted, nil)
		return nil
	}
	if err != nil {
		return imageError(err)
	}
	list, err := udif.Partitions(disk, disk.Size())
	if err != nil {
		return imageError(err)
	}
	if len(list) == 0 {
		return fmt.Errorf("a disk image without a volume of HFS+ is %w", errUnsupported)
	}
	for i, p := range list {
		if p.Format != udif.HFSPlus {
			w.skip(in.path, ReasonUnsupported, fmt.Errorf("a disk image with a volume of %s", p.Format))
			continue
		}
		folder := ""
		if len(list) > 1 {
			folder = strconv.Itoa(i+1) + "/"
		}
		if err := w.volume(in, io.NewSectionReader(disk, p.Offset, p.Size), folder); err != nil {
			return imageError(err)
		}
	}
	return nil
}

// volume visits the files of an HFS+ volume, under a folder.
func (w *walk) volume(in *input, src *io.SectionReader, folder string) error {
	vol, err := hfsplus.Open(src, src.Size())
	if err != nil {
		return err
	}
	return vol.Each(func(f *hfsplus.File) error {
		if w.ended() {
			return io.EOF
		}
		if err := errors.Join(in.meter.entry(), in.meter.add(f.Size)); err != nil {
			return err
		}
		w.progress(in)
		m := in.child(folder+f.Path, f.Size, f.ModTime)
		at, err := f.Open()
		switch {
		case f.Compressed:
			w.skip(m.path, ReasonUnsupported, err)
		case err != nil:
			w.damaged(m, imageError(err))
		default:
			m.at = at
			_ = w.visit(m) // not streamed, so visit has reported all errors
		}
		return nil
	})
}

// imageError maps errors of packages udif and hfsplus to those of this package.
func imageError(err error) error {
	switch {
	case err == io.EOF: // the walk has ended
		return nil
	case errors.Is(err, udif.ErrMethod), errors.Is(err, udif.ErrSplit):
		return fmt.Errorf("%w: %w", errUnsupported, err)
	case errors.Is(err, udif.ErrLimit), errors.Is(err, hfsplus.ErrLimit):
		return fmt.Errorf("%w: %w", errLimit, err)
	}
	return err
}
