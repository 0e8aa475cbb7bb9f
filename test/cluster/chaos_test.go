package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// clockTurns reports whether the clocks of child processes can be turned here.
var clockTurns = sync.OnceValue(func() bool {
	cmd := exec.CommandContext(context.Background(), "symdepot", "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SYMDEPOT_TEST_CLOCK=1m"}
	_ = cmd.Run()
	return cmd.ProcessState != nil && cmd.ProcessState.ExitCode() != commandtest.ClockStuck
})

// nodeClocks are the differences of the clocks of servers: as large as they may be at
// the start.
var nodeClocks = []time.Duration{0, 290 * time.Second, -290 * time.Second}

// chaos is a depot in PostgreSQL and a bucket whose servers and commands run while
// everything around them fails. It knows what was acknowledged.
type chaos struct {
	t       *testing.T
	rng     *rand.Rand // of the goroutine of the test
	seed    uint64     // of the numbers of all goroutines
	ctx     context.Context
	peer    *buckettest.Peer
	replica *pgtest.Server // nil: none
	nodes   []*commandtest.ChaosNode
	tools   *commandtest.ChaosNode // the surroundings of commands

	mu      sync.Mutex
	running map[*exec.Cmd]bool   // commands; guarded by mu
	keys    map[string]*chaosKey // by path; guarded by mu
	tags    map[string]int       // numbers of acknowledged transactions by their comments; guarded by mu
	lost    map[string]bool      // comments of transactions that a failover may lose; guarded by mu
	fragile bool                 // what is acknowledged now may be lost; guarded by mu

	files, acks, reads, refused atomic.Int64
}

// What is known of a key.
const (
	keyUnknown = iota // its add or removal may have happened
	keyKept           // a transaction that was acknowledged holds it
	keyRemoved        // its removal was acknowledged
)

type chaosKey struct {
	path  string
	sum   [32]byte
	state int // guarded by chaos.mu
}

// newChaos starts n servers, whose clocks differ by almost five minutes. hosts are the database servers; each node has
// proxies of its own in front of them, and one in front of the store. replica, if not nil, answers lookups of the servers.
func newChaos(t *testing.T, n int, times string, database string, replica *pgtest.Server, hosts ...*pgtest.Server) *chaos {
	t.Helper()
	seed := symtest.Seed(t, 0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c := &chaos{t: t, replica: replica, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), ctx: ctx, peer: buckettest.S3(t), running: map[*exec.Cmd]bool{}, keys: map[string]*chaosKey{},
		tags: map[string]int{}, lost: map[string]bool{}}
	surroundings := func() *commandtest.ChaosNode {
		s := &commandtest.ChaosNode{S3: []*proxytest.Proxy{proxytest.New(t, strings.TrimPrefix(c.peer.Endpoint, "http://"))}, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
		var addresses []string
		for _, h := range hosts {
			p := proxytest.New(t, h.Addr())
			s.PG, addresses = append(s.PG, p), append(addresses, p.Addr())
		}
		where := "postgres://symdepot@" + strings.Join(addresses, ",") + "/" + database + "?sslmode=disable"
		if len(hosts) > 1 {
			where += "&target_session_attrs=read-write"
		}
		s.Env = map[string]string{
			"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "SYMDEPOT_TEST_TIMES": times, "SYMDEPOT_DEPOT": where, "SYMDEPOT_DEPOT_BLOBS": "s3://" + c.peer.Bucket + "/depot",
			"AWS_ENDPOINT_URL": "http://" + s.S3[0].Addr(), "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": c.peer.User, "AWS_SECRET_ACCESS_KEY": c.peer.Secret,
		}
		return s
	}
	c.tools = surroundings()
	for i := range n {
		node := surroundings()
		c.nodes = append(c.nodes, node)
		if replica != nil {
			p := proxytest.New(t, replica.Addr())
			node.PG = append(node.PG, p)
			conf := fmt.Sprintf("depot: {dir: '%s', replicas: ['postgres://symdepot@%s/%s?sslmode=disable']}\n", node.Env["SYMDEPOT_DEPOT"], p.Addr(), database)
			symtest.Put(t, node.Env["HOME"], "symdepot.yaml", []byte(conf))
			node.Args = []string{"--config", filepath.Join(node.Env["HOME"], "symdepot.yaml")}
		}
		by := nodeClocks[i%len(nodeClocks)]
		if by != 0 && clockTurns() {
			node.Env["SYMDEPOT_TEST_CLOCK"] = by.String()
		}
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			node.End()
			if log := strings.Join(node.Logs, "\n"); node.Env["SYMDEPOT_TEST_CLOCK"] != "" && !strings.Contains(log, "synchronize both") {
				t.Errorf("node %d, whose clock is ahead by %v, does not warn:\n%s", i, by, log)
			}
		})
	}
	return c
}

