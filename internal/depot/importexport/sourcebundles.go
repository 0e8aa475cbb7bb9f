package importexport

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// namesSources are the kinds of files whose debug information names sources.
var namesSources = []symfile.Kind{symfile.PE, symfile.PDB, symfile.PortablePDB, symfile.ELF, symfile.MachO, symfile.WASM}

// sourceBundles writes a source bundle for each module in the list of whose sources the
// depot has some, unless the list has one, and returns the paths that were written. Sources
// of products that are not exported stay out.
func (ex *exporter) sourceBundles(w writer, list []*place) (made []*place, err error) {
	taken := map[string]bool{}
	for _, p := range list {
		taken[p.path] = true
	}
	scope := answer.Scope{Products: []string{}}
	for _, tx := range ex.txs {
		if !slices.Contains(scope.Products, tx.Product) {
			scope.Products = append(scope.Products, tx.Product)
		}
	}
	for _, p := range list {
		o := p.file.Object
		if !slices.Contains(namesSources, o.Kind) {
			continue
		}
		o.Kind, o.Of, o.Role = symfile.SourceBundle, o.Kind, symfile.Sources
		for _, at := range ex.layout.Paths(o) {
			if ex.opt.Lower {
				at = symfile.Fold(at)
			}
			if taken[at] {
				continue
			}
			taken[at] = true
			r := p.file
			r.Object, r.Ref, r.Size = o, blob.Ref{}, 0
			bundle := &place{at, r}
			if ok, err := ex.sourceBundle(w, scope, bundle); err != nil {
				return made, err
			} else if ok {
				made = append(made, bundle)
			}
		}
	}
	return made, nil
}

// sourceBundle makes a source bundle and writes it, and reports whether there is one. One
// that cannot be made is a failed file.
func (ex *exporter) sourceBundle(w writer, scope answer.Scope, p *place) (bool, error) {
	req, err := ex.layout.Parse(p.path)
	if err != nil {
		return false, nil // the layout has no such path: nobody asks for it
	}
	f, err := ex.d.Sources.Bundle(ex.ctx, scope, req)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		defer f.Close()
		f.Ref, err = sumOf(ex.ctx, f)
	}
	switch {
	case ex.ctx.Err() != nil:
		return false, context.Cause(ex.ctx)
	case err != nil:
		ex.notWritten(p.path, err.Error())
		return false, nil
	}
	p.file.Ref, p.file.Size = f.Ref, f.Size
	if ex.opt.DryRun {
		ex.result.Written.Files++
		ex.result.Written.Bytes += f.Size
		ex.result.Plain += f.Size
		ex.event(EventWritten, p.path, "", false)
		return true, nil
	}
	return true, ex.write(ex.ctx, w, p, f)
}

// sumOf returns the hash of a file that was made.
func sumOf(ctx context.Context, f *answer.File) (ref blob.Ref, err error) {
	h := sha256.New()
	_, err = io.Copy(h, ctxio.NewReader(ctx, io.NewSectionReader(f, 0, f.Size)))
	return blob.Ref(h.Sum(nil)), err
}

// bundles reports whether the tree gets source bundles, as Sentry's symsorter makes them
// with --with-sources.
func (ex *exporter) bundles() bool { return ex.layout.Records() == layout.SymsorterRecords }
