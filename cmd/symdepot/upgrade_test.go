package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/symtest"
)

// buildVersion builds a program that stands for a later version, and returns a
// folder with it.
func buildVersion(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", tag, "-o", filepath.Join(dir, "symdepot"), ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags %s: %v\n%s", tag, err, out)
	}
	return dir
}

// TestNodesUpgrade replaces the servers of a depot by those of the next version, one
// after the other, and these by the version after it, while commands of both adjacent
// versions add and remove, and readers ask. Nothing fails but the oldest version in
// the end, which says so. Then upgrades are killed at many moments.
func TestNodesUpgrade(t *testing.T) {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("builds two further programs: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	t.Parallel()
	next, later := buildVersion(t, "symdepot_next"), buildVersion(t, "symdepot_later")
	pg := pgtest.New(t)
	pg.Database(t) // test1
	c := newChaos(t, 3, "10m,1h,168h,168h", "test1", nil, pg)
	first := t.TempDir()
	k, err := c.file(first)
	if err != nil {
		t.Fatal(err)
	}
	if c.add([]*chaosKey{k}, first) == 0 {
		t.Fatal("the first add has failed")
	}
	formats := func() int { return numberOf(t, pg, "SELECT count(*) FROM migration") }
	base := formats()
	snapshot := pg.Snapshot(t, pg.URL("test1")) // the depot of the oldest version, for later

	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range c.nodes {
		wg.Go(func() { c.read(i, &stop) })
	}
	shared := t.TempDir()
	if _, err := c.file(shared); err != nil {
		t.Fatal(err)
	}
	both := func(old, new string) {
		t.Helper()
		c.both(t, shared, old, new)
	}
	for node := range c.nodes {
		c.replace(t, node, next)
		if n := formats(); n != base+1 {
			t.Fatalf("format %d with %d servers of the next version, want %d", n, node+1, base+1)
		}
		both("symdepot", filepath.Join(next, "symdepot"))
	}
	for node := range c.nodes {
		c.replace(t, node, later)
		both(filepath.Join(next, "symdepot"), filepath.Join(later, "symdepot"))
	}
	symtest.Await(t, 3*time.Minute, "the end of the upgrade", func() bool { return formats() == base+2 })
	both(filepath.Join(next, "symdepot"), filepath.Join(later, "symdepot"))
	out, err := c.command("list")
	want := fmt.Sprintf("it has format %d, which needs a program that supports format %d, and this program supports formats up to %d", base+2, base+1, base)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("the oldest version: %v\n%s, want exit status 4 and %q", err, out, want)
	}
	stop.Store(true)
	wg.Wait()
	if out, err := c.commandOf(filepath.Join(later, "symdepot"), "verify"); err != nil || !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %v, want no error and %q at the beginning\n%s", err, "clean: ", out)
	}
	for _, n := range c.nodes {
		n.end()
	}

	// An upgrade that is killed is finished by the next process, of either version.
	for i := range 20 {
		name := fmt.Sprintf("killed%d", i)
		pg.SQL(t, "CREATE DATABASE "+name+" TEMPLATE "+snapshot)
		where := pg.URL(name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i*40)*time.Millisecond)
		cmd := exec.CommandContext(ctx, filepath.Join(later, "symdepot"), "--depot", where, "list") // killed at the end of ctx
		for k, v := range c.tools.env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		_ = cmd.Run()
		cancel()
		n := 0
		if _, err := fmt.Sscan(pg.In(t, name, "SELECT count(*) FROM migration"), &n); err != nil {
			t.Fatal(err)
		}
		if n <= base+1 {
			if out, err := c.command("--depot", where, "verify"); err != nil {
				t.Errorf("kill %d, format %d: the oldest version: %v\n%s", i, n, err, out)
			}
		}
		for _, exe := range []string{later, next} {
			if out, err := c.commandOf(filepath.Join(exe, "symdepot"), "--depot", where, "verify"); err != nil || !strings.HasPrefix(out, "clean: ") {
				t.Errorf("kill %d, format %d: %v; want no error and %q at the beginning\n%s", i, n, err, "clean: ", out)
			}
		}
		t.Logf("kill %d came at format %d", i, n)
	}
}

// both has two versions of the program add files at once, and checks the files on
// every server. shared is a folder that both add.
func (c *chaos) both(t *testing.T, shared, old, new string) {
	t.Helper()
	var group sync.WaitGroup
	for _, exe := range []string{old, new} {
		for range 2 {
			dir := t.TempDir()
			k, err := c.file(dir)
			if err != nil {
				t.Fatal(err)
			}
			c.mu.Lock()
			c.keys[k.path] = k
			c.mu.Unlock()
			group.Go(func() {
				out, err := c.commandOf(exe, "add", "--comment", k.path, shared, dir)
				if err != nil {
					t.Errorf(`commandOf("add", "--comment"): error %v, %s; want no error`, err, out)
					return
				}
				c.kept(k)
			})
		}
	}
	group.Wait()
}

// kept checks a file that was added on every server.
func (c *chaos) kept(k *chaosKey) {
	c.mu.Lock()
	k.state = keyKept
	c.mu.Unlock()
	for node := range c.nodes {
		c.check(node, k)
	}
}

