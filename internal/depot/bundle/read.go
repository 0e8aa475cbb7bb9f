package bundle

import (
	"archive/zip"
	"bytes"
	"cmp"
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

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/symfile"
)

// ErrTampered is wrapped by the error for a bundle whose content does not match
// its signature or its manifest.
var ErrTampered = errors.New("the bundle was changed after it was signed")

// Bundle is an open bundle. The caller must close it.
type Bundle struct {
	Manifest Manifest

	z     *zip.ReadCloser
	id    string // SHA-256 of the manifest
	files map[string]*zip.File
}

// Open opens a bundle and checks its signature, if key is not nil, and its list of
// files. Check must follow before the files can be trusted.
func Open(path string, key ed25519.PublicKey) (_ *Bundle, err error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("%s is not a bundle: %w", path, err)
	}
	b := &Bundle{z: z, files: map[string]*zip.File{}}
	defer func() {
		if err != nil {
			_ = z.Close()
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	for _, f := range z.File {
		if b.files[f.Name] != nil {
			return nil, fmt.Errorf("%w: it has two files %q", ErrTampered, f.Name)
		}
		b.files[f.Name] = f
	}
	text, err := b.text(manifestName)
	if err != nil {
		return nil, err
	}
	if key != nil {
		if err := b.checkSignature(text, key); err != nil {
			return nil, err
		}
	}
	if err := json.Unmarshal(text, &b.Manifest); err != nil || b.Manifest.Kind != kind {
		return nil, errors.New("its manifest.json is not that of a bundle")
	}
	if b.Manifest.Format != format {
		return nil, fmt.Errorf("it has format %d; this version of symdepot reads format %d", b.Manifest.Format, format)
	}
	sum := sha256.Sum256(text)
	b.id = hex.EncodeToString(sum[:])
	return b, b.checkMembers()
}

// Close closes the bundle.
func (b *Bundle) Close() error { return b.z.Close() }

func (b *Bundle) checkSignature(text []byte, key ed25519.PublicKey) error {
	line, err := b.text(signatureName)
	if err != nil {
		return errors.New("it is not signed")
	}
	sig, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(line)))
	if err != nil || !ed25519.Verify(key, text, sig) {
		return fmt.Errorf("%w, or by another key", ErrTampered)
	}
	return nil
}

