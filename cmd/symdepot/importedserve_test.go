package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestServeAfterImport: a server that does not serve an imported share itself says how newer
// builds of the share get to clients. With --store there is nothing to say.
func TestServeAfterImport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	depot, share := filepath.Join(dir, "depot"), filepath.Join(dir, "share")
	for _, args := range [][]string{
		{"symstore", "add", "/f", "../../testdata/pdb/hello-x64.pdb", "/s", share, "/t", "Game", "/v", "1"},
		{"import", "--origin", `\\server\symbols`, share},
	} {
		if code, out, errs := commandtest.Symdepot(t, depot, args...); code != 0 {
			t.Fatalf("%s: exit %d, want 0\n%s%s", args[0], code, out, errs)
		}
	}
	const line = "are served after another symdepot import, or with --store"
	s := commandtest.ServeDepot(t, depot)
	s.Log.Await(t, line)
	if text := s.Log.String(); !strings.Contains(text, "server") || strings.Count(text, line) != 1 {
		t.Errorf("the log is\n%s\nwant one line that names the share", text)
	}
	if s := commandtest.ServeDepot(t, depot, "--store", share); strings.Contains(s.Log.String(), line) {
		t.Errorf("with --store, the log is\n%s\nwant nothing about the import", s.Log.String())
	}
}
