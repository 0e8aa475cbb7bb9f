package sourcefiles

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// sourceObject is an object whose sources are opened. What is read for the first of them,
// its own texts and its source bundles, is kept for the others until close. One goroutine
// uses it.
type sourceObject struct {
	files   *Files
	scope   answer.Scope
	hit     record.Hit
	own     map[string]func() (io.ReadCloser, error) // embedded texts by name; nil: not read
	bundles []sourceBundle
	listed  bool // bundles are
	opened  []io.Closer
}

// sourceBundle is a source bundle of an object.
type sourceBundle struct {
	hit   record.Hit
	files map[string]sources.BundledFile // by canonical path
}

// object returns an object for the caller to close.
func (s *Files) object(scope answer.Scope, h record.Hit) *sourceObject {
	return &sourceObject{files: s, scope: scope, hit: h}
}

func (o *sourceObject) close() {
	for _, c := range o.opened {
		_ = c.Close() // only read
	}
}

// named opens the source that a name in the debug information of an object means:
// from the object itself, from a source bundle, from a transaction that holds the
// object, or from one of the same product and version.
func (o *sourceObject) named(ctx context.Context, n sources.Name) (*answer.File, error) {
	for _, look := range []func() (*answer.File, error){
		func() (*answer.File, error) { return o.embedded(ctx, n) },
		func() (*answer.File, error) { return o.bundled(ctx, n) },
		func() (*answer.File, error) { return o.files.filed(ctx, o.scope, o.hit, n) },
	} {
		f, err := look()
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// embedded opens a source that the debug information has itself.
func (o *sourceObject) embedded(ctx context.Context, n sources.Name) (*answer.File, error) {
	if n.Embedded == nil {
		return nil, fs.ErrNotExist
	}
	if o.own == nil {
		if err := o.readOwn(ctx); err != nil {
			return nil, err
		}
	}
	open := o.own[n.Name]
	if open == nil {
		return nil, fs.ErrNotExist
	}
	text, err := readText(open)
	if err != nil {
		return nil, notFoundUnlessCanceled(ctx, err)
	}
	f := inMemory(o.hit, n.Name, text)
	f.Kept = "embedded"
	return f, nil
}

// readOwn reads which texts the debug information has.
func (o *sourceObject) readOwn(ctx context.Context) error {
	release, err := o.files.lists.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	b, err := o.files.contents.Open(ctx, record.Content{Ref: o.hit.Ref, Size: o.hit.Size})
	if err != nil {
		return err
	}
	o.opened = append(o.opened, b)
	listed, err := sources.List(ctx, b, o.hit.Size, o.hit.Object, sources.Options{})
	if err != nil {
		return notFoundUnlessCanceled(ctx, err)
	}
	o.own = map[string]func() (io.ReadCloser, error){}
	for _, n := range listed.Names {
		if n.Embedded != nil && o.own[n.Name] == nil {
			o.own[n.Name] = n.Embedded
		}
	}
	return nil
}

// readText reads a source of at most maxSource bytes.
func readText(open func() (io.ReadCloser, error)) ([]byte, error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxSource+1))
	if err == nil && len(text) > maxSource {
		err = sources.ErrTooLarge
	}
	return text, err
}

// bundled opens a source in a source bundle with an id of the object.
func (o *sourceObject) bundled(ctx context.Context, n sources.Name) (*answer.File, error) {
	if !o.listed {
		if err := o.readBundles(ctx); err != nil {
			return nil, err
		}
	}
	path := sources.Canonical(n.Name)
	for _, b := range o.bundles {
		bundled, ok := b.files[path]
		if !ok {
			continue
		}
		text, err := readText(bundled.Open)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || contradicts(n, text) {
			continue
		}
		f := inMemory(b.hit, n.Name, text)
		f.Kept = "bundle"
		return f, nil
	}
	return nil, fs.ErrNotExist
}

// readBundles reads the lists of files in the source bundles with ids of the object.
func (o *sourceObject) readBundles(ctx context.Context) error {
	asked, seen := map[string]bool{}, map[blob.Ref]bool{}
	var found []record.Hit
	for _, a := range o.hit.Object.Aliases() {
		if asked[a.ID] {
			continue
		}
		asked[a.ID] = true
		hits, err := o.files.db.Lookup(ctx, o.scope.Index(), symfile.Lookup{ID: a.ID, Role: symfile.Sources})
		if err != nil {
			return err
		}
		for _, h := range o.files.intact(hits) {
			if !seen[h.Ref] && len(found) < maxSourceBundles {
				seen[h.Ref] = true
				found = append(found, h)
			}
		}
	}
	for _, h := range found {
		if err := o.readBundle(ctx, h); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	o.listed = true
	return nil
}

// maxSourceBundles limits the source bundles of one object that are looked into.
const maxSourceBundles = 8

func (o *sourceObject) readBundle(ctx context.Context, h record.Hit) error {
	release, err := o.files.lists.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	b, err := o.files.contents.Open(ctx, record.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return err
	}
	o.opened = append(o.opened, b)
	bundle, err := sources.ReadBundle(b, h.Size)
	if err != nil {
		return notFoundUnlessCanceled(ctx, err)
	}
	files := make(map[string]sources.BundledFile, len(bundle.Files))
	for _, f := range bundle.Files {
		if path := sources.Canonical(f.Path); files[path].Open == nil {
			files[path] = f
		}
	}
	o.bundles = append(o.bundles, sourceBundle{h, files})
	return nil
}

// inMemory returns a file of bytes that are part of an object.
func inMemory(h record.Hit, name string, text []byte) *answer.File {
	ref := blob.Sum(text)
	return &answer.File{
		Object: symfile.Object{Kind: symfile.SHA1, Role: symfile.Other, Name: symfile.BaseName(name)}, Source: h.Ref,
		Size: int64(len(text)), ModTime: answer.FileTime(h), Path: name, ETag: ref.String()[:32],
		Bytes: bytes.NewReader(text), Closer: io.NopCloser(nil),
	}
}