// text reads the manifest or the signature.
func (b *Bundle) text(name string) ([]byte, error) {
	f := b.files[name]
	if f == nil {
		return nil, fmt.Errorf("it has no %s, so it is not a bundle", name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, io.LimitReader(r, maxText+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if buf.Len() > maxText {
		return nil, fmt.Errorf("%s is larger than %s", name, term.Size(maxText))
	}
	return buf.Bytes(), nil
}

// checkMembers compares the archive's members with the manifest.
func (b *Bundle) checkMembers() error {
	known := map[int64]bool{}
	for _, t := range b.Manifest.Transactions {
		if t.Number <= 0 || known[t.Number] {
			return fmt.Errorf("%w: build %d is listed twice or invalid", ErrTampered, t.Number)
		}
		known[t.Number] = true
	}
	listed := map[string]bool{manifestName: true, signatureName: true}
	for _, f := range b.Manifest.Files {
		name := filesDir + f.Path
		switch z := b.files[name]; {
		case !validPath(f.Path):
			return fmt.Errorf("%w: %q is not a path of a bundle", ErrTampered, term.Printable(f.Path))
		case z == nil:
			return fmt.Errorf("%w: %s is missing", ErrTampered, term.Printable(f.Path))
		case listed[name]:
			return fmt.Errorf("%w: %s is listed twice", ErrTampered, term.Printable(f.Path))
		case z.UncompressedSize64 != uint64(f.Size):
			return fmt.Errorf("%w: the size of %s differs from the manifest", ErrTampered, term.Printable(f.Path))
		case !symfile.ValidName(f.Name):
			return fmt.Errorf("%w: %q is not a file name", ErrTampered, term.Printable(f.Name))
		case slices.ContainsFunc(f.In, func(n int64) bool { return !known[n] }):
			return fmt.Errorf("%w: %s belongs to a build that is not in the manifest", ErrTampered, term.Printable(f.Path))
		}
		listed[name] = true
	}
	for name := range b.files {
		if !listed[name] {
			return fmt.Errorf("%w: it has %s, which is not in its manifest", ErrTampered, term.Printable(name))
		}
	}
	return nil
}

// validPath reports whether a path stays below the folder that it starts from, on
// every system.
func validPath(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if !symfile.ValidName(part) {
			return false
		}
	}
	return true
}

// read copies a file of the bundle to w and checks its hash.
func (b *Bundle) read(ctx context.Context, f File, w io.Writer) error {
	r, err := b.files[filesDir+f.Path].Open()
	if err != nil {
		return err
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(ctxio.NewReader(ctx, r), f.Size+1))
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%w: %s has changed", ErrTampered, term.Printable(f.Path))
	}
	return nil
}

// Size is the sum of the sizes of the files, in bytes.
func (b *Bundle) Size() int64 {
	var n int64
	for _, f := range b.Manifest.Files {
		n += f.Size
	}
	return n
}

// Check reads every file and compares its hash with the manifest. It calls
// progress with the bytes done.
func (b *Bundle) Check(ctx context.Context, progress func(done int64)) error {
	var done int64
	for _, f := range b.Manifest.Files {
		if err := b.read(ctx, f, io.Discard); err != nil {
			return err
		}
		done += f.Size
		progress(done)
	}
	return nil
}

// Imported sums up what Import did.
type Imported struct {
	Files        int // in new transactions
	Before       int // in transactions that were imported before
	Transactions int // new ones
	// Refused are the files that the rules of the depot refuse, with the reason.
	Refused []string
}

// Warnings name the files that were refused.
func (i Imported) Warnings() (list []string) {
	for _, r := range i.Refused {
		list = append(list, "not imported: "+term.Printable(r))
	}
	return list
}

// Import adds the files to a depot: each transaction of the bundle as one, and
// the other files in parts. What was imported before from the same bundle is
// left out. info completes the transactions: its product, version and comment
// replace those of files without a transaction, and fill empty ones of others.
func (b *Bundle) Import(ctx context.Context, d *depot.Depot, info depot.TxInfo) (Imported, error) {
	var sum Imported
	store := "bundle:" + b.id
	taken, err := d.Origins(ctx, store)
	if err != nil {
		return sum, err
	}
	add := func(number string, info depot.TxInfo, files []File) error {
		if len(files) == 0 {
			return nil
		}
		if taken[number] != 0 {
			sum.Before += len(files)
			return nil
		}
		info.Origin = &depot.Origin{Store: store, Number: number, Time: b.Manifest.Created}
		refused, err := b.add(ctx, d, info, files)
		switch {
		case err == nil:
			sum.Transactions++
		case !errors.Is(err, depot.ErrEmpty) && !errors.Is(err, depot.ErrImported):
			return err
		}
		sum.Files += len(files) - len(refused)
		sum.Refused = append(sum.Refused, refused...)
		return nil
	}
	m := &b.Manifest
	byTx := map[int64][]File{}
	var single []File
	for _, f := range m.Files {
		for _, n := range f.In {
			byTx[n] = append(byTx[n], f)
		}
		if len(f.In) == 0 {
			single = append(single, f)
		}
	}
	for _, t := range m.Transactions {
		own := depot.TxInfo{
			Product: cmp.Or(t.Product, info.Product), Version: cmp.Or(t.Version, info.Version), Comment: cmp.Or(t.Comment, info.Comment),
			Who: cmp.Or(t.Who, info.Who), Host: cmp.Or(t.Host, info.Host), Time: t.Time,
		}
		if err := add("build "+strconv.FormatInt(t.Number, 10), own, byTx[t.Number]); err != nil {
			return sum, err
		}
	}
	info.Product, info.Version = cmp.Or(info.Product, m.Product), cmp.Or(info.Version, m.Version)
	info.Comment = cmp.Or(info.Comment, m.Comment)
	part := 0
	for files := range slices.Chunk(single, partFiles) {
		part++
		if err := add(strconv.Itoa(part), info, files); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// add adds files as one transaction, but for those that the depot refuses.
func (b *Bundle) add(ctx context.Context, d *depot.Depot, info depot.TxInfo, files []File) (refused []string, err error) {
	tx, err := d.Begin(ctx, info)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	for _, f := range files {
		err := b.addFile(ctx, tx, f)
		switch {
		case errors.Is(err, depot.ErrLinks):
			refused = append(refused, f.Path+": "+err.Error())
		case err != nil:
			return nil, fmt.Errorf("%s: %w", term.Printable(f.Path), err)
		}
	}
	_, err = tx.Commit(ctx)
	return refused, err
}

func (b *Bundle) addFile(ctx context.Context, tx *depot.Tx, f File) error {
	tmp, err := os.CreateTemp("", "symdepot-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
	}()
	if err := b.read(ctx, f, tmp); err != nil {
		return err
	}
	_, err = tx.Add(ctx, depot.Source{Path: f.Path, Name: f.Name, ModTime: f.ModTime, Content: spooled{tmp, f.Size}})
	if errors.Is(err, depot.ErrNoID) {
		return nil
	}
	return err
}

// spooled is a temporary file that nobody else writes to.
type spooled struct {
	*os.File
	size int64
}

// Size implements depot.Content.
func (s spooled) Size() int64 { return s.size }

// Changed implements depot.Content.
func (s spooled) Changed() bool { return false }