// command runs a command, which a fault may kill or stop.
func (c *chaos) command(args ...string) (out string, err error) {
	return c.commandOf("symdepot", args...)
}

// commandOf is command with a program of another version.
func (c *chaos) commandOf(exe string, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, args...)
	for k, v := range c.tools.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return "", err
	}
	c.mu.Lock()
	c.running[cmd] = true
	c.mu.Unlock()
	err = cmd.Wait()
	c.mu.Lock()
	delete(c.running, cmd)
	c.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("symdepot %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), err
}

// must runs a command that must succeed, when no fault is left.
func (c *chaos) must(args ...string) string {
	c.t.Helper()
	out, err := c.command(args...)
	if err != nil {
		c.t.Fatalf("command: error %v, %s; want no error", err, out)
	}
	return out
}

// some returns a running command.
func (c *chaos) some() *exec.Cmd {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cmd := range c.running {
		return cmd
	}
	return nil
}

// file writes a new symbol file below dir and returns its key.
func (c *chaos) file(dir string) (*chaosKey, error) {
	n := c.files.Add(1)
	rng := rand.New(rand.NewPCG(uint64(n), 3))
	name, id := fmt.Sprintf("chaos%d.so", n), fmt.Sprintf("%032X0", n)
	b := fmt.Appendf(nil, "MODULE Linux x86_64 %s %s\n", id, name)
	for range 200 + rng.IntN(2000) {
		b = fmt.Appendf(b, "PUBLIC %x 0 f%x\n", rng.Uint32(), rng.Uint64())
	}
	p := filepath.Join(name, id, name+".sym")
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
		return nil, err
	}
	k := &chaosKey{path: "/" + filepath.ToSlash(p), sum: sha256.Sum256(b)}
	return k, os.WriteFile(filepath.Join(dir, p), b, 0o644)
}

// add adds folders, and returns the number of the transaction, or 0 if it is not
// known whether it was made. keys are in no other transaction.
func (c *chaos) add(keys []*chaosKey, dirs ...string) int {
	c.mu.Lock()
	for _, k := range keys {
		k.state = keyUnknown // of one that was removed before, too
		c.keys[k.path] = k
	}
	tag := fmt.Sprintf("tag%d", c.files.Add(1))
	fragile := c.fragile
	c.mu.Unlock()
	out, err := c.command(append([]string{"add", "--comment", tag}, dirs...)...)
	m := transactionLine.FindStringSubmatch(out)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	c.tags[tag] = n
	c.acks.Add(1)
	if fragile || c.fragile {
		c.lost[tag] = true
		return n // its keys stay unknown
	}
	for _, k := range keys {
		k.state = keyKept
	}
	return n
}

// remove removes a transaction, and reports whether that was acknowledged.
func (c *chaos) remove(number int, keys []*chaosKey) bool {
	c.mu.Lock()
	for _, k := range keys {
		k.state = keyUnknown
	}
	fragile := c.fragile
	c.mu.Unlock()
	_, err := c.command("rm", strconv.Itoa(number))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || fragile || c.fragile {
		return false
	}
	for _, k := range keys {
		k.state = keyRemoved
	}
	return true
}

// check requests a key from a node, which may be unable to answer, but not wrong.
func (c *chaos) check(node int, k *chaosKey) {
	state := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return k.state
	}
	before := state()
	start := time.Now()
	status, sum := c.nodes[node].Get(c.ctx, k.path)
	c.reads.Add(1)
	switch after := state(); {
	case status == 200 && sum != k.sum:
		c.t.Errorf("node %d: GET %s: wrong bytes", node, k.path)
	case status == 404 && before == keyKept && after == keyKept:
		c.t.Errorf("node %d: GET %s: 404 from %s to %s, want 200: its build was acknowledged before", node, k.path, start.Format(time.StampMilli), time.Now().Format(time.StampMilli))
	case status == 200 && before == keyRemoved && after == keyRemoved:
		c.t.Errorf("node %d: GET %s: 200 from %s to %s, want 404: its removal was acknowledged before", node, k.path, start.Format(time.StampMilli), time.Now().Format(time.StampMilli))
	case status != 200 && status != 404:
		c.refused.Add(1)
	}
}

