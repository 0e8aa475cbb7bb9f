package main

import (
	"archive/zip"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// A bundle is a zip archive: the files under files/, then manifest.json with the
// SHA-256 of each, then manifest.sig with the ed25519 signature of the manifest's
// bytes in base64, if it is signed.
const (
	bundleKind      = "symdepot bundle"
	bundleDir       = "files/"
	bundleManifest  = "manifest.json"
	bundleSignature = "manifest.sig"
)

// manifest is what manifest.json holds.
type manifest struct {
	Kind    string        `json:"kind"`
	Format  int           `json:"format"`
	Created time.Time     `json:"created"`
	Product string        `json:"product,omitempty"`
	Version string        `json:"version,omitempty"`
	Comment string        `json:"comment,omitempty"`
	Files   []bundleEntry `json:"files"`
	Missing []want        `json:"missing,omitempty"` // wanted, and found nowhere
}

// bundleEntry is one file of a bundle.
type bundleEntry struct {
	Path    string    `json:"path"` // in the archive, below files/
	Name    string    `json:"name"` // to identify it by
	SHA256  string    `json:"sha256"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mtime,omitzero"`
}

type bundleCmd struct {
	upstreamFlags
	wantFlags
	txFlags
	Tx      []int64 `help:"All files of this transaction of the depot; repeatable." placeholder:"N"`
	SignKey string  `help:"Sign with this ed25519 key, as symdepot keygen or openssl makes it (PEM)." placeholder:"FILE"`
	JSON    bool    `help:"Print one JSON object with the sums."`
	Out     string  `arg:"" help:"The archive to write."`
}

// Help is the long help text.
func (bundleCmd) Help() string {
	return `Writes symbol files into one archive, for a network that has no way out: a zip with the SHA-256 of each file,
signed. What the depot has not is fetched. Inside, symdepot import --verify-key takes it.

  symdepot keygen corp.key                          once; writes corp.key and corp.key.pub
  symdepot bundle win.zip --manifest needed.txt --upstream microsoft --sign-key corp.key
  symdepot bundle build-42.zip --tx 42 --sign-key corp.key
  symdepot import win.zip --verify-key corp.key.pub

Exit codes: 0 written, 1 written, but something exists nowhere, 2 wrong command line, 3 failed (nothing was
written), 4 depot damaged, 130 interrupted (nothing was written; run it again, what was fetched is kept).`
}

// Run writes a bundle.
func (c bundleCmd) Run(a *app) error {
	if c.empty() && len(c.Tx) == 0 {
		return term.UsageError("say what to put into the bundle: --manifest, --folder, --dump or --tx")
	}
	var key ed25519.PrivateKey
	if c.SignKey != "" {
		k, err := readSignKey(c.SignKey)
		if err != nil {
			return err
		}
		key = k
	}
	l, err := c.wants(a)
	if err != nil {
		return err
	}
	d, done, err := c.open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	var report fetchReport
	var have []want
	if err := fetchAll(a, d, l.list, c.Jobs, func(o outcome) {
		report.add(o)
		if o.Result == wantHad || o.Result == wantFetched {
			have = append(have, o.want)
		}
	}); err != nil {
		return err
	}
	if n := report.counts[wantFailed]; n > 0 {
		report.print(a, l.bad)
		return fmt.Errorf("%s failed; nothing was written", term.Count(n, "file"))
	}
	b := &bundler{a: a, d: d, m: manifest{Kind: bundleKind, Format: 1, Created: time.Now().UTC().Truncate(time.Second),
		Product: c.Product, Version: c.Version, Comment: c.Comment, Files: []bundleEntry{}}, seen: map[string]bool{}}
	for _, m := range report.missing {
		b.m.Missing = append(b.m.Missing, m.want)
	}
	err = durable.WriteTo(c.Out, 0o666, func(w io.Writer) error { return b.write(w, have, c.Tx, key) })
	if err != nil {
		return err
	}
	if c.JSON {
		err = term.NewJSONLines(a.stdout).Write(map[string]any{"files": len(b.m.Files), "bytes": b.bytes, "missing": b.m.Missing, "bad_lines": l.bad, "signed": key != nil})
	} else {
		report.print(a, l.bad)
		fmt.Fprintf(a.stdout, "wrote %s with %s, %s\n", c.Out, term.Count(int64(len(b.m.Files)), "file"), term.Size(b.bytes))
	}
	if err == nil && (len(report.missing) > 0 || len(l.bad) > 0) {
		return term.ErrNo
	}
	return err
}

// bundler writes one bundle.
type bundler struct {
	a     *app
	d     *depot.Depot
	z     *zip.Writer
	m     manifest
	seen  map[string]bool // folded paths
	bytes int64
}

func (b *bundler) write(w io.Writer, wants []want, txs []int64, key ed25519.PrivateKey) error {
	b.z = zip.NewWriter(w)
	b.z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	for _, w := range wants {
		f, _, err := openWant(b.a.ctx, b.d, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
		err = b.file(w.path, w.Name, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
	}
	for _, n := range txs {
		if err := b.d.Files(b.a.ctx, n, func(t depot.TxFile) error {
			path := bundlePath(t.Object)
			if path == "" || b.seen[symfile.Fold(path)] {
				return nil
			}
			f, err := b.d.Content(b.a.ctx, t.Ref)
			if err != nil {
				return err
			}
			f.ModTime = t.ModTime
			return errors.Join(b.file(path, t.Object.Name, f), f.Close())
		}); err != nil {
			return fmt.Errorf("transaction %d: %w", n, err)
		}
	}
	text, err := json.MarshalIndent(b.m, "", " ")
	if err != nil {
		return err
	}
	if err := b.member(bundleManifest, text); err != nil {
		return err
	}
	if key != nil {
		if err := b.member(bundleSignature, []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(key, text))+"\n")); err != nil {
			return err
		}
	}
	return b.z.Close()
}

// bundlePath is the path of an object in a bundle.
func bundlePath(o symfile.Object) string {
	for _, l := range []layout.Layout{layout.SymStore, layout.SSQP, layout.Debuginfod, layout.BreakpadTree, layout.LLDB, layout.Unified} {
		if p := l.Paths(o); len(p) > 0 {
			return p[0]
		}
	}
	return ""
}

func (b *bundler) file(path, name string, f *depot.File) error {
	if b.seen[symfile.Fold(path)] {
		return nil
	}
	b.seen[symfile.Fold(path)] = true
	w, err := b.z.CreateHeader(&zip.FileHeader{Name: bundleDir + path, Method: zip.Deflate, Modified: f.ModTime})
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), ctxReader{b.a.ctx, &fileReader{f: f}})
	if err != nil {
		return err
	}
	b.bytes += n
	b.m.Files = append(b.m.Files, bundleEntry{Path: path, Name: name, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: n, ModTime: f.ModTime.UTC()})
	return nil
}

