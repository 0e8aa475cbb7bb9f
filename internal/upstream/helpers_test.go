package upstream

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/cab"
)

func makeCab(t *testing.T, name string, body []byte) []byte {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "c"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := cab.Create(out, []cab.Source{{Name: name, Size: int64(len(body)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}}}, cab.WriteOptions{Method: cab.MSZIP}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	pdbKey  = "F9EFE0B6AE7500394C4C44205044422E1"
	progID  = "adac45aa231bba3143d7af433767c61f31021c16"
	pdbPath = "hello-x64.pdb/" + pdbKey + "/hello-x64.pdb"
)
