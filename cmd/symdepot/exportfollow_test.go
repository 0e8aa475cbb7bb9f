package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// outside is a depot that is exported to a bucket for people outside.
type outside struct {
	depot string
	to    string // the address of the target
	env   []string
	peer  *buckettest.Peer
	line  *proxytest.Proxy
	b     bucket.Bucket // the target, past the program
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	p := buckettest.S3(t)
	line := proxytest.New(t, strings.TrimPrefix(p.Endpoint, "http://"))
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: "public", Endpoint: p.Endpoint, Region: "us-east-1",
		AccessKey: p.User, SecretKey: p.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &outside{
		depot: filepath.Join(t.TempDir(), "depot"), to: "s3://" + p.Bucket + "/public?region=us-east-1&endpoint=" + url.QueryEscape("http://"+line.Addr()),
		env:  append(os.Environ(), "AWS_ACCESS_KEY_ID="+p.User, "AWS_SECRET_ACCESS_KEY="+p.Secret),
		peer: p, line: line, b: b,
	}
}

// run runs a command on the depot, which must succeed.
func (o *outside) run(t *testing.T, args ...string) {
	t.Helper()
	if code, out, errs := commandtest.Symdepot(t, o.depot, args...); code != 0 {
		t.Fatalf("symdepot %s: exit %d, want 0\n%s%s", strings.Join(args, " "), code, out, errs)
	}
}

// keys returns the keys of the files in the target.
func (o *outside) keys(t *testing.T) (list []string) {
	t.Helper()
	for i, err := range o.b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(i.Key, ".symdepot/") {
			list = append(list, i.Key)
		}
	}
	return list
}

// following is a running symdepot export --follow.
type following struct {
	cmd       *exec.Cmd
	out, errs symtest.Output
}

func (o *outside) follow(t *testing.T) *following {
	t.Helper()
	f := &following{cmd: exec.CommandContext(t.Context(), "symdepot", "--depot", o.depot, "export", "--to", o.to, "--layout", "native", "--audience", "public", "--follow", "--json")}
	f.cmd.Env, f.cmd.Stdout, f.cmd.Stderr = o.env, &f.out, &f.errs
	commandtest.PrepareInterrupt(f.cmd)
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return f
}

// stop interrupts the export, which must end well.
func (f *following) stop(t *testing.T) {
	t.Helper()
	if err := stopCommand(f.cmd); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
		t.Errorf("export --follow, interrupted: %v\n%s", err, f.errs.String())
	}
}

const (
	progDebug = "adac45aa231bba3143d7af433767c61f31021c16"
	progFile  = "../../testdata/elf/prog-sha1.debug"
	progMain  = "0x113c" // the address of main
	smallELF  = "898fb936e14cac154c2685ce14236fe6"
)

// TestExportFollowOutside: what people outside get comes from a bucket that an export fills, by a
// server that has no access to the depot, and soon after each change of it.
func TestExportFollowOutside(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	o.run(t, "add", "--product", "engine", "--version", "1", "../../testdata/pdb/hello-x64.pdb", "../../testdata/elf/prog-sha1.debug", "../../testdata/ppdb/lines.pdb")
	f := o.follow(t)
	f.out.Await(t, `{"event":"exported","builds":[1],`)

	user, secret := o.peer.Reader(t)
	env := map[string]string{"AWS_ENDPOINT_URL": o.peer.Endpoint, "AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": secret}
	source := "s3://" + o.peer.Bucket + "/public,layout=native,name=pub,forms=public"
	plain := serveFrom(t, source, env)
	strict := serveFrom(t, source, env, "--audience", "public")
	for _, s := range []*commandtest.Serving{plain, strict} {
		o.judge(t, s.URL)
	}

	// A new build, and one that goes.
	o.run(t, "add", "--product", "engine", "--version", "2", "../../testdata/elf/e-x86")
	f.out.Await(t, `{"event":"exported","builds":[2],`)
	for _, s := range []*commandtest.Serving{plain, strict} {
		if status, got := answerOf(t, s.URL+"/buildid/"+smallELF+"/executable"); status != http.StatusOK || !bytes.HasPrefix(got, []byte("\x7fELF")) {
			t.Errorf("a file of the new build: status %d, %d bytes; want 200 and an ELF file", status, len(got))
		}
	}
	o.run(t, "rm", "1")
	f.out.Await(t, `{"event":"exported","gone":[1],`)
	for _, k := range o.keys(t) {
		if !strings.Contains(k, smallELF[2:]) {
			t.Errorf("the target has %s of the build that was removed", k)
		}
	}
	f.stop(t)

	// The next one goes on where it was.
	o.run(t, "undo", "1")
	f = o.follow(t)
	f.out.Await(t, `{"event":"exported","builds":[1],"written":{"files":2,`)
	f.stop(t)
	f = o.follow(t)
	f.out.Await(t, `{"event":"exported","written":{"files":0,"bytes":0},"same":{"files":0,"bytes":0}`)
	f.stop(t)
}

