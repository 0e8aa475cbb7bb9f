package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// build returns one of several similar Breakpad files of a module.
func build(no, size int) []byte {
	b := sym(fmt.Sprintf("00112233445566778899AABBCCDDEE%02X1", no), "nightly.pdb", "", size)
	for i := range 40 * no { // a few numbers differ
		if k := (i*7919 + no*104729) % (size - 200); b[100+k] >= '0' && b[100+k] <= '8' {
			b[100+k]++
		}
	}
	return b
}

// chill adds three builds to a depot, of which two become cold.
func chill(t *testing.T, d *depot.Depot, size int) []held {
	t.Helper()
	var list []held
	for no := range 3 {
		list = append(list, add(t, d, depot.Source{Path: "nightly.sym"}, build(no, size)))
	}
	sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{})
	if errors.Is(err, coldstore.ErrDiskFull) {
		t.Skip("nothing becomes cold on this disk: ", err)
	}
	if err != nil || sum.Contents < 2 {
		t.Fatalf("cool: %+v, %v, want at least two contents", sum, err)
	}
	return list
}

// TestColdAPI: the answers of the API about cold files are as described, and say how they
// are stored.
func TestColdAPI(t *testing.T) {
	t.Parallel()
	w := newAPIWorld(t, auth.PolicyConfig{})
	list := chill(t, w.d, 400<<10)
	sha, base := sha256Hex(list[0].body), sha256Hex(list[2].body)
	type coldFile struct {
		Bytes  int64  `json:"bytes"`
		SHA256 string `json:"sha256"`
		Base   string `json:"base_sha256"`
	}
	get := func(path string, v any) {
		t.Helper()
		r := ask(w.s, "GET", "/-/api/v1"+path, bearer(w.admin))
		if r.status != 200 {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		if err := json.Unmarshal([]byte(r.body), v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	check := func(where string, c *coldFile) {
		t.Helper()
		if c == nil || c.Bytes <= 0 || c.Bytes > 200<<10 || len(c.SHA256) != 64 || c.Base != base {
			t.Errorf("%s: cold %+v, want a small delta of %s", where, c, base)
		}
	}
	var entry struct {
		SHA256 string    `json:"sha256"`
		Cold   *coldFile `json:"cold"`
	}
	get("/files/"+sha, &entry)
	check("the object", entry.Cold)
	var plain struct {
		Cold *coldFile `json:"cold"`
	}
	if get("/files/"+base, &plain); plain.Cold != nil {
		t.Errorf("the newest build is cold: %+v, want plain", plain.Cold)
	}
	type row struct {
		SHA256 string    `json:"sha256"`
		Cold   *coldFile `json:"cold"`
	}
	find := func(where string, rows []row) {
		t.Helper()
		for _, r := range rows {
			if r.SHA256 == sha {
				check(where, r.Cold)
				return
			}
		}
		t.Errorf("%s: %d rows without %s", where, len(rows), sha)
	}
	var objects struct {
		Items []row `json:"items"`
	}
	get("/files?q=nightly.pdb", &objects)
	find("the list of objects", objects.Items)
	var usage struct {
		Cold *struct {
			Contents int64 `json:"contents"`
			Plain    int64 `json:"plain_bytes"`
			Bytes    int64 `json:"bytes"`
			Deltas   int64 `json:"deltas"`
		} `json:"cold"`
	}
	if get("/disk", &usage); usage.Cold == nil || usage.Cold.Contents < 2 || usage.Cold.Deltas < 2 || usage.Cold.Plain < 800<<10 || usage.Cold.Bytes*3 > usage.Cold.Plain {
		t.Errorf("usage: %+v, want two deltas that take less than a third", usage.Cold)
	}
	var trace struct {
		Steps []struct {
			Step string `json:"step"`
		} `json:"steps"`
	}
	get("/trace?path="+list[0].path(t, layout.SymStore), &trace)
	found := false
	for _, s := range trace.Steps {
		found = found || s.Step == "cold"
	}
	if !found {
		t.Errorf("the steps of the trace are %+v, want one that says that the file is cold", trace.Steps)
	}
	var txs struct {
		Items []struct {
			Number int64 `json:"build"`
		} `json:"items"`
	}
	get("/builds", &txs)
	var files []row
	for _, tx := range txs.Items {
		var page struct {
			Items []row `json:"items"`
		}
		get(fmt.Sprintf("/builds/%d/files", tx.Number), &page)
		files = append(files, page.Items...)
	}
	find("the files of the builds", files)
	for _, path := range []string{"/holders", "/paths", "/forms", "/sources"} { // as described
		get("/files/"+sha+path, new(map[string]any))
	}
}

// TestColdRead: a cold file is answered as a plain one, also by HEAD, ranges and
// conditional requests.
func TestColdRead(t *testing.T) {
	t.Parallel()
	d := newDepot(t)
	s := newServer(t, withWeb(d, Config{}))
	list := chill(t, d, blob.HashedAtOpen+100<<10) // a smaller one is restored when it is opened
	body, path := list[0].body, list[0].path(t, layout.SymStore)
	head := ask(s, "HEAD", path)
	if head.status != 200 || head.header.Get("Content-Length") != fmt.Sprint(len(body)) || head.header.Get("ETag") == "" {
		t.Fatalf("HEAD: %d %v", head.status, head.header)
	}
	if r := ask(s, "GET", path, "If-None-Match: "+head.header.Get("ETag")); r.status != 304 {
		t.Errorf("conditional: %d, want 304", r.status)
	}
	st, err := d.Cold.Status(t.Context())
	if err != nil || st.Restored != 0 {
		t.Errorf("restored %d, %v, after HEAD and a conditional request, want 0", st.Restored, err)
	}
	for _, c := range []struct {
		ask      string
		from, to int
		status   int
	}{{"bytes=0-0", 0, 1, 206}, {"bytes=1000-99999", 1000, 100_000, 206}, {"bytes=-70000", len(body) - 70_000, len(body), 206}, {"", 0, len(body), 200}} {
		r := ask(s, "GET", path, "Range: "+c.ask)
		if r.status != c.status || r.body != string(body[c.from:c.to]) {
			t.Errorf("range %q: %d with %d bytes, want %d with %d", c.ask, r.status, len(r.body), c.status, c.to-c.from)
		}
	}
}

// TestColdDamageAtStart: damage that shows before the first byte is answered as any missing
// file, and not as a body that breaks off.
func TestColdDamageAtStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := depot.Open(t.Context(), dir, depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s := newServer(t, withWeb(d, Config{}))
	list := chill(t, d, blob.HashedAtOpen+1<<20)
	row, err := d.Cold.Of(t.Context(), blob.Sum(list[0].body))
	if err != nil {
		t.Fatal(err)
	}
	hash := row.File.Ref.String()
	name := filepath.Join(dir, "blobs", hash[:2], hash[2:])
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[120] ^= 1 // in the first frame
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	path := list[0].path(t, layout.SymStore)
	for _, ranged := range []string{"", "Range: bytes=10-20"} {
		r := ask(s, "GET", path, ranged)
		if r.status != 404 || strings.Contains(r.body, "MODULE") || r.header.Get("Content-Range") != "" || r.header.Get("Etag") != "" {
			t.Errorf("%q: %d with %d bytes and %v, want a plain 404", ranged, r.status, len(r.body), r.header)
		}
	}
	if r := ask(s, "GET", list[2].path(t, layout.SymStore)); r.status != 200 || !bytes.Equal([]byte(r.body), list[2].body) {
		t.Errorf("another file: %d with %d bytes, want %d", r.status, len(r.body), len(list[2].body))
	}
}
