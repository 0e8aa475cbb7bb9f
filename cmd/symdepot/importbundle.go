package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/symfile"
)

const (
	bundlePart      = 500       // files of one transaction
	bundleTextLimit = 256 << 20 // of the manifest, in bytes
)

// errTampered is wrapped by the error of a bundle that is not as it was made.
var errTampered = errors.New("the bundle is not as it was signed")

// sealed is an opened bundle.
type sealed struct {
	z     *zip.ReadCloser
	m     manifest
	id    string // SHA-256 of the manifest
	files map[string]*zip.File
}

// openBundle opens a bundle and checks its manifest. key may be nil.
func openBundle(path string, key ed25519.PublicKey) (_ *sealed, err error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("%s is no bundle: %w", path, err)
	}
	b := &sealed{z: z, files: map[string]*zip.File{}}
	defer func() {
		if err != nil {
			_ = z.Close()
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	for _, f := range z.File {
		if b.files[f.Name] != nil {
			return nil, fmt.Errorf("%w: it has two files %q", errTampered, f.Name)
		}
		b.files[f.Name] = f
	}
	text, err := b.text(bundleManifest)
	if err != nil {
		return nil, err
	}
	if key != nil {
		if err := b.checkSignature(text, key); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(text, &b.m); err != nil || b.m.Kind != bundleKind {
		return nil, errors.New("its manifest is not that of a bundle")
	}
	if b.m.Format != 1 {
		return nil, fmt.Errorf("it has format %d, this program knows 1", b.m.Format)
	}
	sum := sha256.Sum256(text)
	b.id = hex.EncodeToString(sum[:])
	return b, b.checkMembers()
}

func (b *sealed) checkSignature(text []byte, key ed25519.PublicKey) error {
	line, err := b.text(bundleSignature)
	if err != nil {
		return errors.New("it is not signed")
	}
	sig, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(line)))
	if err != nil || !ed25519.Verify(key, text, sig) {
		return fmt.Errorf("%w, or by another key", errTampered)
	}
	return nil
}

