package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

// Stages returns the stages of the depot: pushes that are not yet transactions.
func (d *Depot) Stages() *stage.Stages { return d.stages }

// openStages opens the stages, whose bytes are in a folder beside the contents.
func (d *Depot) openStages(of *Options) {
	opt := stage.Options{Dir: filepath.Join(d.dir, "staged"), Limits: of.Stages, Log: d.log, Now: d.now}
	if info, err := os.Stat(filepath.Join(d.dir, "blobs")); err == nil {
		opt.Perm = info.Mode().Perm()&0o666 | 0o600 // as contents
	}
	if d.Nodes.Shared() {
		opt.Node = d.Nodes.Name()
		if of.Nodes.Address != "" { // the other servers reach this one
			opt.Peers = d.Nodes
		} else {
			opt.Node += ":" + d.dir // several servers of one machine
		}
	}
	d.stages = stage.New(d.db.Stages, stageDepot{d.commits, &d.links, d.dir, d.home.Placed, d.Retention.CheckClass, d.log}, opt)
}

// stageDepot is what stages need of a depot.
type stageDepot struct {
	*commits
	links  *srclink.Rules
	dir    string // for the files of stages
	placed bool   // contents are in a bucket, and a push brings them to their places before its commit
	class  func(ctx context.Context, name string) error
	log    *slog.Logger
}

// stagedFile is a complete file of a stage.
type stagedFile struct {
	io.ReaderAt
	size int64
}

func (f stagedFile) Size() int64   { return f.size }
func (f stagedFile) Changed() bool { return false }

// Identify implements stage.Depot.
func (s stageDepot) Identify(f io.ReaderAt, size int64, path, as, id string) ([]objfile.Object, error) {
	return identify(Source{Path: path, As: as, ID: id, Content: stagedFile{f, size}})
}

// Refuses implements stage.Depot.
func (s stageDepot) Refuses(err error) bool {
	return errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken) || errors.Is(err, ErrNoID)
}

// ObjectReader implements stage.Depot.
func (s stageDepot) ObjectReader(f io.ReaderAt, size int64, o objfile.Object) io.Reader {
	return objectReader(stagedFile{f, size}, o)
}

// RefusesLinks implements stage.Depot.
func (s stageDepot) RefusesLinks(product string) bool {
	return s.links.For(product) == srclink.Refuse
}

// JudgeLinks implements stage.Depot. Flags go to the log too.
func (s stageDepot) JudgeLinks(product, path string, f io.ReaderAt, o objfile.Object) (flags []string, refused string, err error) {
	v, err := judge(s.links, product, f, o)
	for _, flag := range v.Flags {
		s.log.Warn("links of a pushed file", "product", product, "path", path, "what", flag)
	}
	return v.Flags, v.Refused, err
}

// CheckClass implements stage.Depot.
func (s stageDepot) CheckClass(ctx context.Context, class string) error {
	return s.class(ctx, class)
}

// InBucket implements stage.Depot.
func (s stageDepot) InBucket() bool { return s.placed }

// Place implements stage.Depot.
func (s stageDepot) Place(ctx context.Context, c record.Content, r io.Reader) error {
	batch, err := s.blobs.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Abort()
	if held, err := s.contents.Held(ctx, batch, c); held || err != nil {
		return err
	}
	ref, _, err := batch.Put(ctx, c.Size, r)
	if err == nil && ref != c.Ref {
		err = fmt.Errorf("place content %s: the bytes have SHA-256 %s: %w", c.Ref, ref, blob.ErrMismatch)
	}
	if err != nil {
		return err
	}
	return batch.Commit(ctx)
}

// Lost implements stage.Depot.
func (s stageDepot) Lost(ctx context.Context, list []record.Content) ([]blob.Ref, error) {
	lost, err := s.contents.Lost(ctx, list)
	return refsOf(lost), err
}

// OpenStored implements stage.Depot.
func (s stageDepot) OpenStored(ctx context.Context, c record.Content) (blob.File, error) {
	return s.contents.Open(ctx, c)
}

// Space implements stage.Depot.
func (s stageDepot) Space() (total, free int64, err error) { return durable.Space(s.dir) }

// Commit implements stage.Depot.
func (s stageDepot) Commit(ctx context.Context, tx record.Tx, files []stage.File, accepted []record.Entry) (int64, error) {
	if err := s.confirmed.covers(tx.Entries, accepted); err != nil {
		return 0, err
	}
	for i := range tx.Entries {
		if e := &tx.Entries[i]; strings.Contains(e.Path, memberSeparator) {
			e.Path, e.Archive = Source{Path: e.Path, Archive: e.Path}.origin()
		}
	}
	n, err := s.commitFiles(ctx, tx, files)
	if err != nil {
		return n, fmt.Errorf("depot %s: %w", s.depot, err)
	}
	return n, nil
}

// Confirm implements stage.Depot.
func (s stageDepot) Confirm(ctx context.Context, number int64, accepted []record.Entry) error {
	return s.confirmed.found(ctx, number, accepted, nil)
}

func (s stageDepot) commitFiles(ctx context.Context, tx record.Tx, files []stage.File) (int64, error) {
	if s.placed { // the contents are in their places already
		return s.commit(ctx, tx, nil)
	}
	batch, err := s.blobs.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer batch.Abort()
	if err := take(ctx, batch, files); err != nil {
		return 0, err
	}
	return s.commit(ctx, tx, batch)
}

// take puts the contents of staged files into a batch.
func take(ctx context.Context, batch blob.Batch, files []stage.File) error {
	var missing []blob.Ref
	for _, f := range files {
		if f.Path != "" {
			err := adopt(ctx, batch, f)
			if err == nil {
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			// A commit of the same bytes has stored and removed the file meanwhile.
		}
		if !batch.Known(ctx, f.Ref) {
			missing = append(missing, f.Ref)
		}
	}
	if len(missing) > 0 {
		return &stage.MissingError{Refs: missing}
	}
	return nil
}

// adopt puts a staged file into a batch.
func adopt(ctx context.Context, batch blob.Batch, f stage.File) error {
	if a, ok := batch.(blob.Adopter); ok {
		return a.Adopt(ctx, f.Ref, f.Size, f.Path)
	}
	r, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // only read
	ref, _, err := batch.Put(ctx, f.Size, r)
	if err == nil && ref != f.Ref {
		err = &stage.MissingError{Refs: []blob.Ref{f.Ref}}
	}
	return err
}
