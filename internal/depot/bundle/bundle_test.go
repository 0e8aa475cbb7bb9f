package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/needed"
)

const (
	testdata = "../../../testdata"
	pdbKey   = "F9EFE0B6AE7500394C4C44205044422E1"
)

func newDepot(t *testing.T) *depot.Depot {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the depot: %v", err)
		}
	})
	return d
}

// add adds files of testdata under other names, as one transaction.
func add(t *testing.T, d *depot.Depot, info depot.TxInfo, files map[string]string) int64 {
	t.Helper()
	tx, err := d.Begin(t.Context(), info)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for name, from := range files {
		f, err := os.Open(filepath.Join(testdata, filepath.FromSlash(from)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Add(t.Context(), depot.Source{Path: "/build/" + name, Name: name, Content: spooled{f, info.Size()}}); err != nil {
			t.Fatalf("add %s: %v", name, err)
		}
	}
	n, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// keys returns a new pair of keys.
func keys(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "k")
	if err := NewKeys(path); err != nil {
		t.Fatal(err)
	}
	private, err := ReadSignKey(path)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ReadVerifyKey(path + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

// made is a signed bundle of two transactions and one wanted file.
func made(t *testing.T, key ed25519.PrivateKey) []byte {
	t.Helper()
	d := newDepot(t)
	one := add(t, d, depot.TxInfo{Product: "Spiel ä", Version: "1", Comment: "名前", Time: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		map[string]string{"Größe.pdb": "pdb/hello-x86.pdb", "prog": "elf/prog-sha1"})
	two := add(t, d, depot.TxInfo{Product: "driver"}, map[string]string{"日本.exe": "pdb/hello-x64.exe"})
	add(t, d, depot.TxInfo{}, map[string]string{"hello-x64.pdb": "pdb/hello-x64.pdb"})
	w, err := needed.Of("hello-x64.pdb", pdbKey, "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, err := Write(t.Context(), &out, d, Options{Product: "wanted", Wants: []needed.Want{w, w}, Transactions: []int64{two, one, two}, Key: key, Now: time.Unix(1700000000, 5)})
	if err != nil || r.Files != 4 {
		t.Fatalf("write: %d files, error %v; want 4", r.Files, err)
	}
	return out.Bytes()
}

func write(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.zip")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// checked opens a bundle and reads every byte of it, as an import does first.
func checked(path string, key ed25519.PublicKey) error {
	b, err := Open(path, key)
	if err != nil {
		return err
	}
	return errors.Join(b.Check(context.Background(), func(int64) {}), b.Close())
}

// TestRoundTrip: transactions and single files arrive with their words, their dates
// and their bytes; the second import imports nothing.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	b, err := Open(write(t, made(t, private)), public)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var last int64
	if err := b.Check(t.Context(), func(n int64) { last = n }); err != nil || last != b.Size() {
		t.Fatalf("check: %d of %d bytes, error %v; want all bytes", last, b.Size(), err)
	}
	d := newDepot(t)
	if r, err := b.Import(t.Context(), d, depot.TxInfo{Version: "filled in"}); err != nil || !reflect.DeepEqual(r, Imported{Files: 4, Transactions: 3}) {
		t.Errorf("import: %+v, error %v; want 4 files in 3 builds", r, err)
	}
	if r, err := b.Import(t.Context(), d, depot.TxInfo{}); err != nil || !reflect.DeepEqual(r, Imported{Before: 4}) {
		t.Errorf("second import: %+v, error %v; want 4 files before", r, err)
	}
	txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil || len(txs) != 3 {
		t.Fatalf("%d builds, error %v; want 3", len(txs), err)
	}
	slices.Reverse(txs)
	var products []string
	for _, tx := range txs {
		products = append(products, tx.Product+","+tx.Version+","+tx.Comment)
	}
	if want := []string{"Spiel ä,1,名前", "driver,filled in,", "wanted,filled in,"}; !slices.Equal(products, want) {
		t.Errorf("builds %q, want %q", products, want)
	}
	if want := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC); !txs[0].Time.Equal(want) {
		t.Errorf("time of the first build %v, want %v", txs[0].Time, want)
	}
	for name, id := range map[string]string{"hello-x64.pdb": pdbKey, "日本.exe": "C10891754000"} {
		w, err := needed.Of(name, id, "")
		if err != nil {
			t.Fatal(err)
		}
		f, _, err := needed.Open(t.Context(), d, w)
		if err != nil {
			t.Errorf("%s after the import: %v", name, err)
			continue
		}
		_ = f.Close()
	}
}

// TestOtherKeyRefused: a bundle opens with its own key or without a key, but not
// with a different key.
func TestOtherKeyRefused(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	other, _ := keys(t)
	signed, unsigned := write(t, made(t, private)), write(t, made(t, nil))
	for _, c := range []struct {
		name, path string
		key        ed25519.PublicKey
		ok         bool
	}{
		{"signed, its key", signed, public, true}, {"signed, no key", signed, nil, true}, {"signed, another key", signed, other, false},
		{"unsigned, no key", unsigned, nil, true}, {"unsigned, a key", unsigned, public, false},
	} {
		if err := checked(c.path, c.key); (err == nil) != c.ok {
			t.Errorf("%s: error %v, want success %v", c.name, err, c.ok)
		}
	}
}

// TestDamaged: a bundle that is cut or has a changed byte is refused.
func TestDamaged(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	good := made(t, private)
	for n := 0; n < len(good); n += max(1, len(good)/40) {
		if err := checked(write(t, good[:n]), public); err == nil {
			t.Errorf("a bundle cut to %d of %d bytes is accepted", n, len(good))
		}
	}
	// Every member's content, the manifest and the signature.
	z, err := zip.NewReader(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		at, err := f.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bad[at+int64(f.CompressedSize64)/2] ^= 0x20
		if err := checked(write(t, bad), public); err == nil {
			t.Errorf("%s: a changed byte is accepted", f.Name)
		}
	}
}

// remade writes a bundle again after change has edited its members, with a new
// signature of the manifest if key is not nil.
func remade(t *testing.T, data []byte, key ed25519.PrivateKey, change func(members map[string][]byte, m *Manifest)) []byte {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	members := map[string][]byte{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if members[f.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var m Manifest
	if err := json.Unmarshal(members[manifestName], &m); err != nil {
		t.Fatal(err)
	}
	change(members, &m)
	if members[manifestName], err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if key != nil {
		members[signatureName] = []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(key, members[manifestName])))
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, b := range members {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestTampered: changed bundles are rejected although the archive is intact;
// invalid content is rejected even with a valid signature.
func TestTampered(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	good := made(t, private)
	nothing := func(map[string][]byte, *Manifest) {}
	if err := checked(write(t, remade(t, good, private, nothing)), public); err != nil {
		t.Fatalf("a bundle written again without a change: %v", err)
	}
	for _, c := range []struct {
		name   string
		sign   bool
		change func(map[string][]byte, *Manifest)
		want   string
	}{
		{"new manifest, old signature", false, func(_ map[string][]byte, m *Manifest) { m.Product = "other" }, "changed after it was signed"},
		{"content", false, func(f map[string][]byte, m *Manifest) { f[filesDir+m.Files[0].Path][0] ^= 1 }, ""},
		{"longer content", true, func(f map[string][]byte, m *Manifest) {
			f[filesDir+m.Files[0].Path] = append(f[filesDir+m.Files[0].Path], 0)
		}, "size"},
		{"missing member", true, func(f map[string][]byte, m *Manifest) { delete(f, filesDir+m.Files[0].Path) }, "is missing"},
		{"further member", true, func(f map[string][]byte, _ *Manifest) { f["files/../../x"] = nil }, "not in its manifest"},
		{"file listed twice", true, func(_ map[string][]byte, m *Manifest) { m.Files = append(m.Files, m.Files[0]) }, "listed twice"},
		{"unknown build", true, func(_ map[string][]byte, m *Manifest) { m.Files[0].In = []int64{99} }, "not in the manifest"},
		{"build listed twice", true, func(_ map[string][]byte, m *Manifest) { m.Transactions = append(m.Transactions, m.Transactions[0]) }, "twice or invalid"},
		{"invalid build", true, func(_ map[string][]byte, m *Manifest) { m.Transactions[0].Number = -1 }, "twice or invalid"},
		{"name with a path", true, func(_ map[string][]byte, m *Manifest) { m.Files[0].Name = "../x" }, "not a file name"},
		{"other format", true, func(_ map[string][]byte, m *Manifest) { m.Format = 2 }, "format 2"},
		{"other kind", true, func(_ map[string][]byte, m *Manifest) { m.Kind = "a recipe" }, "not that of a bundle"},
		{"wrong hash", true, func(_ map[string][]byte, m *Manifest) { m.Files[0].SHA256 = strings.Repeat("0", 64) }, "has changed"},
	} {
		key := private
		if !c.sign {
			key = nil
		}
		err := checked(write(t, remade(t, good, key, c.change)), public)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestReadKeys: files that are no keys.
func TestReadKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "k")
	if err := NewKeys(path); err != nil {
		t.Fatal(err)
	}
	if err := NewKeys(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("keys over existing ones: error %v, want %v", err, os.ErrExist)
	}
	if info, err := os.Stat(path); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the private key %v, error %v; want 0600", info.Mode().Perm(), err)
	}
	alone := filepath.Join(dir, "alone")
	if err := os.WriteFile(alone+".pub", []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewKeys(alone); !errors.Is(err, os.ErrExist) {
		t.Errorf("keys beside a public one: error %v, want %v", err, os.ErrExist)
	}
	if _, err := os.Stat(alone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after that error there is a private key: %v, want %v", err, os.ErrNotExist)
	}
	if b, err := os.ReadFile(alone + ".pub"); err != nil || string(b) != "kept" {
		t.Errorf("the public key is %q, %v, want that it is kept", b, err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{text, path + ".pub", filepath.Join(dir, "missing")} {
		if _, err := ReadSignKey(p); err == nil {
			t.Errorf("%s is read as a private key, want an error", filepath.Base(p))
		}
	}
	for _, p := range []string{text, path, filepath.Join(dir, "missing")} {
		if _, err := ReadVerifyKey(p); err == nil {
			t.Errorf("%s is read as a public key, want an error", filepath.Base(p))
		}
	}
}