// known returns some key whose state is known.
func (c *chaos) known(rng *rand.Rand) *chaosKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Collect(maps.Values(c.keys))
	for range 10 {
		if len(list) > 0 {
			if k := list[rng.IntN(len(list))]; k.state != keyUnknown {
				return k
			}
		}
	}
	return nil
}

// write adds and removes until stop is set.
func (c *chaos) write(seed uint64, shared string, stop *atomic.Bool) {
	rng := rand.New(rand.NewPCG(c.seed+seed, 4))
	for !stop.Load() && !c.t.Failed() {
		dir, err := os.MkdirTemp("", "chaos-*")
		if err != nil {
			c.t.Error(err)
			return
		}
		var keys []*chaosKey
		for range 2 {
			k, err := c.file(dir)
			if err != nil {
				c.t.Error(err)
				return
			}
			keys = append(keys, k)
		}
		n := c.add(keys, shared, dir)
		_ = os.RemoveAll(dir)
		if n == 0 {
			continue
		}
		for _, k := range keys {
			for node := range c.nodes {
				c.check(node, k)
			}
		}
		if rng.IntN(3) == 0 && c.remove(n, keys) {
			for node := range c.nodes {
				c.check(node, keys[0])
			}
		}
	}
}

// read requests keys from a node until stop is set.
func (c *chaos) read(node int, stop *atomic.Bool) {
	rng := rand.New(rand.NewPCG(c.seed+uint64(node), 5))
	for !stop.Load() && !c.t.Failed() {
		if k := c.known(rng); k != nil {
			c.check(node, k)
		}
		pauseFor(c.ctx, time.Duration(rng.IntN(10))*time.Millisecond) // leaves processor time to the others
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// sound checks everything at the end: what was acknowledged, the rows and the
// objects. primary has the database.
func (c *chaos) sound(primary *pgtest.Server, database string) {
	t := c.t
	t.Helper()
	for i, n := range c.nodes {
		n.Faults(proxytest.Fault{}, proxytest.Fault{})
		n.Signal(signalContinue)
		if n.URL() == "http://127.0.0.1:1" {
			if err := n.Start(); err != nil {
				t.Fatalf("node %d: %v", i, err)
			}
		}
	}
	c.tools.Faults(proxytest.Fault{}, proxytest.Fault{})

	// Every acknowledged number is there, and numbers have no holes.
	var numbers []int
	comments := map[int]string{}
	for line := range strings.Lines(c.must("list", "--all", "--json")) {
		var tx struct {
			Number  int `json:"build"`
			Comment string
		}
		if err := json.Unmarshal([]byte(line), &tx); err != nil {
			t.Fatalf("list: %v in %q", err, line)
		}
		numbers, comments[tx.Number] = append(numbers, tx.Number), tx.Comment
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if n != i+1 {
			t.Fatalf("the build numbers have a hole before %d, want every number", n)
		}
	}
	for tag, n := range c.tags {
		if comments[n] != tag && !c.lost[tag] {
			t.Errorf("build %d was acknowledged for %s; its comment is %q, want the same", n, tag, comments[n])
		}
	}
	// Bytes are right through every node.
	for _, k := range c.keys {
		if k.state != keyKept {
			continue
		}
		for i, n := range c.nodes {
			var status int
			var sum [32]byte
			symtest.Await(t, time.Minute, fmt.Sprintf("an answer of node %d for %s", i, k.path), func() bool {
				status, sum = n.Get(t.Context(), k.path)
				return status != 0 && status != 503
			})
			if status != 200 || sum != k.sum {
				t.Errorf("node %d in the end: GET %s: %d, right bytes: %v; want 200 and the right bytes", i, k.path, status, sum == k.sum)
			}
		}
	}
	c.soundStore(primary, database)
	if out := c.must("verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want %q at the beginning", out, "clean: ")
	}
	t.Logf("%d builds, %d of them acknowledged, %d files; %d requests, %d without an answer", len(numbers), len(c.tags), len(c.keys), c.reads.Load(), c.refused.Load())
}

// soundStore compares the rows of places with the objects of the store. The servers
// may still be adding what they have made of files that were asked for, so the rows of
// before the list of objects must have objects, and all objects must have rows after
// it. No collection is running.
func (c *chaos) soundStore(primary *pgtest.Server, database string) {
	t := c.t
	t.Helper()
	s3, err := bucket.OpenS3(bucket.S3Config{Bucket: c.peer.Bucket, Prefix: "depot", Endpoint: c.peer.Endpoint, Region: "us-east-1", AccessKey: c.peer.User, SecretKey: c.peer.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer s3.Close()
	const key = "'c/' || left(encode(sha256, 'hex'), 2) || '/' || encode(sha256, 'hex') || '/' || place"
	rows := func(query string) (list [][]string) {
		for line := range strings.Lines(primary.In(t, database, query)) {
			list = append(list, strings.Split(strings.TrimSpace(line), "|"))
		}
		return list
	}
	contents := rows("SELECT " + key + ", size FROM content")
	objects, made := map[string]int64{}, map[string]time.Time{}
	for info, err := range s3.List(t.Context(), "c/") {
		if err != nil {
			t.Fatal(err)
		}
		objects[info.Key], made[info.Key] = info.Size, info.ModTime
	}
	// In one statement: a place goes from one table to the next.
	all := rows("SELECT " + key + " FROM content WHERE place IS NOT NULL UNION ALL SELECT " + key + " FROM upload UNION ALL SELECT " + key + " FROM doomed")
	for _, r := range contents {
		size, ok := objects[r[0]]
		if !ok || strconv.FormatInt(size, 10) != r[1] {
			t.Errorf("the content in %s has %s bytes in the database; its object has %d (found: %v), want the same", r[0], r[1], size, ok)
			continue
		}
		o, err := s3.Get(t.Context(), r[0], 0, -1, "")
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		_, err = io.Copy(h, o.Body)
		_ = o.Body.Close()
		if sum := hex.EncodeToString(h.Sum(nil)); err != nil || sum != strings.Split(r[0], "/")[2] {
			t.Errorf("object %s has the SHA-256 %s, %v; want the one of its name", r[0], sum, err)
		}
	}
	for _, r := range all {
		delete(objects, r[0])
	}
	if len(c.lost) > 0 {
		return // the rows of their uploads may be lost too
	}
	for k := range objects {
		t.Errorf("object %s, made at %s, is in no row", k, made[k].UTC().Format(time.TimeOnly))
	}
	t.Logf("%d contents in the bucket, %s of them made by servers", len(contents), primary.In(t, database, "SELECT count(*) FROM derived WHERE content_id IS NOT NULL"))
}

// TestNodesFaults runs three servers, commands that add, remove and collect, and
// readers, while processes are killed and stopped, the database is restarted, and
// the network fails. Nothing that was acknowledged is lost, no answer is wrong, and
// the history of each key is linearizable for each server.
func TestNodesFaults(t *testing.T) {
	t.Parallel()
	writers, duration := 2, 8*time.Second
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		writers, duration = 8, 10*time.Minute
	}
	if d, err := time.ParseDuration(os.Getenv("SYMDEPOT_STORM")); err == nil {
		duration = d
	}
	pg := pgtest.New(t)
	pg.Database(t) // test1
	// Leases, holds and grace in seconds.
	c := newChaos(t, 3, "3s,2s,4s,6s", "test1", pg.Standby(t), pg)
	shared := t.TempDir()
	var common []*chaosKey
	for range 4 {
		k, err := c.file(shared)
		if err != nil {
			t.Fatal(err)
		}
		common = append(common, k)
	}
	if c.add(common, shared) == 0 {
		t.Fatal("the first add has failed")
	}
	h := newHistory(c, 200)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { c.write(uint64(i), shared, &stop) })
	}
	for i := range 2 {
		wg.Go(func() { h.write(i, 2, &stop) })
	}
	for i := range c.nodes {
		wg.Go(func() { c.read(i, &stop) })
		wg.Go(func() { h.read(i, &stop) })
	}
	var collected atomic.Int64
	wg.Go(func() {
		for !stop.Load() {
			if _, err := c.command("gc", "--empty-trash", "--grace", "2s"); err == nil {
				collected.Add(1)
			}
			pauseFor(c.ctx, time.Second)
		}
	})
	c.clockBackWhileReplicaRests()
	names := slices.Sorted(maps.Keys(chaosFaults))
	counts := map[string]int{}
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); {
		name := names[c.rng.IntN(len(names))]
		counts[name]++
		t.Logf("%s %s", time.Now().UTC().Format(time.TimeOnly), name)
		chaosFaults[name](c, pg)
		pauseFor(t.Context(), time.Duration(c.rng.IntN(800))*time.Millisecond)
	}
	c.tools.Faults(proxytest.Fault{}, proxytest.Fault{})
	for _, n := range c.nodes {
		n.Faults(proxytest.Fault{}, proxytest.Fault{})
	}
	c.replicaAnswers()
	stop.Store(true)
	wg.Wait()
	t.Logf("faults: %v; %d collections", counts, collected.Load())
	c.sound(pg, "test1")
	h.check(t)
}

