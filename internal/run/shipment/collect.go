// Package shipment says of the files that ship whether their symbols are stored.
package shipment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/signature"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// File is a file that ships: a program or library, or one of several in a fat file.
type File struct {
	// Path is where the file lies, with "!/" behind each archive.
	Path string
	Kind string
	Arch string
	// ID is the id that people know the file by; empty: it has none.
	ID string
	// Ask is the file as a depot is asked for it.
	Ask wire.CoverageFile
	// Managed says that it is a .NET assembly without machine code, which needs no unwind data.
	Managed bool
	// NoUnwind says that the file has no unwind data itself.
	NoUnwind bool
	// Sums are the hashes of the whole file in hex, by their algorithm; those that were wanted.
	Sums map[string]string
	// Signers are who has signed the file, if that was wanted.
	Signers []signature.Signer

	seq int
}

// Collected is what a search for files that ship has found.
type Collected struct {
	Files []File
	// Symbols are the paths of files with debug information alone, by the ids in them. They do not ship.
	Symbols map[string]string
	// Unneeded counts images that have no code, which need no symbols.
	Unneeded int
	// Unread are archives and packages that could not be read, at least not whole. What is in them ships, too.
	Unread []Unread
	// Left says which other files could not be read, with the reason.
	Left []string
	// Unreadable is the error of the last file on disk that could not be read.
	Unreadable error
}

// Unread is a file that may have others in it, and the reason why these are not known.
type Unread struct{ Path, Reason string }

// CollectOptions say what is noted beside the ids of files.
type CollectOptions struct {
	// Sums are the algorithms of the hashes of files; see Sums.
	Sums []string
	// Signers notes who has signed the files.
	Signers bool
	// Progress is called with the number of bytes of the files on disk that were passed.
	Progress func(bytes int64)
}

// collector collects files. Several goroutines identify them.
type collector struct {
	opt CollectOptions
	mu  sync.Mutex // guards all
	all *Collected
}

