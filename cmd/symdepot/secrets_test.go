package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/run/command"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// spellings returns the ways in which a secret may appear.
func spellings(secret []byte) [][]byte {
	return [][]byte{secret, []byte(hex.EncodeToString(secret)), []byte(strings.ToUpper(hex.EncodeToString(secret))),
		[]byte(base64.StdEncoding.EncodeToString(secret)), []byte(base64.RawURLEncoding.EncodeToString(secret))}
}

// TestSecretsStayInside runs every command that prints or writes something, and looks
// for the passwords, the keys of the store and the keys of the depot in the output,
// logs, metrics, exports, backups and copies.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const password = "hush-4711-hush"
	pg, s3 := pgtest.New(t), buckettest.S3(t)
	pg.User(t, "guarded", password)
	where := strings.Replace(pg.Database(t), "symdepot@", "guarded@", 1)
	home := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PGPASSWORD=" + password, "AWS_ENDPOINT_URL=" + s3.Endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + s3.User, "AWS_SECRET_ACCESS_KEY=" + s3.Secret, "SYMDEPOT_DEPOT=" + where, "SYMDEPOT_DEPOT_BLOBS=s3://" + s3.Bucket + "/depot"}
	secrets := map[string][][]byte{"the password of the database": {[]byte(password)}, "the key of the store": {[]byte(s3.Secret)}}
	look := func(t *testing.T, what string, text []byte) {
		t.Helper()
		for name, list := range secrets {
			for _, s := range list {
				if bytes.Contains(text, s) {
					t.Errorf("%s contains %s, want no secret in it", what, name)
				}
			}
		}
	}
	lookIn := func(t *testing.T, what, dir string) {
		t.Helper()
		if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			look(t, what+": "+path, append(b, path...))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(t *testing.T, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "symdepot", args...)
		cmd.Env, cmd.Dir = env, home
		out, _ := cmd.CombinedOutput() // failures print something too
		look(t, "symdepot "+strings.Join(args, " "), out)
	}
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 3, 1000)
	run(t, "add", "-p", "P", src)

	vars := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	serve := func(t *testing.T, args ...string) *commandtest.Serving {
		t.Helper()
		s, err := commandtest.StartServe(func(k string) string { return vars[k] }, home, args...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	export, disk := filepath.Join(home, "export"), filepath.Join(home, "moved")
	// With --symcache-redirect the server signs links.
	s := serve(t, "--symcache-redirect", "--symcache-store", filepath.Join(home, "symcache"))
	defer func() { _ = s.Cmd.Process.Kill() }()

	symtest.Step(t, "the keys of the depot are in the database", func(t *testing.T) {
		for value := range strings.Lines(pg.In(t, "test1", "SELECT encode(value, 'hex') FROM secret")) {
			key, err := hex.DecodeString(strings.TrimSpace(value))
			if err != nil || len(key) < 16 {
				t.Fatalf("key %q: error %v, want at least 16 bytes in hex", value, err)
			}
			secrets["a key of the depot"] = append(secrets["a key of the depot"], spellings(key)...)
		}
		if len(secrets["a key of the depot"]) == 0 {
			t.Fatal("the depot has no key, want one: without it the test proves nothing")
		}
	})
	for _, path := range []string{"/", "/metrics", "/readyz", "/healthz", "/metadata?key=glob&value=*", "/none/ABC/none"} {
		t.Run("GET "+path, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			look(t, "the answer", b)
		})
	}
	t.Run("commands", func(t *testing.T) {
		for _, args := range [][]string{
			{"list", "--json"}, {"list"}, {"show", "1", "--json"}, {"find", commandtest.SymID(1, 0), "--json"}, {"verify", "--json"}, {"verify", "--deep", "--rows", "--json"},
			{"gc", "--json"}, {"gc", "--claim"}, {"jobs", "--json"}, {"token", "new", "--name", "x", "--json"}, {"token", "list", "--json"}, {"cache", "stats", "--json"},
			{"cache", "list", "--json"}, {"missing", "--json"}, {"config", "check"}, {"config", "check", "--json"}, {"config", "print"}, {"help"},
			{"export", "--layout", "breakpad", export, "--json"}, {"depot", "backup", "--to", filepath.Join(home, "none")}, {"get", "lib1-0.so", commandtest.SymID(1, 0), "-o", filepath.Join(home, "got")},
			{"--depot", "postgres://guarded:" + password + "@127.0.0.1/db", "list"}, {"--depot", "postgres://guarded:" + password + "@127.0.0.1/db", "config", "check"},
			{"--depot", "postgres://guarded@127.0.0.1/db?password=" + password, "serve"}, {"--blobs", "s3://" + s3.User + ":" + url.QueryEscape(s3.Secret) + "@symbols/x", "--depot", filepath.Join(home, "d"), "add", src},
			{"depot", "migrate", "--to", disk},
		} {
			run(t, args...)
		}
	})
	t.Run("the log of serve", func(t *testing.T) {
		if err := s.Stop(); err != nil {
			t.Errorf("serve ended with %v, want no error", err)
		}
		look(t, "the log", []byte(s.Log.String()))
	})
	t.Run("export", func(t *testing.T) { lookIn(t, "the export", export) })
	t.Run("migrate", func(t *testing.T) { lookIn(t, "the copy in a folder", disk) })

	// The same for a depot on disk, whose key is in a file.
	symtest.Step(t, "serve from a folder", func(t *testing.T) {
		vars["SYMDEPOT_DEPOT"], vars["SYMDEPOT_DEPOT_BLOBS"] = disk, ""
		s := serve(t, "--symcache-redirect", "--symcache-store", filepath.Join(home, "symcache2"))
		defer func() { _ = s.Cmd.Process.Kill() }()
		if err := s.Stop(); err != nil {
			t.Errorf("serve ended with %v, want no error", err)
		}
		keys, err := filepath.Glob(filepath.Join(disk, "*.key"))
		if err != nil || len(keys) == 0 {
			t.Fatalf("keys of the folder: %q, error %v; want one: without it the test proves nothing", keys, err)
		}
		for _, k := range keys {
			b, err := os.ReadFile(k)
			if err != nil {
				t.Fatal(err)
			}
			secrets["a key of the folder"] = append(secrets["a key of the folder"], spellings(b)...)
		}
		look(t, "the log", []byte(s.Log.String()))
	})
	t.Run("commands on a folder", func(t *testing.T) {
		backup := filepath.Join(home, "backup")
		for _, args := range [][]string{{"depot", "backup", "--to", backup, "--json"}, {"depot", "restore", "--from", backup, "--json"}, {"export", "--layout", "breakpad", export + "2", "--json"}, {"verify", "--json"}} {
			run(t, append([]string{"--depot", disk, "--blobs", ""}, args...)...)
		}
		lookIn(t, "the backup", backup)
		lookIn(t, "the export", export+"2")
	})
	t.Run("a password in the configuration", func(t *testing.T) {
		bad := filepath.Join(home, "bad.yaml")
		if err := os.WriteFile(bad, []byte("depot:\n  dir: postgres://guarded:"+password+"@127.0.0.1/db\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "symdepot", "config", "check", bad)
		out, _ := cmd.CombinedOutput()
		look(t, "config check", out)
		if code := cmd.ProcessState.ExitCode(); !bytes.Contains(out, []byte("PGPASSWORD")) || code != command.ExitNo {
			t.Errorf("config check: exit code %d, want %d and the name of the variable PGPASSWORD\n%s", code, command.ExitNo, out)
		}
	})
}
