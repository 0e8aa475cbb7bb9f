package cluster

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
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
	if list := transactions(t, p.Dir); len(list) != 1 {
		t.Errorf("%d builds, want that of the beginning", len(list))
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
