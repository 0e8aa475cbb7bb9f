package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// awaitIndex waits until an index has been read, or could not be.
func awaitIndex(t *testing.T, x *storeIndex) {
	t.Helper()
	symtest.Await(t, 10*time.Second, "the index is read", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return !x.busy && (x.until.After(x.now()) || x.err != nil)
	})
}

// paths asks a server for a file and returns the requests that this made.
func paths(t *testing.T, h *HTTP, s *theirs, ask fetch.Ask) (asked []string, err error) {
	t.Helper()
	before := len(s.asks())
	_, _, err = load(t, h, ask)
	for _, p := range s.asks()[before:] {
		if !strings.HasPrefix(p, "/000Admin/") {
			asked = append(asked, p)
		}
	}
	return asked, err
}

// TestStoreIndex: with has_index, the records of a symbol store save the requests for what
// they do not list, and nothing else.
func TestStoreIndex(t *testing.T) {
	var now atomic.Int64
	record := func(lines ...string) http.HandlerFunc {
		return symtest.Give([]byte(strings.Join(lines, "\r\n") + "\r\n"))
	}
	line := func(name, key string) string { return fmt.Sprintf(`"%s\%s","D:\drop\%s"`, name, key, name) }
	s := serve(t, map[string]http.HandlerFunc{
		"/000Admin/lastid.txt": symtest.Give([]byte("0000000004\r\n")),
		"/000Admin/0000000001": record(line("FOO.pdb", strings.ToUpper(guid1)+"1"), "not a line"),
		// 2 was deleted, and 3 is its deletion.
		"/000Admin/0000000004": record(line("bar.exe", "5AB38077900A")),
		fooPath:                symtest.Give(content),
	})
	h := source(t, HTTPConfig{URL: s.URL, HasIndex: true}, DialerOptions{})
	start := time.Now()
	h.now = func() time.Time { return start.Add(time.Duration(now.Load())) }

	missing := wish(t, "none.pdb/"+guid1+"1/none.pdb")
	if asked, err := paths(t, h, s, missing); len(asked) != 3 || fetch.ClassOf(err) != fetch.ClassNotFound {
		t.Errorf("before the index is read: asked %v, %v; want the three places, absent", asked, err)
	}
	awaitIndex(t, h.index)
	if asked, err := paths(t, h, s, missing); len(asked) != 0 || !errors.Is(err, errNotListed) || fetch.ClassOf(err) != fetch.ClassSkipped {
		t.Errorf("not listed: asked %v, %v; want no request, %v", asked, err, errNotListed)
	}
	if _, b, err := load(t, h, wish(t, askFoo)); err != nil || !bytes.Equal(b, content) {
		t.Errorf("listed in other letters: %d bytes, %v; want the file", len(b), err)
	}
	if asked, _ := paths(t, h, s, wish(t, "bar.exe/5ab38077900a/bar.exe")); len(asked) != 3 {
		t.Errorf("listed: asked %v; want the plain file, the cabinet and the pointer", asked)
	}
	if asked, _ := paths(t, h, s, wish(t, "bar.pdb/"+guid1+"1/bar.sym")); len(asked) != 1 {
		t.Errorf("a Breakpad file, which no record lists: asked %v; want one request", asked)
	}
	if asked, _ := paths(t, h, s, func() fetch.Ask { a := missing; a.Probe = true; return a }()); len(asked) == 0 {
		t.Error("a probe was answered without a request, want one")
	}

	// A new transaction: the old index answers no more, and only what is new is read.
	records := func() (n int) {
		for _, p := range s.asks() {
			if strings.HasPrefix(p, "/000Admin/00") {
				n++
			}
		}
		return n
	}
	before := records()
	s.mu.Lock()
	s.paths["/000Admin/lastid.txt"] = symtest.Give([]byte("0000000005"))
	s.paths["/000Admin/0000000005"] = record(line("none.pdb", guid1+"1"))
	s.mu.Unlock()
	now.Add(int64(indexLife))
	if asked, _ := paths(t, h, s, missing); len(asked) != 3 {
		t.Errorf("while the index is old: asked %v; want three requests", asked)
	}
	awaitIndex(t, h.index)
	if asked, _ := paths(t, h, s, missing); len(asked) != 3 || records() != before+1 {
		t.Errorf("listed since: asked %v, %d records read; want three requests, one record", asked, records()-before)
	}

	// A record that cannot be read: the server is asked as if there were no index.
	s.mu.Lock()
	s.paths["/000Admin/lastid.txt"] = symtest.Give([]byte("0000000006"))
	s.paths["/000Admin/0000000006"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	s.mu.Unlock()
	now.Add(int64(indexLife))
	_, _ = paths(t, h, s, missing)
	awaitIndex(t, h.index)
	other := wish(t, "other.pdb/"+guid1+"1/other.pdb")
	if asked, err := paths(t, h, s, other); len(asked) != 3 || fetch.ClassOf(err) != fetch.ClassNotFound {
		t.Errorf("with an index that cannot be read: asked %v, %v; want three requests, absent", asked, err)
	}
}

// TestStoreIndexLies: numbers and pages that are no index leave the server as it is
// without one.
func TestStoreIndexLies(t *testing.T) {
	for name, last := range map[string]http.HandlerFunc{
		"too many":   symtest.Give([]byte("4000000000")),
		"no number":  symtest.Give([]byte("many")),
		"a page":     symtest.Give([]byte("<html>log in</html>"), "Content-Type", "text/html"),
		"too long":   symtest.Give(bytes.Repeat([]byte("0"), 1<<12)), // fits a buffer: under Wine, a write that waits while the client closes never ends
		"not there":  nil,
		"a negative": symtest.Give([]byte("-1")),
	} {
		list := map[string]http.HandlerFunc{fooPath: symtest.Give(content)}
		if last != nil {
			list["/000Admin/lastid.txt"] = last
		}
		s := serve(t, list)
		h := source(t, HTTPConfig{URL: s.URL, HasIndex: true}, DialerOptions{})
		for range 2 {
			if _, b, err := load(t, h, wish(t, askFoo)); err != nil || !bytes.Equal(b, content) {
				t.Errorf("%s: %d bytes, %v; want the file", name, len(b), err)
			}
			awaitIndex(t, h.index)
		}
		if n := len(slices.DeleteFunc(s.asks(), func(p string) bool { return !strings.HasPrefix(p, "/000Admin/") })); n != 1 {
			t.Errorf("%s: %d requests of records, want one and no other for a while", name, n)
		}
	}
	for _, lay := range []string{"auto", "ssqp", "breakpad"} {
		_, err := NewHTTP(HTTPConfig{Name: "x", URL: "http://127.0.0.1:1", Layout: lay, HasIndex: true}, NewDialer(DialerOptions{}))
		if o, ok := errors.AsType[*OptionError](err); !ok || o.Option != "has_index" {
			t.Errorf("layout %s: %v, want an error of has_index", lay, err)
		}
	}
}

// TestStoreIndexOfBucket: the records may be in a bucket.
func TestStoreIndexOfBucket(t *testing.T) {
	p := &pail{objects: map[string]pailObject{
		"000Admin/lastid.txt": {content: []byte("0000000001"), etag: `"a"`},
		"000Admin/0000000001": {content: []byte(`"foo.pdb\` + guid1 + `1","x"` + "\r\n"), etag: `"b"`},
		fooPath[1:]:           {content: content, etag: `"c"`},
	}}
	s, err := NewStore(p, StoreConfig{Name: "pail", Layout: "symstore", TwoTier: TwoTierNo, HasIndex: true, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	none := wish(t, "none.pdb/"+guid1+"1/none.pdb")
	if _, err := s.Fetch(t.Context(), none); fetch.ClassOf(err) != fetch.ClassNotFound {
		t.Errorf("before the index is read: %v, want absent", err)
	}
	awaitIndex(t, s.index)
	p.mu.Lock()
	before := len(p.asked)
	p.mu.Unlock()
	if _, err := s.Fetch(t.Context(), none); !errors.Is(err, errNotListed) {
		t.Errorf("not listed: %v, want %v", err, errNotListed)
	}
	p.mu.Lock()
	if n := len(p.asked) - before; n != 0 {
		t.Errorf("not listed: %d requests, want none", n)
	}
	p.mu.Unlock()
	r, err := s.Fetch(t.Context(), wish(t, askFoo))
	if err != nil {
		t.Fatalf("listed: %v, want the file", err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
}
