package inplace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// trees are the folders that are served in place.
type trees struct {
	list    []*tree.Folder
	log     *slog.Logger
	looking map[*tree.Folder]chan struct{} // one for each of the lookers
}

func newTrees(list []*tree.Folder, log *slog.Logger) trees {
	ts := trees{list, log, map[*tree.Folder]chan struct{}{}}
	for _, f := range list {
		ts.looking[f] = make(chan struct{}, lookers)
	}
	return ts
}

// open searches the folders in order; public: only those that have nothing but public forms. A folder that fails does not hide the next
// one. rec notes where they were searched; it may be nil.
func (ts trees) open(ctx context.Context, req layout.Request, public bool, rec *answer.Recorder) (*answer.File, error) {
	var failed, full error
	for _, s := range ts.list {
		if public && !s.Public() {
			continue
		}
		f, err := openInTree(ctx, s, req, rec)
		switch {
		case err == nil:
			return f, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, unpackcache.ErrFull):
			full = err
		case !errors.Is(err, fs.ErrNotExist):
			failed = errors.Join(failed, err)
		case err != fs.ErrNotExist && rec == nil: // it has a reason
			ts.log.Warn("a store cannot answer with a file that it has", "store", s.Dir(), "error", err)
		}
	}
	if failed != nil {
		return nil, failed
	}
	if full != nil {
		return nil, full
	}
	return nil, fs.ErrNotExist
}

func openInTree(ctx context.Context, s *tree.Folder, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	told := rec.Folder(ctx, s)
	switch req.Form {
	case layout.FormFile, layout.FormCabinet:
		f, err := s.OpenTold(ctx, req, told)
		if err != nil {
			return nil, err
		}
		return treeFile(f), nil
	case layout.FormSection:
		return treeSection(ctx, s, req, told)
	case layout.FormAdmin:
		text, changed, err := s.Admin(ctx, req.Part)
		if err != nil {
			return nil, err
		}
		return answer.Text(text, changed), nil
	}
	return nil, fs.ErrNotExist
}

func treeFile(f *tree.File) *answer.File {
	return &answer.File{
		Volatile: true, Object: symfile.Object{Name: f.Name, Kind: f.Kind}, Size: f.Size, ModTime: f.ModTime, Path: f.Path, ETag: f.ETag,
		Bytes: f, Disk: f.Plain, Closer: f,
	}
}

// treeSection opens a section of a file in a folder.
func treeSection(ctx context.Context, s *tree.Folder, req layout.Request, told func(string, error)) (*answer.File, error) {
	for _, l := range req.Lookups {
		f, err := s.OpenTold(ctx, layout.Request{Form: layout.FormFile, Lookups: []symfile.Lookup{l}, Layout: req.Layout}, told)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		off, n, err := objfile.ELFSection(f, f.Size, req.Part)
		if err != nil {
			_ = f.Close()
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken) {
				continue
			}
			return nil, err
		}
		a := treeFile(f)
		a.Bytes, a.Disk, a.Size, a.ETag = io.NewSectionReader(f, off, n), nil, n, a.ETag+"-"+answer.SectionTag(req.Part)
		return a, nil
	}
	return nil, fs.ErrNotExist
}
