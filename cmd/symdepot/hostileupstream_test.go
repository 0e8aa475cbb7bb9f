package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

const (
	farSym = "/app.pdb/44E4EC8C2F41492B9369D6B9A059577C2/app.sym"
	farPDB = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
)

// breakpadText is a symbol file of about size bytes.
func breakpadText(id string, size int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MODULE windows x86_64 %s app.pdb\n", id)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "PUBLIC %x 0 function_%d\n", 0x1000+i*16, i)
	}
	return b.Bytes()
}

// fault is one way in which a server may fail its clients.
type fault struct {
	name   string
	path   string // to ask for
	serve  http.HandlerFunc
	within time.Duration // until the whole answer has come or broken off; 0: 6 s
}

// faults lists them. right is the file that farSym asks for, pdb that of farPDB.
func faults(right, pdb []byte) []fault {
	wrongPDB := bytes.Clone(pdb)
	guid := []byte{0xB6, 0xE0, 0xEF, 0xF9, 0x75, 0xAE, 0x39, 0x00}
	if i := bytes.Index(wrongPDB, guid); i >= 0 {
		wrongPDB[i] ^= 1
	} else {
		panic("the GUID is not in the file")
	}
	sends := func(b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(b) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
	}
	leads := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	return []fault{
		{name: "accepts and stalls", path: farSym, serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{name: "drips from the beginning", path: farSym, serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(right)))
			for i := 0; i < len(right) && r.Context().Err() == nil; i += 100 {
				_, _ = w.Write(right[i : i+100])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}},
		{name: "stalls in the middle", path: farSym, within: 15 * time.Second, serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(right)))
			_, _ = w.Write(right[:200<<10])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}},
		{name: "resets in the middle", path: farSym, serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(right)))
			_, _ = w.Write(right[:200<<10])
			_ = http.NewResponseController(w).Flush()
			reset(w)
		}},
		{name: "resets at once", path: farSym, serve: func(w http.ResponseWriter, _ *http.Request) { reset(w) }},
		{name: "announces too much", path: farSym, serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(right)+1000))
			_, _ = w.Write(right)
		}},
		{name: "announces too little", path: farSym, serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(right)-1000))
			_, _ = w.Write(right)
		}},
		{name: "403", path: farSym, serve: status(403)},
		{name: "429", path: farSym, serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}},
		{name: "500", path: farSym, serve: status(500)},
		{name: "redirects in a circle", path: farSym, serve: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }},
		{name: "redirects for ever", path: farSym, serve: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}},
		{name: "leads to this machine", path: farSym, serve: leads(secretURL)},
		{name: "leads to a metadata address", path: farSym, serve: leads("http://169.254.169.254/latest/meta-data/")},
		{name: "leads to a mapped address", path: farSym, serve: leads(strings.Replace(secretURL, "127.0.0.1", "[::ffff:127.0.0.1]", 1))},
		{name: "says sorry with 200", path: farPDB, serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>Not found, sorry.</body></html>"+strings.Repeat(" ", 200<<10))
		}},
		{name: "wrong ids at the start", path: farSym, serve: sends(breakpadText("11111111111111111111111111111111A", 300<<10))},
		{name: "wrong ids near the end", path: farPDB, serve: sends(wrongPDB)},
		{name: "half a cabinet", path: farPDB, serve: func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, ".pd_") {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(cabinetOf(pdb)[:2000])
		}},
		{name: "zip bomb", path: farPDB, serve: sends(zipBomb(2 << 30))},
		{name: "endless zeros", path: farPDB, serve: func(w http.ResponseWriter, _ *http.Request) {
			zeros := make([]byte, 1<<20)
			for {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		}},
	}
}

// reset closes a connection so that the other side sees a failure.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

// zipBomb is a zip archive of one file of n zero bytes.
func zipBomb(n int64) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 1) })
	w, err := z.Create("hello-x64.pdb")
	if err == nil {
		_, err = io.CopyN(w, zeroReader{}, n)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return b.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// secretURL is an address of this machine that no answer may lead to.
var secretURL string

// TestHostileUpstream lets the real server ask a server that fails in every
// way, alone and with a healthy one behind it.
func TestHostileUpstream(t *testing.T) {
	t.Parallel()
	right := breakpadText("44E4EC8C2F41492B9369D6B9A059577C2", 300<<10)
	pdb, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	var cabinet []byte
	{
		dir := t.TempDir()
		if code, _, errs := commandtest.Symdepot(t, dir, "cab", "create", filepath.Join(dir, "a.cab"), "../../testdata/pdb/hello-x64.pdb"); code != 0 {
			t.Fatalf(`symdepot("cab", "create", "../../testdata/pdb/hello-x64.pdb"): %v, %v; want 0`, errs, code)
		}
		if cabinet, err = os.ReadFile(filepath.Join(dir, "a.cab")); err != nil {
			t.Fatal(err)
		}
	}
	cabinetOf = func([]byte) []byte { return cabinet }
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("an answer led a request to an address inside")
		_, _ = w.Write(right)
	}))
	t.Cleanup(secret.Close)
	secretURL = secret.URL
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.EqualFold(r.URL.Path, farSym):
			_, _ = w.Write(right)
		case strings.EqualFold(r.URL.Path, farPDB):
			_, _ = w.Write(pdb)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(good.Close)
	sums := map[string]string{farSym: sum(right), farPDB: sum(pdb)}
	for _, f := range faults(right, pdb) {
		for _, behind := range []bool{false, true} {
			name := f.name
			if behind {
				name += ", a good one behind"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/index2.txt" {
						http.NotFound(w, r)
						return
					}
					f.serve(w, r)
				}))
				t.Cleanup(bad.Close)
				args := []string{"--upstream", bad.URL + ",layout=native,rank=1"}
				if behind {
					args = append(args, "--upstream", good.URL+",layout=native,rank=2")
				}
				depot := filepath.Join(t.TempDir(), "depot")
				s := commandtest.ServeDepot(t, depot, args...)
				within := f.within
				if within == 0 {
					within = 6 * time.Second
				}
				for range 2 {
					askHostile(t, s.URL+f.path, sums[f.path], within)
				}
				if peak, _ := commandtest.Resident(t, s.Cmd.Process.Pid); peak > 256 {
					t.Errorf("%.0f MiB of memory, want at most 256", peak)
				}
				_, list, _ := commandtest.Symdepot(t, depot, "cache", "list", "--json")
				for line := range strings.Lines(list) {
					if !strings.Contains(line, sums[f.path]) {
						t.Errorf("kept a wrong file: %s", line)
					}
				}
			})
		}
	}
}

var cabinetOf func([]byte) []byte

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// askHostile asks once: the answer is 404, the whole right file, or broken off,
// and there in time.
func askHostile(t *testing.T, url, want string, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	first := time.Since(start)
	// 3 s of patience, and what a loaded machine takes.
	if first > 5*time.Second {
		t.Errorf("the first byte took %v, want at most 5 s", first)
	}
	if err != nil {
		return // broken off
	}
	defer resp.Body.Close()
	h := sha256.New()
	n, err := io.Copy(h, resp.Body)
	if took := time.Since(start); took > within {
		t.Errorf("the whole took %v, want at most %v", took, within)
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
	case resp.StatusCode != http.StatusOK:
		t.Errorf("status %d, want 200", resp.StatusCode)
	case err == nil && hex.EncodeToString(h.Sum(nil)) != want:
		t.Errorf("a wrong file of %d bytes that seems whole", n)
	}
}
