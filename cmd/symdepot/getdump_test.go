package main

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// readTestdata returns a file of testdata.
func readTestdata(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// imageWith returns a real image with the ids of another one.
func imageWith(t *testing.T, id debugid.PE) []byte {
	t.Helper()
	b := readTestdata(t, "pdb/hello-x86.exe")
	pe := binary.LittleEndian.Uint32(b[0x3c:])
	binary.LittleEndian.PutUint32(b[pe+8:], id.TimeDateStamp)
	binary.LittleEndian.PutUint32(b[pe+24+56:], id.SizeOfImage)
	return b
}

// pdbWith returns a real PDB with the GUID and the age of another one.
func pdbWith(t *testing.T, id debugid.ID) []byte {
	t.Helper()
	b := readTestdata(t, "pdb/hello-x64.pdb")
	guid := func(g debugid.GUID) []byte {
		return []byte{g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]}
	}
	own, err := debugid.ParseGUID("F9EFE0B6AE7500394C4C44205044422E")
	if err != nil {
		t.Fatal(err)
	}
	info := bytes.Index(b, guid(own))
	dbi := bytes.Index(b, []byte{0xff, 0xff, 0xff, 0xff, 0x77, 0x09, 0x31, 0x01}) // the header's signature and version
	if info < 4 || dbi < 0 {
		t.Fatal("the PDB of testdata has changed")
	}
	copy(b[info:], guid(id.GUID))
	binary.LittleEndian.PutUint32(b[info-4:], id.Age)
	binary.LittleEndian.PutUint32(b[dbi+8:], id.Age)
	return b
}

// TestGetMinidump: get downloads everything that a minidump of Windows needs, from
// a server that has all of it but one PDB; a second get needs no server.
func TestGetMinidump(t *testing.T) {
	t.Parallel()
	text := readTestdata(t, "minidump/test_app.dmp")
	d, err := dump.Read(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Modules) != 13 || d.OS != "windows" {
		t.Fatalf("%d modules of %s, want 13 of windows", len(d.Modules), d.OS)
	}
	const lacking = "psapi.pdb"
	served := map[string][]byte{}
	for _, m := range d.Modules {
		path := layout.SymStore.Paths(symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: m.Name, CodeID: m.Code.String()})[0]
		served[path] = imageWith(t, m.Code)
		for _, p := range m.Debug {
			path := layout.SymStore.Paths(symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: p.Name, DebugID: p.ID})[0]
			if p.Name != lacking {
				served[path] = pdbWith(t, p.ID)
			}
		}
	}
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/")
		mu.Lock()
		asked[path]++
		mu.Unlock()
		if b := served[path]; b != nil {
			_, _ = w.Write(b)
			return
		}
		http.NotFound(w, r)
	}))
	defer server.Close()

	depot, out := filepath.Join(t.TempDir(), "depot"), filepath.Join(t.TempDir(), "symbols")
	crash := filepath.Join("../../testdata/minidump/test_app.dmp")
	code, stdout, stderr := commandtest.Symdepot(t, depot, "get", crash, "--upstream", server.URL, "-o", out, "--layout", "symstore")
	if code != 1 || !strings.Contains(stderr, "missing: "+lacking+" ") || strings.Count(stderr, "missing: ") != 1 || strings.Contains(stderr, "failed") {
		t.Errorf("get: exit %d, want 1 and only %s missing\n%s", code, lacking, stderr)
	}
	if want := "now: WinDbg: .sympath srv*" + out; !strings.Contains(stderr, want) {
		t.Errorf("get: standard error has no %q\n%s", want, stderr)
	}
	for path, want := range served {
		got, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(path)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, error %v; want the %d bytes of the server", path, len(got), err, len(want))
		}
		if n := asked[path]; n != 1 {
			t.Errorf("the server was asked %d times for %s, want once", n, path)
		}
	}
	if n := strings.Count(stdout, "\n"); n != len(served) {
		t.Errorf("get printed %d paths, want %d\n%s", n, len(served), stdout)
	}

	server.Close()
	flat := filepath.Join(t.TempDir(), "flat")
	code, _, stderr = commandtest.Symdepot(t, depot, "get", crash, "-o", flat)
	if code != 1 || !strings.Contains(stderr, "missing: "+lacking+" ") || !strings.Contains(stderr, "now: WinDbg: .sympath "+flat) {
		t.Errorf("get without the server: exit %d, want 1 and only %s missing\n%s", code, lacking, stderr)
	}
	if list, err := os.ReadDir(flat); err != nil || len(list) != len(served) {
		t.Errorf("get without the server: %d files, error %v; want %d", len(list), err, len(served))
	}
}
