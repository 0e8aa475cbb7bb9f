package depot

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/pdb"
)

// TestRelayedSources: a source that the depot does not have comes from where Source Link
// has it, if the bytes are those that were compiled; one that it has is not fetched.
func TestRelayedSources(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "pdb")
	plain, err := os.ReadFile(filepath.Join(dir, "hello-arm64.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "hello.c"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := pdb.Open(bytes.NewReader(plain), int64(len(plain)))
	if err != nil {
		t.Fatal(err)
	}
	var linked bytes.Buffer
	if err := f.CopyWith(&linked, map[string][]byte{"sourcelink": []byte(`{"documents": {"/tmp/hello/*": "https://src.example.com/v1/*"}}`)}); err != nil {
		t.Fatal(err)
	}
	const id, path, url = "f37c719627168ba94c4c44205044422e1", "/tmp/hello/hello.c", "https://src.example.com/v1/hello.c"
	d, _ := newDepot(t)
	number := filed{files: []file{{"hello-arm64.pdb", linked.Bytes()}}}.file(t, d)
	wantSource(t, d, "without a relay", answer.Scope{}, id, path, "")

	reply := text
	var asked []string
	d.Sources.UseRelay(func(_ context.Context, url string, _ int64) ([]byte, error) {
		asked = append(asked, url)
		if reply == nil {
			return nil, fs.ErrNotExist
		}
		return reply, nil
	})
	wantSource(t, d, "from the relay", answer.Scope{}, id, path, string(text))
	if !slices.Equal(asked, []string{url}) {
		t.Errorf("asked for %q, want %s", asked, url)
	}
	wantSource(t, d, "that nothing names", answer.Scope{}, id, "/etc/passwd", "")
	wantSource(t, d, "out of the scope", answer.Scope{Products: []string{"other"}}, id, path, "")
	reply = []byte("int other;")
	wantSource(t, d, "with another checksum", answer.Scope{}, id, path, "")
	reply = nil
	wantSource(t, d, "that is not there", answer.Scope{}, id, path, "")
	filed{sources: []file{{path, text}}}.file(t, d)
	if _, err := d.Retention.Remove(t.Context(), number, ""); err != nil {
		t.Fatal(err)
	}
	filed{files: []file{{"hello-arm64.pdb", linked.Bytes()}}, sources: []file{{path, text}}}.file(t, d)
	asked = nil
	wantSource(t, d, "that is held", answer.Scope{}, id, path, string(text))
	if len(asked) > 0 {
		t.Errorf("asked for %q although the depot has it, want no request", asked)
	}
}
