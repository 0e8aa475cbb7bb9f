package cab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNotFile is wrapped by the error of CreateFile for an input that is not a regular file.
var ErrNotFile = errors.New("is not a file")

// CreateFile writes a cabinet of files on disk, under their base names, and reads it back to
// compare: see CreateChecked. It appears under its name when it is whole, and replaces an
// existing file. It returns the size of the cabinet in bytes.
func CreateFile(ctx context.Context, name string, files []string, opt WriteOptions) (size int64, err error) {
	sources := make([]Source, 0, len(files))
	for _, path := range files {
		src, err := sourceOf(path)
		if err != nil {
			return 0, err
		}
		sources = append(sources, src)
	}
	out, err := os.CreateTemp(filepath.Dir(name), ".symdepot-cab-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close(), os.Remove(out.Name()))
		}
	}()
	size, _, err = CreateChecked(ctx, out, sources, opt)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if err := errors.Join(out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(out.Name(), name)
}

// sourceOf describes a file to put into a cabinet.
func sourceOf(path string) (Source, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return Source{}, err
	}
	if !fi.Mode().IsRegular() {
		return Source{}, fmt.Errorf("%s %w", path, ErrNotFile)
	}
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	return Source{Name: filepath.Base(path), Size: fi.Size(), Modified: fi.ModTime(), Attributes: AttrArchive, Open: open}, nil
}

// OpenFile opens a cabinet on disk. The caller closes it when it does not use the reader any
// more.
func OpenFile(name string) (*Reader, io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		var r *Reader
		if r, err = Open(f, fi.Size(), Options{}); err == nil {
			return r, f, nil
		}
	}
	_ = f.Close()
	return nil, nil, fmt.Errorf("%s: %w", name, err)
}

// Extract writes files of the cabinet into a folder. members are the names of the files, in
// any letter case; all if there are none. Files appear complete or not at all, and never
// outside of the folder; done is called with the path of each in it, with slashes. missing are
// the members that the cabinet does not have, in small letters and in order.
func (r *Reader) Extract(ctx context.Context, dir *os.Root, members []string, done func(path string)) (missing []string, err error) {
	wanted := map[string]bool{}
	for _, m := range members {
		wanted[strings.ToLower(filepath.ToSlash(m))] = true
	}
	err = r.Walk(func(f *File, content io.Reader) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		path, ok := f.Path()
		if len(members) > 0 {
			key := strings.ToLower(strings.ReplaceAll(f.Name, `\`, "/"))
			if !wanted[key] {
				return nil
			}
			delete(wanted, key)
		}
		if !ok {
			return fmt.Errorf("%q would leave the output folder; extraction stopped", f.Name)
		}
		if err := extractOne(dir, path, f, content); err != nil {
			return err
		}
		done(path)
		return nil
	})
	return slices.Sorted(maps.Keys(wanted)), err
}

// extractOne writes a file under a temporary name and renames it when it is whole.
func extractOne(root *os.Root, path string, f *File, content io.Reader) error {
	if err := root.MkdirAll(filepath.FromSlash(parent(path)), 0o755); err != nil {
		return err
	}
	name := filepath.FromSlash(path)
	temp := name + ".symdepot-part"
	w, err := root.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	err = errors.Join(err, w.Close())
	if err == nil && !f.Modified.IsZero() {
		err = root.Chtimes(temp, f.Modified, f.Modified)
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// parent is the folder part of a slash path, "." if there is none.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "."
}
