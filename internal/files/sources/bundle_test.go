package sources

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// files are files of a bundle with the given paths and texts.
func files(pairs ...string) []BundledFile {
	var list []BundledFile
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, BundledFile{Path: pairs[i], Open: text(pairs[i+1])})
	}
	return list
}

func text(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func contents(t testing.TB, b *BundleReader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range b.Files {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		out[f.Path] = string(p)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	return out
}

func TestBundle(t *testing.T) {
	t.Parallel()
	attributes := Attributes{Arch: "x86_64", DebugID: "392a9ae6-fb29-7781-a9b0-2cff664f003b", ObjectName: "prog", CodeID: "e69a2a3929fb8177a9b02cff664f003b03f5e6d2"}
	list := files(
		"/src/main.c", "int main;\n", `C:\src\a.c`, "a", "C:/src//a.c", "other", "C:/src/a.c", "third", "/src/größe.h", "ü",
		"rel/../../x.c", "x", "/src/latin.c", "\xe4", "/src/large.c", strings.Repeat("x", MaxBundledFile+1), `/src/q"<&>.c`, "q",
	)
	list = append(list, BundledFile{Path: "/gone.c", Open: func() (io.ReadCloser, error) { return nil, fs.ErrNotExist }})
	var out bytes.Buffer
	var skipped []string
	bundle := Bundle{Attributes: attributes, Links: map[string]string{"/src/*": "https://example.com/*"}, Files: slices.Values(list), Skip: func(path, _ string) { skipped = append(skipped, path) }}
	st, err := WriteBundle(&out, bundle)
	if err != nil {
		t.Fatal(err)
	}
	if st.Files != 7 || st.Skipped != 3 || !slices.Equal(skipped, []string{"/src/latin.c", "/src/large.c", "/gone.c"}) {
		t.Errorf("%+v, skipped %q; want 7 files, and 3 skipped: not UTF-8, too large, not there", st, skipped)
	}
	p := out.Bytes()
	if !bytes.HasPrefix(p, []byte("SYSB\x02\x00\x00\x00PK\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00\x21\x00")) {
		t.Errorf("the bundle begins with % x, want the header, and a deflated file of 1980-01-01 without a data descriptor", p[:24])
	}
	var again bytes.Buffer
	if _, err := WriteBundle(&again, bundle); err != nil || !bytes.Equal(again.Bytes(), p) {
		t.Errorf("a second bundle of the same files differs, %v; want equal bytes", err)
	}
	r := bytes.NewReader(p)
	z, err := zip.NewReader(r, r.Size()) // the whole file: offsets count from its beginning
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	for _, f := range z.File {
		members = append(members, f.Name)
		if f.Modified.Year() > 1980 || len(f.Extra) > 0 || f.CreatorVersion != 0x314 || f.ExternalAttrs != 0x81a40000 {
			t.Errorf("%s: %+v, want what Sentry's tools write", f.Name, f.FileHeader)
		}
	}
	want := []string{"files/src/main.c", "files/C/src/a.c", "files/C/src/a.c.1", "files/C/src/a.c.2", "files/src/größe.h", "files/x.c", `files/src/q"<&>.c`, "manifest.json"}
	if !slices.Equal(members, want) {
		t.Errorf("members %q, want %q", members, want)
	}
	objects, err := objfile.Identify(r, r.Size(), "x.src.zip", objfile.Options{})
	if err != nil || len(objects) != 1 || objects[0].Kind != symfile.SourceBundle || objects[0].DebugID.String() != attributes.DebugID || objects[0].Name != "prog" || objects[0].Of != symfile.ELF {
		t.Errorf("identified as %+v, %v; want the source bundle of prog", objects, err)
	}
	b, err := ReadBundle(r, r.Size())
	if err != nil {
		t.Fatal(err)
	}
	if b.Attributes != attributes || !maps.Equal(b.Links, bundle.Links) || len(b.Refused) != 0 {
		t.Errorf("attributes %+v, links %v, refused %q; want what was written", b.Attributes, b.Links, b.Refused)
	}
	have := contents(t, b)
	wantText := map[string]string{"/src/main.c": "int main;\n", `C:\src\a.c`: "a", "C:/src//a.c": "other", "C:/src/a.c": "third", "/src/größe.h": "ü", "rel/../../x.c": "x", `/src/q"<&>.c`: "q"}
	if !maps.Equal(have, wantText) {
		t.Errorf("read %q, want %q", have, wantText)
	}
	if _, err := WriteBundle(io.Discard, Bundle{Files: slices.Values(files())}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a bundle without files: %v, want fs.ErrNotExist", err)
	}
}

// TestManyFiles: more than 65,535 files need zip64.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("writes 70,000 files: run it without -short")
	}
	const n = 70_000
	var out bytes.Buffer
	st, err := WriteBundle(&out, Bundle{Attributes: Attributes{ObjectName: "prog", DebugID: "392a9ae6-fb29-7781-a9b0-2cff664f003b"}, Files: func(yield func(BundledFile) bool) {
		for i := range n {
			if !yield(BundledFile{Path: fmt.Sprintf("/src/%d.c", i), Open: text(fmt.Sprint(i))}) {
				return
			}
		}
	}})
	if err != nil || st.Files != n {
		t.Fatalf("%+v, %v, want %d files", st, err, n)
	}
	r := bytes.NewReader(out.Bytes())
	b, err := ReadBundle(r, r.Size())
	if err != nil || len(b.Files) != n {
		t.Fatalf("%v, want %d files", err, n)
	}
	if _, err := objfile.Identify(r, r.Size(), "x.src.zip", objfile.Options{}); err != nil {
		t.Error(err)
	}
}

