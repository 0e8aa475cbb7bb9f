package depot

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // the sums of compilers
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// The ids and the path of the sources of test files.
const (
	embeddedID   = "7b39a7ee64521714dba49398642e0301b05e97c4"
	embeddedPath = "/usr/src/embedded/prog.c"
	progSource   = "/usr/src/symdepot-src/prog.c"
)

// filed is a transaction: files, and source files of kind sha1.
type filed struct {
	product, version string
	files, sources   []file
}

// file commits a transaction.
func (x filed) file(t *testing.T, d *Depot) int64 {
	t.Helper()
	tx, err := d.Begin(t.Context(), TxInfo{Product: x.product, Version: x.version})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for i, f := range slices.Concat(x.files, x.sources) {
		s := Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}
		if i >= len(x.files) {
			s.As = "sha1"
		}
		if _, err := tx.Add(t.Context(), s); err != nil {
			t.Fatalf("add %s: %v", f.path, err)
		}
	}
	n, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func source(path, text string) file { return file{path, []byte(text)} }

// wantSource gets a source of an object; want is its text, or "" for not found.
func wantSource(t *testing.T, d *Depot, what string, scope answer.Scope, id, path, want string) {
	t.Helper()
	_, b, err := get(t, d, scope, "buildid/"+id+"/source/"+strings.TrimPrefix(path, "/"))
	switch {
	case want == "" && !errors.Is(err, fs.ErrNotExist):
		t.Errorf("%s: %s of %s: %q, %v; want not found", what, path, id, b, err)
	case want != "" && (err != nil || string(b) != want):
		t.Errorf("%s: %s of %s: %q, %v; want %q", what, path, id, b, err, want)
	}
}

