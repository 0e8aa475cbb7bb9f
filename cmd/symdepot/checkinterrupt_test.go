package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestCheckInterrupted: Ctrl-C ends symdepot check while a server counts, with exit code 130, and leaves the files of an earlier
// check as they were.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	asked, once := make(chan struct{}), sync.Once{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		_, _ = io.Copy(io.Discard, r.Body) // so that the server sees that the client leaves
		<-r.Context().Done()               // it never answers
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	symtest.Put(t, dir, "dist/prog", symtest.Testdata(t, "elf/prog-sha1"))
	outputs := []string{"out.xml", "out.sarif", "out.md", "out.svg"}
	for _, name := range outputs {
		symtest.Put(t, dir, name, []byte("before"))
	}
	cmd := exec.CommandContext(t.Context(), "symdepot", "check", "--server", s.URL,
		"--junit", "out.xml", "--sarif", "out.sarif", "--markdown", "out.md", "--badge", "out.svg", "dist")
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	commandtest.PrepareInterrupt(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-asked
	killed := commandtest.Interrupt(cmd)
	if errors.Is(killed, commandtest.ErrKilled) {
		killed = cmd.Process.Kill()
	} else if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || out.Len() > 0 {
		t.Errorf("check ended with %v, output %q, errors %q; want exit code 130 and no output", err, out.String(), errs.String())
	}
	if killed != nil {
		t.Error(killed)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != len(outputs)+1 {
		t.Errorf("the folder has %v, %v; want the %d files and dist", list, err, len(outputs))
	}
	for _, name := range outputs {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "before" {
			t.Errorf("%s has %q, %v; want it as it was", name, b, err)
		}
	}
}
