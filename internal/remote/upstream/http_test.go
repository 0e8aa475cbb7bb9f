package upstream

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/unpack/unpacktest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

const (
	hex40 = "180a373d6afbabf0eb1f09be1bc45bd796a71085"
	guid1 = "497b72f6390a44fc878e5a2d63b6cc4b"
)

// theirs is a server whose answers a test writes.
type theirs struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*http.Request
	paths map[string]http.HandlerFunc // by path; others are 404
}

func serve(t *testing.T, paths map[string]http.HandlerFunc) *theirs {
	t.Helper()
	s := &theirs{paths: paths}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		f := s.paths[r.URL.Path]
		s.mu.Unlock()
		if f == nil {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		f(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *theirs) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *theirs) asks() (paths []string) {
	for _, r := range s.requests() {
		paths = append(paths, r.URL.Path)
	}
	return paths
}

func source(t *testing.T, cfg HTTPConfig, d DialerOptions) *HTTP {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "theirs"
	}
	if cfg.Layout == "" {
		cfg.Layout = "symstore"
	}
	if cfg.TwoTier == "" {
		cfg.TwoTier = TwoTierNo
	}
	cfg.TempDir = t.TempDir()
	h, err := NewHTTP(cfg, NewDialer(d))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Close()
		if left, _ := os.ReadDir(cfg.TempDir); len(left) > 0 {
			t.Errorf("%d temporary files are left, want 0", len(left))
		}
	})
	return h
}

func wish(t *testing.T, p string) fetch.Ask {
	t.Helper()
	req, err := layout.Route(strings.Split(p, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return fetch.Ask{Request: req}
}

// load fetches a whole file.
func load(t *testing.T, h *HTTP, ask fetch.Ask) (*fetch.Reply, []byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := h.Fetch(ctx, ask)
	if err != nil {
		if _, ok := errors.AsType[*fetch.Failure](err); !ok {
			t.Errorf("not a Failure: %v", err)
		}
		return nil, nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		if _, ok := errors.AsType[*fetch.Failure](err); !ok {
			t.Errorf("not a Failure: %v", err)
		}
	} else if r.Size >= 0 && r.Size != r.Offset+int64(len(b)) {
		t.Errorf("size %d, want offset %d and the %d bytes received", r.Size, r.Offset, len(b))
	}
	return r, b, err
}

const (
	askFoo  = "foo.pdb/" + guid1 + "1/foo.pdb"
	fooDir  = "/foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/"
	fooPath = fooDir + "foo.pdb"
	fooPack = fooDir + "foo.pd_"
	fooPtr  = fooDir + "file.ptr"
)

var content = bytes.Repeat([]byte("Microsoft C/C++ MSF 7.00, or nearly. "), 5000)

func gz(b []byte) []byte {
	var o bytes.Buffer
	w := gzip.NewWriter(&o)
	_, _ = w.Write(b)
	_ = w.Close()
	return o.Bytes()
}

func zs(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}

func zl(b []byte) []byte {
	var o bytes.Buffer
	w := zlib.NewWriter(&o)
	_, _ = w.Write(b)
	_ = w.Close()
	return o.Bytes()
}

// likeZlib is a plain file with the header of zlib.
var likeZlib = append([]byte("x\x9c"), content...)

func fl(b []byte) []byte {
	var o bytes.Buffer
	w, _ := flate.NewWriter(&o, 6)
	_, _ = w.Write(b)
	_ = w.Close()
	return o.Bytes()
}

func zp(files ...[]byte) []byte {
	var o bytes.Buffer
	w := zip.NewWriter(&o)
	for i, b := range files {
		f, _ := w.Create(fmt.Sprintf("f%d", i))
		_, _ = f.Write(b)
	}
	_ = w.Close()
	return o.Bytes()
}

func zipStored(b []byte) []byte {
	var o bytes.Buffer
	w := zip.NewWriter(&o)
	f, _ := w.CreateRaw(&zip.FileHeader{Name: "f", Method: zip.Store, CRC32: crc(b), CompressedSize64: uint64(len(b)), UncompressedSize64: uint64(len(b))})
	_, _ = f.Write(b)
	_ = w.Close()
	return o.Bytes()
}

// TestForms: a file is decompressed whichever form the server has, and the
// forms are requested in the order of Microsoft's clients.
func TestForms(t *testing.T) {
	cabinet := unpacktest.Cabinet(t, "foo.pdb", content)
	for _, c := range []struct {
		name   string
		paths  map[string]http.HandlerFunc
		want   []byte
		asks   int
		packed bool
	}{
		{"plain", map[string]http.HandlerFunc{fooPath: symtest.Give(content)}, content, 1, false},
		{"cabinet", map[string]http.HandlerFunc{fooPack: symtest.Give(cabinet)}, content, 2, true},
		{"plain under the name of a cabinet", map[string]http.HandlerFunc{fooPack: symtest.Give(content)}, content, 2, false},
		{"cabinet under the plain name", map[string]http.HandlerFunc{fooPath: symtest.Give(cabinet)}, content, 1, true},
		{"encoded cabinet", map[string]http.HandlerFunc{fooPack: symtest.Give(gz(cabinet), "Content-Encoding", "gzip")}, content, 2, true},
		{"gzip", map[string]http.HandlerFunc{fooPath: symtest.Give(gz(content))}, content, 1, true},
		{"zstd", map[string]http.HandlerFunc{fooPath: symtest.Give(zs(content))}, content, 1, true},
		{"zlib", map[string]http.HandlerFunc{fooPath: symtest.Give(zl(content))}, content, 1, true},
		{"begins like zlib", map[string]http.HandlerFunc{fooPath: symtest.Give(likeZlib)}, likeZlib, 1, false},
		{"zip", map[string]http.HandlerFunc{fooPath: symtest.Give(zp(content))}, content, 1, true},
		{"stored zip", map[string]http.HandlerFunc{fooPath: symtest.Give(zipStored(content))}, content, 1, true},
		{"encoded gzip", map[string]http.HandlerFunc{fooPath: symtest.Give(gz(content), "Content-Encoding", "gzip")}, content, 1, true},
		{"x-gzip", map[string]http.HandlerFunc{fooPath: symtest.Give(gz(content), "Content-Encoding", "identity, x-gzip")}, content, 1, true},
		{"encoded zstd", map[string]http.HandlerFunc{fooPath: symtest.Give(zs(content), "Content-Encoding", "zstd")}, content, 1, true},
		{"deflate", map[string]http.HandlerFunc{fooPath: symtest.Give(zl(content), "Content-Encoding", "deflate")}, content, 1, true},
		{"bare deflate", map[string]http.HandlerFunc{fooPath: symtest.Give(fl(content), "Content-Encoding", "deflate")}, content, 1, true},
		{"two layers", map[string]http.HandlerFunc{fooPath: symtest.Give(gz(zs(content)), "Content-Encoding", "gzip")}, content, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, c.paths)
			r, b, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo))
			if err != nil || !bytes.Equal(b, c.want) {
				t.Fatalf("%d bytes of %d, %v, want all", len(b), len(c.want), err)
			}
			if got := s.asks(); len(got) != c.asks || got[0] != fooPath {
				t.Errorf("asked %v; want %d, the first %s", got, c.asks, fooPath)
			}
			if r.Name != "foo.pdb" || !strings.HasPrefix(r.Path, s.URL+fooDir) || c.packed && r.Tag != "" {
				t.Errorf("response %+v, want foo.pdb from a path below %s, without a tag if it is packed (%v)", r, s.URL+fooDir, c.packed)
			}
			if agent := s.requests()[0].UserAgent(); !strings.HasPrefix(agent, "Microsoft-Symbol-Server/") {
				t.Errorf(`UserAgent: %q, want one that begins with "Microsoft-Symbol-Server/"`, agent)
			}
		})
	}
	t.Run("a miss is one round trip per form", func(t *testing.T) {
		s := serve(t, nil)
		h := source(t, HTTPConfig{URL: s.URL + "/sub/?key=1"}, DialerOptions{})
		if _, _, err := load(t, h, wish(t, askFoo)); !errors.Is(err, fs.ErrNotExist) || fetch.ClassOf(err) != fetch.ClassNotFound {
			t.Error(err)
		}
		if got := s.asks(); !slices.Equal(got, []string{"/sub" + fooPath, "/sub" + fooPack, "/sub" + fooPtr}) {
			t.Errorf(`asks: %v, want []string{"/sub" + fooPath, "/sub" + fooPack, "/sub" + fooPtr}`, got)
		}
		if q := s.requests()[1].URL.RawQuery; q != "key=1" {
			t.Errorf("query %q, want %q", q, "key=1")
		}
	})
}

