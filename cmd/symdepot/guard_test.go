package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

const guardDir = "../../testdata/depot-format1"

// guardDepot unpacks the depot of format 1.
func guardDepot(t *testing.T) string {
	t.Helper()
	f, err := os.Open(filepath.Join(guardDir, "depot.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "depot")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		b, err := io.ReadAll(tr)
		if err == nil {
			err = os.WriteFile(name, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// guardTable reads a tab-separated file of the guard depot.
func guardTable(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(guardDir, name))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != columns {
			t.Fatalf("%s: %q has %d columns, want %d", name, line, len(row), columns)
		}
		rows = append(rows, row)
	}
	return rows
}

// guardGet returns the status and the SHA-256 of the body.
func guardGet(t *testing.T, base, path, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, resp.Body); err != nil {
		t.Fatalf("GET /%s: %v", path, err)
	}
	return resp.StatusCode, hex.EncodeToString(h.Sum(nil))
}

// TestGuardDepot opens the depot of format 1, the first one that is promised: it verifies,
// lists its transactions, answers each path with the same bytes as when it was made, and
// takes new files. scripts/guard-depot says how it was made.
func TestGuardDepot(t *testing.T) {
	t.Parallel()
	depot := guardDepot(t)
	t.Run("verify", func(t *testing.T) {
		if code, stdout, stderr := commandtest.Symdepot(t, depot, "verify"); code != command.ExitOK {
			t.Errorf("verify: exit code %d, want 0\n%s%s", code, stdout, stderr)
		}
	})
	t.Run("list", func(t *testing.T) {
		_, stdout, _ := commandtest.Symdepot(t, depot, "list")
		want, err := os.ReadFile(filepath.Join(guardDir, "list.txt"))
		if err != nil {
			t.Fatal(err)
		}
		// The columns may be worded and aligned anew; the rows may not change.
		fields := func(s string) string {
			var out []string
			for _, line := range strings.Split(s, "\n")[1:] {
				out = append(out, strings.Join(strings.Fields(line), " "))
			}
			return strings.Join(out, "\n")
		}
		if got, want := fields(stdout), fields(string(want)); got != want {
			t.Errorf("list prints\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("paths", func(t *testing.T) {
		s := commandtest.ServeDepot(t, depot)
		for _, row := range guardTable(t, "paths.tsv", 3) {
			status, sum := guardGet(t, s.URL, row[2], "")
			if got := http.StatusText(status); status == http.StatusNotFound && row[0] != "404" || status != http.StatusNotFound && row[0] == "404" {
				t.Errorf("GET /%s: %d %s, want %s", row[2], status, got, row[0])
			} else if row[1] != "-" && sum != row[1] {
				t.Errorf("GET /%s: body has SHA-256 %s, want %s", row[2], sum, row[1])
			}
		}
	})
	t.Run("tokens", func(t *testing.T) {
		const (
			game  = "Mixed.DLL/" // product Game
			tools = "buildid/adac45aa231bba3143d7af433767c61f31021c16/executable"
		)
		var gamePath string
		for _, row := range guardTable(t, "paths.tsv", 3) {
			if strings.HasPrefix(row[2], game) && row[0] == "200" {
				gamePath = row[2]
			}
		}
		if gamePath == "" {
			t.Fatalf("paths.tsv has no path that begins with %s", game)
		}
		s := commandtest.ServeDepot(t, depot, "--auth")
		tokens := map[string]string{}
		for _, row := range guardTable(t, "tokens.tsv", 2) {
			tokens[row[0]] = row[1]
		}
		for _, q := range []struct {
			token, path string
			want        int
		}{
			{"reader", gamePath, http.StatusOK},
			{"reader", tools, http.StatusNotFound},
			{"ended", gamePath, http.StatusUnauthorized},
			{"", gamePath, http.StatusUnauthorized},
		} {
			if got, _ := guardGet(t, s.URL, q.path, tokens[q.token]); got != q.want {
				t.Errorf("GET /%s with token %q: status %d, want %d", q.path, q.token, got, q.want)
			}
		}
	})
	t.Run("add", func(t *testing.T) {
		for _, args := range [][]string{
			{"undo", "9"}, // its trash ends in 2036
			{"add", "--product", "New", "../../testdata/pdb/hello-arm64.pdb", "../../testdata/elf/e-x86"},
			{"rm", "1"},
			{"gc", "--empty-trash", "--grace", "0s"},
			{"verify", "--restore"},
		} {
			if code, stdout, stderr := commandtest.Symdepot(t, depot, args...); code != command.ExitOK {
				t.Errorf("%q: exit code %d, want 0\n%s%s", args, code, stdout, stderr)
			}
		}
		_, stdout, _ := commandtest.Symdepot(t, depot, "list")
		if lines := strings.Split(stdout, "\n"); len(lines) < 3 || !strings.HasPrefix(lines[1], "10 ") || !strings.HasPrefix(lines[2], "9 ") {
			t.Errorf("list begins with %.200q, want builds 10 and 9", stdout)
		}
		s := commandtest.ServeDepot(t, depot)
		for _, row := range guardTable(t, "paths.tsv", 3) {
			if strings.HasPrefix(row[2], "cold.so/") {
				if status, sum := guardGet(t, s.URL, row[2], ""); status != http.StatusOK || sum != row[1] {
					t.Errorf("GET /%s after the add: %d, SHA-256 %s; want 200 and %s", row[2], status, sum, row[1])
				}
			}
		}
	})
}
