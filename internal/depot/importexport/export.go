package importexport

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Compresses reports whether clients of a layout expect compressed files.
func Compresses(l layout.Layout) bool { return l.Packing() != layout.PackNone }

// Export writes the files of transactions, the oldest first, as a tree.
func Export(ctx context.Context, d *depot.Depot, txs []depot.Transaction, dir string, opt ExportOptions) (ExportResult, error) {
	ex := &exporter{ctx: ctx, d: d, dir: dir, opt: opt, layout: opt.Layout, txs: txs}
	ex.result.Transactions = len(txs)
	ex.result.LeftOutKinds = map[string]int64{}
	if !opt.DryRun {
		if err := durable.MkdirAll(dir, 0o777); err != nil {
			return ex.result, err
		}
	}
	var err error
	switch opt.Layout.Records() {
	case layout.SymStoreRecords:
		err = ex.symstore()
	default:
		err = ex.tree()
	}
	return ex.result, err
}

// plan assigns a file to each path of the tree. Of several objects with one path
// it takes the one that the depot would answer with.
func (ex *exporter) plan() ([]*place, error) {
	byPath := map[string]*place{}
	var list []*place
	for _, tx := range ex.txs {
		err := ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
			paths := ex.layout.Paths(f.Object)
			if len(paths) == 0 {
				ex.countOmitted(tx, f)
			}
			r := answer.RankedIn(tx, f)
			for _, p := range paths {
				if ex.opt.Lower {
					p = symfile.Fold(p)
				}
				have := byPath[p]
				if have == nil {
					byPath[p] = &place{p, r}
					list = append(list, byPath[p])
					continue
				}
				if have.file.Ref == f.Ref {
					have.file.Try = have.file.Try && r.Try
					continue
				}
				ex.result.Shadowed++
				ex.event(EventShadowed, p, "a different file has this path", false)
				if answer.Better(r, have.file, ex.role(p)) {
					have.file = r
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b *place) int { return strings.Compare(a.path, b.path) })
	return ex.caseSafe(list)
}

// caseSafe finds paths that differ in case only. On a disk that ignores case, only
// the better file is written.
func (ex *exporter) caseSafe(list []*place) ([]*place, error) {
	caseless, err := ex.caseless()
	if err != nil {
		return nil, err
	}
	folded := map[string]*place{}
	var keep []*place
	for _, p := range list {
		k := symfile.Fold(p.path)
		have := folded[k]
		if have == nil {
			folded[k] = p
			keep = append(keep, p)
			continue
		}
		if have.file.Ref != p.file.Ref {
			ex.result.Collisions++
			ex.event(EventCollision, p.path, "different content than "+have.path, true)
		}
		if !caseless {
			keep = append(keep, p)
		} else if have.file.Ref != p.file.Ref && answer.Better(p.file, have.file, ex.role(p.path)) {
			have.file = p.file
		}
	}
	return keep, nil
}

// caseless reports whether the disk ignores the case of names.
func (ex *exporter) caseless() (bool, error) {
	if ex.opt.DryRun {
		return false, nil
	}
	dir, err := os.MkdirTemp(ex.dir, ".symdepot-Aa")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(dir) }()
	_, err = os.Stat(filepath.Join(filepath.Dir(dir), strings.ToLower(filepath.Base(dir))))
	return err == nil, nil
}

// tree writes a layout without records of its own.
func (ex *exporter) tree() error {
	list, err := ex.plan()
	if err != nil {
		return err
	}
	var total int64
	for _, p := range list {
		total += p.file.Size
	}
	if ex.opt.DryRun {
		ex.result.Written, ex.result.Plain = Tally{int64(len(list)), total}, total
		for _, p := range list {
			ex.event(EventWritten, p.path, "", false)
		}
		if ex.bundles() {
			_, err = ex.sourceBundles(nil, list)
		}
		return err
	}
	w, err := newTreeWriter(ex.dir)
	if err != nil {
		return err
	}
	defer w.close()
	var done int64
	first := map[blob.Ref]string{} // the path of a content that further paths are linked to
	var further []*place
	for _, p := range list {
		if _, ok := first[p.file.Ref]; ok && ex.layout.Linked() {
			further = append(further, p)
			continue
		}
		first[p.file.Ref] = p.path
		if err := ex.file(w, p); err != nil {
			return err
		}
		done += p.file.Size
		ex.progress(done, total)
	}
	if len(further) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	for _, p := range further {
		if err := ex.link(w, first[p.file.Ref], p); err != nil {
			return err
		}
		done += p.file.Size
		ex.progress(done, total)
	}
	if ex.bundles() {
		made, err := ex.sourceBundles(w, list)
		if err != nil {
			return err
		}
		if err := ex.sideFiles(w, append(list, made...)); err != nil {
			return err
		}
	}
	return w.flush()
}