// TestNamesLeftAlone: a file is not decompressed if its own name is that of a
// container, or if it is named by its hash.
func TestNamesLeftAlone(t *testing.T) {
	packed := gz(content)
	for p, want := range map[string]string{
		"foo.tar.gz/5AB380779000/foo.tar.gz":      "/foo.tar.gz/5AB380779000/foo.tar.gz",
		"foo.zip/5AB380779000/foo.zip":            "/foo.zip/5AB380779000/foo.zip",
		"foo.cs/sha1-" + hex40 + "/foo.cs":        "/foo.cs/sha1-" + hex40 + "/foo.cs",
		"foo.pdb/" + guid1 + "1/foo.src.zip":      fooDir + "foo.src.zip",
		"buildid/" + hex40 + "/source/a/b.txt.gz": "/buildid/" + hex40 + "/source/a/b.txt.gz",
	} {
		s := serve(t, map[string]http.HandlerFunc{want: symtest.Give(packed)})
		r, b, err := load(t, source(t, HTTPConfig{URL: s.URL, Layout: "auto"}, DialerOptions{}), wish(t, p))
		if err != nil || !bytes.Equal(b, packed) || r.Size != int64(len(packed)) {
			t.Errorf("%s: %d bytes, %v (%v); want the %d of the cabinet", p, len(b), err, s.asks(), len(packed))
		}
	}
}

// TestHTTPPointers: file.ptr leads to a URL, or gives the reason of a miss.
func TestHTTPPointers(t *testing.T) {
	for _, c := range []struct {
		text  string
		class fetch.Class
		says  string
	}{
		{"PATH:SERVER/elsewhere/foo.pdb", fetch.ClassNone, ""},
		{"SERVER/elsewhere/foo.pd_\r\n", fetch.ClassNone, ""},
		{"MSG: removed in 2019", fetch.ClassNotFound, "removed in 2019"},
		{`PATH:\\corp\symbols\foo.pdb`, fetch.ClassNotFound, "own network can reach"},
		{`C:\symbols\foo.pdb`, fetch.ClassNotFound, "own network can reach"},
		{"PATH:file:///etc/passwd", fetch.ClassNotFound, "own network can reach"},
		{"PATH:http://127.0.0.1:9/foo.pdb", fetch.ClassNotFound, "private"},
		{"PATH:http://169.254.169.254/latest/meta-data", fetch.ClassNotFound, "private"},
		{"<!DOCTYPE html><p>", fetch.ClassNotFound, "web page"},
		{"  \r\n", fetch.ClassNotFound, "file.ptr of the server is empty"},
	} {
		s := serve(t, nil)
		s.paths = map[string]http.HandlerFunc{
			fooPtr:               symtest.Give([]byte(strings.ReplaceAll(c.text, "SERVER", s.URL)), "Content-Type", "text/plain"),
			"/elsewhere/foo.pdb": symtest.Give(content, "ETag", `"x"`),
			"/elsewhere/foo.pd_": symtest.Give(unpacktest.Cabinet(t, "foo.pdb", content)),
		}
		r, b, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo))
		if fetch.ClassOf(err) != c.class {
			t.Errorf("%q: load: error %v, want fetch.ClassOf(err) %v", c.text, err, c.class)
		} else if err != nil {
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: got error %v, want one with %q", c.text, err, c.says)
			}
		} else if !bytes.Equal(b, content) || r.Name != "foo.pdb" || r.Tag != "" || !strings.Contains(r.Path, "/elsewhere/") {
			t.Errorf("%q: %d bytes, %+v; want the file of the pointer", c.text, len(b), r)
		}
	}
}

