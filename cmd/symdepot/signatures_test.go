package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestFileSignatures: the IMA signature of a file in an RPM package reaches debuginfod clients
// (elfutils 0.192 and later with ima:enforcing): of an added file, of one in a watched
// folder, through another depot while it downloads, and when it has downloaded.
func TestFileSignatures(t *testing.T) {
	const (
		id   = "adac45aa231bba3143d7af433767c61f31021c16"
		sign = "030204d0a1b2c30010" + "00112233445566778899aabbccddeeff"
	)
	prog, err := os.ReadFile("../../testdata/elf/prog-sha1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rpm := symtest.SignRPM(t, symtest.RPM(t, "prog", "w3.zstdio", map[string][]byte{"usr/bin/prog": prog}), strings.ToUpper(sign))
	symtest.Put(t, dir, "rpms/prog.rpm", rpm)
	got := runTool(t, nil, dir, "rpm", "-qp", "--nosignature", "--nodigest", "--qf", "[%{FILENAMES} %{FILESIGNATURES}]", "rpms/prog.rpm")
	if !strings.EqualFold(got, "/usr/bin/prog "+sign) {
		t.Fatalf("rpm reads %q, want the signature", got)
	}
	depot := filepath.Join(dir, "depot")
	runTool(t, nil, dir, "symdepot", "add", "--depot", depot, "rpms")
	added := commandtest.ServeDepot(t, depot)
	near := filepath.Join(dir, "near")
	through := commandtest.ServeDepot(t, near, "--upstream", added.URL)
	ask := func(what, url, path, want string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/buildid/"+id+"/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s, %s: status %d, error %v; want an answer", what, path, r.StatusCode, err)
		}
		if path == "executable" && string(body) != string(prog) {
			t.Errorf("%s: %d bytes, want the program", what, len(body))
		}
		if got := r.Header.Get("X-Debuginfod-Imasignature"); got != want {
			t.Errorf("%s, %s: X-DEBUGINFOD-IMASIGNATURE %q, want %q", what, path, got, want)
		}
	}
	ask("added", added.URL, "executable", sign)
	ask("added", added.URL, "section/.text", "")
	ask("being downloaded", through.URL, "executable", sign)
	ask("downloaded", through.URL, "executable", sign)
	ask("downloaded", through.URL, "section/.text", "")
	watching := commandtest.ServeDepot(t, filepath.Join(dir, "empty"), "--watch", filepath.Join(dir, "rpms"))
	symtest.Await(t, time.Minute, "the scan of the watched folder", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, watching.URL+"/buildid/"+id+"/executable", nil)
		if err != nil {
			return false
		}
		r, err := http.DefaultClient.Do(req)
		return err == nil && r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
	ask("watched", watching.URL, "executable", sign)
	ask("watched", watching.URL, "section/.text", "")
}
