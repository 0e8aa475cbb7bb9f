package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/symstore"
)

// stampedPE returns a real image with another time stamp, and so another key.
func stampedPE(t *testing.T, stamp uint32) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/pe/x64.exe")
	if err != nil {
		t.Fatal(err)
	}
	pe := binary.LittleEndian.Uint32(b[0x3c:])
	binary.LittleEndian.PutUint32(b[pe+8:], stamp)
	return b
}

// peStore makes a symbol store of transactions with some images each.
func peStore(t *testing.T, dir string, transactions, each int) {
	t.Helper()
	when := time.Date(2019, 1, 1, 12, 0, 0, 0, time.Local)
	st, err := symstore.Create(dir, symstore.One, symstore.Options{Now: func() time.Time { return when }})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src := t.TempDir()
	for i := range transactions {
		when = when.AddDate(0, 0, 1)
		_, err := st.Add(t.Context(), symstore.AddOptions{Product: "Game", Version: fmt.Sprint(i + 1)}, func(yield func(symstore.File, error) bool) {
			for j := range each {
				p := filepath.Join(src, fmt.Sprintf("m%d.exe", j))
				if err := os.WriteFile(p, stampedPE(t, uint32(0x10000000+i*each+j)), 0o644); err != nil {
					t.Fatal(err)
				}
				if !yield(symstore.File{Path: p, Source: fmt.Sprintf(`c:\build\%d\m%d.exe`, i, j)}, nil) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestKilledImport: an import that is killed repeatedly continues where it was
// killed, until every transaction is imported once.
func TestKilledImport(t *testing.T) {
	t.Parallel()
	const txs, each = 40, 3
	store, depot := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "depot")
	peStore(t, store, txs, each)
	killed := 0
	for len(transactions(t, depot)) < txs/2 {
		cmd := exec.CommandContext(t.Context(), "symdepot", "--depot", depot, "import", "--json", store)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		imported := 0
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if bytes.Contains(sc.Bytes(), []byte(`"event":"imported"`)) {
				if imported++; imported == 7 {
					_ = cmd.Process.Kill()
				}
			}
		}
		if err := cmd.Wait(); err != nil {
			killed++
		}
	}
	if killed == 0 {
		t.Error("no import was killed")
	}
	before := len(transactions(t, depot))
	code, out, errs := commandtest.Symdepot(t, depot, "import", "--json", store)
	if code != 0 {
		t.Fatalf("exit %d, want 0: %s", code, errs)
	}
	sum := lastLine(t, out)
	if sum["builds"] != float64(txs-before) || sum["here_already"] != float64(before) {
		t.Errorf("after %d of %d: %v; want the rest imported and %d found in the depot", before, txs, sum, before)
	}
	got := transactions(t, depot)
	for n, objects := range got {
		if objects != each {
			t.Errorf("build %d has %d objects, want %v", n, objects, each)
		}
	}
	if len(got) != txs {
		t.Errorf("%d builds, want %v", len(got), txs)
	}
	if code, out, _ := commandtest.Symdepot(t, depot, "verify"); code != 0 || !strings.HasPrefix(out, "clean") {
		t.Errorf("verify: exit %d, want 0 and %q at the beginning: %s", code, "clean", out)
	}
	// The oldest is the oldest here too, with its own date.
	code, out, errs = commandtest.Symdepot(t, depot, "list", "--json", "--version", "1")
	if code != 0 || !strings.Contains(out, "2019-01-02") {
		t.Errorf("exit %d, want 0 and %q in the output: %s%s", code, "2019-01-02", out, errs)
	}
}

// lastLine decodes the last JSON object of an output.
func lastLine(t *testing.T, out string) map[string]any {
	t.Helper()
	var last map[string]any
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var l map[string]any
		if err := dec.Decode(&l); err == io.EOF {
			return last
		} else if err != nil {
			t.Fatal(err)
		}
		last = l
	}
}

// TestTwoImports: two imports of one tree at once take each transaction once.
func TestTwoImports(t *testing.T) {
	t.Parallel()
	store, depot := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "depot")
	peStore(t, store, 12, 2)
	done := make(chan error, 2)
	for range cap(done) {
		go func() {
			out, err := exec.CommandContext(t.Context(), "symdepot", "--depot", depot, "import", store).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := transactions(t, depot); len(got) != 12 {
		t.Errorf("builds: %v, want length 12", got)
	}
}
