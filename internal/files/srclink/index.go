package srclink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
)

// ErrNotPDB is wrapped by the error of OpenIndex for other files.
var ErrNotPDB = errors.New("not a PDB")

// Index is the source index of an open PDB: its links and the names that they are for.
type Index struct {
	Path string
	ID   string // as debuggers spell it; empty for portable PDBs
	// Names are the source files that the PDB names, in its own spellings.
	Names []string
	// Script is the source server stream, and Text its text; nil without one.
	Script *Script
	Text   []byte
	// Map is Source Link; without any it has no rules.
	Map *Map
	// Faults say what could not be read.
	Faults []string

	file *os.File
	size int64
	pdb  *pdb.File // nil for portable PDBs
	list []sources.Name
}

// OpenIndex reads the links and the names of a PDB or a portable PDB. The error is that of
// the disk or of ctx, or wraps ErrNotPDB.
func OpenIndex(ctx context.Context, path string) (*Index, error) {
	f, err := durable.OpenShared(path)
	if err != nil {
		return nil, err
	}
	x := &Index{Path: path, file: f}
	if err := x.read(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return x, nil
}

// Close closes the file.
func (x *Index) Close() error { return x.file.Close() }

func (x *Index) read(ctx context.Context) error {
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	if x.size = info.Size(); !info.Mode().IsRegular() {
		return ErrNotPDB
	}
	o := symfile.Object{Kind: symfile.PortablePDB, Role: symfile.Debug, Name: filepath.Base(x.Path)}
	p, err := pdb.Open(x.file, x.size)
	switch {
	case err == nil:
		x.pdb, x.ID, o.Kind = p, p.ID().Breakpad(), symfile.PDB
		err = x.spellings(ctx)
	case !errors.Is(err, pdb.ErrFormat):
		return err
	case !x.isPortable():
		return ErrNotPDB
	default:
		err = nil
	}
	if err != nil {
		return err
	}
	l, err := sources.List(ctx, x.file, x.size, o, sources.Options{})
	x.Map = &Map{}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if x.list = l.Names; x.pdb == nil {
		for _, n := range l.Names {
			x.Names = append(x.Names, n.Name)
		}
	}
	if l.Incomplete != "" {
		x.fault("%s", l.Incomplete)
	}
	if l.Links != nil {
		if x.Map, err = ParseMap(l.Links); err != nil {
			x.fault("%v", err)
		}
	}
	if l.Srcsrv != nil {
		x.Text = l.Srcsrv
		if x.Script, err = ReadScript(bytes.NewReader(x.Text), int64(len(x.Text))); err != nil {
			x.fault("%v", err)
		}
	}
	return nil
}

// isPortable reports whether the file begins as portable PDBs do.
func (x *Index) isPortable() bool {
	var magic [4]byte
	_, err := x.file.ReadAt(magic[:], 0)
	return err == nil && string(magic[:]) == "BSJB"
}

// spellings collects all spellings of names. Debuggers compare a name with the source
// server stream as it stands in the PDB.
func (x *Index) spellings(ctx context.Context) error {
	seen := map[string]bool{}
	_, err := x.pdb.SourceFiles(ctx, func(s pdb.SourceFile) error {
		if !seen[s.Name] && len(seen) < sources.MaxNames {
			seen[s.Name] = true
			x.Names = append(x.Names, s.Name)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*fs.PathError)) {
		x.fault("%v", err)
		return nil
	}
	return err
}

func (x *Index) fault(format string, args ...any) {
	x.Faults = append(x.Faults, fmt.Sprintf(format, args...))
}

// Link is where a debugger gets a source file.
type Link struct {
	Name string `json:"name"`
	// Via is srcsrv or sourcelink, empty if the PDB has no link for the file.
	Via string `json:"via,omitempty"`
	Resolution
}

// Links resolves the links of all names. A source server stream may have lines for files
// that the PDB does not name, which come last.
func (x *Index) Links() ([]Link, error) {
	// By the name, and by the name without letter case.
	lines, folded := map[string]Entry{}, map[string]Entry{}
	var order []string
	if x.Script != nil {
		for e, err := range x.Script.Entries() {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.Path, err)
			}
			if _, ok := lines[e.Name]; ok {
				continue
			}
			lines[e.Name] = e
			order = append(order, e.Name)
			if key := symfile.Fold(e.Name); folded[key].Name == "" {
				folded[key] = e
			}
		}
	}
	var all []Link
	used := map[string]bool{}
	for _, name := range x.Names {
		l := Link{Name: name}
		e, ok := lines[name]
		if !ok {
			e, ok = folded[symfile.Fold(name)]
		}
		if ok {
			l.Via, l.Resolution = "srcsrv", x.Script.Resolve(e)
			used[e.Name] = true
		} else if u, ok := x.Map.URL(name); ok {
			l.Via, l.Resolution = "sourcelink", Resolution{Class: HTTP, Target: u}
		}
		all = append(all, l)
	}
	for _, name := range order {
		if !used[name] {
			all = append(all, Link{Name: name, Via: "srcsrv", Resolution: x.Script.Resolve(lines[name])})
		}
	}
	return all, nil
}