// bundleOf returns a source bundle for a build-id.
func bundleOf(t *testing.T, id string, files ...file) file {
	t.Helper()
	var out bytes.Buffer
	_, err := sources.WriteBundle(&out, sources.Bundle{
		Attributes: sources.Attributes{Arch: "x86_64", CodeID: id, DebugID: sentryID(id), ObjectName: "prog"},
		Files: func(yield func(sources.BundledFile) bool) {
			for _, f := range files {
				if !yield(sources.BundledFile{Path: f.path, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(f.body)), nil }}) {
					return
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return file{"prog.src.zip", out.Bytes()}
}

// sentryID is the debug id that Sentry makes of a build-id.
func sentryID(id string) string {
	swap := func(s string) (out string) {
		for i := len(s); i > 0; i -= 2 {
			out += s[i-2 : i]
		}
		return out
	}
	return swap(id[:8]) + "-" + swap(id[8:12]) + "-" + swap(id[12:16]) + "-" + id[16:20] + "-" + id[20:32]
}

// TestEmbeddedSources: texts that debug information embeds are served, in every spelling,
// and nothing else.
func TestEmbeddedSources(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		filed{product: "P", files: []file{testdata(t, "elf/embedded"), testdata(t, "ppdb/embedded.pdb")}}.file(t, d)
		const text = "#include \"x.h\"\nint twice(int n)\n{\n    return 2 * n; // embedded\n}\nvoid _start(void) { twice(3); }\n"
		for _, path := range []string{embeddedPath, "/usr/src/embedded/../embedded/./prog.c", "usr//src/embedded/prog.c"} {
			wantSource(t, d, "spelling", answer.Scope{}, embeddedID, path, text)
		}
		for _, path := range []string{"/usr/src/embedded/x.h", "/etc/passwd", "/usr/src/embedded/PROG.C", "/prog.c", "/usr/src/embedded/../../../../etc/passwd", "/usr/src/embedded/"} {
			wantSource(t, d, "not named", answer.Scope{}, embeddedID, path, "")
		}
		wantSource(t, d, "another product", answer.Scope{Products: []string{"Q"}}, embeddedID, embeddedPath, "")
		wantSource(t, d, "the product", answer.Scope{Products: []string{"P"}}, embeddedID, embeddedPath, text)

		found, err := d.Find(t.Context(), answer.Scope{}, "embedded.pdb", 1)
		if err != nil || len(found) != 1 {
			t.Fatalf("Find embedded.pdb: %d, %v; want one", len(found), err)
		}
		id := found[0].Object.DebugID.Breakpad()
		wantSource(t, d, "a portable PDB", answer.Scope{}, id, "/src/a.cs", "plain")
		list, n, _, err := d.Sources.Names(t.Context(), answer.Scope{}, found[0].Ref, 0, 10)
		if err != nil || n != 2 || len(list) != 2 || list[0].State != "embedded" || list[0].Size != 5 {
			t.Errorf("names of the portable PDB: %+v of %d, %v; want two, the first embedded", list, n, err)
		}
		wantSource(t, d, "a portable PDB", answer.Scope{}, id, list[1].Name, strings.Repeat("text\n", 100))
	})
}

// TestSourceOfTransactions: where the text of a name is taken from.
func TestSourceOfTransactions(t *testing.T) {
	symtest.Sequential(t)
	prog := testdata(t, "elf/prog-sha1")
	for _, c := range []struct {
		what  string
		filed []filed
		want  string
	}{
		{"nothing", []filed{{"P", "1", []file{prog}, nil}}, ""},
		{"the same build", []filed{{"P", "1", []file{prog}, []file{source(progSource, "same")}}}, "same"},
		{"a path without the slash", []filed{{"P", "1", []file{prog}, []file{source(progSource[1:], "same")}}}, "same"},
		{"the only path that ends so", []filed{{"P", "1", []file{prog}, []file{source("/build/symdepot-src/prog.c", "end"), source("/build/other/prog.c", "no")}}}, "end"},
		{"two paths that end so", []filed{{"P", "1", []file{prog}, []file{source("/a/symdepot-src/prog.c", "a"), source("/b/symdepot-src/prog.c", "b")}}}, ""},
		{"a file that is not named", []filed{{"P", "1", []file{prog}, []file{source("/etc/passwd", "root")}}}, ""},
		{"the same product and version", []filed{{"P", "1", []file{prog}, nil}, {"P", "1", nil, []file{source(progSource, "later")}}}, "later"},
		{"newest first", []filed{{"P", "1", nil, []file{source(progSource, "old")}}, {"P", "1", nil, []file{source(progSource, "new")}}, {"P", "1", []file{prog}, nil}}, "new"},
		{"its own build before newer ones", []filed{{"P", "1", []file{prog}, []file{source(progSource, "own")}}, {"P", "1", nil, []file{source(progSource, "new")}}}, "own"},
		{"another version", []filed{{"P", "1", []file{prog}, nil}, {"P", "2", nil, []file{source(progSource, "no")}}}, ""},
		{"no version", []filed{{"P", "", []file{prog}, nil}, {"P", "", nil, []file{source(progSource, "no")}}}, ""},
		{"another product", []filed{{"P", "1", []file{prog}, nil}, {"Q", "1", nil, []file{source(progSource, "no")}}}, ""},
		{"a bundle before files", []filed{{"P", "1", []file{prog, bundleOf(t, progID, source(progSource, "bundle"))}, []file{source(progSource, "same")}}}, "bundle"},
		{"a bundle with other spellings", []filed{{"P", "1", []file{prog, bundleOf(t, progID, source("/usr/src//x/../symdepot-src/prog.c", "bundle"))}, nil}}, "bundle"},
		{"a bundle of another program", []filed{{"P", "1", []file{prog, bundleOf(t, embeddedID, source(progSource, "no"))}, nil}}, ""},
		{"a bundle with other files", []filed{{"P", "1", []file{prog, bundleOf(t, progID, source("/etc/passwd", "root"))}, nil}}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			onDepots(t, func(t *testing.T, d *Depot) {
				for _, f := range c.filed {
					f.file(t, d)
				}
				wantSource(t, d, c.what, answer.Scope{}, progID, progSource, c.want)
				for _, path := range []string{"/etc/passwd", "/usr/src/symdepot-src/other.c"} {
					wantSource(t, d, "not named", answer.Scope{}, progID, path, "")
				}
			})
		})
	}
}

