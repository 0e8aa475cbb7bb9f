package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
)

// TestPageSize: a list of 100 rows takes at most 64 KB, and 14 KB compressed.
func TestPageSize(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	tx, err := d.Begin(t.Context(), depot.TxInfo{Product: "Game", Version: "1.9-nightly"})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for i := range 120 {
		name := fmt.Sprintf("module_of_a_usual_length%03d.pdb", i)
		if _, err := tx.Add(t.Context(), depot.Source{Path: "build/out/" + name, Content: memFile{bytes.NewReader(sym(fmt.Sprintf("%032X1", uint64(i+1)*0x9e3779b97f4a7c15), name, "", 200))}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, withWeb(d, Config{}))
	for _, path := range []string{"/-/search?q=module*", "/-/builds/1"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		small := w.Body.Len()
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatalf("GET %s: status %d, %v; want a compressed page", path, w.Code, err)
		}
		page, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if rows := bytes.Count(page, []byte("<tr><th scope=\"row\"")); rows != 100 {
			t.Errorf("GET %s: %d rows, want 100", path, rows)
		}
		if len(page) > 72_000 || small > 14_000 {
			t.Errorf("GET %s: %d bytes, %d compressed, want at most 72,000 and 14,000", path, len(page), small)
		}
		t.Logf("GET %s: %d bytes, %d compressed", path, len(page), small)
	}
}
