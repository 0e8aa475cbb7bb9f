package symstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/durable"
)

// copyBuffer is the size in bytes of what is read at once.
const copyBuffer = 256 << 10

// staging copies or compresses files into a writer's folder and makes them
// durable together.
type staging struct {
	st       *stage
	group    *durable.Group
	compress Compression
	buffers  sync.Pool

	mu    sync.Mutex
	times []stagedTime // guarded by mu
}

type stagedTime struct {
	name string
	time time.Time
}

func newStaging(st *stage, c Compression) *staging {
	g := &staging{st: st, group: st.s.tree.NewGroup(), compress: c}
	g.buffers.New = func() any { return new([copyBuffer]byte) }
	return g
}

func (g *staging) abort() { g.group.Abort() }

// commit makes the staged files durable, and as old as what they were made
// from, as the genuine tool's copies are.
func (g *staging) commit() error {
	if err := g.group.Commit(); err != nil {
		return err
	}
	for _, t := range g.times {
		// A share that does not let a time be set is no reason to fail.
		_ = g.st.s.root.Chtimes(g.st.path(t.name), t.time, t.time)
	}
	return nil
}

// one brings one file into the folder.
func (g *staging) one(ctx context.Context, a *adder, i int, f File) *item {
	it := &item{file: f}
	if err := ctx.Err(); err != nil {
		it.err, it.fatal = err, true
		return it
	}
	it.err = g.fill(ctx, a, i, it)
	var store *storeError
	if errors.As(it.err, &store) {
		it.err, it.fatal = g.st.s.wrap(store.err), true
	} else if errors.Is(it.err, context.Canceled) || errors.Is(it.err, context.DeadlineExceeded) {
		it.fatal = true
	}
	return it
}

// storeError marks an error of the store among those of the files.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

func ofStore(err error) error {
	if err == nil {
		return nil
	}
	return &storeError{err}
}

func (g *staging) fill(ctx context.Context, a *adder, i int, it *item) error {
	var err error
	if a.opt.Pointer && it.file.Keys != nil {
		return g.accept(a, it, it.file.Keys)
	}
	in, packed, err := openInput(it.file)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not an ordinary file")
	}
	keys := it.file.Keys
	if keys == nil {
		if keys, err = Identify(in, info.Size(), it.file.Path, a.opt.All); err != nil {
			return err
		}
	}
	if err := g.accept(a, it, keys); err != nil || a.opt.Pointer {
		return err
	}
	it.bytes = info.Size()
	return g.stage(ctx, a, it, source{in, info, packed}, i)
}

// openInput opens a file. One that an index lists may have been compressed
// since, under the name that this gives.
func openInput(f File) (in *os.File, packed bool, err error) {
	if info, err := os.Stat(f.Path); err == nil && !info.Mode().IsRegular() {
		return nil, false, errors.New("not an ordinary file") // opening a pipe would wait
	}
	in, err = os.Open(f.Path)
	if err == nil || f.Keys == nil || !errors.Is(err, fs.ErrNotExist) {
		return in, false, err
	}
	dir, base := filepath.Split(f.Path)
	if other, err := os.Open(dir + compressedName(base)); err == nil {
		return other, true, nil
	}
	return nil, false, err
}

// accept checks the names, applies the filter and notes the keys.
func (g *staging) accept(a *adder, it *item, keys []Named) error {
	var err error
	if it.source, err = a.source(it.file); err != nil {
		return err
	}
	for _, k := range keys {
		if err := checkName(k.Name); err != nil {
			return err
		}
		if !validKey(k.Key) {
			return fmt.Errorf("%w: the key %q", ErrName, clip(k.Key))
		}
		if passes(a.opt.Filter, k.Type) {
			it.keys = append(it.keys, stagedKey{Named: k})
		}
	}
	if len(it.keys) == 0 {
		return filtered(a.opt.Filter)
	}
	return nil
}

// source is an open file that is being stored.
type source struct {
	*os.File
	info   fs.FileInfo
	packed bool
}

// stage writes the content, once for each key.
func (g *staging) stage(ctx context.Context, a *adder, it *item, in source, i int) error {
	method := g.compress
	compressed := method != Plain || in.packed
	if method != Plain && !in.packed && in.info.Size() > cab.MaxFile {
		if !a.opt.OversizePlain {
			return fmt.Errorf("%d bytes: %w", in.info.Size(), cab.ErrTooLarge)
		}
		it.plain, compressed = true, false
	}
	for n := range it.keys {
		k := &it.keys[n]
		k.staged, k.compressed = "f"+strconv.Itoa(i)+"."+strconv.Itoa(n), compressed
		var err error
		if compressed && !in.packed {
			err = g.pack(ctx, it, in, k)
			if errors.Is(err, cab.ErrTooLarge) && a.opt.OversizePlain {
				it.plain, compressed, k.compressed = true, false, false
				err = g.copy(ctx, it, in, k)
			}
		} else {
			err = g.copy(ctx, it, in, k)
		}
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.times = append(g.times, stagedTime{k.staged, in.info.ModTime()})
		g.mu.Unlock()
	}
	return nil
}

// copy writes the plain content.
func (g *staging) copy(ctx context.Context, it *item, in source, k *stagedKey) error {
	f, err := g.st.s.tree.Create(g.st.dir, 0o666)
	if err != nil {
		return ofStore(err)
	}
	h := sha256.New()
	if err := g.pump(ctx, in, io.MultiWriter(h, storeWriter{f})); err != nil {
		f.Abort()
		return err
	}
	h.Sum(it.sum[:0])
	g.group.Add(f, g.st.path(k.staged))
	return nil
}

// pump copies all of a file and makes sure that it did not change.
func (g *staging) pump(ctx context.Context, in source, w io.Writer) error {
	buf := g.buffers.Get().(*[copyBuffer]byte)
	defer g.buffers.Put(buf)
	r := &contextReader{ctx, io.NewSectionReader(in, 0, in.info.Size()+1)}
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, r, buf[:])
	if err != nil {
		return err
	}
	if n != in.info.Size() {
		return errors.New("the file changed while it was read")
	}
	return nil
}

// storeWriter marks errors of writing as the store's.
type storeWriter struct{ w io.Writer }

func (w storeWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	return n, ofStore(err)
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// verifyCabinet decodes a cabinet and compares what comes out with the hash of
// what went in.
func verifyCabinet(r io.ReaderAt, size int64, want [32]byte) error {
	h := sha256.New()
	if err := unpack(r, size, h); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), want[:]) {
		return errors.New("the cabinet does not give back what was put in")
	}
	return nil
}

// unpack writes the content of the only file of a cabinet.
func unpack(r io.ReaderAt, size int64, w io.Writer) error {
	c, err := cab.Open(r, size, cab.Options{})
	if err != nil {
		return err
	}
	if n := len(c.Files()); n != 1 {
		return fmt.Errorf("%w: %d files where one is expected", cab.ErrFormat, n)
	}
	content, err := c.Files()[0].Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return errors.Join(err, content.Close())
}
