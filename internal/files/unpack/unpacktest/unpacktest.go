// Package unpacktest makes compressed files for tests.
package unpacktest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/cab"
)

// Cabinet returns a cabinet with one file.
func Cabinet(tb testing.TB, name string, body []byte) []byte {
	tb.Helper()
	out, err := os.Create(filepath.Join(tb.TempDir(), "cabinet"))
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	if _, err := cab.Create(out, []cab.Source{{Name: name, Size: int64(len(body)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}}}, cab.WriteOptions{Method: cab.MSZIP}); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
