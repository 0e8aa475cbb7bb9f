package display

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/objfile"
)

// FileError is an error about one file, after which others can be examined.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the file.
func (e *FileError) Unwrap() error { return e.Err }

// Files are files to examine, one after the other.
type Files struct {
	Paths []string // files, folders and archives that the command line names
	Scan  scan.Options
	// Examine examines a file. After a FileError the walk goes on.
	Examine func(context.Context, *scan.File) error
	// Left is called for each file that is no symbol file or cannot be read. plain is set
	// for a file in a folder or an archive that is no symbol file, as most are.
	Left func(path, reason string, plain bool) error
}

// Each examines the files. unreadable is the last file that this machine could not read; the
// others were examined.
func (w *Files) Each(ctx context.Context) (unreadable, err error) {
	for f, err := range scan.Walk(ctx, w.Paths, w.Scan) {
		if err == nil {
			err = w.Examine(ctx, f)
		}
		if ctx.Err() != nil && err != nil {
			return nil, ctx.Err()
		}
		var fault *FileError
		var skip *scan.Skip
		switch {
		case err == nil:
			continue
		case errors.As(err, &fault):
			if importexport.FromDisk(err) {
				unreadable = fmt.Errorf("%s: %w", f.Path, err)
			}
			err = w.left(f.Path, err.Error(), errors.Is(err, objfile.ErrNotSymbolFile))
		case errors.As(err, &skip):
			if skip.Reason.Unreadable() || skip.Reason == scan.ReasonVanished && slices.Contains(w.Paths, skip.Path) {
				unreadable = skip
			}
			err = w.left(skip.Path, importexport.SkipText(skip), skip.Reason == scan.ReasonUnwanted)
		}
		if err != nil {
			return nil, err
		}
	}
	return unreadable, nil
}

func (w *Files) left(path, reason string, noSymbolFile bool) error {
	return w.Left(path, reason, noSymbolFile && !slices.Contains(w.Paths, path))
}

// NamedSource is a source file that the debug information of a local file names, in JSON.
type NamedSource struct {
	Path     string `json:"path"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Name     string `json:"name"`
	Checksum string `json:"checksum,omitempty"` // its algorithm
	Sum      string `json:"sum,omitempty"`
	Embedded bool   `json:"embedded"`
}

// errNoSources means that a symbol file names no source files.
var errNoSources = fmt.Errorf("%w: it names no source files", objfile.ErrNotSymbolFile)

// IdentifySources calls each with every source file that a file names, and discards the file.
// warn is told of names that are missing. Errors of the file are of the type FileError.
func IdentifySources(
	ctx context.Context, f *scan.File, opt objfile.Options, warn func(text string), each func(NamedSource) error,
) error {
	defer f.Discard()
	content, err := f.Open(ctx)
	if err != nil {
		return &FileError{err}
	}
	defer content.Close()
	objects, err := objfile.Identify(content, content.Size(), f.Name, opt)
	if err != nil {
		return &FileError{err}
	}
	named := 0
	for _, o := range objects {
		if o.Deflated != 0 {
			continue
		}
		list, err := sources.List(ctx, io.NewSectionReader(content, o.Offset, o.Size), o.Size, o.Object, sources.Options{})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return &FileError{err}
		}
		if list.Incomplete != "" {
			warn(f.Path + ": some names are missing: " + list.Incomplete)
		}
		kind := o.Kind.String()
		id := ID(kind, o.CodeID, o.DebugID.Breakpad(), string(o.BuildID))
		for _, n := range list.Names {
			named++
			if err := each(NamedSource{f.Path, kind, id, n.Name, n.Alg, hex.EncodeToString(n.Sum), n.Embedded != nil}); err != nil {
				return err
			}
		}
	}
	if named == 0 {
		return &FileError{errNoSources}
	}
	return nil
}
