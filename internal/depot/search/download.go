package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// errDownloading answers a request for a derived content whose original is being
// downloaded: it may be found later.
var errDownloading = fmt.Errorf("the file that it is made of is being downloaded: %w", fs.ErrNotExist)

// Download asks the upstreams for a file that Open did not find; see Get.
func (p *Places) Download(ctx context.Context, q answer.Question) (*answer.File, error) {
	if !p.parts.Fetch.Enabled() || len(q.Request.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	switch q.Request.Form {
	case layout.FormFile, layout.FormSource:
	case layout.FormSection:
		return p.downloadSection(ctx, q)
	case layout.FormCabinet:
		// Clients do not wait for a cabinet: they ask for the plain file next.
		_, err := p.parts.Fetch.Start(ctx, q.Download())
		if err == nil {
			err = errDownloading
		}
		return nil, err
	default:
		return nil, fs.ErrNotExist
	}
	for range 3 {
		question := q.Download()
		if p.parts.Tracer != nil {
			question.Span = span.From(ctx)
		}
		f, err := p.parts.Fetch.Open(ctx, question)
		if !errors.Is(err, fetch.ErrInDepot) {
			return downloaded(f), err
		}
		// It may be evicted before it is opened here.
		if f, err := p.Open(ctx, q.Scope, q.Request, false, nil); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// Bring downloads the whole file that a question asks for, or a part of, from the upstreams that
// have only public forms, and returns when the depot has it. Not found is fs.ErrNotExist.
func (p *Places) Bring(ctx context.Context, q answer.Question) error {
	if !p.parts.Fetch.Enabled() || len(q.Request.Lookups) == 0 {
		return fs.ErrNotExist
	}
	wanted := [][]symfile.Lookup{q.Request.Lookups}
	if q.Request.Form == layout.FormSection {
		wanted = nil // of debug information first, then of a program
		for _, l := range q.Request.Lookups {
			wanted = append(wanted, []symfile.Lookup{l})
		}
	}
	err := fs.ErrNotExist
	for _, lookups := range wanted {
		whole := q
		if q.Request.Form == layout.FormSection {
			whole.Request = layout.Request{Form: layout.FormFile, Layout: q.Request.Layout, Lookups: lookups}
		}
		question := whole.Download()
		question.Public = true
		var ended <-chan struct{}
		if ended, err = p.parts.Fetch.Start(ctx, question); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, fetch.ErrInDepot) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// DownloadAnew is Download without regard to remembered misses.
func (p *Places) DownloadAnew(ctx context.Context, q answer.Question) (*answer.File, error) {
	f, err := p.parts.Fetch.OpenAnew(ctx, q.Download())
	if errors.Is(err, fetch.ErrInDepot) {
		return p.Open(ctx, q.Scope, q.Request, false, nil)
	}
	return downloaded(f), err
}

// downloaded makes a download an answer.
func downloaded(f *fetch.File) *answer.File {
	switch {
	case f == nil:
		return nil
	case f.Redirect != "":
		return &answer.File{Redirect: f.Redirect}
	}
	return &answer.File{
		Object: f.Object, Ref: f.Ref, Size: f.Size, ModTime: f.ModTime, Path: f.Path, Signature: f.Signature, ETag: f.ETag,
		Volatile: f.Growing, Growing: f.Growing, Product: f.Product, Bytes: f, Disk: f.OSFile(), Await: f.Arrived, Closer: f,
	}
}

// sectionWait is how long a request for a section waits for the download of its
// file. After a miss, the client requests the whole file, which is then on its way.
const sectionWait = 3 * time.Second

// downloadSection answers with a section of debug information that has to be
// downloaded first: a section alone cannot be checked.
func (p *Places) downloadSection(ctx context.Context, q answer.Question) (*answer.File, error) {
	wait := time.NewTimer(p.parts.SectionWait)
	defer wait.Stop()
	for _, l := range q.Request.Lookups {
		whole := q
		whole.Request = layout.Request{Form: layout.FormFile, Layout: q.Request.Layout, Lookups: []symfile.Lookup{l}}
		if _, _, err := p.parts.Lookups.Find(ctx, q.Scope, whole.Request, false, nil); err == nil {
			return nil, fs.ErrNotExist // it is here, and Open has found no such section
		}
		ended, err := p.parts.Fetch.Start(ctx, whole.Download())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-ended:
		case <-wait.C:
			return nil, fs.ErrNotExist
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f, err := p.Open(ctx, q.Scope, q.Request, false, nil); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}
