package commandtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// PutFile writes a file and returns its path.
func PutFile(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	symtest.Put(t, dir, name, b)
	return p
}

// Testdata returns a file of the folder testdata at the root of the repository.
func Testdata(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Write writes a file and makes its folders.
func Write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
