package bundle

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
)

// member is a member of an archive that a test writes.
type member struct {
	name string
	body []byte
}

// archive writes a zip archive with these members, in this order.
func archive(t *testing.T, members []member) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, m := range members {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.name, Method: zip.Store})
		if err == nil && m.body != nil {
			_, err = w.Write(m.body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// signed returns the manifest of files and its signature.
func signed(t *testing.T, key ed25519.PrivateKey, files ...File) []member {
	t.Helper()
	text, err := json.Marshal(Manifest{Kind: kind, Format: format, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return []member{{manifestName, text}, {signatureName, []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(key, text)))}}
}

// file is the entry of a manifest for a body at a path.
func file(path string, body []byte) File {
	sum := sha256.Sum256(body)
	return File{Path: path, Name: "app.sym", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(body))}
}

// sizesLie changes the sizes of a member in the central directory, which readers
// believe, and leaves its bytes.
func sizesLie(t *testing.T, zipped []byte, name string, size uint32) []byte {
	t.Helper()
	// The directory comes last (APPNOTE.TXT 4.3.6); an entry has the sizes at 20
	// and 24 and the name at 46 (4.3.12).
	at := bytes.LastIndex(zipped, []byte(name)) - 46
	if at < 0 || !bytes.HasPrefix(zipped[at:], []byte("PK\x01\x02")) {
		t.Fatalf("the archive has no entry for %s in its directory", name)
	}
	out := bytes.Clone(zipped)
	binary.LittleEndian.PutUint32(out[at+20:], size)
	binary.LittleEndian.PutUint32(out[at+24:], size)
	return out
}

// TestMalformedArchives: an archive that does not match its manifest is
// rejected before anything is written, even with a valid signature.
func TestMalformedArchives(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	body := []byte("MODULE windows x86_64 0123456789ABCDEF0123456789ABCDEF1 app.pdb\nPUBLIC 1000 0 f\n")
	const path = "app.pdb/0123456789ABCDEF0123456789ABCDEF1/app.sym"
	content := member{filesDir + path, body}
	right := append([]member{content}, signed(t, private, file(path, body))...)
	// named is an archive with the file under another path.
	named := func(path string) []byte {
		return archive(t, append([]member{{filesDir + path, body}}, signed(t, private, file(path, body))...))
	}
	larger, negative := file(path, body), file(path, body)
	larger.Size, negative.Size = 1<<40, -int64(len(body))
	good := archive(t, right)
	for _, c := range []struct {
		name string
		data []byte
		want string // part of the error
	}{
		{"empty file", nil, "not a bundle"},
		{"wrong magic", append([]byte("MZ"), good[2:len(good)-22]...), "not a bundle"},
		{"text", []byte("symdepot bundle\n"), "not a bundle"},
		{"directory cut off", good[:len(good)-30], "not a bundle"},
		{"no members", archive(t, nil), "has no manifest.json"},
		{"no manifest", archive(t, right[:1]), "has no manifest.json"},
		{"no signature", archive(t, right[:2]), "not signed"},
		{"manifest is a folder", archive(t, append([]member{content, {manifestName + "/", nil}}, right[2])), "has no manifest.json"},
		{"manifest is not JSON", archive(t, []member{{manifestName, []byte("{")}, {signatureName, []byte(base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte("{"))))}}), "not that of a bundle"},
		{"signature is not base64", archive(t, []member{content, right[1], {signatureName, []byte("?")}}), "changed after it was signed"},
		{"file twice", archive(t, append([]member{content}, right...)), "two files"},
		{"manifest twice", archive(t, append([]member{right[1]}, right...)), "two files"},
		{"extra member", archive(t, append([]member{{"files/extra", body}}, right...)), "not in its manifest"},
		{"extra member outside of files", archive(t, append([]member{{"../extra", body}}, right...)), "not in its manifest"},
		{"extra folder", archive(t, append([]member{{"files/", nil}}, right...)), "not in its manifest"},
		{"path with ..", named("../../etc/app.sym"), "not a path"},
		{"path with .. inside", named("a/../../app.sym"), "not a path"},
		{"absolute path", named("/etc/app.sym"), "not a path"},
		{"empty path", archive(t, append([]member{{filesDir, nil}}, signed(t, private, file("", nil))...)), "not a path"},
		{"path with an empty part", named("a//app.sym"), "not a path"},
		{"path with backslashes", named(`..\..\app.sym`), "not a path"},
		{"path with a control character", named("a\n/app.sym"), "not a path"},
		{"size larger in the manifest", archive(t, append([]member{content}, signed(t, private, larger)...)), "size of"},
		{"negative size in the manifest", archive(t, append([]member{content}, signed(t, private, negative)...)), "size of"},
		{"sizes larger in the archive", sizesLie(t, good, content.name, 1<<30), "size of"},
		{"sizes smaller in the archive", sizesLie(t, good, content.name, 1), "size of"},
		{"sizes larger in both", sizesLie(t, archive(t, append([]member{content}, signed(t, private, func() File { f := file(path, body); f.Size = 1 << 30; return f }())...)), content.name, 1<<30), "has changed"},
		{"sizes smaller in both", sizesLie(t, archive(t, append([]member{content}, signed(t, private, func() File { f := file(path, body); f.Size = 9; return f }())...)), content.name, 9), "has changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "b.zip")
			if err := os.WriteFile(name, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			err := checked(name, public)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "b.zip") && !strings.Contains(err.Error(), "has changed") {
				t.Errorf("error %v, want one that names b.zip and contains %q", err, c.want)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
				t.Errorf("%d files beside the bundle, error %v; want none", len(list)-1, err)
			}
		})
	}
	if err := checked(write(t, good), public); err != nil {
		t.Errorf("the archive without a fault: %v", err)
	}
}

// TestMalformedImport: a file whose bytes are not those of the manifest is not
// imported, also by a caller that did not check the bundle first.
func TestMalformedImport(t *testing.T) {
	t.Parallel()
	public, private := keys(t)
	body := []byte("MODULE windows x86_64 0123456789ABCDEF0123456789ABCDEF1 app.pdb\nPUBLIC 1000 0 f\n")
	const path = "app.pdb/0123456789ABCDEF0123456789ABCDEF1/app.sym"
	other := bytes.Replace(body, []byte("1000"), []byte("2000"), 1)
	b, err := Open(write(t, archive(t, append([]member{{filesDir + path, other}}, signed(t, private, file(path, body))...))), public)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := newDepot(t)
	if sum, err := b.Import(t.Context(), d, depot.TxInfo{}); err == nil || !strings.Contains(err.Error(), "has changed") || !reflect.DeepEqual(sum, Imported{}) {
		t.Errorf("import: %+v, error %v; want nothing, and that the file has changed", sum, err)
	}
	if txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{}); err != nil || len(txs) != 0 {
		t.Errorf("%d builds, error %v; want none", len(txs), err)
	}
	blobs := 0
	_ = filepath.WalkDir(filepath.Join(d.Name(), "blobs"), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			blobs++
		}
		return err
	})
	if blobs != 0 {
		t.Errorf("%d files below blobs, want none", blobs)
	}
}