// TestStatus: the class of each error status, without further requests after
// it.
func TestStatus(t *testing.T) {
	page := []byte("<!DOCTYPE html>\n<html><body>Sorry!</body></html>")
	for _, c := range []struct {
		name  string
		says  http.HandlerFunc
		class fetch.Class
		retry time.Duration
		asks  int
	}{
		{"404", symtest.Refuse(404), fetch.ClassNotFound, 0, 3},
		{"410", symtest.Refuse(410), fetch.ClassNotFound, 0, 3},
		{"400", symtest.Refuse(400), fetch.ClassNotFound, 0, 3},
		{"204", symtest.Refuse(204), fetch.ClassNotFound, 0, 3},
		{"401", symtest.Refuse(401), fetch.ClassUnauthorized, 0, 1},
		{"403", symtest.Refuse(403), fetch.ClassForbidden, 0, 1},
		{"203", symtest.Refuse(203), fetch.ClassUnauthorized, 0, 1},
		{"429", symtest.Refuse(429), fetch.ClassBusy, 0, 1},
		{"429 with seconds", symtest.Refuse(429, "Retry-After", "30"), fetch.ClassBusy, 30 * time.Second, 1},
		{"503 with a date", symtest.Refuse(503, "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)), fetch.ClassBusy, time.Minute, 1},
		{"503 for ages", symtest.Refuse(503, "Retry-After", "99999999"), fetch.ClassBusy, longestRetry, 1},
		{"503", symtest.Refuse(503), fetch.ClassBroken, 0, 1},
		{"500", symtest.Refuse(500), fetch.ClassBroken, 0, 1},
		{"206", symtest.Refuse(206), fetch.ClassBroken, 0, 1},
		{"304", symtest.Refuse(304), fetch.ClassBroken, 0, 1},
		{"504", symtest.Refuse(504), fetch.ClassTimeout, 0, 1},
		{"408", symtest.Refuse(408, "Connection", "close"), fetch.ClassTimeout, 0, 1},
		{"page", symtest.Give(page, "Content-Type", "application/octet-stream"), fetch.ClassNotFound, 0, 3},
		{"page by type", symtest.Give([]byte("Sorry!"), "Content-Type", "text/html; charset=utf-8"), fetch.ClassNotFound, 0, 3},
		{"page behind blanks", symtest.Give(append([]byte("\xef\xbb\xbf \r\n\r\n"), page...), "Content-Type", "text/plain"), fetch.ClassNotFound, 0, 3},
		{"encoded page", symtest.Give(gz(page), "Content-Encoding", "gzip"), fetch.ClassNotFound, 0, 3},
		{"words", symtest.Give([]byte("Symbol Not Found")), fetch.ClassNotFound, 0, 3},
		{"nothing", symtest.Give(nil), fetch.ClassNotFound, 0, 3},
		{"bucket, absent with 403", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code></Error>")
		}, fetch.ClassNotFound, 0, 3},
		{"bucket, denied with 404", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
		}, fetch.ClassForbidden, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, map[string]http.HandlerFunc{fooPath: c.says, fooPack: c.says, fooPtr: c.says})
			_, _, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo))
			f, ok := errors.AsType[*fetch.Failure](err)
			if !ok || f.Class != c.class || f.Source != "theirs" {
				t.Fatalf(`got error %v, %v, %v, %q; want true, %v, "theirs"`, err, ok, f.Class, f.Source, c.class)
			}
			if left := time.Until(f.Retry); c.retry == 0 != f.Retry.IsZero() || c.retry > 0 && (left > c.retry || left < c.retry-5*time.Second) {
				t.Errorf("again in %v", left)
			}
			if n := len(s.asks()); n != c.asks {
				t.Errorf("%d requests, want %v", n, c.asks)
			}
		})
	}
	for name, c := range map[string]struct {
		says http.HandlerFunc
		want string
	}{
		"401 of symdepot": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, wire.SignIn+"https://evil.example\ncredentials are required\n")
		}, "status 401: sign in with: symdepot login URL, or give the upstream a token with token_file"},
		"401 of others": {symtest.Refuse(401), "status 401: the server asks for credentials; give the upstream some with token_file, "},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string]http.HandlerFunc{fooPath: c.says})
			_, _, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), wish(t, askFoo))
			if want := strings.ReplaceAll(c.want, "URL", s.URL); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("load: error %v, want one with %q", err, want)
			}
		})
	}
	t.Run("403 of a bucket that is not listed", func(t *testing.T) {
		s := serve(t, map[string]http.HandlerFunc{fooPath: symtest.Refuse(403), fooPack: symtest.Give(content)})
		if _, b, err := load(t, source(t, HTTPConfig{URL: s.URL, Forbidden403: true}, DialerOptions{}), wish(t, askFoo)); err != nil || !bytes.Equal(b, content) {
			t.Errorf("load: length %v, error %v, %q; want %q", len(b), err, b, content)
		}
	})
}

// raw answers with bytes of the test's own and closes the connection, hard or
// not.
func raw(hard bool, parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		for _, p := range parts {
			_, _ = io.WriteString(c, p)
		}
		if hard {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}
}

