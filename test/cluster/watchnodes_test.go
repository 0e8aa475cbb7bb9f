package cluster

import (
	"archive/tar"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestNodesWatch: a watched folder belongs to one server of three. The others answer out
// of it too, as long as that server is there.
func TestNodesWatch(t *testing.T) {
	t.Parallel()
	u := newHeldUpstream(t)
	close(u.rest)
	dir := t.TempDir()
	paths := commandtest.RandomSyms(t, dir, 3, 50_000)
	var packed bytes.Buffer
	w, prog := tar.NewWriter(&packed), symtest.Testdata(t, "elf/prog-sha1")
	if err := w.WriteHeader(&tar.Header{Name: "./usr/bin/prog", Size: int64(len(prog)), Mode: 0o755}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(prog); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	symtest.Put(t, dir, "p.tar", packed.Bytes())
	of := configs(t, u, nil)
	c := commandtest.NewClusterWith(t, 3, func(i int) []string {
		if i == 1 {
			return append(of(i), "--watch", dir)
		}
		return of(i)
	})
	c.AwaitPeers(t, 3)
	for _, p := range paths {
		want, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Nodes {
			symtest.Await(t, time.Minute, "the watched file "+p+" from server "+s.URL, func() bool {
				status, b, err := commandtest.Get(t.Context(), s.URL+p)
				return err == nil && status == 200 && string(b) == string(want)
			})
		}
	}
	// A member of a package is described in the same way by all servers.
	for _, s := range c.Nodes {
		symtest.Await(t, time.Minute, "the member of a package from server "+s.URL, func() bool {
			res, err := http.Get(s.URL + "/buildid/adac45aa231bba3143d7af433767c61f31021c16/executable")
			return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK && res.Header.Get(wire.DebuginfodFile) == "/usr/bin/prog" && res.Header.Get(wire.DebuginfodArchive) == "p.tar"
		})
	}
	// A trace says where the file is, although the folder is another server's.
	if _, out, _ := commandtest.Symdepot(t, t.TempDir(), "why", "--server", c.Nodes[0].URL, strings.TrimPrefix(paths[0], "/")); !strings.Contains(out, "watched folders of another server: "+filepath.Base(paths[0])+": found") {
		t.Errorf("why at a server without the folder: %s, want that another server has the file", out)
	}
	if err := c.Nodes[1].Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Killed[c.Nodes[1]] = true
	_ = c.Nodes[1].Cmd.Wait()
	for _, i := range []int{0, 2} {
		symtest.Await(t, time.Minute, "a 404 for a file of the server that is away", func() bool {
			status, _, err := commandtest.Get(t.Context(), c.Nodes[i].URL+paths[1])
			return err == nil && status == 404
		})
	}
	// Nothing of the folder was copied into the depot.
	if out := c.Run(t, "verify"); !strings.Contains(out, "0 contents") {
		t.Errorf("verify: %s, want no content", out)
	}
}
