package depot

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/pdb"
)

// linked returns a PDB with these streams.
func linked(t *testing.T, path string, streams map[string][]byte) file {
	t.Helper()
	from := testdata(t, "pdb/hello-x86.pdb")
	p, err := pdb.Open(bytes.NewReader(from.body), int64(len(from.body)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.CopyWith(&out, streams); err != nil {
		t.Fatal(err)
	}
	return file{path, out.Bytes()}
}

const commandScript = "SRCSRV: variables\nSRCSRVTRG=%targ%\\x\nSRCSRVCMD=calc.exe\nSRCSRV: source files\na\n"

// TestLinkRules: a product may refuse PDBs whose source server stream runs a command, in
// whatever way they come; links to unknown hosts are flagged.
func TestLinkRules(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Links: srclink.Rules{
		Products: map[string]srclink.Rule{"Game": srclink.Refuse, "Tool": srclink.Flag}, Hosts: []string{"*.example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	commands := linked(t, "app.pdb", map[string][]byte{"srcsrv": []byte(commandScript)})
	unread := linked(t, "big.pdb", map[string][]byte{"srcsrv": bytes.Repeat([]byte("x\n"), 1_000_001)})
	links := linked(t, "linked.pdb", map[string][]byte{"sourcelink": []byte(`{"documents": {"/a/*": "https://a.example.com/*", "/b/*": "https://evil.net/*", "/c/*": "file:///c:/*"}}`)})
	harmless := linked(t, "http.pdb", map[string][]byte{"srcsrv": []byte("SRCSRV: variables\nSRCSRVTRG=https://src.example.com/%var2%\nSRCSRVCMD=\nSRCSRV: source files\na*b\n")})

	for _, c := range []struct {
		product string
		f       file
		refused bool
		flags   []string
	}{
		{"Game", commands, true, nil}, {"Game", unread, true, nil}, {"Game", harmless, false, nil},
		{"Game", links, false, []string{"file://, which reads a file", "https://evil.net, which is not an allowed host"}},
		{"Tool", commands, false, []string{"calc.exe"}}, {"Tool", unread, false, []string{"cannot be read"}},
		{"Other", commands, false, nil}, {"", harmless, false, nil},
	} {
		tx, err := d.Begin(t.Context(), TxInfo{Product: c.product})
		if err != nil {
			t.Fatal(err)
		}
		added, err := tx.Add(t.Context(), Source{Path: c.f.path, Content: bytesContent{Reader: bytes.NewReader(c.f.body)}})
		tx.Rollback()
		if errors.Is(err, ErrLinks) != c.refused || err != nil && !c.refused {
			t.Errorf("%s in %q: error %v, want a refusal: %t", c.f.path, c.product, err, c.refused)
			continue
		}
		if c.refused {
			if !strings.Contains(err.Error(), `product "Game" does not permit`) {
				t.Errorf("%s: the refusal says %v", c.f.path, err)
			}
			continue
		}
		if got := added[0].Flags; len(got) != len(c.flags) {
			t.Errorf("%s in %q: flags %q, want %q", c.f.path, c.product, got, c.flags)
		} else {
			for i := range got {
				if !strings.Contains(got[i], c.flags[i]) {
					t.Errorf("%s in %q: flag %q, want %q", c.f.path, c.product, got[i], c.flags[i])
				}
			}
		}
	}
}

// TestLinkRulesOfPushes: a push is refused too, also if another product holds the bytes
// already and they need not be sent.
func TestLinkRulesOfPushes(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Links: srclink.Rules{Products: map[string]srclink.Rule{"Game": srclink.Refuse}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	commands, plain := linked(t, "app.pdb", map[string][]byte{"srcsrv": []byte(commandScript)}), testdata(t, "pdb/hello-x64.pdb")
	c := pusher("ci")
	push := func(product string) (sent int, err error) {
		id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: product}})
		send := announced(t, d, c, id, []file{commands, plain})
		for _, f := range send {
			_, perr := d.Stages().Put(t.Context(), c, id, blob.Sum(f.body), bytes.NewReader(f.body))
			err = errors.Join(err, perr)
		}
		_, cerr := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
		return len(send), errors.Join(err, cerr)
	}
	if sent, err := push("Game"); sent != 2 || err == nil || !strings.Contains(err.Error(), "would run a command") || !strings.Contains(err.Error(), "calc.exe") {
		t.Errorf("%d files sent, error %v; want 2, and a refusal that names the command", sent, err)
	}
	if sent, err := push("Tool"); sent != 2 || err != nil {
		t.Errorf("a product without rules: %d files sent, error %v; want 2", sent, err)
	}
	if sent, err := push("Game"); sent != 0 || err == nil || !strings.Contains(err.Error(), "would run a command") {
		t.Errorf("bytes that another product has: %d files sent, error %v; want none, and a refusal", sent, err)
	}
	if sent, err := push("Other"); sent != 0 || err != nil {
		t.Errorf("bytes that another product has: %d files sent, error %v; want none", sent, err)
	}
}