// judge asks a server that has the bucket only.
func (o *outside) judge(t *testing.T, server string) {
	t.Helper()
	dir := t.TempDir()
	public := filepath.Join(dir, "public.pdb")
	status, got := answerOf(t, server+farPDB)
	if status != http.StatusOK {
		t.Errorf("%s: status %d, want 200", farPDB, status)
	}
	if err := os.WriteFile(public, got, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := commandtest.Symdepot(t, o.depot, "strip", "--check", "../../testdata/pdb/hello-x64.pdb", public); code != 0 {
		t.Errorf("strip --check: exit %d, want 0\n%s", code, errs)
	}
	if status, _ := answerOf(t, server+"/lines.pdb/EE4F138B1B2548FDBA63E986D370518FFFFFFFFF/lines.pdb"); status != http.StatusNotFound {
		t.Errorf("a portable PDB: status %d, want 404", status)
	}
	env := append(os.Environ(), "DEBUGINFOD_URLS="+server, "DEBUGINFOD_CACHE_PATH="+filepath.Join(dir, "cache"), "HOME="+dir)
	if find := symtest.Judge(t, "debuginfod-find"); find != "" {
		cmd := exec.CommandContext(t.Context(), find, "debuginfo", progDebug)
		cmd.Env = env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("debuginfod-find: %v", err)
		}
		if code, _, errs := commandtest.Symdepot(t, o.depot, "strip", "--check", progFile, strings.TrimSpace(string(out))); code != 0 {
			t.Errorf("strip --check of what debuginfod-find got: exit %d, want 0\n%s", code, errs)
		}
	}
	if symbolizer := symtest.Judge(t, "llvm-symbolizer-19"); symbolizer != "" {
		cmd := exec.CommandContext(t.Context(), symbolizer, "--debuginfod", "--build-id="+progDebug, "--no-inlines", progMain)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "main\n??:") {
			t.Errorf("llvm-symbolizer: %q, %v; want main and no line", out, err)
		}
	}
}

// TestExportFollowStrict: a private file that somebody puts into the bucket is stripped again before
// anybody gets it, and upstreams of other files are not asked.
func TestExportFollowStrict(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	private, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.b.Put(t.Context(), strings.TrimPrefix(farPDB, "/"), int64(len(private)), bytes.NewReader(private), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"AWS_ENDPOINT_URL": o.peer.Endpoint, "AWS_ACCESS_KEY_ID": o.peer.User, "AWS_SECRET_ACCESS_KEY": o.peer.Secret}
	source := "s3://" + o.peer.Bucket + "/public,layout=native,name=pub"
	s := serveFrom(t, source, env, "--audience", "public")
	if status, _ := answerOf(t, s.URL+farPDB); status != http.StatusNotFound {
		t.Errorf("an upstream without forms=public: status %d, want 404", status)
	}
	s = serveFrom(t, source+",forms=public", env, "--audience", "public")
	status, got := answerOf(t, s.URL+farPDB)
	if status != http.StatusOK || bytes.Equal(got, private) {
		t.Errorf("status %d, the private file: %v; want 200 and its public form", status, bytes.Equal(got, private))
	}
}

// TestExportFollowAway: a target that is away is waited for, and one that another export has is left
// alone.
func TestExportFollowAway(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	o.run(t, "add", "--product", "engine", "--version", "1", "../../testdata/pdb/hello-x64.pdb")
	f := o.follow(t)
	f.out.Await(t, `{"event":"exported","builds":[1],`)
	second := o.follow(t)
	second.errs.Await(t, "another symdepot export --follow writes there")
	if err := second.cmd.Wait(); err == nil {
		t.Error("the second export ended well, want an error")
	}
	o.line.Set(proxytest.Fault{Refuse: true})
	o.line.Cut()
	o.run(t, "add", "--product", "engine", "--version", "2", "../../testdata/elf/e-x86")
	f.out.Await(t, `{"event":"away","error":`)
	f.errs.Await(t, "trying again in 2s")
	o.line.Set(proxytest.Fault{})
	f.out.Await(t, `{"event":"back"}`)
	f.out.Await(t, `{"event":"exported","builds":[2],`)
	if n := len(o.keys(t)); n != 3 {
		t.Errorf("the target has %d files, want 3: %s", n, fmt.Sprint(o.keys(t)))
	}
	f.stop(t)
}
