package scan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/files/msi"
)

// installerName reports whether a file has the name of an installer package, merge module or patch.
func installerName(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".msi", ".msm", ".msp":
		return true
	}
	return false
}

// msi reads an installer package, which needs random access: its cabinets, whose files get the paths that they are
// installed to, and its programs. A compound file that is none is a leaf.
func (w *walk) msi(in *input, rest func() io.Reader) error {
	in, drop, err := w.seekable(in, rest)
	if err != nil {
		return err
	}
	defer drop()
	p, err := msi.Open(in.at, in.size)
	switch {
	case errors.Is(err, msi.ErrOther) && !installerName(in.name):
		head := make([]byte, min(HeadSize, in.size))
		if err := readAt(in.at, head, 0); err != nil {
			return err
		}
		return w.leaf(in, head, func() io.Reader { return io.NewSectionReader(in.at, 0, in.size) })
	case errors.Is(err, msi.ErrPatch):
		return fmt.Errorf("%w: %w", errUnsupported, err)
	case errors.Is(err, msi.ErrLimit):
		return fmt.Errorf("%w: %w", errLimit, err)
	case err != nil:
		return err
	}
	for i := range p.Cabinets {
		c := &p.Cabinets[i]
		path := func(name string) string { return cmp.Or(c.Paths[name], name) }
		if c.Stream == nil {
			err = w.beside(in, c.Name, path)
		} else {
			err = w.cabinet(in, c.Stream, c.Stream.Size, path)
		}
		if err != nil {
			w.damaged(in, fmt.Errorf("cabinet %s: %w", truncate.Name(c.Name), err))
		}
	}
	if n := len(p.Loose); n > 0 {
		w.skip(in.path, ReasonUnsupported, fmt.Errorf("files that it installs lie outside of it: %d, such as %s", n, truncate.Name(p.Loose[0])))
	}
	for i := range p.Programs {
		s := &p.Programs[i]
		if err := errors.Join(in.meter.entry(), in.meter.add(s.Size)); err != nil {
			return err
		}
		m := in.child(s.Name, s.Size, in.mod)
		m.at = s
		_ = w.visit(m) // not streamed, so visit has reported all errors
	}
	return nil
}

// beside reads a cabinet that lies beside the installer package it belongs to.
func (w *walk) beside(in *input, name string, path func(name string) string) error {
	file := filepath.Join(filepath.Dir(in.path), name)
	if !w.opt.Beside || !in.top || !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) {
		return fmt.Errorf("it lies outside of the package, which is %w", errUnsupported)
	}
	s, err := openDisk(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it lies outside of the package, and is missing there: %w", errUnsupported)
	}
	if err != nil {
		return err
	}
	defer s.drop()
	if w.parts == nil {
		w.parts = map[string]bool{}
	}
	w.parts[file] = true
	out := *in
	out.base, out.at, out.size, out.place = s, s.at, s.size, Place{}
	out.meter = &meter{limit: w.opt.unpackLimit(s.size), entries: in.meter.entries}
	return w.cabinet(&out, s.at, s.size, path)
}