// TestDamage: whatever is wrong with an answer, it never ends like a whole one.
func TestDamage(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
	zeros := func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	bomb := make([]byte, 8<<20)
	lied := unpacktest.Cabinet(t, "foo.pdb", bomb)
	for _, c := range []struct {
		name  string
		says  http.HandlerFunc
		class fetch.Class
	}{
		{"ends early", raw(false, ok, "Content-Length: 1000\r\n\r\n", "Micro"), fetch.ClassBroken},
		{"reset in the middle", raw(true, ok, "Content-Length: 1000\r\n\r\n", "Micro"), fetch.ClassBroken},
		{"no last chunk", raw(false, ok, "Transfer-Encoding: chunked\r\n\r\n5\r\nMicro\r\n"), fetch.ClassBroken},
		{"bad chunk", raw(false, ok, "Transfer-Encoding: chunked\r\n\r\nzz\r\nMicro\r\n"), fetch.ClassBroken},
		{"no answer", raw(false), fetch.ClassBroken},
		{"no HTTP", raw(false, "SSH-2.0-OpenSSH\r\n"), fetch.ClassBroken},
		{"debuginfod says more", symtest.Give([]byte("Micro"), "X-Debuginfod-Size", "9"), fetch.ClassNone},
		{"chunks and debuginfod says more", raw(false, ok, "X-DEBUGINFOD-SIZE: 9\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nMicro\r\n0\r\n\r\n"), fetch.ClassBroken},
		{"gzip cut off", symtest.Give(gz(content)[:500]), fetch.ClassBroken},
		{"zstd cut off", symtest.Give(zs(content)[:30]), fetch.ClassBroken},
		{"zlib cut off", symtest.Give(zl(content)[:500]), fetch.ClassBroken},
		{"zip cut off", symtest.Give(zp(content)[:500]), fetch.ClassBroken},
		{"zip without directory", symtest.Give(zp(content)[:len(zp(content))-100]), fetch.ClassBroken},
		{"zip of two files", symtest.Give(zp(content, content)), fetch.ClassBroken},
		{"cabinet cut off", symtest.Give(unpacktest.Cabinet(t, "foo.pdb", content)[:200]), fetch.ClassBroken},
		{"cabinet cut off in the head", symtest.Give(unpacktest.Cabinet(t, "foo.pdb", content)[:20]), fetch.ClassBroken},
		{"cabinet that ends early", raw(false, ok, "Transfer-Encoding: chunked\r\n\r\n64\r\n", string(unpacktest.Cabinet(t, "foo.pdb", content)[:100]), "\r\n"), fetch.ClassBroken},
		{"SZDD", symtest.Give([]byte("SZDD\x88\xf0\x27\x33A\x00\x00\x00\x00\x00")), fetch.ClassBroken},
		{"unknown encoding", symtest.Give(content, "Content-Encoding", "br"), fetch.ClassBroken},
		{"encoded twice", symtest.Give(gz(gz(content)), "Content-Encoding", "gzip, gzip"), fetch.ClassBroken},
		{"not what the encoding says", symtest.Give(content, "Content-Encoding", "gzip"), fetch.ClassBroken},
		{"encoded and cut off", symtest.Give(gz(content)[:300], "Content-Encoding", "gzip"), fetch.ClassBroken},
		{"says to be too large", symtest.Give(make([]byte, 3<<20)), fetch.ClassTooLarge},
		{"endless zeros", zeros, fetch.ClassTooLarge},
		{"gzip bomb", symtest.Give(gz(bomb)), fetch.ClassTooLarge},
		{"encoded bomb", symtest.Give(gz(bomb), "Content-Encoding", "gzip"), fetch.ClassTooLarge},
		{"zstd bomb", symtest.Give(zs(bomb)), fetch.ClassTooLarge},
		{"zip bomb", symtest.Give(zp(bomb)), fetch.ClassTooLarge},
		{"stored zip too large", symtest.Give(zipStored(make([]byte, 1100<<10))), fetch.ClassTooLarge},
		{"cabinet bomb", symtest.Give(lied), fetch.ClassTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, map[string]http.HandlerFunc{fooPath: c.says})
			_, b, err := load(t, source(t, HTTPConfig{URL: s.URL, MaxBytes: 1 << 20}, DialerOptions{}), wish(t, askFoo))
			if fetch.ClassOf(err) != c.class {
				t.Errorf("load: %s, error %v; want %v", fetch.ClassOf(err), err, c.class)
			}
			if len(b) > 1<<20 {
				t.Errorf("%d bytes, want at most 1 MiB", len(b))
			}
			if n := len(s.asks()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
	t.Run("the limit of a question", func(t *testing.T) {
		s := serve(t, map[string]http.HandlerFunc{fooPath: symtest.Give(content)})
		ask := wish(t, askFoo)
		ask.Limit = int64(len(content)) - 1
		if _, _, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), ask); fetch.ClassOf(err) != fetch.ClassTooLarge {
			t.Error(err)
		}
		ask.Limit++
		if _, b, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), ask); err != nil || len(b) != len(content) {
			t.Error(err)
		}
	})
}

