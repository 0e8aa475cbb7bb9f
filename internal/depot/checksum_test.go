package depot

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// TestChecksumFromImage: a server that refuses requests without the checksum of the PDB,
// as NuGet's does, is reached by debuggers that send none, once the depot has the image.
func TestChecksumFromImage(t *testing.T) {
	dir := filepath.Join(symtest.Material(t), "public/npm/fable")
	dll, err := os.ReadFile(filepath.Join(dir, "Fable.Cli.dll"))
	if err != nil {
		t.Fatal(err)
	}
	pdb, err := os.ReadFile(filepath.Join(dir, "Fable.Cli.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := objfile.PDBChecksums(bytes.NewReader(dll), int64(len(dll)))
	if err != nil || len(sums) != 1 {
		t.Fatalf("Fable.Cli.dll: %v, %v; want one checksum", sums, err)
	}
	const guid = "95B3859296FC4BE7A965B3C5B36D35E1"
	var refused, given atomic.Int32
	nuget := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("SymbolChecksum") != sums[0].String():
			refused.Add(1)
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path != "/fable.cli.pdb/"+strings.ToLower(guid)+"FFFFFFFF/fable.cli.pdb":
			http.NotFound(w, r)
		default:
			given.Add(1)
			_, _ = w.Write(pdb)
		}
	}))
	t.Cleanup(nuget.Close)
	for _, strict := range []bool{true, false} { // strict: not asked without a checksum
		for _, c := range []struct {
			name, key string
			products  []string
			found     bool
		}{
			{"WinDbg", guid + "1", nil, true},
			{"dotnet-symbol", strings.ToLower(guid) + "FFFFFFFF", nil, true},
			{"one that may not see the image", guid + "1", []string{"", "other"}, false},
			{"another PDB", strings.Replace(guid, "95B3", "95B4", 1) + "1", nil, false},
		} {
			src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "nuget", URL: nuget.URL, Layout: "ssqp"}, upstream.NewDialer(upstream.DialerOptions{}))
			if err != nil {
				t.Fatal(err)
			}
			guarded := upstream.Guard(src, upstream.GuardOptions{Kinds: []symfile.Kind{symfile.PortablePDB}, RequiresChecksum: strict})
			d, _ := withUpstreams(t, Options{Upstreams: []Upstream{{Source: guarded}}})
			q := answer.Question{Request: request(t, "Fable.Cli.pdb/"+c.key+"/Fable.Cli.pdb"), Scope: answer.Scope{Products: c.products}}
			if strict {
				refused.Store(0)
				if _, err := ask(t.Context(), d, q); !errors.Is(err, fs.ErrNotExist) || refused.Load() != 0 {
					t.Errorf("%s, without the image: %v, %d requests; want not found and none", c.name, err, refused.Load())
				}
			}
			add(t, d, "secret", file{"Fable.Cli.dll", dll})
			given.Store(0)
			got, err := ask(t.Context(), d, q)
			if c.found && (err != nil || !bytes.Equal(got, pdb) || given.Load() != 1) || !c.found && (!errors.Is(err, fs.ErrNotExist) || given.Load() != 0) {
				t.Errorf("strict %t, %s: %d bytes, %v, the server gave it %d times; want it found: %t", strict, c.name, len(got), err, given.Load(), c.found)
			}
		}
	}
}
