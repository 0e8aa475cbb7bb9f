package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
)

// laterSteps are the steps by which programs of later versions would change the index: the
// next version adds a table, and the one after it deletes something that the present one
// needs. %d is the number of the present steps, and the next number.
var laterSteps = []string{
	"-- format_floor: %d\nCREATE TABLE next_version (n bigint);\n",
	"-- contract\n-- format_floor: %d\nCOMMENT ON TABLE state IS 'contracted';\n",
}

// buildVersion builds a program that stands for the version that many versions after this
// one, with the first of laterSteps, and returns a folder with it.
func buildVersion(t *testing.T, after int) string {
	t.Helper()
	dir := t.TempDir()
	steps, err := filepath.Abs("../../internal/index/schema/postgres")
	if err != nil {
		t.Fatal(err)
	}
	present, err := os.ReadDir(steps)
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for i, text := range laterSteps[:after] {
		n := len(present) + i
		name := fmt.Sprintf("%04d_later.sql", n+1)
		symtest.Put(t, dir, name, fmt.Appendf(nil, text, n))
		overlay["Replace"][filepath.Join(steps, name)] = filepath.Join(dir, name)
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	symtest.Put(t, dir, "overlay.json", b)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", filepath.Join(dir, "symdepot"), "../../cmd/symdepot")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build of a later version: %v\n%s", err, out)
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
	next, later := buildVersion(t, 1), buildVersion(t, 2)
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
		n.End()
	}

	// An upgrade that is killed is finished by the next process, of either version.
	for i := range 20 {
		name := fmt.Sprintf("killed%d", i)
		pg.SQL(t, "CREATE DATABASE "+name+" TEMPLATE "+snapshot)
		where := pg.URL(name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+i*40)*time.Millisecond)
		cmd := exec.CommandContext(ctx, filepath.Join(later, "symdepot"), "--depot", where, "list") // killed at the end of ctx
		for k, v := range c.tools.Env {
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
	n.End()
	n.Env["PATH"] = dir + string(os.PathListSeparator) + os.Getenv("PATH")
	if err := n.Start(); err != nil {
		t.Fatalf("node %d: %v", node, err)
	}
}