// TestTimeouts: every wait has its limit, and the end of a context is the end of
// everything.
func TestTimeouts(t *testing.T) {
	before := runtime.NumGoroutine()
	stall, arrived := make(chan struct{}), make(chan struct{}, 8)
	s := serve(t, map[string]http.HandlerFunc{
		"/head" + fooPath: func(http.ResponseWriter, *http.Request) {
			arrived <- struct{}{}
			<-stall
		},
		"/body" + fooPath: func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(content)
			w.(http.Flusher).Flush()
			arrived <- struct{}{}
			<-stall
		},
		"/first" + fooPath: func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			arrived <- struct{}{}
			<-stall
		},
	})
	quick := Timeouts{Header: 50 * time.Millisecond, Idle: 50 * time.Millisecond, Connect: 50 * time.Millisecond}
	for _, p := range []string{"/head", "/first", "/body"} {
		_, _, err := load(t, source(t, HTTPConfig{URL: s.URL + p, Timeouts: quick}, DialerOptions{}), wish(t, askFoo))
		if fetch.ClassOf(err) != fetch.ClassTimeout {
			t.Errorf("%s: error %v, want a timeout", p, err)
		}
		<-arrived
	}
	for _, p := range []string{"/head", "/first", "/body"} {
		h := source(t, HTTPConfig{URL: s.URL + p}, DialerOptions{})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("nobody waits any more")
		go func() {
			<-arrived
			cancel(why)
		}()
		r, err := h.Fetch(ctx, wish(t, askFoo))
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
		if !errors.Is(err, why) {
			t.Errorf("%s: error %v, want the cause of the cancellation", p, err)
		}
		_ = h.Close()
	}
	// Close wakes a reader.
	h := source(t, HTTPConfig{URL: s.URL + "/body"}, DialerOptions{})
	r, err := h.Fetch(t.Context(), wish(t, askFoo))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(r.Body, make([]byte, len(content))); err != nil {
		t.Fatalf("read %d of the %d bytes that were sent: %v", n, len(content), err)
	}
	go func() { _ = r.Body.Close() }()
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("a body that was closed ended cleanly")
	}
	if _, err := r.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Error(err)
	}
	close(stall)
	s.Close()
	_ = h.Close()
	defer func() {
		if t.Failed() {
			buf := make([]byte, 1<<16)
			t.Logf("%d goroutines, before the test %d\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}()
	symtest.Await(t, 10*time.Second, "the end of the goroutines of the test", func() bool { return runtime.NumGoroutine() <= before+2 })
}

// TestUnreachable: the class of failures to connect.
func TestUnreachable(t *testing.T) {
	s := serve(t, nil)
	s.Close()
	for _, c := range []struct {
		url   string
		d     DialerOptions
		class fetch.Class
		is    error
	}{
		{s.URL, DialerOptions{}, fetch.ClassTimeout, nil},
		{"http://no.such.host.example", DialerOptions{Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }}, fetch.ClassTimeout, nil},
		{s.URL, DialerOptions{NoEgress: true}, fetch.ClassSkipped, ErrNoEgress},
	} {
		_, _, err := load(t, source(t, HTTPConfig{URL: c.url}, c.d), wish(t, askFoo))
		if fetch.ClassOf(err) != c.class || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, want class %v and %v", c.url, err, c.class, c.is)
		}
	}
}

// TestResume: the rest of an interrupted file is requested, if it is still the
// same file.
func TestResume(t *testing.T) {
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	tag := `"one"`
	s := serve(t, nil)
	s.paths = map[string]http.HandlerFunc{
		fooPath: func(w http.ResponseWriter, r *http.Request) {
			if tag != "" {
				w.Header().Set("ETag", tag)
			}
			http.ServeContent(w, r, "", at, bytes.NewReader(content))
		},
		"/away" + fooPath: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, fooPath, http.StatusFound) },
	}
	for _, base := range []string{s.URL, s.URL + "/away"} {
		tag = `"one"`
		h := source(t, HTTPConfig{URL: base}, DialerOptions{})
		first, b, err := load(t, h, wish(t, askFoo))
		if err != nil || first.Tag != tag || !first.ModTime.Equal(at) || len(b) != len(content) {
			t.Fatalf("load: %+v, error %v, length %v; want Tag %v, first.ModTime.Equal(at), %v", first, err, len(b), tag, len(content))
		}
		ask := wish(t, askFoo)
		ask.Resume = &fetch.Resume{Path: first.Path, Tag: first.Tag, Offset: 1000}
		r, b, err := load(t, h, ask)
		if err != nil || r.Offset != 1000 || r.Size != int64(len(content)) || !bytes.Equal(b, content[1000:]) || r.Tag != tag || r.Path != first.Path {
			t.Errorf("load: %+v, error %v, %q; want Offset 1000, Size %v, content[1000:], Tag %v, Path %v", r, err, b, int64(len(content)), tag, first.Path)
		}
		tag = `"two"` // the file has changed
		if r, b, err = load(t, h, ask); err != nil || r.Offset != 0 || !bytes.Equal(b, content) || r.Tag != tag {
			t.Errorf("load: %+v, error %v, %q; want Offset 0, %q, Tag %v", r, err, b, content, tag)
		}
		tag = ""
		if r, _, err = load(t, h, wish(t, askFoo)); err != nil || r.Tag != at.Format(http.TimeFormat) {
			t.Fatalf("load: %+v, error %v; want Tag at.Format(http.TimeFormat)", r, err)
		}
		ask.Resume = &fetch.Resume{Path: r.Path, Tag: r.Tag, Offset: 7}
		if r, b, err = load(t, h, ask); err != nil || r.Offset != 7 || !bytes.Equal(b, content[7:]) {
			t.Errorf("load: %+v, error %v, %q; want Offset 7, content[7:]", r, err, b)
		}
		ask.Resume.Offset = int64(len(content)) + 5 // longer than the file: 416
		if r, b, err = load(t, h, ask); err != nil || r.Offset != 0 || !bytes.Equal(b, content) {
			t.Errorf("load: %+v, error %v, %q; want Offset 0, %q", r, err, b, content)
		}
		ask.Resume.Path = "http://127.0.0.1:1/" // nothing of this server
		if r, b, err = load(t, h, ask); err != nil || r.Offset != 0 || !bytes.Equal(b, content) {
			t.Errorf("load: %+v, error %v, %q; want Offset 0, %q", r, err, b, content)
		}
	}
}

