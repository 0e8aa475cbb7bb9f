package cluster

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestHostilePush sends what no honest client does to a real server: each request
// has the status and the sentence that its client needs, nothing becomes visible,
// and memory stays bounded.
func TestHostilePush(t *testing.T) {
	t.Parallel()
	p := commandtest.NewPushDepot(t)
	body := []byte("MODULE Linux x86_64 " + commandtest.SymID(1, 1) + " lib.so\nFUNC 1000 10 0 f\n" + strings.Repeat("PUBLIC 2000 0 g\n", 100))
	ref := blob.Sum(body).String()
	id := p.Checked(t, "1", body)
	length := int64(1 << 30)
	if torture() {
		length = 4 << 30
	}
	bomb := func(coding string) io.Reader {
		var b bytes.Buffer
		var w io.WriteCloser = gzip.NewWriter(&b)
		if coding == "zstd" {
			z, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<20))
			if err != nil {
				t.Fatal(err)
			}
			w = z
		}
		if _, err := io.CopyN(w, endless{}, length); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := z.EncodeAll(body, nil)
	digest := func(b []byte) string { return "sha-256=:" + base64Sum(b) + ":" }
	part := "/stages/" + id + "/contents/" + ref + "/parts/"
	entry := func(path string, size int64) io.Reader {
		b, _ := json.Marshal([]wire.PushEntry{{Path: path, Size: size, SHA256: ref}})
		return bytes.NewReader(b)
	}
	content := "/stages/" + id + "/contents/" + ref
	base := bytes.Repeat([]byte("PUBLIC 3000 0 h\n"), 10_000)
	base = append([]byte("MODULE Linux x86_64 "+commandtest.SymID(1, 2)+" base.so\n"), base...)
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "base.so.sym"), base, 0o644); err != nil {
		t.Fatal(err)
	}
	p.Must(t, "push", "--product", "app", "--version", "base", src)
	from := func(b []byte) []string { return []string{"Upload-Base", blob.Sum(b).String()} }
	steps := func(list ...uint64) (b []byte) {
		for _, n := range list {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	hidden := commandtest.Testdata(t, "pe/arm64.exe") // of product other
	for _, x := range []struct {
		what, method, path string
		body               io.Reader
		header             []string
		status             int
		want               string
	}{
		{"other bytes of the size", "PUT", content, bytes.NewReader(bytes.Repeat([]byte("x"), len(body))), nil, 422, "the content has SHA-256 "},
		{"a short content", "PUT", content, bytes.NewReader(body[1:]), nil, 422, fmt.Sprintf("has %d bytes instead of the announced %d", len(body)-1, len(body))},
		{"a long content", "PUT", content, io.MultiReader(bytes.NewReader(body), strings.NewReader("x")), nil, 422, "has more than the announced"},
		{"a zstd bomb", "PUT", content, bomb("zstd"), []string{"Content-Encoding", "zstd"}, 422, "has more than the announced"},
		{"a gzip bomb", "PUT", content, bomb("gzip"), []string{"Content-Encoding", "gzip"}, 422, "has more than the announced"},
		{"half a zstd body", "PUT", content, bytes.NewReader(packed[:len(packed)-5]), []string{"Content-Encoding", "zstd"}, 400, "zstd"},
		{"a recipe from what nobody has", "PUT", content, bytes.NewReader(steps(1024<<1|1, 0)), from(body), 404, "to write recipes from: send the file itself"},
		{"a recipe from a hidden file", "PUT", content, bytes.NewReader(steps(1024<<1|1, 0)), from(hidden), 404, "to write recipes from: send the file itself"},
		{"the blocks of a hidden file", "GET", "/stages/" + id + "/blocks/" + blob.Sum(hidden).String(), nil, nil, 404, "to write recipes from: send the file itself"},
		{"a recipe from no hash", "PUT", content, bytes.NewReader(nil), []string{"Upload-Base", "../x"}, 400, "64 lower-case hex digits"},
		{"a copy beyond the base", "PUT", content, bytes.NewReader(steps(2048<<1|1, uint64(len(base)-2047))), from(base), 400, "the recipe is not valid"},
		{"a copy of 2^61 bytes", "PUT", content, bytes.NewReader(steps(1<<62|1, 0)), from(base), 400, "the recipe is not valid"},
		{"copies of one byte", "PUT", content, bytes.NewReader(bytes.Repeat(steps(1<<1|1, 9), 1_000_000)), from(base), 400, "the recipe is not valid"},
		{"empty steps", "PUT", content, bytes.NewReader(make([]byte, 1<<20)), from(base), 400, "the recipe is not valid"},
		{"a recipe of 4 GiB", "PUT", content, bytes.NewReader(bytes.Repeat(steps(1024<<1|1, 5), 4<<20)), from(base), 422, "has more than the announced"},
		{"a recipe bomb", "PUT", content, bomb("zstd"), append(from(base), "Content-Encoding", "zstd"), 422, "has more than the announced"},
		{"a recipe of other bytes", "PUT", content, bytes.NewReader(append(steps(1024<<1|1, 0, uint64(len(body)-1024)<<1), body[1024:]...)), from(base), 422, "the content has SHA-256 "},
		{"a part out of range", "PUT", part + "1", bytes.NewReader(body), []string{"Upload-Length", fmt.Sprint(len(body)), "Content-Digest", digest(body)}, 400, "part 1 of a content with parts 0 to 0"},
		{"a part of another length", "PUT", part + "0", bytes.NewReader(body), []string{"Upload-Length", "7", "Content-Digest", digest(body)}, 400, fmt.Sprintf("announced with %d bytes, not 7", len(body))},
		{"a short part", "PUT", part + "0", bytes.NewReader(body[1:]), []string{"Upload-Length", fmt.Sprint(len(body)), "Content-Digest", digest(body[1:])}, 422, "part 0 has"},
		{"a content that was not checked", "PUT", "/stages/" + id + "/contents/" + strings.Repeat("ab", 32), strings.NewReader("x"), nil, 409, "check it first"},
		{"a path that leads out", "POST", "/stages/" + id + "/check", entry("../../etc/x.pdb", 7), nil, 400, "is not relative with slashes"},
		{"an absolute path", "POST", "/stages/" + id + "/check", entry("/etc/x.pdb", 7), nil, 400, "is not relative with slashes"},
		{"a path of Windows", "POST", "/stages/" + id + "/check", entry(`c:\x.pdb`, 7), nil, 400, "is not relative with slashes"},
		{"a path inside that leads out", "POST", "/stages/" + id + "/check", entry("a/../../x.pdb", 7), nil, 400, "is not relative with slashes"},
		{"a file of a petabyte", "POST", "/stages/" + id + "/check", entry("a.pdb", 1<<50), nil, 413, "the limit for a file is"},
		{"a stage with an odd id", "GET", "/stages/..%2f..%2fetc", nil, nil, 404, "problem:not-found"},
		{"a check without end", "POST", "/stages/" + id + "/check", io.LimitReader(endless{}, 17<<20), nil, 413, "the body is longer than"},
		{"a commit before all is there", "POST", "/stages/" + id + "/commit", strings.NewReader(`{"files":1}`), nil, 409, ref},
		{"a commit of more files", "POST", "/stages/" + id + "/commit", strings.NewReader(`{"files":7}`), nil, 409, "1 files, not 7"},
	} {
		if status, text := p.Request(t, x.method, x.path, x.body, x.header...); status != x.status || !strings.Contains(text, x.want) {
			t.Errorf("%s: %d, %s; want %d and %q", x.what, status, text, x.status, x.want)
		}
	}
	if peak, _ := commandtest.Resident(t, p.Serving.Cmd.Process.Pid); peak > 200 {
		t.Errorf("the server had %.0f MiB of memory, want at most 200", peak)
	}
	if list := transactions(t, p.Dir); len(list) != 2 {
		t.Errorf("%d builds, want those of the beginning", len(list))
	}
	// The stage is still good.
	if status, text := p.Put(t, id, body, bytes.NewReader(body)); status != 201 {
		t.Errorf("the content: %d, %s; want 201", status, text)
	}
	if status, text := p.Request(t, "POST", "/stages/"+id+"/commit", strings.NewReader(`{"files":1}`)); status != 200 {
		t.Errorf("commit: %d, %s; want 200", status, text)
	}
}

// endless reads as one byte without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func base64Sum(b []byte) string {
	sum := blob.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}
