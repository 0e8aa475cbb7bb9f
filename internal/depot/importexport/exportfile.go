package importexport

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/public"
	"github.com/symdepot/symdepot/symfile"
)

// file writes one file, unless the tree has it.
func (ex *exporter) file(ctx context.Context, w writer, p *place) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	src, err := ex.open(ctx, p)
	switch {
	case err != nil && ex.cannotOpen != nil:
		return ex.cannotOpen(ctx, p, err)
	case ex.isPrivate(err):
		ex.private(p, err)
		return nil
	case err != nil:
		return err
	}
	defer src.Close()
	return ex.write(ctx, w, p, src)
}

// private counts a file without a public form.
func (ex *exporter) private(p *place, why error) {
	ex.count(func(r *ExportResult) { r.Private++ })
	ex.event(EventPrivate, p.path, why.Error(), false)
}

// isPrivate reports whether an error of open says that a file has no public form.
func (ex *exporter) isPrivate(err error) bool {
	return errors.Is(err, public.ErrPrivate) || ex.opt.Public && errors.Is(err, objfile.ErrBroken)
}

// open opens what is written of a file.
func (ex *exporter) open(ctx context.Context, p *place) (*answer.File, error) {
	if !ex.opt.Public {
		return ex.d.Content(ctx, p.file.Ref)
	}
	ex.making.Lock()
	defer ex.making.Unlock()
	f, err := ex.d.PublicForm(ctx, p.file.TxFile)
	if err != nil {
		return nil, err
	}
	return f.Answer(), nil
}

// packing returns the name under which a file is written, and how it is packed.
func (ex *exporter) packing(p *place) (name string, how layout.Packing) {
	if !ex.opt.Compress {
		return p.path, layout.PackNone
	}
	how = ex.layout.Packing()
	if how != layout.PackCabinet {
		return p.path, how
	}
	switch p.file.Object.Kind {
	case symfile.PE, symfile.PDB, symfile.PDB20, symfile.DBG, symfile.PortablePDB:
		return layout.CabinetName(p.path), how
	}
	return p.path, layout.PackNone
}

// write writes a file with the bytes of src, unless the tree has it.
func (ex *exporter) write(ctx context.Context, w writer, p *place, src *answer.File) error {
	name, how := ex.packing(p)
	if _, err := filepath.Localize(name); err != nil {
		ex.notWritten(name, "not a path on this system")
		return nil
	}
	there, equal, err := w.has(ctx, name, src, how)
	if err != nil {
		return err
	}
	if equal {
		ex.same(src)
		return nil
	}
	in, size, packed, err := ex.pack(ctx, src, p, how)
	if errors.Is(err, transcode.ErrTooLarge) {
		// Written uncompressed: clients request that name too.
		name, packed = p.path, func() {}
		in, size = io.NewSectionReader(src, 0, src.Size), src.Size
		there, equal, err = w.has(ctx, name, src, layout.PackNone)
		if equal {
			ex.same(src)
			return nil
		}
	}
	if err != nil {
		return err
	}
	defer packed()
	n, err := w.put(ctx, name, size, in)
	if errors.Is(err, errInTheWay) {
		ex.notWritten(name, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	ex.count(func(r *ExportResult) {
		if there {
			r.Replaced++
		}
		r.Written.Files++
		r.Written.Bytes += n
		r.Plain += src.Size
	})
	if there {
		ex.event(EventReplaced, name, "had different content", false)
	}
	ex.event(EventWritten, name, "", false)
	return nil
}

// same counts a file that the tree has.
func (ex *exporter) same(src *answer.File) {
	ex.count(func(r *ExportResult) {
		r.Same.Files++
		r.Same.Bytes += src.Size
	})
}

// notWritten counts a file that cannot be written.
func (ex *exporter) notWritten(name, why string) {
	ex.count(func(r *ExportResult) { r.Failed++ })
	ex.event(EventFailedFile, name, why, true)
}

// link adds a further path of a file of the tree: a hard link, or a copy where there are no links.
// Debuggers look for a program with its own debug information under two paths.
func (ex *exporter) link(w writer, target string, p *place) error {
	if !w.link(target, p.path, p.file.Size) {
		return ex.file(ex.ctx, w, p)
	}
	ex.count(func(r *ExportResult) {
		r.Written.Files++
		r.Plain += p.file.Size
	})
	ex.event(EventWritten, p.path, "a link to "+target, false)
	return nil
}

// pack returns the bytes to write, and how many they are; -1: that is not known.
func (ex *exporter) pack(ctx context.Context, src *answer.File, p *place, how layout.Packing) (io.Reader, int64, func(), error) {
	plain := io.NewSectionReader(src, 0, src.Size)
	switch how {
	case layout.PackZstd:
		pr, pw := io.Pipe()
		go func() { pw.CloseWithError(transcode.Zstd.Compress(ctx, pw, plain)) }()
		return pr, -1, func() { _ = pr.Close() }, nil
	case layout.PackCabinet:
		temp, err := os.CreateTemp("", "symdepot-*")
		if err != nil {
			return nil, 0, nil, err
		}
		n, err := transcode.Cabinet(ctx, temp, transcode.Source{ReaderAt: src, Size: src.Size, Name: p.file.Object.Name, Time: p.file.Added})
		if err != nil {
			drop(temp)
			return nil, 0, nil, err
		}
		return io.NewSectionReader(temp, 0, n), n, func() { drop(temp) }, nil
	}
	return plain, src.Size, func() {}, nil
}