// chaosFaults are the faults of a storm. Each ends before it returns.
var chaosFaults = map[string]func(c *chaos, pg *pgtest.Server){
	"kill a server": func(c *chaos, _ *pgtest.Server) {
		n := c.anyNode()
		n.Kill()
		pauseFor(c.ctx, c.upTo(time.Second))
		// A supervisor starts a server again that did not reach a busy database.
		var err error
		for range 5 {
			if err = n.Start(); err == nil {
				return
			}
		}
		c.t.Error(err)
	},
	"stop a server past its leases": func(c *chaos, _ *pgtest.Server) {
		n := c.anyNode()
		n.Signal(signalStop)
		pauseFor(c.ctx, 2*time.Second+c.upTo(5*time.Second))
		n.Signal(signalContinue)
	},
	// From almost five minutes fast to as much slow, or back, while it works.
	"turn the clock of a server": func(c *chaos, _ *pgtest.Server) {
		if n := c.anyNode(); n.Env["SYMDEPOT_TEST_CLOCK"] != "" {
			n.Signal(commandtest.SignalJump)
		}
	},
	"kill a command": func(c *chaos, _ *pgtest.Server) {
		if cmd := c.some(); cmd != nil {
			_ = cmd.Process.Kill()
		}
	},
	"stop a command past its lease": func(c *chaos, _ *pgtest.Server) {
		if cmd := c.some(); cmd != nil {
			_ = cmd.Process.Signal(signalStop)
			pauseFor(c.ctx, 2*time.Second+c.upTo(6*time.Second))
			_ = cmd.Process.Signal(signalContinue)
		}
	},
	"restart the database": func(c *chaos, pg *pgtest.Server) {
		pg.Stop(c.t, "immediate")
		pauseFor(c.ctx, c.upTo(3*time.Second))
		pg.Start(c.t)
	},
	"kill the database": func(c *chaos, pg *pgtest.Server) {
		pg.Kill(c.t)
		pg.Start(c.t)
	},
	"a replica that is behind": func(c *chaos, _ *pgtest.Server) {
		c.replica.In(c.t, "test1", "SELECT pg_wal_replay_pause()")
		pauseFor(c.ctx, c.upTo(4*time.Second))
		c.replica.In(c.t, "test1", "SELECT pg_wal_replay_resume()")
	},
	"kill the replica": func(c *chaos, _ *pgtest.Server) {
		c.replica.Kill(c.t)
		pauseFor(c.ctx, c.upTo(2*time.Second))
		c.replica.Start(c.t)
	},
	"network to the database": func(c *chaos, _ *pgtest.Server) {
		n := c.anySurroundings()
		n.Faults(c.anyFault(), proxytest.Fault{})
		c.endFault(n)
	},
	"network to the store": func(c *chaos, _ *pgtest.Server) {
		n := c.anySurroundings()
		n.Faults(proxytest.Fault{}, c.anyFault())
		c.endFault(n)
	},
	"cut connections": func(c *chaos, _ *pgtest.Server) {
		n := c.anySurroundings()
		for _, p := range slices.Concat(n.PG, n.S3) {
			p.Cut()
		}
	},
}