// TestSourceScope: a source of a product that the caller may not read is not found, by
// whatever address.
func TestSourceScope(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		prog := testdata(t, "elf/prog-sha1")
		filed{"Theirs", "1", []file{prog, bundleOf(t, progID, source("/x.c", "x"))}, []file{source(progSource, "secret")}}.file(t, d)
		filed{"Ours", "1", []file{prog}, nil}.file(t, d)
		ours, theirs := answer.Scope{Products: []string{"Ours"}}, answer.Scope{Products: []string{"Theirs"}}
		wantSource(t, d, "a reader of the other product", ours, progID, progSource, "")
		wantSource(t, d, "a reader of the product", theirs, progID, progSource, "secret")
		wantSource(t, d, "a reader of both", answer.Scope{Products: []string{"Ours", "Theirs"}}, progID, progSource, "secret")
		wantSource(t, d, "a reader of nothing", answer.Scope{Products: []string{}}, progID, progSource, "")
		sum, prg := blob.Sum([]byte("secret")), blob.Sum(prog.body)
		for _, c := range []struct {
			what  string
			scope answer.Scope
			sum   blob.Ref
			found bool
		}{
			{"the product", theirs, sum, true}, {"everything", answer.Scope{}, sum, true}, {"another product", ours, sum, false},
			{"a program", answer.Scope{}, prg, false}, {"an unknown content", answer.Scope{}, blob.Sum(nil), false},
		} {
			f, err := d.Sources.OpenContent(t.Context(), c.scope, c.sum)
			if c.found != (err == nil) || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("OpenContent with %s: %v, want found: %t", c.what, err, c.found)
			}
			if f != nil {
				_ = f.Close()
			}
		}
		wantFiled(t, d, theirs, "Theirs", "1", "prog.c", "secret")
		wantFiled(t, d, ours, "Theirs", "1", "prog.c", "")
		wantFiled(t, d, ours, "Ours", "1", "prog.c", "")
		if _, err := d.Sources.Bundle(t.Context(), answer.Scope{Products: []string{}}, bundleRequest(t, progID)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a bundle for a reader of nothing: %v, want not found", err)
		}
		if _, err := d.Sources.Bundle(t.Context(), ours, bundleRequest(t, progID)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a bundle for a reader of the other product: %v, want not found", err)
		}
		list, n, _, err := d.Sources.Names(t.Context(), ours, prg, 0, 10)
		if err != nil || n == 0 || slices.ContainsFunc(list, func(s sourcefiles.SourceName) bool { return s.State != "missing" }) {
			t.Errorf("names for a reader of the other product: %+v of %d, %v; want all missing", list, n, err)
		}
	})
}

// wantFiled opens a file by product, version and the end of its path.
func wantFiled(t *testing.T, d *Depot, scope answer.Scope, product, version, rel, want string) {
	t.Helper()
	f, err := d.Sources.OpenFiled(t.Context(), scope, product, version, rel)
	if err != nil {
		if want != "" || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s %s %s: %v, want %q", product, version, rel, err, want)
		}
		return
	}
	b, err := readAll(f)
	if err := errors.Join(err, f.Close()); err != nil || string(b) != want {
		t.Errorf("%s %s %s: %q, %v; want %q", product, version, rel, b, err, want)
	}
}

// TestOpenFiled: the newest transaction that has a path with this end counts; several
// different files with this end are none.
func TestOpenFiled(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		filed{"P", "1", nil, []file{source("/b/src/main.c", "old"), source("/b/src/only.c", "only"), source("/b/tie/a.c", "a"), source("/c/tie/a.c", "b"), source("/b/same/s.c", "s"), source("/c/same/s.c", "s")}}.file(t, d)
		newest := filed{"P", "1", nil, []file{source(`C:\b\src\Main.c`, "case"), source("/b/src/main.c", "new")}}.file(t, d)
		for _, c := range []struct{ rel, want string }{
			{"src/main.c", "new"}, {"/src/main.c", "new"}, {"b/src/../src/main.c", "new"}, {"main.c", "new"}, {"only.c", "only"}, {"ain.c", ""},
			{"tie/a.c", ""}, {"b/tie/a.c", "a"}, {"same/s.c", "s"}, {"Main.c", "case"}, {"", ""}, {"/", ""}, {"..", ""}, {"src/", ""}, {"%", ""}, {"../../etc/passwd", ""},
		} {
			wantFiled(t, d, answer.Scope{}, "P", "1", c.rel, c.want)
		}
		wantFiled(t, d, answer.Scope{}, "P", "2", "main.c", "")
		wantFiled(t, d, answer.Scope{}, "Q", "1", "main.c", "")
		if _, err := d.Retention.Remove(t.Context(), newest, "anna"); err != nil {
			t.Fatal(err)
		}
		wantFiled(t, d, answer.Scope{}, "P", "1", "src/main.c", "old")
	})
}

// TestSourceRemoved: the source of a removed transaction is absent at once, and there again
// after an undo.
func TestSourceRemoved(t *testing.T) {
	symtest.Sequential(t)
	onRetained(t, func(t *testing.T, d *Depot, _ *movable) {
		setPolicy(t, d, "trash: 7d")
		filed{"P", "1", []file{testdata(t, "elf/prog-sha1")}, nil}.file(t, d)
		n := filed{"P", "1", nil, []file{source(progSource, "text")}}.file(t, d)
		there := func(what, want string) {
			t.Helper()
			wantSource(t, d, what, answer.Scope{}, progID, progSource, want)
			wantFiled(t, d, answer.Scope{}, "P", "1", "prog.c", want)
			f, err := d.Sources.OpenContent(t.Context(), answer.Scope{}, blob.Sum([]byte("text")))
			if (want != "") != (err == nil) {
				t.Errorf("%s: OpenContent: %v, want found: %t", what, err, want != "")
			}
			if f != nil {
				_ = f.Close()
			}
		}
		there("before", "text")
		if _, err := d.Retention.Remove(t.Context(), n, "anna"); err != nil {
			t.Fatal(err)
		}
		there("in the trash", "")
		if _, err := d.Retention.Undo(t.Context(), n, "anna"); err != nil {
			t.Fatal(err)
		}
		there("after an undo", "text")
		wantClean(t, d)
	})
}