// zipped is a file that begins as a source bundle does, with members as given.
func zipped(t testing.TB, manifest string, add func(z *zip.Writer)) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("SYSB\x02\x00\x00\x00")
	z := zip.NewWriter(&out)
	z.SetOffset(8)
	if add != nil {
		add(z)
	}
	if manifest != "" {
		w, err := z.Create(manifestName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, manifest); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

// TestHostileBundle: archives that lie, repeat names or lead elsewhere.
func TestHostileBundle(t *testing.T) {
	t.Parallel()
	member := func(name, content string) func(*zip.Writer) {
		return func(z *zip.Writer) {
			w, err := z.Create(name)
			if err == nil {
				_, err = io.WriteString(w, content)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	all := func(list ...func(*zip.Writer)) func(*zip.Writer) {
		return func(z *zip.Writer) {
			for _, f := range list {
				f(z)
			}
		}
	}
	raw := func(h zip.FileHeader, content string) func(*zip.Writer) {
		return func(z *zip.Writer) {
			w, err := z.CreateRaw(&h)
			if err == nil {
				_, err = io.WriteString(w, content)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	manifest := func(names ...string) string {
		m := map[string]map[string]map[string]string{"files": {}}
		for _, n := range names {
			m["files"][n] = map[string]string{"type": "source", "path": "/p/" + n}
		}
		p, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	link := func(z *zip.Writer) {
		h := &zip.FileHeader{Name: "files/link.c"}
		h.SetMode(fs.ModeSymlink | 0o777)
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, "/etc/passwd")
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		what  string
		r     *bytes.Reader
		files []string
		err   error // of opening
		bad   bool  // reading the file fails
	}{
		{"plain", zipped(t, manifest("files/a.c"), member("files/a.c", "a")), []string{"/p/files/a.c"}, nil, false},
		{"empty file", bytes.NewReader(nil), nil, ErrBundle, false},
		{"no bundle", bytes.NewReader([]byte("PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")), nil, ErrBundle, false},
		{"header only", bytes.NewReader([]byte("SYSB\x02\x00\x00\x00")), nil, ErrBundle, false},
		{"later version", bytes.NewReader([]byte("SYSB\x03\x00\x00\x00PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")), nil, ErrBundle, false},
		{"no manifest", zipped(t, "", member("files/a.c", "a")), nil, ErrBundle, false},
		{"manifest is no JSON", zipped(t, "<html>", member("files/a.c", "a")), nil, ErrBundle, false},
		{"manifest cut short", zipped(t, `{"files":{"files/a.c":{"path":"/a.c"`, member("files/a.c", "a")), nil, ErrBundle, false},
		{"files are a list", zipped(t, `{"files":[1,2]}`, member("files/a.c", "a")), nil, ErrBundle, false},
		{"a file that is not listed", zipped(t, manifest("files/a.c"), all(member("files/a.c", "a"), member("files/b.c", "b"))), []string{"/p/files/a.c"}, nil, false},
		{"a listed file that is not there", zipped(t, manifest("files/a.c", "files/b.c"), member("files/a.c", "a")), []string{"/p/files/a.c"}, nil, false},
		{"dots", zipped(t, manifest("files/../../etc/passwd"), member("files/../../etc/passwd", "a")), nil, nil, false},
		{"dots with backslashes", zipped(t, manifest(`files\..\x`), member(`files\..\x`, "a")), nil, nil, false},
		{"absolute", zipped(t, manifest("/etc/passwd", `C:\x`), all(member("/etc/passwd", "a"), member(`C:\x`, "a"))), nil, nil, false},
		{"link", zipped(t, manifest("files/link.c"), link), nil, nil, false},
		{"two members of one name", zipped(t, manifest("files/a.c"), all(member("files/a.c", "a"), member("files/a.c", "b"), member("files/a.c", "c"))), nil, nil, false},
		{"two manifests", zipped(t, manifest("files/a.c"), all(member("manifest.json", "{}"), member("files/a.c", "a"))), nil, ErrBundle, false},
		{"bomb", zipped(t, manifest("files/a.c"), member("files/a.c", strings.Repeat("\x00", 5<<20))), nil, nil, false},
		{"too large", zipped(t, manifest("files/a.c"), raw(zip.FileHeader{Name: "files/a.c", UncompressedSize64: MaxFile + 1, CompressedSize64: 1}, "a")), nil, nil, false},
		{"all claim too much", zipped(t, manifest(), func(z *zip.Writer) {
			for i := range 10 {
				raw(zip.FileHeader{Name: fmt.Sprintf("files/%d.c", i), UncompressedSize64: MaxFile, CompressedSize64: 1}, "a")(z)
			}
		}), nil, ErrTooLarge, false},
		{"larger than it claims", zipped(t, manifest("files/a.c"), raw(zip.FileHeader{Name: "files/a.c", UncompressedSize64: 1, CompressedSize64: 3}, "abc")), []string{"/p/files/a.c"}, nil, true},
		{"smaller than it claims", zipped(t, manifest("files/a.c"), raw(zip.FileHeader{Name: "files/a.c", UncompressedSize64: 9, CompressedSize64: 3}, "abc")), []string{"/p/files/a.c"}, nil, true},
		{"wrong checksum", zipped(t, manifest("files/a.c"), raw(zip.FileHeader{Name: "files/a.c", UncompressedSize64: 3, CompressedSize64: 3, CRC32: 1}, "abc")), []string{"/p/files/a.c"}, nil, true},
		{"unknown method", zipped(t, manifest("files/a.c"), raw(zip.FileHeader{Name: "files/a.c", Method: 14, UncompressedSize64: 3, CompressedSize64: 3}, "abc")), []string{"/p/files/a.c"}, nil, true},
	} {
		b, err := ReadBundle(c.r, c.r.Size())
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.what, err, c.err)
		}
		if err != nil {
			continue
		}
		var got []string
		for _, f := range b.Files {
			got = append(got, f.Path)
			r, err := f.Open()
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				r.Close()
			}
			if (err != nil) != c.bad {
				t.Errorf("%s: reading %s: %v, want an error: %v", c.what, f.Path, err, c.bad)
			}
		}
		if !slices.Equal(got, c.files) {
			t.Errorf("%s: %q, want %q; refused %q", c.what, got, c.files, b.Refused)
		}
	}
}

// TestSentryCLI: bundles of sentry-cli are read, and those that WriteBundle makes of the same
// files are equal but for the compressed bytes, and sentry-cli reads them.
func TestSentryCLI(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2", "3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cli := "sentry-cli-" + version
			dir := tree(t)
			run(t, filepath.Join(dir, "build"), "gcc", "-g", "-I..", "-Wl,--build-id=sha1", "-o", "prog", "../app/main.c", "../lib/util.c")
			run(t, dir, cli, "debug-files", "bundle-sources", "-o", "theirs", "build/prog")
			theirs, err := os.ReadFile(filepath.Join(dir, "theirs/prog.src.zip"))
			if err != nil {
				t.Fatal(err)
			}
			r := bytes.NewReader(theirs)
			b, err := ReadBundle(r, r.Size())
			if err != nil || len(b.Files) < 4 || len(b.Refused) > 0 {
				t.Fatalf("%v, refused %q, want the files of the program", err, b.Refused)
			}
			for path, have := range contents(t, b) {
				want, err := os.ReadFile(path)
				if err != nil || string(want) != have {
					t.Errorf("%s in the bundle of sentry-cli differs from the file, %v", path, err)
				}
			}
			order := func(p []byte) (names []string, manifest string) {
				z, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range z.File {
					h := f.FileHeader
					h.CompressedSize, h.CompressedSize64 = 0, 0 //nolint:staticcheck // other bytes of deflate
					names = append(names, fmt.Sprintf("%+v", h))
				}
				m, err := z.Open(manifestName)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(m)
				if err != nil {
					t.Fatal(err)
				}
				return names, string(text)
			}
			_, _, o := object(t, filepath.Join(dir, "build/prog"))
			z, err := zip.NewReader(r, r.Size())
			if err != nil {
				t.Fatal(err)
			}
			var ordered []BundledFile // as in their archive
			for _, m := range z.File[:len(z.File)-1] {
				i := slices.IndexFunc(b.Files, func(f BundledFile) bool { return "files"+f.Path == m.Name })
				ordered = append(ordered, b.Files[i])
			}
			var ours bytes.Buffer
			if _, err := WriteBundle(&ours, Bundle{Attributes: AttributesOf(o, "x86_64"), Files: slices.Values(ordered)}); err != nil {
				t.Fatal(err)
			}
			haveNames, haveManifest := order(ours.Bytes())
			wantNames, wantManifest := order(theirs)
			if !slices.Equal(haveNames, wantNames) {
				t.Errorf("members\n%s\nwant\n%s", strings.Join(haveNames, "\n"), strings.Join(wantNames, "\n"))
			}
			if haveManifest != wantManifest {
				t.Errorf("manifest\n%s\nwant\n%s", haveManifest, wantManifest)
			}
			path := filepath.Join(dir, "ours.src.zip")
			if err := os.WriteFile(path, ours.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			var check struct {
				Type     string `json:"type"`
				Variants []struct {
					DebugID string `json:"debug_id"`
					Arch    string `json:"arch"`
				} `json:"variants"`
				Features string `json:"features"`
				Usable   bool   `json:"is_usable"`
			}
			out := run(t, dir, cli, "debug-files", "check", "--json", path)
			if err := json.Unmarshal([]byte(out), &check); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !check.Usable || check.Type != "sourcebundle" || !strings.Contains(check.Features, "sources") || len(check.Variants) != 1 || check.Variants[0].DebugID != o.DebugID.String() || check.Variants[0].Arch != "x86_64" {
				t.Errorf("sentry-cli reads our bundle as %s, want a usable source bundle with the id %s", out, o.DebugID)
			}
		})
	}
}