// TestResumeWrongRange: a response with a different range than the requested one is
// not used.
func TestResumeWrongRange(t *testing.T) {
	n := len(content)
	part := func(span, tag string, from, to int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", tag)
			if r.Header.Get("Range") != "" {
				if r.Header.Get("If-Range") != `"a"` || r.Header.Get("Accept-Encoding") != "identity" {
					http.Error(w, "bad", http.StatusInternalServerError)
					return
				}
				w.Header().Set("Content-Range", span)
				w.Header().Set("Content-Length", strconv.Itoa(to-from))
				w.WriteHeader(http.StatusPartialContent)
			}
			_, _ = w.Write(content[from:to])
		}
	}
	for name, says := range map[string]http.HandlerFunc{
		"another offset":   part(fmt.Sprintf("bytes 0-%d/%d", n-1, n), `"a"`, 0, n),
		"another tag":      part(fmt.Sprintf("bytes 100-%d/%d", n-1, n), `"b"`, 100, n),
		"no total":         part(fmt.Sprintf("bytes 100-%d/*", n-1), `"a"`, 100, n),
		"not to the end":   part(fmt.Sprintf("bytes 100-%d/%d", n-2, n), `"a"`, 100, n-1),
		"a length of lies": part(fmt.Sprintf("bytes 100-%d/%d", n+99, n+100), `"a"`, 100, n-1),
		"nonsense":         part("bytes x", `"a"`, 100, n),
	} {
		s := serve(t, nil)
		s.paths = map[string]http.HandlerFunc{fooPath: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				_, _ = w.Write(content)
				return
			}
			says(w, r)
		}}
		ask := wish(t, askFoo)
		ask.Resume = &fetch.Resume{Path: s.URL + fooPath, Tag: `"a"`, Offset: 100}
		r, b, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), ask)
		if err != nil || r.Offset != 0 || !bytes.Equal(b, content) {
			t.Errorf("%s: load: %+v, error %v, %q; want Offset 0, %q", name, r, err, b, content)
		}
	}
	// A part that breaks off again is an error, and too large ones are not begun.
	s := serve(t, map[string]http.HandlerFunc{fooPath: raw(false, "HTTP/1.1 206 Partial\r\nContent-Length: 900\r\nContent-Range: bytes 100-999/1000\r\n\r\n", "abc")})
	ask := wish(t, askFoo)
	ask.Resume = &fetch.Resume{Path: s.URL + fooPath, Tag: `"a"`, Offset: 100}
	if _, b, err := load(t, source(t, HTTPConfig{URL: s.URL}, DialerOptions{}), ask); fetch.ClassOf(err) != fetch.ClassBroken || string(b) != "abc" {
		t.Errorf(`load: %q, error %v; want fetch.ClassOf(err) %v, "abc"`, string(b), err, fetch.ClassBroken)
	}
	if _, _, err := load(t, source(t, HTTPConfig{URL: s.URL, MaxBytes: 999}, DialerOptions{}), ask); fetch.ClassOf(err) != fetch.ClassTooLarge {
		t.Error(err)
	}
}

// TestTiers: index2.txt is requested once, and again when the answer has
// expired.
func TestTiers(t *testing.T) {
	for _, two := range []bool{true, false} {
		s := serve(t, map[string]http.HandlerFunc{"/fo" + fooPath: symtest.Give(content), fooPath: symtest.Give(content)})
		if two {
			s.paths["/index2.txt"] = symtest.Give([]byte("two"))
		} else {
			s.paths["/index2.txt"] = symtest.Give([]byte("<html>"), "Content-Type", "text/html") // a page for everything
		}
		h := source(t, HTTPConfig{URL: s.URL, TwoTier: TwoTierAuto}, DialerOptions{})
		now := time.Now()
		h.now = func() time.Time { return now }
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, _, err := load(t, h, wish(t, askFoo)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		probes := func() (n int) {
			for _, p := range s.asks() {
				if p == "/index2.txt" {
					n++
				} else if strings.HasPrefix(p, "/fo/") != two {
					t.Errorf("asked %s, two tiers %v; want two tiers only then", p, two)
				}
			}
			return n
		}
		if n := probes(); n != 1 {
			t.Errorf("%d probes, want 1", n)
		}
		now = now.Add(tierLife)
		if _, _, err := load(t, h, wish(t, askFoo)); err != nil || probes() != 2 {
			t.Errorf("%d probes, %v; want 2", probes(), err)
		}
		if _, _, err := load(t, h, wish(t, "buildid/"+hex40+"/debuginfo")); fetch.ClassOf(err) != fetch.ClassNotFound || len(s.asks()) != 9 {
			t.Errorf("load: %v, error %v; want fetch.ClassOf(err) %v, length 9", s.asks(), err, fetch.ClassNotFound)
		}
	}
	s := serve(t, nil)
	h := source(t, HTTPConfig{URL: s.URL, TwoTier: TwoTierAuto}, DialerOptions{})
	s.Close()
	if _, _, err := load(t, h, wish(t, askFoo)); fetch.ClassOf(err) != fetch.ClassTimeout {
		t.Error(err)
	}
}

// TestSymCache: a file that the server is still making is a short miss, and a
// version that the client cannot read is refused.
func TestSymCache(t *testing.T) {
	n := 0
	file := []byte("a file for Windows Performance Analyzer")
	version := "3.5.0"
	s := serve(t, map[string]http.HandlerFunc{"/v3.1.0/foo.pdb/" + strings.ToUpper(guid1) + "/1": func(w http.ResponseWriter, r *http.Request) {
		if n++; n < 3 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "wait", http.StatusNotFound)
			return
		}
		if r.Header.Get("Allow-Retry-After") != "true" || r.Header.Get("Accept-Retry-After") != "true" {
			http.Error(w, "no", http.StatusInternalServerError)
		}
		w.Header().Set("Content-Type", "application/vnd.ms-symcache; version="+version)
		_, _ = w.Write(file)
	}})
	h := source(t, HTTPConfig{URL: s.URL, Layout: "symcache"}, DialerOptions{})
	ask := wish(t, "v3.1.0/foo.pdb/"+guid1)
	for range 2 {
		_, _, err := load(t, h, ask)
		if f, ok := errors.AsType[*fetch.Failure](err); !ok || f.Class != fetch.ClassNotFound || time.Until(f.Retry) > time.Second || time.Until(f.Retry) < 0 {
			t.Error(err)
		}
	}
	r, b, err := load(t, h, ask)
	if err != nil || !bytes.Equal(b, file) || n != 3 || !strings.Contains(r.Header.Get("Content-Type"), "version=3.5.0") {
		t.Errorf("%d requests, %+v, %v; want the file of version 3.5.0 after 3 requests", n, r, err)
	}
	version = "4.0.0"
	if _, _, err := load(t, h, ask); fetch.ClassOf(err) != fetch.ClassBroken {
		t.Error(err)
	}
	if _, _, err := load(t, h, wish(t, askFoo)); fetch.ClassOf(err) != fetch.ClassSkipped || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDebuginfod: headers and names of that protocol.