// summedProgram is the program of testdata/elf/embedded without its text: the debug
// information still has the MD5 of it. It returns the text too.
func summedProgram(t *testing.T, d *Depot) (prog file, text []byte) {
	t.Helper()
	prog = testdata(t, "elf/embedded")
	filed{"Other", "1", []file{prog}, nil}.file(t, d)
	_, text, err := get(t, d, answer.Scope{}, "buildid/"+embeddedID+"/source"+embeddedPath)
	if err != nil {
		t.Fatal(err)
	}
	return prog, text
}

// TestSourceChecksum: a file that the sum in the debug information contradicts is never
// served, and a sum chooses among files that are equally good.
func TestSourceChecksum(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		_, text := summedProgram(t, d)
		sum := md5.Sum(text) //nolint:gosec // as above
		n := sources.Name{Name: "/usr/src/embedded/prog.c", Alg: "md5", Sum: sum[:]}
		hit, err := d.db.Lookup(t.Context(), answer.Scope{}.Index(), request(t, "buildid/"+embeddedID+"/executable").Lookups[0])
		if err != nil || len(hit) != 1 {
			t.Fatalf("lookup: %d, %v; want one", len(hit), err)
		}
		tx := func(files ...file) { filed{"Other", "1", nil, files}.file(t, d) }
		want := func(what, want string) {
			t.Helper()
			f, err := d.Sources.Named(t.Context(), answer.Scope{}, hit[0], n)
			if err != nil {
				if want != "" || !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v, want %q", what, err, want)
				}
				return
			}
			b, err := readAll(f)
			if err := errors.Join(err, f.Close()); err != nil || string(b) != want {
				t.Errorf("%s: %q, %v; want %q", what, b, err, want)
			}
		}
		want("nothing", "")
		tx(source("/usr/src/embedded/prog.c", "another"))
		want("another text under the path", "")
		filed{"Other", "1", []file{bundleOf(t, embeddedID, source(embeddedPath, "forged"))}, nil}.file(t, d)
		want("another text in a bundle", "")
		tx(source("/a/embedded/prog.c", "a"), source("/b/embedded/prog.c", string(text)))
		want("the sum chooses", string(text))
	})
}

func bundleRequest(t *testing.T, id string) layout.Request {
	t.Helper()
	req := request(t, fmt.Sprintf("prog.src.zip/%s/prog.src.zip", id))
	for i := range req.Lookups {
		req.Lookups[i].Name = ""
	}
	return req
}

// TestMadeBundle: a bundle that is made twice has equal bytes, and holds what is served.
func TestMadeBundle(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		filed{"P", "1", []file{testdata(t, "elf/prog-sha1")}, []file{source(progSource, "text")}}.file(t, d)
		var first []byte
		for i := range 2 {
			f, err := d.Sources.Bundle(t.Context(), answer.Scope{}, bundleRequest(t, progID))
			if err != nil {
				t.Fatal(err)
			}
			b, err := readAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = b
				r, err := sources.ReadBundle(bytes.NewReader(b), int64(len(b)))
				if err != nil || len(r.Files) != 1 || r.Files[0].Path != progSource || r.CodeID != progID {
					t.Errorf("the bundle: %+v, %v; want prog.c of %s", r, err, progID)
				}
			} else if !bytes.Equal(b, first) {
				t.Errorf("the second bundle has %d bytes, the first %d; want equal ones", len(b), len(first))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := d.Sources.Bundle(ctx, answer.Scope{}, bundleRequest(t, progID)); err == nil {
			t.Error("a bundle after the end of the request: no error, want one")
		}
	})
}