// replace replaces the program of a server by that of a folder.
func (c *chaos) replace(t *testing.T, node int, dir string) {
	t.Helper()
	n := c.nodes[node]
	n.end()
	n.env["PATH"] = dir + string(os.PathListSeparator) + os.Getenv("PATH")
	if err := n.start(); err != nil {
		t.Fatalf("node %d: %v", node, err)
	}
}

// beforePushes is the commit whose child made the first table of pushes.
const beforePushes = "34951ac46^"

// buildCommit builds the program of an earlier commit, and returns a folder with it.
func buildCommit(t *testing.T, commit string) string {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("needs the history of the repository with the commit %s (git fetch --unshallow): %v", commit, err)
	}
	src, dir := t.TempDir(), t.TempDir()
	for _, args := range [][]string{
		{"sh", "-c", `git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2"`, "sh", commit, src},
		{"go", "-C", src, "build", "-o", filepath.Join(dir, "symdepot"), "./cmd/symdepot"},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	return dir
}

// TestNodesBeforePush runs the program before pushes and retention beside this one on
// one depot in PostgreSQL, whose formats only expand: servers of both answer, commands
// of both add, remove and verify, and files are pushed meanwhile. A depot that the
// earlier one has made is upgraded and used by both. In SQLite the earlier one refuses
// with a sentence.
func TestNodesBeforePush(t *testing.T) {
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		t.Skip("builds an earlier program: runs with make torture (SYMDEPOT_TORTURE=1)")
	}
	t.Parallel()
	folder := buildCommit(t, beforePushes)
	old := filepath.Join(folder, "symdepot")
	pg := pgtest.New(t)
	pg.Database(t) // test1
	c := newChaos(t, 2, "10m,1h,168h,168h", "test1", nil, pg)
	shared, dir := t.TempDir(), t.TempDir()
	if _, err := c.file(shared); err != nil {
		t.Fatal(err)
	}
	c.both(t, shared, "symdepot", old)
	c.replace(t, 0, folder)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range c.nodes {
		wg.Go(func() { c.read(i, &stop) })
	}
	c.both(t, shared, "symdepot", old)

	// A push to a server of this version is visible on that of the earlier one.
	token, _, _ := strings.Cut(c.must("token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	pushed, err := startServe(func(k string) string { return c.tools.env[k] }, ".", "--quiet", "--auth")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pushed.stop() }()
	k, err := c.file(dir)
	if err != nil {
		t.Fatal(err)
	}
	symtest.Put(t, dir, "token", []byte(token))
	c.must("push", "--server", pushed.url, "--token-file", filepath.Join(dir, "token"), "--product", "app", "--version", "1", dir)
	c.mu.Lock()
	c.keys[k.path] = k
	c.mu.Unlock()
	c.kept(k)
	c.both(t, shared, "symdepot", old)

	// The earlier one removes, and collects garbage.
	gone := t.TempDir()
	if _, err := c.file(gone); err != nil {
		t.Fatal(err)
	}
	out := c.must("add", gone)
	number := strings.Fields(out)[1]
	for _, args := range [][]string{{"rm", number}, {"gc"}, {"list"}} {
		if out, err := c.commandOf(old, args...); err != nil {
			t.Errorf("%q of the earlier version: error %v, want none\n%s", args, err, out)
		}
	}
	stop.Store(true)
	wg.Wait()
	for _, exe := range []string{old, "symdepot"} {
		if out, err := c.commandOf(exe, "verify"); err != nil || !strings.HasPrefix(out, "clean: ") {
			t.Errorf("%s verify: %v, want no error and %q at the beginning\n%s", exe, err, "clean: ", out)
		}
	}

	// A depot of the earlier version.
	pg.Database(t) // test2
	c.tools.env["SYMDEPOT_DEPOT"] = strings.Replace(c.tools.env["SYMDEPOT_DEPOT"], "/test1?", "/test2?", 1)
	c.tools.env["SYMDEPOT_DEPOT_BLOBS"] += "2"
	for i, exe := range []string{old, "symdepot", old, "symdepot"} {
		dir := t.TempDir()
		if _, err := c.file(dir); err != nil {
			t.Fatal(err)
		}
		if out, err := c.commandOf(exe, "add", dir); err != nil {
			t.Errorf("add %d, by %s: error %v, want none\n%s", i, exe, err, out)
		}
		if out, err := c.commandOf(exe, "verify"); err != nil || !strings.HasPrefix(out, "clean: ") {
			t.Errorf("verify %d, by %s: %v, want no error and %q at the beginning\n%s", i, exe, err, "clean: ", out)
		}
	}

	// SQLite: the earlier version refuses.
	delete(c.tools.env, "SYMDEPOT_DEPOT_BLOBS")
	c.tools.env["SYMDEPOT_DEPOT"] = filepath.Join(t.TempDir(), "depot")
	c.must("add", shared)
	if out, err := c.commandOf(old, "list"); err == nil || !strings.Contains(err.Error(), "exit status 4") || !strings.Contains(err.Error(), "this program supports formats up to") {
		t.Errorf("the earlier version on a depot in SQLite: error %v, %s; want exit status 4 and the formats that it supports", err, out)
	}
}