func TestDebuginfod(t *testing.T) {
	s := serve(t, map[string]http.HandlerFunc{
		"/buildid/" + hex40 + "/debuginfo":              symtest.Give(content, "X-DEBUGINFOD-FILE", "/usr/lib/debug/libfoo.so.1.debug", "X-DEBUGINFOD-SIZE", strconv.Itoa(len(content)), "X-Secret", "1"),
		"/buildid/" + hex40 + "/source/usr/src/a b+c.c": symtest.Give([]byte("<html> is what this program prints"), "Content-Type", "application/octet-stream"),
	})
	h := source(t, HTTPConfig{URL: s.URL, Layout: "debuginfod", ServerID: "us"}, DialerOptions{})
	ask := wish(t, "buildid/"+hex40+"/debuginfo")
	ask.Via = []string{"them", "us", "not a token"}
	r, b, err := load(t, h, ask)
	if err != nil || !bytes.Equal(b, content) || r.Name != "libfoo.so.1.debug" || r.Header.Get("X-Debuginfod-File") == "" || r.Header.Get("X-Secret") != "" {
		t.Errorf(`load: %+v, error %v, %q; want %q, Name "libfoo.so.1.debug", Header.Get("X-Debuginfod-File") not "", Header.Get("X-Secret") ""`, r, err, b, content)
	}
	sent := s.requests()[0].Header
	if sent.Get("Via") != "1.1 them, 1.1 us" || sent.Get(HopHeader) != "them, us" || sent.Get("X-Forwarded-For") != "them, us" || sent.Get("User-Agent") != "symdepot" {
		t.Errorf(`got %v, want Get("Via") "1.1 them, 1.1 us", Get(HopHeader) "them, us", Get("X-Forwarded-For") "them, us", Get("User-Agent") "symdepot"`, sent)
	}
	if _, b, err = load(t, h, wish(t, "buildid/"+hex40+"/source/usr/src/a b+c.c")); err != nil || !strings.HasPrefix(string(b), "<html>") {
		t.Errorf(`load: %q, error %v; want one that begins with "<html>"`, b, err)
	}
	if p := s.requests()[1].URL; p.RawPath != "" && !strings.HasSuffix(p.RawPath, "a%20b%2Bc.c") || s.requests()[1].Header.Get(HopHeader) != "us" {
		t.Errorf("request for %q, want the path escaped as a%%20b%%2Bc.c and the hop us", p)
	}
}

// TestHeaders: configured headers are sent, and a changed file of headers is
// read again.
func TestHeaders(t *testing.T) {
	s := serve(t, map[string]http.HandlerFunc{fooPath: symtest.Give(content)})
	file := filepath.Join(t.TempDir(), "headers")
	symtest.Put(t, filepath.Dir(file), "headers", []byte("# tokens\nX-Token: one\n\n"))
	h := source(t, HTTPConfig{URL: strings.Replace(s.URL, "//", "//:pat@", 1), UserAgent: "curl/7", Header: http.Header{"x-own": {"1"}}, Credentials: Credentials{HeadersFile: file}}, DialerOptions{})
	ask := wish(t, askFoo)
	ask.Checksum = "SHA256:00"
	ask.Request.AcceptMSFZ()
	last := func() http.Header {
		t.Helper()
		if _, _, err := load(t, h, ask); err != nil {
			t.Fatal(err)
		}
		all := s.requests()
		return all[len(all)-1].Header
	}
	got := last()
	for k, want := range map[string]string{
		"Authorization": "Basic OnBhdA==", "X-Token": "one", "X-Own": "1", "Symbolchecksum": "SHA256:00", "User-Agent": "curl/7",
		"Accept": "application/msfz0, */*;q=0.9", "Accept-Encoding": "zstd, gzip", "Range": "", "X-Debuginfod-Maxsize": "",
	} {
		if got.Get(k) != want {
			t.Errorf("%s is %q, want %q", k, got.Get(k), want)
		}
	}
	symtest.Put(t, filepath.Dir(file), "headers", []byte("X-Token: another\n"))
	if got := last().Get("X-Token"); got != "another" {
		t.Errorf("token %q, want %q", got, "another")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := last().Get("X-Token"); got != "another" {
		t.Errorf("token %q, want %q", got, "another")
	}
	symtest.Put(t, filepath.Dir(file), "headers", []byte("no colon here\n"))
	if _, err := NewHTTP(HTTPConfig{Name: "x", URL: s.URL, Credentials: Credentials{HeadersFile: file}}, NewDialer(DialerOptions{})); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Error(err)
	}
}

// TestConfig: invalid options are reported.
func TestConfig(t *testing.T) {
	for says, cfg := range map[string]HTTPConfig{
		"not an http":      {URL: "ftp://host/"},
		"unknown layout":   {URL: "http://host/", Layout: "flat"},
		"unknown casing":   {URL: "http://host/", Casing: "Upper"},
		"unknown two_tier": {URL: "http://host/", TwoTier: "maybe"},
		"headers file":     {URL: "http://host/", Credentials: Credentials{HeadersFile: "/no/such"}},
	} {
		cfg.Name = "s1"
		if _, err := NewHTTP(cfg, NewDialer(DialerOptions{})); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "s1") {
			t.Errorf(`%s: NewHTTP: error %v, want an error, one with %q, one with "s1"`, says, err, says)
		}
	}
}