// clockBackWhileReplicaRests sets the clock of a server back by almost ten minutes while
// the server does not ask the replica, which has failed. That must not last longer for it.
func (c *chaos) clockBackWhileReplicaRests() {
	n := c.nodes[1]
	if n.Env["SYMDEPOT_TEST_CLOCK"] == "" {
		return
	}
	const lookups = "symdepot_database_replica_lookups_total"
	answered := func() string {
		_, after, _ := strings.Cut(n.Metrics(c.t, lookups), `"answered"} `)
		number, _, _ := strings.Cut(after, ";")
		return number
	}
	c.replica.Kill(c.t)
	symtest.Await(c.t, time.Minute, "a failed lookup at the replica", func() bool {
		lines := n.Metrics(c.t, lookups)
		return strings.Contains(lines, `"failed"} `) && !strings.Contains(lines, `"failed"} 0;`)
	})
	n.Signal(commandtest.SignalJump)
	c.replica.Start(c.t)
	before := answered()
	symtest.Await(c.t, time.Minute, "a lookup that the replica answers after the clock was set back", func() bool {
		now := answered()
		return now != "" && now != before
	})
}

// replicaAnswers waits until each server has answered from the replica since its
// start, and logs what the replica did.
func (c *chaos) replicaAnswers() {
	if c.t.Failed() {
		return
	}
	for i, n := range c.nodes {
		var lines string
		symtest.Await(c.t, time.Minute, fmt.Sprintf("lookups of server %d that the replica answers", i), func() bool {
			lines = n.Metrics(c.t, "symdepot_database_replica_lookups_total")
			return strings.Contains(lines, `"answered"} `) && !strings.Contains(lines, `"answered"} 0;`)
		})
		c.t.Logf("lookups of server %d at the replica: %s", i, lines)
	}
}

