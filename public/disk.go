package public

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/objfile"
)

// ErrSame is wrapped by the error of WriteFile if the public form would replace the private file.
var ErrSame = errors.New("the public form would replace the private file")

// ErrOtherFile is wrapped by the error of CheckFiles if the ids of the two files differ: a debugger
// that has the private file's program refuses such a form.
var ErrOtherFile = errors.New("the public form belongs to another file")

// WriteFile is Write for files on disk. The output appears under its name when it is whole, and
// replaces an existing file. With check it must pass PrivateTexts; if it does not, it does not
// appear, and the texts are returned. An empty name of the output means that none is written, but
// only checked. Options.Module is by default the name of the file without its extension. The errors
// name the file.
func WriteFile(out, path string, o Options, check bool) (Report, []PrivateText, error) {
	if out != "" && durable.IsSame(path, out) {
		return Report{}, nil, fmt.Errorf("%s: %w", path, ErrSame)
	}
	in, size, err := openFile(path)
	if err != nil {
		return Report{}, nil, err
	}
	defer in.Close()
	o = o.of(path)
	var report Report
	write := func(w io.Writer) error {
		if report, err = Write(w, in, size, o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	if !check {
		err := durable.WriteTo(out, 0o666, write)
		return report, nil, err
	}
	temporary, err := os.CreateTemp(filepath.Dir(out), ".symdepot-public-*")
	if err != nil {
		return Report{}, nil, err
	}
	defer func() { _ = errors.Join(temporary.Close(), os.Remove(temporary.Name())) }()
	if err := write(temporary); err != nil {
		return Report{}, nil, err
	}
	texts, err := PrivateTexts(in, size, temporary, report.Size, o)
	if err != nil {
		return Report{}, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(texts) > 0 || out == "" {
		return report, texts, nil
	}
	return report, nil, durable.WriteTo(out, 0o666, func(w io.Writer) error { return copyRange(w, temporary, 0, report.Size) })
}

// CheckFiles is PrivateTexts for files on disk, of equal ids. Options.Module is by default the name of the private
// file without its extension.
func CheckFiles(private, public string, o Options) ([]PrivateText, error) {
	in, size, err := openFile(private)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	form, formSize, err := openFile(public)
	if err != nil {
		return nil, err
	}
	defer form.Close()
	if have, want := ids(form, formSize), ids(in, size); have != "" && want != "" && have != want {
		return nil, fmt.Errorf("%s has id %s, %s has %s: %w", public, have, private, want, ErrOtherFile)
	}
	texts, err := PrivateTexts(in, size, form, formSize, o.of(private))
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", private, public, err)
	}
	return texts, nil
}

// ids returns the ids of the objects of a file, as text; "" if it has none.
func ids(r io.ReaderAt, size int64) string {
	objects, err := objfile.Identify(r, size, "", objfile.Options{IDs: true})
	if err != nil {
		return "" // PrivateTexts says what is wrong with the file
	}
	var list []string
	for _, o := range objects {
		id := string(o.BuildID)
		if id == "" && !o.DebugID.IsZero() {
			id = o.DebugID.String()
		}
		if id != "" {
			list = append(list, id)
		}
	}
	return strings.Join(list, " ")
}

// of returns the options for a file of a name.
func (o Options) of(path string) Options {
	if o.Module == "" {
		name := filepath.Base(path)
		o.Module = strings.TrimSuffix(name, filepath.Ext(name))
	}
	return o
}

// openFile opens a regular file.
func openFile(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