// TestNoSecrets: errors, paths and names contain no credentials.
func TestNoSecrets(t *testing.T) {
	const secret = "s3cr3tTok3nOfTw3ntyL3tt3rs"
	s := serve(t, nil)
	base := "/t/" + secret
	s.paths = map[string]http.HandlerFunc{
		base + fooPath: symtest.Give(content, "ETag", `"1"`),
		"/far" + fooPath: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/?sig="+secret, http.StatusFound)
		},
		"/bad" + fooPath: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://%zz/"+secret)
			w.WriteHeader(http.StatusFound)
		},
		"/reset" + fooPath:  raw(true),
		"/cut" + fooPath:    raw(false, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12"),
		"/denied" + fooPath: symtest.Refuse(403),
	}
	check := func(what, text string) {
		t.Helper()
		if strings.Contains(text, secret) || strings.Contains(text, "pa55word") {
			t.Errorf(`%s tells a secret: %s, want one without %q, one without "pa55word"`, what, text, secret)
		}
	}
	at := func(p string) string {
		return strings.Replace(s.URL, "//", "//user:pa55word@", 1) + p + "?key=" + secret
	}
	h := source(t, HTTPConfig{URL: at(base)}, DialerOptions{})
	r, _, err := load(t, h, wish(t, askFoo))
	if err != nil {
		t.Fatal(err)
	}
	check("path", fmt.Sprintf("%+v", r))
	ask := wish(t, askFoo)
	ask.Resume = &fetch.Resume{Path: r.Path, Tag: r.Tag, Offset: 5}
	if _, _, err = load(t, h, ask); err != nil {
		t.Error(err)
	}
	if q := s.requests()[1].URL; q.Path != base+fooPath || q.RawQuery != "key="+secret {
		t.Errorf("got %v, want Path %v, RawQuery %v", q, base+fooPath, "key="+secret)
	}
	for _, p := range []string{"/far", "/bad", "/reset", "/cut", "/denied", "/none"} {
		_, _, err := load(t, source(t, HTTPConfig{URL: at(p), Credentials: Credentials{}}, DialerOptions{}), wish(t, askFoo))
		if err == nil {
			t.Errorf("%v: load, want an error", p)
			continue
		}
		check(p, err.Error())
	}
	for _, bad := range []string{"ftp://user:pa55word@host/", "http://user:pa55word@ho st/" + secret} {
		_, err := NewHTTP(HTTPConfig{Name: "x", URL: bad}, NewDialer(DialerOptions{}))
		if err == nil {
			t.Errorf("%v: NewHTTP, want an error", bad)
			continue
		}
		check("configuration", err.Error())
	}
	s.Close()
	_, _, err = load(t, source(t, HTTPConfig{URL: at("/")}, DialerOptions{}), wish(t, askFoo))
	check("unreachable", err.Error())
}

// TestHTTP2: the same over the newer protocol, where connections are shared.
func TestHTTP2(t *testing.T) {
	stall := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s, want HTTP/2", r.Proto)
		}
		switch r.URL.Path {
		case "/whole" + fooPath:
			_, _ = w.Write(content)
		case "/reset" + fooPath:
			_, _ = w.Write(content)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/stall" + fooPath:
			_, _ = w.Write(content)
			w.(http.Flusher).Flush()
			<-stall
		case "/down" + fooPath:
			http.Redirect(w, r, "http://public.example/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(stall) })
	tr := NewDialer(DialerOptions{}).Transport(s.Listener.Addr().String())
	tr.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	for p, class := range map[string]fetch.Class{"/whole": fetch.ClassNone, "/reset": fetch.ClassBroken, "/stall": fetch.ClassTimeout, "/none": fetch.ClassNotFound, "/down": fetch.ClassBroken} {
		var limits Timeouts
		if p == "/stall" { // a busy machine is idle for longer than this between other answers
			limits.Idle = 50 * time.Millisecond
		}
		h := source(t, HTTPConfig{URL: s.URL + p, Transport: tr, Timeouts: limits}, DialerOptions{})
		if _, b, err := load(t, h, wish(t, askFoo)); fetch.ClassOf(err) != class || err == nil && !bytes.Equal(b, content) {
			t.Errorf("%s: %d bytes, error %v; want class %v, and the content if there is no error", p, len(b), err, class)
		}
	}
	// A certificate that nobody vouches for.
	if _, _, err := load(t, source(t, HTTPConfig{URL: s.URL + "/whole"}, DialerOptions{}), wish(t, askFoo)); fetch.ClassOf(err) != fetch.ClassBroken {
		t.Error(err)
	}
}

// TestManyAtOnce: one source, many goroutines, and as many connections reused.
func TestManyAtOnce(t *testing.T) {
	s := serve(t, map[string]http.HandlerFunc{fooPack: symtest.Give(unpacktest.Cabinet(t, "foo.pdb", content))})
	h := source(t, HTTPConfig{URL: s.URL}, DialerOptions{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 4 {
				if _, b, err := load(t, h, wish(t, askFoo)); err != nil || !bytes.Equal(b, content) {
					t.Errorf("load: length %v, error %v, %q; want %q", len(b), err, b, content)
				}
			}
		})
	}
	all.Wait()
	ports := map[string]bool{}
	for _, r := range s.requests() {
		ports[r.RemoteAddr] = true
	}
	if len(s.asks()) != 128 || len(ports) > 64 {
		t.Errorf("%d requests on %d connections, want 128, at most 64", len(s.asks()), len(ports))
	}
}

func BenchmarkPlain(b *testing.B) {
	big := make([]byte, 64<<20)
	s := httptest.NewServer(symtest.Give(big))
	defer s.Close()
	h, err := NewHTTP(HTTPConfig{Name: "b", URL: s.URL, Layout: "symstore", TwoTier: TwoTierNo}, NewDialer(DialerOptions{}))
	if err != nil {
		b.Fatal(err)
	}
	req, _ := layout.Route(strings.Split(askFoo, "/"))
	b.SetBytes(int64(len(big)))
	buf := make([]byte, 128<<10)
	for b.Loop() {
		r, err := h.Fetch(b.Context(), fetch.Ask{Request: req})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, buf); err != nil {
			b.Fatal(err)
		}
		_ = r.Body.Close()
	}
}
