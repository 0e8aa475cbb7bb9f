package importexport

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/public"
	"github.com/symdepot/symdepot/symfile"
)

// file writes one file, unless the tree has it.
func (ex *exporter) file(w *treeWriter, p *place) error {
	if err := ex.ctx.Err(); err != nil {
		return err
	}
	src, err := ex.open(p)
	if errors.Is(err, public.ErrPrivate) || ex.opt.Public && errors.Is(err, objfile.ErrBroken) {
		ex.result.Private++
		ex.event(EventPrivate, p.path, err.Error(), false)
		return nil
	}
	if err != nil {
		return err
	}
	defer src.Close()
	return ex.write(w, p, src)
}

// open opens what is written of a file.
func (ex *exporter) open(p *place) (*answer.File, error) {
	if !ex.opt.Public {
		return ex.d.Content(ex.ctx, p.file.Ref)
	}
	f, err := ex.d.PublicForm(ex.ctx, p.file.TxFile)
	if err != nil {
		return nil, err
	}
	return f.Answer(), nil
}

// write writes a file with the bytes of src, unless the tree has it.
func (ex *exporter) write(w *treeWriter, p *place, src *answer.File) error {
	name, how := p.path, layout.PackNone
	if ex.opt.Compress {
		how = ex.layout.Packing()
	}
	if how == layout.PackCabinet {
		switch p.file.Object.Kind {
		case symfile.PE, symfile.PDB, symfile.PDB20, symfile.DBG, symfile.PortablePDB:
			name = layout.CabinetName(name)
		default:
			how = layout.PackNone
		}
	}
	if _, err := filepath.Localize(name); err != nil {
		ex.result.Failed++
		ex.event(EventFailedFile, name, "not a path on this system", true)
		return nil
	}
	there, equal := w.has(ex.ctx, name, src, how)
	if equal {
		ex.result.Same.Files++
		ex.result.Same.Bytes += src.Size
		return nil
	}
	in, packed, err := ex.pack(src, p, how)
	if errors.Is(err, transcode.ErrTooLarge) {
		// Written uncompressed: clients request that name too.
		name, packed = p.path, func() {}
		in, err = io.NewSectionReader(src, 0, src.Size), nil
		if there, equal = w.has(ex.ctx, name, src, layout.PackNone); equal {
			ex.result.Same.Files++
			ex.result.Same.Bytes += src.Size
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer packed()
	n, err := w.put(ex.ctx, name, in)
	if errors.Is(err, errInTheWay) {
		ex.result.Failed++
		ex.event(EventFailedFile, name, err.Error(), true)
		return nil
	}
	if err != nil {
		return err
	}
	if there {
		ex.result.Replaced++
		ex.event(EventReplaced, name, "had different content", false)
	}
	ex.result.Written.Files++
	ex.result.Written.Bytes += n
	ex.result.Plain += src.Size
	ex.event(EventWritten, name, "", false)
	return nil
}

// link adds a further path of a file of the tree: a hard link, or a copy where the
// disk has no links. Debuggers look for a program with its own debug information
// under two paths.
func (ex *exporter) link(w *treeWriter, target string, p *place) error {
	root := w.tree.Root()
	if _, err := root.Lstat(p.path); err == nil || !filepath.IsLocal(filepath.FromSlash(p.path)) {
		return ex.file(w, p)
	}
	if err := root.MkdirAll(path.Dir(p.path), 0o777); err != nil {
		return ex.file(w, p)
	}
	if info, err := root.Lstat(target); err != nil || info.Size() != p.file.Size || root.Link(target, p.path) != nil {
		return ex.file(w, p)
	}
	w.group.SyncDir(path.Dir(p.path))
	ex.result.Written.Files++
	ex.result.Plain += p.file.Size
	ex.event(EventWritten, p.path, "a link to "+target, false)
	return nil
}

// pack returns the bytes to write.
func (ex *exporter) pack(src *answer.File, p *place, how layout.Packing) (io.Reader, func(), error) {
	plain := io.NewSectionReader(src, 0, src.Size)
	switch how {
	case layout.PackZstd:
		pr, pw := io.Pipe()
		go func() { pw.CloseWithError(transcode.Zstd.Compress(ex.ctx, pw, plain)) }()
		return pr, func() { _ = pr.Close() }, nil
	case layout.PackCabinet:
		temp, err := os.CreateTemp("", "symdepot-*")
		if err != nil {
			return nil, nil, err
		}
		drop := func() {
			_ = temp.Close()
			_ = os.Remove(temp.Name())
		}
		n, err := transcode.Cabinet(ex.ctx, temp, transcode.Source{ReaderAt: src, Size: src.Size, Name: p.file.Object.Name, Time: p.file.Added})
		if err != nil {
			drop()
			return nil, nil, err
		}
		return io.NewSectionReader(temp, 0, n), drop, nil
	}
	return plain, func() {}, nil
}