func (c *chaos) anyNode() *commandtest.ChaosNode { return c.nodes[c.rng.IntN(len(c.nodes))] }

// anySurroundings returns a server or, as often as one of them, the commands.
func (c *chaos) anySurroundings() *commandtest.ChaosNode {
	return append(slices.Clip(c.nodes), c.tools)[c.rng.IntN(len(c.nodes)+1)]
}

func (c *chaos) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(d)))
}

func (c *chaos) anyFault() proxytest.Fault {
	return []proxytest.Fault{
		{Delay: 20*time.Millisecond + c.upTo(200*time.Millisecond)},
		{Rate: 20_000 + c.rng.Int64N(200_000)},
		{CutAfter: 1 + c.rng.Int64N(50_000)},
		{CutAfter: 1 + c.rng.Int64N(500)},
		{ToServer: true, ToClient: true},
		{ToServer: true},
		{ToClient: true},
		{HalfOpen: true},
		{Refuse: true},
	}[c.rng.IntN(9)]
}

// endFault ends the faults of the network after a while; some connections do not
// survive them.
func (c *chaos) endFault(n *commandtest.ChaosNode) {
	pauseFor(c.ctx, 500*time.Millisecond+c.upTo(4*time.Second))
	n.Faults(proxytest.Fault{}, proxytest.Fault{})
	if c.rng.IntN(2) == 0 {
		for _, p := range slices.Concat(n.PG, n.S3) {
			p.Cut()
		}
	}
}

