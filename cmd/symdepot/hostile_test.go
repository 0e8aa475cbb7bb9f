package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestHostileFiles adds damaged copies of every test file: cut at many lengths
// and with flipped bits. Each must be added or skipped with a reason, the
// command must continue up to the good file at the end, and the added objects
// must pass verify.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 3), 4))
	n := 0
	err := filepath.WalkDir("../../testdata", func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		whole, err := os.ReadFile(path)
		if err != nil || len(whole) == 0 || len(whole) > 1<<20 {
			return err
		}
		for i := range 12 {
			b := bytes.Clone(whole)
			if i < 4 {
				b = b[:rng.IntN(len(b))]
			} else {
				for range 1 + rng.IntN(16) {
					at := rng.IntN(len(b))
					if i%2 == 0 {
						at = rng.IntN(min(len(b), 512)) // headers hurt most
					}
					b[at] ^= 1 << rng.IntN(8)
				}
			}
			n++
			if err := os.WriteFile(filepath.Join(src, strconv.Itoa(n)+"-"+filepath.Base(path)), b, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Sizes of 4 GiB in a small file, and a fat header with a million slices.
	lies := map[string][]byte{
		"liar.pdb":   append([]byte("Microsoft C/C++ MSF 7.00\r\n\x1aDS\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 1000)...),
		"liar.exe":   append(append([]byte("MZ"), make([]byte, 58)...), append([]byte{64, 0, 0, 0}, append([]byte("PE\x00\x00"), bytes.Repeat([]byte{0xff}, 900)...)...)...),
		"liar.so":    append([]byte("\x7fELF\x02\x01\x01"), bytes.Repeat([]byte{0xff}, 1000)...),
		"liar.dylib": {0xca, 0xfe, 0xba, 0xbe, 0x00, 0x0f, 0x42, 0x40, 0, 0, 0, 7, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff},
		"liar.wasm":  append([]byte("\x00asm\x01\x00\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 100)...),
		"liar.sym":   []byte("MODULE " + strings.Repeat("x", 100_000)),
		"empty.pdb":  {},
	}
	for name, b := range lies {
		if err := os.WriteFile(filepath.Join(src, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commandtest.SymFiles(t, filepath.Join(src, "zz"), 9, 1, 0)

	depot := filepath.Join(t.TempDir(), "depot")
	code, out, errs := commandtest.Symdepot(t, depot, "add", "--json", src)
	if code != 0 {
		t.Fatalf("exit %d, want 0: %s", code, errs)
	}
	if strings.Contains(errs, "panic") {
		t.Fatalf(`got %v, want one without "panic"`, errs)
	}
	skipped := 0
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var l struct{ Event, Path, Reason string }
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if l.Event == "skipped" {
			skipped++
			if l.Reason == "" {
				t.Errorf("%s was skipped without a reason", l.Path)
			}
		}
	}
	if skipped < len(lies) {
		t.Errorf("only %d files were skipped", skipped)
	}
	if code, _, _ := commandtest.Symdepot(t, depot, "find", commandtest.SymID(9, 0)); code != 0 {
		t.Error("the good file behind the bad ones was not added")
	}
	if code, out, _ := commandtest.Symdepot(t, depot, "verify"); code != 0 {
		t.Errorf("verify: %s, want exit code 0", out)
	}
	t.Logf("%d damaged files, %d skipped", n+len(lies), skipped)
}

// TestHostileRequests sends invalid names; the server answers 404 (400 if it is
// not HTTP) and keeps serving.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 3, 0)
	depot := filepath.Join(t.TempDir(), "depot")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", src); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	s := commandtest.ServeDepot(t, depot)
	const g = "497B72F6390A44FC878E5A2D63B6CC4B1"
	for _, p := range []string{
		"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd/" + g + "/x", "/a%00b/" + g + "/a%00b",
		"/CON/" + g + "/CON", "/" + strings.Repeat("a", 10_000) + "/" + g + "/x", "/foo.pdb/" + strings.Repeat("A", 5000) + "/foo.pdb",
		"/buildid/../../x/debuginfo", "/buildid/" + strings.Repeat("ab", 500) + "/debuginfo", "/C:%5Cwindows%5Cx.pdb/" + g + "/x.pdb",
		"/000Admin/lastid.txt", "/foo.pdb/" + g + "/refs.ptr", "/foo.pdb/" + g + "/file.ptr", "//////", "/%ff%fe/" + g + "/%ff%fe", "/a/b/c/d/e/f/g/h",
		"/buildid/abcd/section/" + strings.Repeat("%2e", 2000), "/metadata?key=glob&value=" + strings.Repeat("[", 1000),
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Opaque = "//" + req.URL.Host + p // as it stands, unclean
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%.60s: Do: error %v, want no error", p, err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		own := p == "//////" || strings.HasPrefix(p, "/metadata")
		if resp.StatusCode != http.StatusNotFound && !own {
			t.Errorf("%.60s: status %d, want 404", p, resp.StatusCode)
		}
		if resp.StatusCode >= 500 {
			t.Errorf("%.60s: status %d, want less than 500", p, resp.StatusCode)
		}
	}
	resp, err := http.Get(s.URL + "/lib1-0.so/" + commandtest.SymID(1, 0) + "/lib1-0.so.sym")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("after all that: %v %v; want status 200 as before", resp, err)
	}
}
