package home

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestVacant lists what a folder may hold that becomes a depot. A depot.json that
// another process made after the first look is no file of others.
func TestVacant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files []string
		made  bool
		err   string
	}{
		{"an empty folder", nil, false, ""},
		{"the remains of a crash", []string{"blobs/", "index.db", "index.db-wal", ".tmp-1"}, false, ""},
		{"a depot that another process is making", []string{"blobs/", "index.db"}, false, ""},
		{"a depot that another process has just made", []string{"blobs/", "depot.json", "index.db"}, true, ""},
		{"indexes of watched folders", []string{"watch/"}, false, ""},
		{"files of others", []string{"blobs/", "letter.txt"}, false, "letter.txt"},
	} {
		dir := t.TempDir()
		for _, name := range c.files {
			at := filepath.Join(dir, name)
			var err error
			if strings.HasSuffix(name, "/") {
				err = os.Mkdir(at, 0o755)
			} else {
				err = os.WriteFile(at, nil, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		made, err := Vacant(dir)
		if made != c.made || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: made %v, error %v; want %v and %q", c.name, made, err, c.made, c.err)
		}
	}
	if made, err := Vacant(filepath.Join(t.TempDir(), "none")); made || err != nil {
		t.Errorf("a missing folder: made %v, error %v; want false and none", made, err)
	}
}

// TestPrepareTogether makes one depot several times at the same moment: each
// succeeds.
func TestPrepareTogether(t *testing.T) {
	t.Parallel()
	rounds := 100
	if testing.Short() || symtest.Wine() != "" { // where a file operation takes milliseconds
		rounds = 10
	}
	for range rounds {
		dir := filepath.Join(t.TempDir(), "depot")
		begin := make(chan struct{})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				<-begin
				if _, err := prepare(dir, Options{Now: time.Now}); err != nil {
					t.Errorf("make a depot that others make too: %v", err)
				}
			})
		}
		close(begin)
		all.Wait()
		if t.Failed() {
			return
		}
	}
}