// writable returns an error for a PDB that cannot be changed.
func (x *Index) writable() error {
	switch {
	case x.pdb == nil:
		return fmt.Errorf("%s: a portable PDB has no source server stream; its compiler writes Source Link: %w", x.Path, errors.ErrUnsupported)
	case x.pdb.Format != pdb.MSF:
		return fmt.Errorf("%s: a PDB of the format %s cannot be written: %w", x.Path, x.pdb.Format, errors.ErrUnsupported)
	}
	return nil
}

// Rebase returns the streams in which URLs that begin with old begin with to instead, by
// name, and the number of URLs that change.
func (x *Index) Rebase(old, to string) (map[string][]byte, int, error) {
	if err := x.writable(); err != nil {
		return nil, 0, err
	}
	changed, sum := map[string][]byte{}, 0
	if x.Script != nil {
		var b bytes.Buffer
		n, err := x.Script.Rebase(&b, old, to)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", x.Path, err)
		}
		if n > 0 {
			changed[StreamName] = b.Bytes()
		}
		sum += n
	}
	names, err := x.pdb.Names()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", x.Path, err)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if low := strings.ToLower(name); low != "sourcelink" && !strings.HasPrefix(low, "sourcelink$") {
			continue
		}
		s, err := x.pdb.Stream(names[name])
		if err != nil || s.Size() > MaxMap {
			continue
		}
		text, err := io.ReadAll(s)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", x.Path, err)
		}
		moved, n, err := RebaseMap(text, old, to)
		if err == nil && n > 0 {
			changed[name] = moved
			sum += n
		}
	}
	return changed, sum, nil
}

// Save writes a copy of the PDB with the streams to a file, which may be the PDB itself. It
// writes a temporary file, reads it back and renames it; after an error, no file has
// changed. The PDB is closed.
func (x *Index) Save(out string, streams map[string][]byte) (err error) {
	if err := x.writable(); err != nil {
		return err
	}
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	if out, err = destination(out); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(out), ".symdepot-srcsrv-*")
	if err != nil {
		return writing(out, err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			err = errors.Join(writing(out, err), os.Remove(tmp.Name()))
		}
	}()
	if err := x.pdb.CopyWith(tmp, streams); err != nil {
		return fmt.Errorf("%s: %w", x.Path, err)
	}
	if err := check(tmp, x.pdb, streams); err != nil {
		return fmt.Errorf("%s: reading the copy back: %w", out, err)
	}
	if err := errors.Join(tmp.Chmod(info.Mode().Perm()), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	// Some systems do not replace a file that is open.
	if err := x.file.Close(); err != nil {
		return err
	}
	if err := durable.RetryRename(func() error { return os.Rename(tmp.Name(), out) }); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(out))
}

// writing returns an error about a temporary file as one about the file that it becomes.
func writing(out string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: "write", Path: out, Err: e.Err}
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return &fs.PathError{Op: "write", Path: out, Err: e.Err}
	}
	return err
}

// destination follows a link, so that the file behind it is replaced.
func destination(out string) (string, error) {
	real, err := filepath.EvalSymlinks(out)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	return real, err
}

// check compares a copy with what it should be.
func check(f *os.File, from *pdb.File, streams map[string][]byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	p, err := pdb.Open(f, info.Size())
	if err != nil {
		return err
	}
	if p.ID() != from.ID() || p.InfoAge != from.InfoAge || p.Streams() < from.Streams() {
		return fmt.Errorf("id %s and %d streams, want %s and %d", p.ID(), p.Streams(), from.ID(), from.Streams())
	}
	for name, want := range streams {
		got := []byte{}
		if len(want) > 0 {
			s, err := p.NamedStream(name)
			if err != nil {
				return err
			}
			if got, err = io.ReadAll(s); err != nil {
				return err
			}
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("the stream %s has %d bytes, want %d", name, len(got), len(want))
		}
	}
	return nil
}