// TestSourceNames: pages of names are those of the whole list; numbers out of range are
// empty pages.
func TestSourceNames(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		prog := testdata(t, "elf/prog-sha1")
		filed{"P", "1", []file{prog}, []file{source(progSource, "text")}}.file(t, d)
		ref := blob.Sum(prog.body)
		all, n, _, err := d.Sources.Names(t.Context(), answer.Scope{}, ref, 0, 1000)
		if err != nil || n == 0 || len(all) != n {
			t.Fatalf("all names: %d of %d, %v; want all", len(all), n, err)
		}
		var paged []sourcefiles.SourceName
		for i := range n {
			list, total, _, err := d.Sources.Names(t.Context(), answer.Scope{}, ref, i, 1)
			if err != nil || total != n || len(list) != 1 {
				t.Fatalf("page %d: %d of %d, %v; want one of %d", i, len(list), total, err, n)
			}
			paged = append(paged, list...)
		}
		if !slices.Equal(paged, all) {
			t.Errorf("pages: %+v, want %+v", paged, all)
		}
		i := slices.IndexFunc(all, func(s sourcefiles.SourceName) bool { return sources.Canonical(s.Name) == progSource })
		if i < 0 || all[i].State != "here" || all[i].Size != 4 || all[i].Ref != blob.Sum([]byte("text")) {
			t.Errorf("names %+v, want prog.c here with 4 bytes", all)
		}
		for _, c := range [][2]int{{n, 10}, {n + 100, 10}, {0, 0}} {
			if list, total, _, err := d.Sources.Names(t.Context(), answer.Scope{}, ref, c[0], c[1]); err != nil || len(list) != 0 || total != n {
				t.Errorf("%d names from %d: %d of %d, %v; want none of %d", c[1], c[0], len(list), total, err, n)
			}
		}
		if _, _, _, err := d.Sources.Names(t.Context(), answer.Scope{}, blob.Sum(nil), 0, 1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an unknown content: %v, want not found", err)
		}
	})
}

// TestHostileNames: debug information that names a file of the server gets nobody that
// file; a file that was pushed under this path is one of the depot.
func TestHostileNames(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		evil := testdata(t, "elf/prog-sha1")
		for _, c := range [][2]string{{"/usr/src/symdepot-src\x00", "/etc\x00"}, {"prog.c\x00", "passwd"}} {
			if len(c[1]) < len(c[0]) { // the string ends early; what follows is never looked at
				c[1] += strings.Repeat("\x00", len(c[0])-len(c[1]))
			}
			evil.body = bytes.ReplaceAll(evil.body, []byte(c[0]), []byte(c[1]))
		}
		filed{"P", "1", []file{evil}, nil}.file(t, d)
		list, _, _, err := d.Sources.Names(t.Context(), answer.Scope{}, blob.Sum(evil.body), 0, 10)
		if err != nil || !slices.ContainsFunc(list, func(s sourcefiles.SourceName) bool { return s.Name == "/etc/passwd" && s.State == "missing" }) {
			t.Fatalf("names %+v, %v; want /etc/passwd, missing", list, err)
		}
		for _, path := range []string{"/etc/passwd", "etc/passwd", "../../../../etc/passwd", "/etc/./passwd", "//etc//passwd"} {
			wantSource(t, d, "hostile", answer.Scope{}, progID, path, "")
		}
		filed{"P", "1", nil, []file{source("/etc/passwd", "pushed")}}.file(t, d)
		wantSource(t, d, "pushed", answer.Scope{}, progID, "/etc/passwd", "pushed")
	})
}

// TestLongSource: a file that is longer than a source may be is not served as one.
func TestLongSource(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	filed{"P", "1", []file{testdata(t, "elf/prog-sha1")}, []file{{progSource, bytes.Repeat([]byte{'x'}, sources.MaxFile+1)}}}.file(t, d)
	wantSource(t, d, "10 MiB and a byte", answer.Scope{}, progID, progSource, "")
}

// TestManyBundles: of bundles that are being sent there is a limit, because each is a
// temporary file; a closed one makes room.
func TestManyBundles(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	filed{"P", "1", []file{testdata(t, "elf/prog-sha1")}, []file{source(progSource, "text")}}.file(t, d)
	const bundlesOpen = 32
	for range 2 { // the second time, all of the first are closed, each twice
		var open []*answer.File
		for range bundlesOpen {
			f, err := d.Sources.Bundle(t.Context(), answer.Scope{}, bundleRequest(t, progID))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, f)
		}
		if _, err := d.Sources.Bundle(t.Context(), answer.Scope{}, bundleRequest(t, progID)); !errors.Is(err, content.ErrUnavailable) {
			t.Errorf("one more: %v, want %v", err, content.ErrUnavailable)
		}
		for _, f := range open {
			_ = f.Close()
			_ = f.Close()
		}
	}
	f, err := d.Sources.Bundle(t.Context(), answer.Scope{}, bundleRequest(t, progID))
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
