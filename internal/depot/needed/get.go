package needed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
)

// Named adds what arguments of a command line name: a name and an id; or programs, libraries,
// dumps and paths of requests. It returns the first of the files on disk, or "". An argument
// that is none of these is a term.UsageError.
func (l *List) Named(ctx context.Context, what []string) (file string, err error) {
	if len(what) == 2 && !isFile(what[1]) {
		w, err := Of(what[0], what[1], "")
		if err != nil {
			return "", term.UsageError(err.Error())
		}
		l.Add(w)
		return "", nil
	}
	for _, arg := range what {
		if isFile(arg) {
			if err := l.Local(ctx, arg); err != nil {
				return "", err
			}
			if file == "" {
				file = arg
			}
			continue
		}
		w, err := OfPath(filepath.ToSlash(arg))
		if err != nil {
			return "", term.UsageError(fmt.Sprintf(
				"%s is neither a file here nor the path of a debugger's request; give a name and an id, such as: "+
					"symdepot get ntdll.pdb 3BD8C3C3B1544CE9AB8D71A9F3E9A4D31", term.Printable(arg)))
		}
		l.Add(w)
	}
	return file, nil
}

// isFile reports whether a path is that of a regular file.
func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}

// Target is where wanted files are written to.
type Target struct {
	wants  []Want
	layout layout.Layout
	output string
	force  bool
	single bool // output is the name of the only file, and not a folder
	place  func(Want) (string, error)

	written  []Want
	programs map[string]string // where programs were written, by their request
}

// NewTarget returns where wants are written to: in a folder of a layout, which is made if need
// be, or as a file, if there is only one and output is no folder. An empty output is the
// current folder. Existing files that differ are replaced if force is set.
func NewTarget(wants []Want, output string, lay layout.Layout, force bool) (*Target, error) {
	t := &Target{wants: wants, layout: lay, output: output, force: force, programs: map[string]string{}}
	if t.single = isSingle(wants, output, lay); t.single {
		t.place = func(Want) (string, error) { return output, nil }
		return t, nil
	}
	if output != "" {
		if err := os.MkdirAll(output, 0o777); err != nil {
			return nil, err
		}
	}
	places := Places(wants, lay)
	t.place = func(w Want) (string, error) {
		name, err := places(w)
		return filepath.Join(output, name), err
	}
	return t, nil
}

// isSingle reports whether output is the name of the only file.
func isSingle(wants []Want, output string, lay layout.Layout) bool {
	if len(wants) != 1 || lay != layout.Flat || output == "" || os.IsPathSeparator(output[len(output)-1]) {
		return false
	}
	fi, err := os.Stat(output)
	return err != nil || !fi.IsDir()
}

// write writes a file, unless the same content is there.
func (t *Target) write(ctx context.Context, d *depot.Depot, w Want) (path string, err error) {
	if path, err = t.place(w); err == nil {
		err = Save(ctx, d, w, path, t.force)
	}
	if errors.Is(err, ErrDiffers) {
		err = fmt.Errorf("%w; --force replaces it, --output names another place", err)
	}
	if err != nil {
		return "", err
	}
	t.written, t.programs[w.Path] = append(t.written, w), path
	return path, nil
}

// Hint says how a debugger uses what was written for file, a dump or a program; "" if there is
// nothing to say.
func (t *Target) Hint(file string) string {
	switch {
	case file == "":
		return ""
	case t.single && len(t.written) == 1:
		return DebuggerFile(t.written[0], t.output, file)
	}
	return Debugger(t.written, t.layout, filepath.Dir(filepath.Join(t.output, "x")), file, t.firstProgram())
}

// firstProgram is where the first program of a dump was written, or "".
func (t *Target) firstProgram() string {
	for _, w := range t.wants {
		if p := t.programs[w.Path]; p != "" && w.What() == partProgram {
			return p
		}
	}
	return ""
}

// Get fetches the wants of a target, as Fetch does, and writes them to disk. It calls done for
// each want, with the path of what was written, or "". forgotten says that the depot does not
// last, so that no outcome is remembered there.
func Get(
	ctx context.Context, d *depot.Depot, t *Target, jobs int, forgotten bool, progress func(int64), done func(o Outcome, path string),
) (*Report, error) {
	r := &Report{}
	err := Fetch(ctx, d, t.wants, jobs, progress, func(o Outcome) {
		path := ""
		if o.Result == InDepot || o.Result == Fetched {
			var err error
			if path, err = t.write(ctx, d, o.Want); err != nil {
				o.Result, o.Error = Failed, err.Error()
			}
		}
		if forgotten {
			o.Until = time.Time{}
		}
		r.Add(o)
		done(o, path)
	})
	return r, err
}
