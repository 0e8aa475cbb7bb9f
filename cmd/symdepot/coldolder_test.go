package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
)

// beforeCold is a commit before the first record of a cold content.
const beforeCold = "f9059a8"

// TestColdOlderProgram: the program before cold contents opens a depot as long as
// nothing in it is cold, refuses it with a sentence that says why, and opens it again
// when everything is plain.
func TestColdOlderProgram(t *testing.T) {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("builds an earlier program: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	t.Parallel()
	old := filepath.Join(buildCommit(t, beforeCold), "symdepot")
	where := filepath.Join(t.TempDir(), "depot")
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), old, append(args, "--depot", where)...).CombinedOutput()
		return string(out), err
	}
	clock := time.Now()
	d, err := depot.Open(t.Context(), where, depot.Options{Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for n := range 4 {
		var b bytes.Buffer
		id := sha256.Sum256([]byte{byte(n)})
		fmt.Fprintf(&b, "MODULE Linux x86_64 %X0 app.so\n", id[:16])
		for i := range 9000 {
			fmt.Fprintf(&b, "FUNC %x 10 0 function_%d_%d\n", 0x1000+16*i+n, i, i%7)
		}
		name := filepath.Join(t.TempDir(), "app.so.sym")
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := run("add", name, "--product", "app"); err != nil { // the older program writes too
			t.Fatalf("add by the older program: %v\n%s", err, out)
		}
	}
	if sum, err := d.Cold.Cool(t.Context(), depot.CoolOptions{After: -time.Hour}); err != nil || sum.Contents != 3 {
		t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
	}
	if out, err := run("list"); err == nil || !strings.Contains(out, "use that version") {
		t.Errorf("list by the older program while contents are cold: %v\n%s\nwant a refusal that names the newer format", err, out)
	}
	if w, err := d.Cold.WarmAll(t.Context(), depot.Warming{}); err != nil || w.Contents != 3 {
		t.Fatalf("warm: %+v, %v, want 3 contents", w, err)
	}
	if out, err := run("verify"); err != nil || !strings.HasPrefix(out, "clean:") {
		t.Errorf("verify by the older program when all is plain: %v\n%s", err, out)
	}
}
