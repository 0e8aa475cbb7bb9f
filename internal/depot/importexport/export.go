package importexport

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Compresses reports whether clients of a layout expect compressed files.
func Compresses(l layout.Layout) bool { return l.Packing() != layout.PackNone }

// Export writes the files of transactions, the oldest first, as a tree. The records of a symbol
// store need a folder. See also FollowedError.
func Export(ctx context.Context, d *depot.Depot, txs []depot.Transaction, to Target, opt ExportOptions) (ExportResult, error) {
	ex := newExporter(ctx, d, to, opt)
	ex.txs = txs
	ex.result.Transactions = len(txs)
	if to.Bucket != nil && opt.Layout.Records() == layout.SymStoreRecords {
		return ex.result, errNeedsFolder
	}
	if to.Bucket == nil && !opt.DryRun {
		if err := durable.MkdirAll(to.Folder, 0o777); err != nil {
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

// errNeedsFolder is the error for a symbol store in a bucket.
var errNeedsFolder = term.UsageError("a symbol store with its records needs a folder: for a bucket, use --layout native or ssqp")

// plan is which file each path of a tree gets.
type plan struct {
	ex     *exporter
	byPath map[string]*place
}

func (ex *exporter) newPlan() *plan { return &plan{ex, map[string]*place{}} }

// add adds the files of a transaction. Of several objects with one path the plan has the one that
// the depot would answer with.
func (p *plan) add(ctx context.Context, tx depot.Transaction) error {
	ex := p.ex
	return ex.d.Files(ctx, tx.Number, func(f depot.TxFile) error {
		paths := ex.layout.Paths(f.Object)
		if len(paths) == 0 {
			ex.countOmitted(tx, f)
		}
		r := answer.RankedIn(tx, f)
		for _, at := range paths {
			if ex.opt.Lower {
				at = symfile.Fold(at)
			}
			have := p.byPath[at]
			if have == nil {
				p.byPath[at] = &place{at, r}
				continue
			}
			if have.file.Ref == f.Ref {
				have.file.Try = have.file.Try && r.Try
				continue
			}
			ex.count(func(r *ExportResult) { r.Shadowed++ })
			ex.event(EventShadowed, at, "a different file has this path", false)
			if answer.Better(r, have.file, ex.role(at)) {
				have.file = r
			}
		}
		return nil
	})
}

// places returns what is to be written, in the order of the paths.
func (p *plan) places() ([]*place, error) {
	list := slices.SortedFunc(maps.Values(p.byPath), func(a, b *place) int { return strings.Compare(a.path, b.path) })
	return p.ex.caseSafe(list)
}

// plan returns what is to be written of all transactions.
func (ex *exporter) plan() ([]*place, error) {
	p := ex.newPlan()
	for _, tx := range ex.txs {
		if err := p.add(ex.ctx, tx); err != nil {
			return nil, err
		}
	}
	return p.places()
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
			ex.count(func(r *ExportResult) { r.Collisions++ })
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
	if ex.opt.DryRun || ex.to.Bucket != nil {
		return false, nil
	}
	dir, err := os.MkdirTemp(ex.to.Folder, ".symdepot-Aa")
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
	w, err := ex.to.open()
	if err != nil {
		return err
	}
	defer w.close()
	if _, err := w.read(ex.ctx, statePath); err == nil {
		return &FollowedError{ex.to.name()}
	} else if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, bucket.ErrNoBucket) {
		return err
	}
	if err := ex.writeAll(w, list, total); err != nil {
		return err
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

// FollowedError is the error for an export to a target into which a depot is followed.
type FollowedError struct{ Target string }

// Error names the target and the next step.
func (e *FollowedError) Error() string {
	return e.Target + ": an export --follow writes there: use --follow, or another target"
}

// writeAll writes files, total bytes. Further paths of one content are linked, where debuggers look
// for it under several.
func (ex *exporter) writeAll(w writer, list []*place, total int64) error {
	var done atomic.Int64
	written := func(p *place) { ex.progress(done.Add(p.file.Size), total) }
	first := map[blob.Ref]string{} // the path of a content that further paths are linked to
	var now, further []*place
	for _, p := range list {
		if _, ok := first[p.file.Ref]; ok && ex.layout.Linked() {
			further = append(further, p)
			continue
		}
		first[p.file.Ref] = p.path
		now = append(now, p)
	}
	g, ctx := errgroup.WithContext(ex.ctx)
	g.SetLimit(w.atOnce())
	for _, p := range now {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			defer written(p)
			return ex.file(ctx, w, p)
		})
	}
	if err := g.Wait(); err != nil || ex.ctx.Err() != nil {
		return cmp.Or(err, context.Cause(ex.ctx))
	}
	if err := w.flush(); err != nil {
		return err
	}
	for _, p := range further {
		if err := ex.link(w, first[p.file.Ref], p); err != nil {
			return err
		}
		written(p)
	}
	return nil
}
