package main

import (
	"bytes"
	"context"
	dbsql "database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// standIn is an object store that behaves differently than the one behind it.
type standIn struct {
	ahead time.Duration // of its clock
	rules string        // its lifecycle configuration; empty: it has none
	blind bool          // it does not read what it has written
}

// start starts the store in front of a real one and returns its URL.
func (s standIn) start(t *testing.T, p *buckettest.Peer) string {
	t.Helper()
	target, err := url.Parse(p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: buckettest.Transport(nil),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is part of the signature
		},
		ModifyResponse: func(r *http.Response) error {
			if at, err := http.ParseTime(r.Header.Get("Last-Modified")); err == nil {
				r.Header.Set("Last-Modified", at.Add(s.ahead).UTC().Format(http.TimeFormat))
			}
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.rules != "" && r.URL.Query().Has("lifecycle"):
			_, _ = io.WriteString(w, s.rules)
		case s.blind && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/probe/"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestRefusedAtStart starts servers that cannot work: each ends with one line that
// says what to do, and nothing is lost. Small deviations of the clocks are warnings.
func TestRefusedAtStart(t *testing.T) {
	t.Parallel()
	pg, s3 := pgtest.New(t), buckettest.S3(t)
	pg.User(t, "guarded", "right")
	src := t.TempDir()
	commandtest.SymFiles(t, src, 1, 2, 100)
	home := t.TempDir()
	env := func(endpoint string, more ...string) []string {
		return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "AWS_ENDPOINT_URL=" + endpoint, "AWS_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID=" + s3.User, "AWS_SECRET_ACCESS_KEY=" + s3.Secret}, more...)
	}
	run := func(env []string, args ...string) (int, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "symdepot", args...)
		cmd.Env, cmd.Dir = env, home
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String()
	}
	n := 0
	// made is a new depot with two files.
	made := func(database, blobs string) string {
		t.Helper()
		if database == "" {
			n++
			database = filepath.Join(home, fmt.Sprint("depot", n))
		}
		args := []string{"--depot", database}
		if blobs != "" {
			args = append(args, "--blobs", blobs)
		}
		if code, out := run(env(s3.Endpoint), append(args, "add", src)...); code != 0 {
			t.Fatalf("add: exit %d, want 0\n%s", code, out)
		}
		return database
	}
	prefix := func() string {
		n++
		return fmt.Sprintf("s3://%s/p%d", s3.Bucket, n)
	}
	sql := func(database, statement string) string {
		t.Helper()
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		pg.In(t, strings.TrimPrefix(u.Path, "/"), statement)
		return database
	}
	later := func(d string) string {
		return "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + interval ''" + d +
			"'''; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$"
	}
	rule := func(prefix string) string {
		return "<LifecycleConfiguration><Rule><ID>tidy</ID><Status>Enabled</Status><Filter><Prefix>" + prefix + "</Prefix></Filter><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>"
	}
	goodBlobs, pgBlobs := prefix(), prefix()
	good := made("", goodBlobs) // SQLite with a bucket
	goodPG := made(pg.Database(t), pgBlobs)
	newer := func(dir string) string {
		t.Helper()
		db, err := dbsql.Open("sqlite", filepath.Join(dir, "index.db"))
		if err == nil {
			_, err = db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT count(*) + 1 FROM migration UNION ALL SELECT i + 1 FROM n WHERE i < 99)
				INSERT INTO migration (number, name, sha256, applied) SELECT i, 'later', 'x', 1 FROM n;
				UPDATE state SET format_floor = 99; PRAGMA user_version = 99`)
			_ = db.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	foreign := func() string {
		dir := made("", "")
		f, err := os.OpenFile(filepath.Join(dir, "index.db"), os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte("else"), 68)
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, c := range []struct {
		name, depot, blobs string
		env                []string
		code               int
		says               string // empty: it starts, with a warning
	}{
		{"no URL", "postgres://symdepot@host:port/db", prefix(), nil, 2, "postgres://USER@HOST"},
		{"wrong host", "postgres://symdepot@127.0.0.1:1/db?sslmode=disable", prefix(), nil, 3, "check the host, the port"},
		{"password in the URL", "postgres://symdepot:hush@127.0.0.1/db", prefix(), nil, 2, "PGPASSWORD"},
		{"password as an option", "postgres://symdepot@127.0.0.1/db?password=hush", prefix(), nil, 2, "PGPASSWORD"},
		{"password in the bucket", filepath.Join(home, "new"), "s3://user:hush@symbols/x", nil, 2, "AWS_SECRET_ACCESS_KEY"},
		{"wrong password", strings.Replace(pg.Database(t), "symdepot@", "guarded@", 1), prefix(), []string{"PGPASSWORD=hush"}, 3, "set PGPASSWORD"},
		{"missing database", pg.URL("nowhere"), prefix(), nil, 3, "createdb"},
		{"no bucket for a database", pg.Database(t), "", nil, 3, "--blobs"},
		{"other tables", sql(pg.Database(t), "CREATE TABLE customer (id bigint)"), prefix(), nil, 4, "name an empty database"},
		{"newer database", sql(made(pg.Database(t), prefix()), "INSERT INTO migration (number, name, sha256, applied) SELECT i, 'later', 'x', 1 FROM generate_series((SELECT count(*) + 1 FROM migration), 99) i; UPDATE state SET format_floor = 99"), fmt.Sprintf("s3://%s/p%d", s3.Bucket, n), nil, 4, "newer"},
		{"read-only database", sql(pg.Database(t), "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$"), prefix(), nil, 3, "default_transaction_read_only"},
		{"clock of the database", sql(pg.Database(t), later("6 minutes")), prefix(), nil, 3, "synchronize both clocks"},
		{"clock of the database, a little", sql(made(pg.Database(t), prefix()), later("1 minute")), fmt.Sprintf("s3://%s/p%d", s3.Bucket, n), nil, 0, ""},
		{"other file", foreign(), "", nil, 4, "different program"},
		{"newer file", newer(made("", "")), "", nil, 4, "newer"},
		{"missing bucket", filepath.Join(home, "new"), "s3://nowhere/x", nil, 3, "no such bucket"},
		{"wrong key", filepath.Join(home, "new"), prefix(), []string{"AWS_SECRET_ACCESS_KEY=hush"}, 3, "refuses the credentials"},
		{"two depots in one prefix", filepath.Join(home, "new"), goodBlobs, nil, 3, "name another prefix"},
		{"two depots in one prefix, PostgreSQL", pg.Database(t), pgBlobs, nil, 3, "name another prefix"},
		{"another bucket than before", good, "s3://" + s3.Bucket + "/elsewhere", nil, 3, "it keeps its contents in"},
		{"does not read its own writes", goodPG, pgBlobs, []string{"AWS_ENDPOINT_URL=" + standIn{blind: true}.start(t, s3)}, 3, "reads its own writes"},
		{"clock of the store", goodPG, pgBlobs, []string{"AWS_ENDPOINT_URL=" + standIn{ahead: -6 * time.Minute}.start(t, s3)}, 3, "synchronize both clocks"},
		{"clock of the store, a little", goodPG, pgBlobs, []string{"AWS_ENDPOINT_URL=" + standIn{ahead: time.Minute}.start(t, s3)}, 0, ""},
		{"a rule that deletes", goodPG, pgBlobs, []string{"AWS_ENDPOINT_URL=" + standIn{rules: rule("")}.start(t, s3)}, 3, "remove the rule"},
		{"a rule that deletes others", goodPG, pgBlobs, []string{"AWS_ENDPOINT_URL=" + standIn{rules: rule("logs/")}.start(t, s3)}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"--depot", c.depot}
			if c.blobs != "" {
				args = append(args, "--blobs", c.blobs)
			}
			if c.says == "" {
				startsWithWarning(t, env(s3.Endpoint, c.env...), args, strings.HasPrefix(c.name, "clock"))
				return
			}
			code, out := run(env(s3.Endpoint, c.env...), append(args, "serve", "--listen", "127.0.0.1:0", "--quiet")...)
			var lines []string
			for l := range strings.Lines(out) {
				if !strings.HasPrefix(l, "Try: symdepot") {
					lines = append(lines, l)
				}
			}
			if code != c.code || len(lines) != 1 || !strings.HasPrefix(out, "symdepot: ") || !strings.Contains(out, c.says) {
				t.Errorf("exit %d\n%swant exit %d and one line with %q", code, out, c.code, c.says)
			}
			if strings.Contains(out, "hush") || strings.Contains(out, s3.Secret) {
				t.Errorf("a secret in %q", out)
			}
		})
	}
	for _, args := range [][]string{{"--depot", good}, {"--depot", goodPG, "--blobs", pgBlobs}} {
		if code, out := run(env(s3.Endpoint), append(args, "verify")...); code != 0 || !strings.HasPrefix(out, "clean: 2 contents") {
			t.Errorf("verify %s afterwards: exit %d, want 0 and %q at the beginning\n%s", args[1], code, "clean: 2 contents", out)
		}
	}
}

// startsWithWarning starts a server and stops it.
func startsWithWarning(t *testing.T, env, args []string, warns bool) {
	t.Helper()
	vars := map[string]string{}
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		vars[k] = v
	}
	vars["SYMDEPOT_DEPOT"], vars["SYMDEPOT_DEPOT_BLOBS"] = args[1], args[3]
	s, err := commandtest.StartServe(func(k string) string { return vars[k] }, ".", "--quiet")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(s.Log.String(), "synchronize both"); n != 0 != warns || n > 1 {
		t.Errorf("%d warnings about the clock, want %v:\n%s", n, warns, s.Log.String())
	}
}