// TestNodesFailover promotes a standby again and again while commands add and
// servers answer. With a synchronous standby nothing acknowledged is lost. If the
// replication was cut before, what was written since is lost, and nothing else: all
// servers drop what they remember of it, and no row names an object that is not
// there.
func TestNodesFailover(t *testing.T) {
	t.Parallel()
	// One round loses acknowledged writes, the next one none. The short form has only
	// the first kind.
	first, rounds, nodes, writers := 1, 1, 2, 1
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		first, rounds, nodes, writers = 0, 50, 3, 3
	}
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_FAILOVERS")); err == nil {
		rounds = n
	}
	primary := pgtest.New(t)
	primary.Database(t) // test1
	spare := primary.Standby(t)
	c := newChaos(t, nodes, "10m,1h,168h,168h", "test1", nil, primary, spare)
	side := 0 // which of the two proxies leads to the primary
	shared := t.TempDir()
	k, err := c.file(shared)
	if err != nil {
		t.Fatal(err)
	}
	if c.add([]*chaosKey{k}, shared) == 0 {
		t.Fatal("the first add has no build, want one")
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range c.nodes {
		wg.Go(func() { c.read(i, &stop) })
	}
	cuts := 0
	var worst, sum time.Duration
	whole := t // standbys and folders stay when their round ends
	round := func(t *testing.T, round int) {
		cut := round%2 == 1
		var writing atomic.Bool
		var group sync.WaitGroup
		defer group.Wait()
		defer writing.Store(true) // ends the writers
		symtest.Step(t, "a standby, and adds", func(t *testing.T) {
			if round > first {
				spare = primary.Standby(whole)
				for _, n := range append(slices.Clip(c.nodes), c.tools) {
					n.PG[1-side].Target(spare.Addr())
				}
			}
			if cut {
				cuts++
			} else {
				primary.Synchronous(whole)
			}
			for i := range writers {
				group.Go(func() { c.write(uint64(round*writers+i), shared, &writing) })
			}
			goal := c.acks.Load() + int64(writers) + 1
			symtest.Await(t, 2*time.Minute, "adds before the failover", func() bool { return c.acks.Load() >= goal || whole.Failed() })
		})
		var gone *chaosKey
		if cut {
			symtest.Step(t, "a key that the failover will lose", func(t *testing.T) {
				c.mu.Lock()
				c.fragile = true
				c.mu.Unlock()
				kept := primary.SQL(t, "SELECT pg_current_wal_flush_lsn()")
				primary.Await(t, "a standby that has all that counts", "SELECT count(*) > 0 FROM pg_stat_replication WHERE replay_lsn >= '"+kept+"'")
				spare.Cut(t)
				dir := whole.TempDir()
				if gone, err = c.file(dir); err != nil {
					t.Fatal(err)
				}
				if c.add([]*chaosKey{gone}, dir) == 0 {
					t.Fatal("an add before the failover has no build, want one")
				}
				for i, n := range c.nodes { // all servers have it in memory
					for range 2 {
						if status, _ := n.Get(t.Context(), gone.path); status != 200 {
							t.Errorf("node %d: GET %s: status %d, want 200", i, gone.path, status)
						}
					}
				}
			})
		}
		symtest.Step(t, "failover", func(t *testing.T) {
			if round%3 == 2 {
				primary.Kill(t)
			} else {
				primary.Stop(t, "immediate")
			}
			for _, n := range append(slices.Clip(c.nodes), c.tools) {
				n.PG[side].Cut()
			}
			spare.Promote(t)
			promoted := time.Now()
			last := numberOf(t, spare, "SELECT last_tx FROM state")
			symtest.Await(t, time.Minute, "the first commit after the promotion", func() bool { return numberOf(t, spare, "SELECT last_tx FROM state") > last })
			took := time.Since(promoted)
			worst, sum = max(worst, took), sum+took
			if limit := 10 * time.Second; took > limit {
				t.Errorf("the first commit came %v after the promotion, want at most %v", took, limit)
			}
			// What was acknowledged during the cut is checked no more; what comes now
			// is safe.
			writing.Store(true)
			group.Wait()
			c.mu.Lock()
			c.fragile = false
			c.mu.Unlock()
			primary, side = spare, 1-side
		})
		symtest.Step(t, "an add after the failover", func(t *testing.T) {
			dir := whole.TempDir()
			k, err := c.file(dir)
			if err != nil {
				t.Fatal(err)
			}
			if c.add([]*chaosKey{k}, dir) == 0 {
				t.Fatal("an add after the failover has no build, want one")
			}
			for i, n := range c.nodes {
				if status, _ := n.Get(t.Context(), k.path); status == 404 {
					t.Errorf("node %d: GET %s after the add has returned: status 404, want 200", i, k.path)
				}
				if gone == nil {
					continue
				}
				if status, _ := n.Get(t.Context(), gone.path); status == 200 {
					t.Errorf("node %d: GET %s, which the failover has lost: status 200, want 404", i, gone.path)
				}
			}
		})
		if out, err := c.command("gc", "--claim", "--empty-trash", "--grace", "0s"); err != nil {
			t.Errorf("gc: %v, want no error\n%s", err, out)
		}
	}
	for i := range rounds {
		if t.Failed() {
			break
		}
		t.Run(fmt.Sprintf("round %d", i), func(t *testing.T) { round(t, first+i) })
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d failovers, %d of them with losses; first commit after the promotion: %v at most, %v in the mean", rounds, cuts, worst.Round(time.Millisecond), (sum / time.Duration(rounds)).Round(time.Millisecond))
	c.sound(primary, "test1")
}

func numberOf(t *testing.T, s *pgtest.Server, query string) int {
	t.Helper()
	n, err := strconv.Atoi(s.In(t, "test1", query))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