// Collect searches files, folders and archives for files that ship. Files keep the order of the walk.
func Collect(ctx context.Context, paths []string, opt CollectOptions) (*Collected, error) {
	c := &collector{opt: opt, all: &Collected{Symbols: map[string]string{}}}
	type found struct {
		*scan.File
		seq int
	}
	files := make(chan found)
	g, gctx := errgroup.WithContext(ctx)
	for range max(2, runtime.GOMAXPROCS(0)) {
		g.Go(func() error {
			for f := range files {
				if err := c.file(gctx, f.File, f.seq); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(files)
		seq := 0
		walk := scan.Options{Want: objfile.Detect, Beside: true}
		if opt.Progress != nil {
			walk.Progress = func(_ string, bytes int64) { opt.Progress(bytes) }
		}
		for f, err := range scan.Walk(gctx, paths, walk) {
			var skip *scan.Skip
			switch {
			case errors.As(err, &skip):
				c.skipped(skip, slices.Contains(paths, skip.Path))
				continue
			case err != nil:
				return err
			}
			seq++
			select {
			case files <- found{f, seq}:
			case <-gctx.Done():
				f.Discard()
				return gctx.Err()
			}
		}
		return nil
	})
	if err := errors.Join(g.Wait(), ctx.Err()); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	sorting.Stable(c.all.Files, func(a, b File) int { return a.seq - b.seq })
	slices.Sort(c.all.Left)
	return c.all, nil
}

// skipped notes a file that the walk has left out.
func (c *collector) skipped(s *scan.Skip, named bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.Reason.Unreadable() || s.Reason == scan.ReasonVanished && named {
		c.all.Unreadable = s
	}
	switch s.Reason {
	case scan.ReasonUnsupported, scan.ReasonEncrypted, scan.ReasonDepth, scan.ReasonLimit, scan.ReasonDamaged:
		if !slices.ContainsFunc(c.all.Unread, func(u Unread) bool { return u.Path == s.Path }) {
			c.all.Unread = append(c.all.Unread, Unread{s.Path, importexport.SkipText(s)})
		}
		return
	}
	if s.Reason.Notable() || named {
		c.all.Left = append(c.all.Left, s.Path+": "+importexport.SkipText(s))
	}
}

// file identifies a file.
func (c *collector) file(ctx context.Context, f *scan.File, seq int) error {
	defer f.Discard()
	content, err := f.Open(ctx)
	if err != nil {
		return c.failed(ctx, f, err)
	}
	defer content.Close()
	objects, err := objfile.Identify(content, content.Size(), f.Name, objfile.Options{})
	if errors.Is(err, objfile.ErrNotSymbolFile) {
		return nil
	}
	var sums map[string]string
	if err == nil && slices.ContainsFunc(objects, func(o objfile.Object) bool { return ships(&o) }) {
		sums, err = Sums(ctx, content, content.Size(), c.opt.Sums)
	}
	if err != nil {
		return c.failed(ctx, f, err)
	}
	signers := make([][]signature.Signer, len(objects))
	for i := range objects {
		if o := &objects[i]; c.opt.Signers && o.Deflated == 0 && ships(o) {
			// A signature that cannot be read is none: the file needs its symbols.
			signers[i], _ = signature.Of(io.NewSectionReader(content, o.Offset, o.Size), o.Size)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range objects {
		c.object(f, &objects[i], sums, signers[i], seq)
	}
	return nil
}

// failed notes a file that cannot be read. The error is that of ctx.
func (c *collector) failed(ctx context.Context, f *scan.File, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Left = append(c.all.Left, fmt.Sprintf("%s: %v", f.Path, err))
	if importexport.FromDisk(err) {
		c.all.Unreadable = fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

// object notes an object of a file. mu is locked.
func (c *collector) object(f *scan.File, o *objfile.Object, sums map[string]string, signers []signature.Signer, seq int) {
	switch {
	case !ships(o):
		if o.Role&symfile.Debug != 0 {
			for _, id := range debugIDs(o.Object) {
				if c.all.Symbols[id] == "" {
					c.all.Symbols[id] = f.Path
				}
			}
		}
		return
	case o.ResourceOnly:
		c.all.Unneeded++
		return
	}
	file := File{
		Path: f.Path, Kind: o.Kind.String(), Arch: o.Arch, NoUnwind: !o.Features.Unwind, Sums: sums, Signers: signers, seq: seq,
		Ask: wire.CoverageFile{
			Kind: o.Kind.String(), Name: o.Name, CodeID: o.CodeID, BuildID: string(o.BuildID),
			Debug: o.Features.Debug && len(o.PDBs) == 0,
		},
	}
	if !o.DebugID.IsZero() {
		file.Ask.DebugID = o.DebugID.Breakpad()
	}
	file.Managed = len(o.PDBs) > 0 && !o.Features.Unwind
	for _, p := range o.PDBs {
		portable := p.Kind == symfile.PortablePDB
		file.Managed = file.Managed && portable
		file.Ask.PDBs = append(file.Ask.PDBs, wire.CoveragePDB{Name: symfile.BaseName(p.Name), ID: p.DebugID.Breakpad(), Portable: portable})
	}
	if file.ID = file.Ask.BuildID; file.ID == "" {
		file.ID = file.Ask.DebugID
	}
	if o.Kind == symfile.PE {
		file.ID = file.Ask.CodeID
	}
	c.all.Files = append(c.all.Files, file)
}

// ships reports whether an object is what people run: a program, a library or a kernel module, and not
// debug information beside it, or the output of a compiler.
func ships(o *objfile.Object) bool {
	switch o.Kind {
	case symfile.PE, symfile.MachO, symfile.WASM:
		return o.Role&symfile.Executable != 0 && !o.IsRelocatable()
	case symfile.ELF:
		return o.Role&symfile.Executable != 0 && !o.IsRelocatable() || o.IsRelocatable() && o.BuildID != ""
	}
	return false
}

// debugIDs are the ids by which debug information is known to belong to a file.
func debugIDs(o symfile.Object) (list []string) {
	if o.BuildID != "" {
		list = append(list, string(o.BuildID))
	}
	if !o.DebugID.IsZero() {
		list = append(list, strings.ToLower(o.DebugID.Breakpad()))
	}
	return list
}

// localSymbols returns where the debug information of a file lies in what was collected; empty: nowhere.
func (c *Collected) localSymbols(f *File) string {
	ids := []string{f.Ask.BuildID, strings.ToLower(f.Ask.DebugID)}
	for _, p := range f.Ask.PDBs {
		ids = append(ids, strings.ToLower(p.ID))
	}
	for _, id := range ids {
		if path := c.Symbols[id]; id != "" && path != "" {
			return path
		}
	}
	return ""
}
