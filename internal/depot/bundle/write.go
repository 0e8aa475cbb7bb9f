package bundle

import (
	"archive/zip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Options are what Write puts into a bundle.
type Options struct {
	// Product, Version and Comment are those of the wanted files.
	Product, Version, Comment string
	// Wants are single files; the depot must have them.
	Wants []needed.Want
	// Missing is recorded in the manifest.
	Missing []needed.Want
	// Transactions are the numbers of transactions to copy whole.
	Transactions []int64
	// Key signs the bundle; nil leaves it unsigned.
	Key ed25519.PrivateKey
	// Now is the time of the bundle.
	Now time.Time
}

// Result sums up a bundle that was written.
type Result struct {
	Files int
	Bytes int64 // of the files, not compressed
}

// Write writes a bundle.
func Write(ctx context.Context, w io.Writer, d *depot.Depot, opt Options) (Result, error) {
	b := &writer{
		ctx: ctx, d: d, z: zip.NewWriter(w), paths: map[string]bool{}, contents: map[string]int{},
		m: Manifest{
			Kind: kind, Format: format, Created: opt.Now.UTC().Truncate(time.Second),
			Product: opt.Product, Version: opt.Version, Comment: opt.Comment, Files: []File{}, Missing: opt.Missing,
		},
	}
	b.z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	for _, w := range opt.Wants {
		if err := b.addWanted(w); err != nil {
			return Result{}, fmt.Errorf("%s: %w", w.Path, err)
		}
	}
	numbers := slices.Compact(slices.Sorted(slices.Values(opt.Transactions)))
	for _, n := range numbers {
		if err := b.transaction(n); err != nil {
			return Result{}, fmt.Errorf("build %d: %w", n, err)
		}
	}
	text, err := json.MarshalIndent(b.m, "", " ")
	if err != nil {
		return Result{}, err
	}
	if err := b.text(manifestName, text); err != nil {
		return Result{}, err
	}
	if opt.Key != nil {
		if err := b.text(signatureName, []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(opt.Key, text))+"\n")); err != nil {
			return Result{}, err
		}
	}
	return Result{len(b.m.Files), b.bytes}, b.z.Close()
}

// writer writes one bundle.
type writer struct {
	ctx      context.Context
	d        *depot.Depot
	z        *zip.Writer
	m        Manifest
	paths    map[string]bool // folded paths in the archive
	contents map[string]int  // index in m.Files by content and folded name
	bytes    int64
}

// addWanted adds one wanted file.
func (b *writer) addWanted(w needed.Want) error {
	if b.paths[symfile.Fold(w.Path)] {
		return nil
	}
	f, _, err := needed.Open(b.ctx, b.d, w)
	if err != nil {
		return err
	}
	return errors.Join(b.file(w.Path, w.Name, f), f.Close())
}

// transaction adds all files of a transaction.
func (b *writer) transaction(number int64) error {
	tx, err := b.d.Transaction(b.ctx, number)
	if err != nil {
		return err
	}
	if !tx.Removed.IsZero() {
		return errors.New("it was removed")
	}
	b.m.Transactions = append(b.m.Transactions, Transaction{
		Number: tx.Number, Product: tx.Product, Version: tx.Version, Comment: tx.Comment, Who: tx.Who, Host: tx.Host, Time: tx.Time.UTC(),
	})
	return b.d.Files(b.ctx, number, func(t depot.TxFile) error {
		path := layout.Path(t.Object)
		if path == "" {
			return nil
		}
		content := t.Ref.String() + " " + symfile.Fold(t.Object.Name)
		i, ok := b.contents[content]
		if !ok {
			f, err := b.d.Content(b.ctx, t.Ref)
			if err != nil {
				return err
			}
			f.ModTime = t.ModTime
			if err := errors.Join(b.file(b.freePath(path, number), t.Object.Name, f), f.Close()); err != nil {
				return err
			}
			i = len(b.m.Files) - 1
			b.contents[content] = i
		}
		if e := &b.m.Files[i]; !slices.Contains(e.In, number) {
			e.In = append(e.In, number)
		}
		return nil
	})
}

// freePath returns a path in the archive that is not used yet: several transactions
// may have different contents under one path.
func (b *writer) freePath(path string, number int64) string {
	p := path
	for n := 1; b.paths[symfile.Fold(p)]; n++ {
		p = fmt.Sprintf("tx%d-%d/%s", number, n, path)
	}
	return p
}

// file adds the content of a file.
func (b *writer) file(path, name string, f *answer.File) error {
	b.paths[symfile.Fold(path)] = true
	w, err := b.z.CreateHeader(&zip.FileHeader{Name: filesDir + path, Method: zip.Deflate, Modified: f.ModTime})
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), ctxio.NewReader(b.ctx, needed.Reader(f)))
	if err != nil {
		return err
	}
	b.bytes += n
	b.m.Files = append(b.m.Files, File{Path: path, Name: name, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n, ModTime: f.ModTime.UTC()})
	return nil
}

// text adds the manifest or the signature.
func (b *writer) text(name string, text []byte) error {
	w, err := b.z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: b.m.Created})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