func (b *bundler) member(name string, text []byte) error {
	w, err := b.z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: b.m.Created})
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// readPEM returns the only block of a PEM file.
func readPEM(path, what string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(text)
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, fmt.Errorf("%s is no PEM file with %s; symdepot keygen makes a pair", path, what)
	}
	return block.Bytes, nil
}

func readSignKey(path string) (ed25519.PrivateKey, error) {
	der, err := readPEM(path, "a private key")
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := k.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s holds no ed25519 private key; symdepot keygen makes one", path)
	}
	return key, nil
}

func readVerifyKey(path string) (ed25519.PublicKey, error) {
	der, err := readPEM(path, "a public key")
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKIXPublicKey(der)
	key, ok := k.(ed25519.PublicKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s holds no ed25519 public key; it is the file that ends in .pub", path)
	}
	return key, nil
}

type keygenCmd struct {
	File string `arg:"" help:"File for the private key; the public key gets the same name with .pub."`
}

// Help is the long help text.
func (keygenCmd) Help() string {
	return `Makes a pair of ed25519 keys to sign bundles with. Keep the private one where bundles are made; give the public
one to those who import them.

  symdepot keygen corp.key

Exit codes: 0 made, 2 wrong command line, 3 failed, or a file is there already.`
}

// Run writes a new pair of keys.
func (c keygenCmd) Run(a *app) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	open, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		path, what string
		der        []byte
		perm       os.FileMode
	}{{c.File, "PRIVATE KEY", secret, 0o600}, {c.File + ".pub", "PUBLIC KEY", open, 0o644}} {
		f, err := os.OpenFile(k.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, k.perm)
		if err != nil {
			return err
		}
		err = pem.Encode(f, &pem.Block{Type: k.what, Bytes: k.der})
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stdout, "wrote %s and %s.pub\n", c.File, c.File)
	return nil
}
