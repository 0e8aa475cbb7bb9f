package symtest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Testdata returns a file of the repository's testdata, whose name has slashes.
func Testdata(tb testing.TB, name string) []byte {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			tb.Fatal("the test runs outside of the repository")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "testdata", filepath.FromSlash(name)))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Put writes a file below a folder, whose name has slashes.
func Put(tb testing.TB, dir, name string, body []byte) {
	tb.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o644); err != nil {
		tb.Fatal(err)
	}
}

// Give answers with a body. header lists names and values in turn.
func Give(body []byte, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		setHeader(w, header)
		_, _ = w.Write(body)
	}
}

// Refuse answers with a status and a short text. header lists names and values in
// turn.
func Refuse(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		setHeader(w, header)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "status of a test")
	}
}

func setHeader(w http.ResponseWriter, header []string) {
	for i := 0; i+1 < len(header); i += 2 {
		w.Header().Set(header[i], header[i+1])
	}
}

// AppendFunction appends the line of function i of a Breakpad file. Tests make millions, which
// takes fmt seconds under the race detector.
func AppendFunction(b []byte, at, size, i int) []byte {
	b = strconv.AppendInt(append(b, "FUNC "...), int64(at), 16)
	b = strconv.AppendInt(append(b, ' '), int64(size), 16)
	b = strconv.AppendInt(append(b, " 0 ns::Class"...), int64(i%97), 10)
	b = strconv.AppendInt(append(b, "::method_"...), int64(i), 10)
	return append(b, "(int, std::string const&)\n"...)
}