// text reads a small member whole.
func (b *sealed) text(name string) ([]byte, error) {
	f := b.files[name]
	if f == nil {
		return nil, fmt.Errorf("it has no %s; it is no bundle", name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(r, bundleTextLimit+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if buf.Len() > bundleTextLimit {
		return nil, fmt.Errorf("%s is larger than %s", name, term.Size(bundleTextLimit))
	}
	return buf.Bytes(), nil
}

// checkMembers compares the archive's members with the manifest.
func (b *sealed) checkMembers() error {
	want := map[string]bool{bundleManifest: true, bundleSignature: true}
	for _, f := range b.m.Files {
		name := bundleDir + f.Path
		switch z := b.files[name]; {
		case z == nil:
			return fmt.Errorf("%w: %s is missing", errTampered, term.Printable(f.Path))
		case want[name]:
			return fmt.Errorf("%w: %s is listed twice", errTampered, term.Printable(f.Path))
		case z.UncompressedSize64 != uint64(f.Size):
			return fmt.Errorf("%w: %s has another size", errTampered, term.Printable(f.Path))
		case !symfile.ValidName(f.Name):
			return fmt.Errorf("%w: %q is no file name", errTampered, term.Printable(f.Name))
		}
		want[name] = true
	}
	for name := range b.files {
		if !want[name] {
			return fmt.Errorf("%w: it has %s, which is not in its manifest", errTampered, term.Printable(name))
		}
	}
	return nil
}

// read copies a file of the bundle to w and checks its hash.
func (b *sealed) read(ctx context.Context, f bundleEntry, w io.Writer) error {
	r, err := b.files[bundleDir+f.Path].Open()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(ctxReader{ctx, r}, f.Size+1))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s has changed", errTampered, term.Printable(f.Path))
	}
	return nil
}

// importBundle takes a bundle over: first every byte is checked, then the files
// come in parts, each a transaction. Parts that came before are passed over.
func (c importCmd) importBundle(a *app) error {
	var key ed25519.PublicKey
	switch {
	case c.VerifyKey == "" && !c.Unsigned:
		return term.UsageError(c.Tree + " is a file: a bundle is imported with --verify-key FILE, or with --unsigned if it is not signed")
	case c.VerifyKey != "":
		k, err := readVerifyKey(c.VerifyKey)
		if err != nil {
			return err
		}
		key = k
	}
	b, err := openBundle(c.Tree, key)
	if err != nil {
		return err
	}
	defer b.z.Close()
	if err := b.check(a); err != nil {
		return fmt.Errorf("%s: %w; nothing was imported", c.Tree, err)
	}
	if c.DryRun {
		fmt.Fprintf(a.stdout, "%s: %s, as signed\n", c.Tree, term.Count(int64(len(b.m.Files)), "file"))
		return nil
	}
	d, err := a.open(depot.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	store := "bundle:" + b.id
	taken, err := d.Origins(a.ctx, store)
	if err != nil {
		return err
	}
	part, added, before := 0, 0, 0
	for files := range slices.Chunk(b.m.Files, bundlePart) {
		part++
		number := strconv.Itoa(part)
		if taken[number] != 0 {
			before += len(files)
			continue
		}
		info := c.bundleInfo(b)
		info.Origin = &depot.Origin{Store: store, Number: number, Time: b.m.Created}
		if err := b.addPart(a, d, info, files); err != nil && !errors.Is(err, depot.ErrEmpty) && !errors.Is(err, depot.ErrTaken) {
			return err
		}
		added += len(files)
	}
	if c.JSON {
		return term.NewJSONLines(a.stdout).Write(map[string]int{"files": added, "before": before, "missing": len(b.m.Missing)})
	}
	fmt.Fprintf(a.stdout, "imported %s; %d were here already\n", term.Count(int64(added), "file"), before)
	if n := len(b.m.Missing); n > 0 {
		fmt.Fprintf(a.stdout, "%s of what was wanted existed nowhere when the bundle was made\n", term.Count(int64(n), "file"))
	}
	return nil
}

func (c importCmd) bundleInfo(b *sealed) depot.TxInfo {
	info := c.info()
	if info.Product == "" {
		info.Product = b.m.Product
	}
	if info.Version == "" {
		info.Version = b.m.Version
	}
	if info.Comment == "" {
		info.Comment = b.m.Comment
	}
	return info
}

// check reads every file.
func (b *sealed) check(a *app) error {
	var total, done int64
	for _, f := range b.m.Files {
		total += f.Size
	}
	p := term.NewProgress(a.stderr, "checking", total)
	defer p.Done()
	for _, f := range b.m.Files {
		if err := b.read(a.ctx, f, io.Discard); err != nil {
			return err
		}
		done += f.Size
		p.Set(done)
	}
	return nil
}

func (b *sealed) addPart(a *app, d *depot.Depot, info depot.TxInfo, files []bundleEntry) error {
	tx, err := d.Begin(a.ctx, info)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, f := range files {
		if err := b.addFile(a, tx, f); err != nil {
			return fmt.Errorf("%s: %w", term.Printable(f.Path), err)
		}
	}
	_, err = tx.Commit(a.ctx)
	return err
}

func (b *sealed) addFile(a *app, tx *depot.Tx, f bundleEntry) error {
	tmp, err := os.CreateTemp("", "symdepot-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
	}()
	if err := b.read(a.ctx, f, tmp); err != nil {
		return err
	}
	_, err = tx.Add(a.ctx, depot.Source{Path: f.Path, Name: f.Name, ModTime: f.ModTime, Content: spooled{tmp, f.Size}})
	if errors.Is(err, depot.ErrNoID) {
		return nil
	}
	return err
}

// spooled is a temporary file that nobody else knows.
type spooled struct {
	*os.File
	size int64
}

// Size implements depot.Content.
func (s spooled) Size() int64 { return s.size }

// Changed implements depot.Content.
func (s spooled) Changed() bool { return false }
