package srclink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/pdb"
)

// fixture copies a PDB of the fixtures, with the streams, and opens it.
func fixture(t testing.TB, name string, streams map[string][]byte) *Index {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "pdb", name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := pdb.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.CopyWith(&out, streams); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, out.Bytes(), 0o640); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func open(t testing.TB, path string) *Index {
	t.Helper()
	x, err := OpenIndex(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

const commands = "SRCSRV: ini\r\nVERSION=1\r\nSRCSRV: variables\r\nSRCSRVTRG=%targ%\\%var2%\r\nSRCSRVCMD=p4.exe print -o " +
	"%srcsrvtrg% %var2%\r\n" +
	"SRCSRV: source files\r\n/TMP/hello/HELLO.c*//depot/hello.c\r\nc:\\more.c*x\r\nSRCSRV: end\r\n"

// TestLinks: the source server stream counts before Source Link, as for debuggers; lines for
// files that the PDB does not name come last.
func TestLinks(t *testing.T) {
	both := fixture(t, "hello-x86.pdb",
		map[string][]byte{"srcsrv": []byte(commands), "sourcelink": []byte(`{"documents": {"/tmp/*": "https://x.example/*"}}`)})
	links, err := both.Links()
	if err != nil {
		t.Fatal(err)
	}
	want := []Link{
		{"/tmp/hello/hello.c", "srcsrv", Resolution{Class: Command, Target: `%targ%\//depot/hello.c`,
			Command: `p4.exe print -o %targ%\//depot/hello.c //depot/hello.c`, Reason: "its target is no URL"}},
		{
			`c:\more.c`, "srcsrv",
			Resolution{Class: Command, Target: `%targ%\x`, Command: `p4.exe print -o %targ%\x x`, Reason: "its target is no URL"},
		},
	}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var out strings.Builder
	if has, err := Print(&out, both, false); err != nil || !has || !strings.Contains(out.String(), "class command; Source Link with 1 rule") ||
		!strings.Contains(out.String(), "runs: p4.exe print -o") {
		t.Errorf("%t, error %v:\n%s", has, err, out.String())
	}
	links, err = fixture(t, "hello-x86.pdb", map[string][]byte{"sourcelink": []byte(`{"documents": {"/nothing": "https://x.example/n"}}`),
		"sourcelink$1": []byte(`{"documents": {"/TMP/*": "https://x.example/*"}}`)}).Links()
	if err != nil || len(links) != 1 || links[0].Via != "sourcelink" || links[0].Target != "https://x.example/hello/hello.c" {
		t.Errorf("%+v, error %v; want one link of Source Link", links, err)
	}
}

// TestDamagedLinks: links that cannot be read are named, and the PDB is read all the same.
func TestDamagedLinks(t *testing.T) {
	x := fixture(t, "hello-x86.pdb", map[string][]byte{"srcsrv": bytes.Repeat([]byte("x\n"), 1_000_001), "sourcelink": []byte("{")})
	if len(x.Faults) != 2 || x.Script != nil || len(x.Names) != 1 {
		t.Errorf("faults %q, %d names; want 2 and 1", x.Faults, len(x.Names))
	}
}

// TestSave keeps the mode of the file, follows a link, and changes nothing after an error.
func TestSave(t *testing.T) {
	x := fixture(t, "hello-x64.pdb", nil)
	before, err := os.ReadFile(x.Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, streams := range map[string]map[string][]byte{"a stream without a name": {"": nil}, "two": {"a": []byte("1"), "b\x00": nil}} {
		if err := x.Save(x.Path, streams); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := x.Save(filepath.Join(x.Path, "sub", "out.pdb"), map[string][]byte{"a": nil}); err == nil {
		t.Error("a file below a file was written")
	}
	if after, err := os.ReadFile(x.Path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("after errors the PDB differs, error %v", err)
	}
	target := filepath.Join(t.TempDir(), "link.pdb")
	err = os.Symlink(x.Path, target)
	if _, serr := os.Stat(target); err != nil || serr != nil {
		t.Logf("no symbolic links here: %v, %v", err, serr)
		target = x.Path
	}
	id, path := x.ID, x.Path
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, target).Save(target, map[string][]byte{"srcsrv": []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(target); target != path && (err != nil || info.Mode().Type() != fs.ModeSymlink) {
		t.Errorf("the link has become %v, error %v", info.Mode(), err)
	}
	if got := open(t, path); string(got.Text) != "new" || got.ID != id {
		t.Errorf("stream %q, id %s; want new, %s", got.Text, got.ID, id)
	}
	if info, err := os.Stat(path); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o640) {
		t.Errorf("mode %v, error %v; want 0640", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(x.Path), ".symdepot-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %q, error %v", left, err)
	}
}

// TestRebaseBoth changes the source server stream and all of Source Link at once.
func TestRebaseBoth(t *testing.T) {
	x := fixture(t, "hello-x86.pdb", map[string][]byte{
		"srcsrv":       []byte("SRCSRV: variables\nA=http://old.example/x\nSRCSRV: end\n"),
		"sourcelink":   []byte(`{"documents": {"/tmp/*": "http://old.example/*"}}`),
		"sourcelink$9": []byte(`{"documents": {"/a/*": "http://old.example:80/*"}}`), "other": []byte("http://old.example")})
	streams, n, err := x.Rebase("http://old.example", "https://new.example")
	want := map[string][]byte{
		"srcsrv":     []byte("SRCSRV: variables\nA=https://new.example/x\nSRCSRV: end\n"),
		"sourcelink": []byte(`{"documents": {"/tmp/*": "https://new.example/*"}}`),
	}
	if err != nil || n != 2 {
		t.Errorf("%d URLs, error %v; want 2", n, err)
	}
	if diff := cmp.Diff(want, streams); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMakeMaterial makes streams for PDBs of Microsoft's linker: each name is found again by its
// own spelling.
func TestMakeMaterial(t *testing.T) {
	dir := os.Getenv("SYMDEPOT_MATERIAL")
	paths, err := filepath.Glob(filepath.Join(dir, "public", "npm", "node-pty", "win32-x64", "*.pdb"))
	if dir == "" || err != nil || len(paths) == 0 {
		t.Skipf("no material in %q: %v", dir, err)
	}
	for _, path := range paths {
		x := open(t, path)
		text, made, err := x.Make(t.Context(), StreamOptions{Base: "https://s.example", Product: "P", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.pdb")
		if err := x.Save(out, map[string][]byte{"srcsrv": text}); err != nil {
			t.Fatal(err)
		}
		links, err := open(t, out).Links()
		if err != nil || len(links) != len(made) || len(links) < 100 {
			t.Fatalf("%s: %d links, error %v; want %d, which are hundreds", path, len(links), err, len(made))
		}
		for i, l := range links {
			if l.Name != made[i].Name || l.Target != made[i].URL || l.Class == Command || l.Class == Broken {
				t.Errorf("%s: %+v, want %+v", path, l, made[i])
			}
		}
	}
}

// TestMakePrefix gives labels only to names below a prefix.
func TestMakePrefix(t *testing.T) {
	for prefix, want := range map[string]int{"": 1, "/tmp/hello": 1, "/TMP": 1, "/tmp/hell": 0, `\tmp\hello\`: 1} {
		x := fixture(t, "hello-x86.pdb", nil)
		text, made, err := x.Make(t.Context(),
			StreamOptions{Base: "https://s.example", Product: "P", Version: "1", Roots: []sources.Root{{Dir: t.TempDir(), Prefix: prefix}}})
		if n, _ := Counts(made); err != nil || n != want || (text != nil) != (n > 0) {
			t.Errorf("prefix %q: %d URLs, error %v; want %d", prefix, n, err, want)
		}
	}
}

func TestOpenRefused(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "a.pdb")
	if err := os.WriteFile(text, []byte("BSJ"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{text: ErrNotPDB, dir: ErrNotPDB, filepath.Join(dir, "none"): fs.ErrNotExist} {
		if x, err := OpenIndex(t.Context(), path); !errors.Is(err, want) {
			t.Errorf("%s: %v, error %v; want %v", path, x, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := fixture(t, "hello-x86.pdb", nil)
	if _, _, err := x.Make(ctx, StreamOptions{Base: "https://s.example", Roots: []sources.Root{{Dir: dir}}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	task := Task{StreamOptions: StreamOptions{Base: "https://user:secret@s.example"}}
	if _, usage := errors.AsType[term.UsageError](task.Check(1)); !usage {
		t.Error("credentials in a URL are no wrong command line")
	}
	if ok, err := (&Task{}).Do(t.Context(), x.Path, io.Discard, io.Discard); ok || err != nil {
		t.Errorf("%t, error %v; want false without an error", ok, err)
	}
}
