package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// upstream is a source whose answers a test decides.
type upstream struct {
	asked atomic.Int32
	fetch func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error)
}

func (u *upstream) Name() string         { return "up" }
func (u *upstream) Traits() fetch.Traits { return fetch.Traits{} }
func (u *upstream) Close() error         { return nil }
func (u *upstream) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	u.asked.Add(1)
	return u.fetch(ctx, ask)
}

// rows is what the servers of a depot share.
type rows struct {
	mu     sync.Mutex
	kept   map[blob.Ref]bool
	misses map[string]map[string]fetch.Miss
}

// store is the depot of one server.
type store struct {
	*rows
	disk *blob.Disk
}

func (s store) Holds(context.Context, []string, layout.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept) > 0 // the tests have one file
}
func (s store) Checksum(context.Context, []string, layout.Request) string {
	return ""
}
func (s store) Spool() (*blob.Spool, error) { return s.disk.Spool() }
func (s store) Keep(_ context.Context, f fetch.Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[f.Ref] = true
	return nil
}
func (s store) Misses(_ context.Context, key string) (map[string]fetch.Miss, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]fetch.Miss{}
	for name, m := range s.misses[key] {
		known[name] = m
	}
	return known, nil
}
func (s store) PutMisses(_ context.Context, key string, misses map[string]fetch.Miss) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.misses[key] = misses
	return nil
}
func (s store) ForgetMiss(_ context.Context, key, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.misses[key], name)
	return nil
}

// server is one server of a depot.
type server struct {
	id      string
	fetcher *fetch.Fetcher
	node    *Node
	stop    func() // ends it without a word to the others
}

// cluster is a depot on several machines.
type cluster struct {
	up      *upstream
	rows    *rows
	servers []*server
	members []Member
}

var secret = bytes.Repeat([]byte{7}, 32)

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// newCluster starts n servers that know each other. view, if not nil, changes what
// server i knows.
func newCluster(t *testing.T, n int, up *upstream, view func(c *cluster, i int) []Member) *cluster {
	t.Helper()
	c := &cluster{up: up, rows: &rows{kept: map[blob.Ref]bool{}, misses: map[string]map[string]fetch.Miss{}}}
	var listeners []net.Listener
	for i := range n {
		ln := listen(t)
		listeners = append(listeners, ln)
		c.members = append(c.members, Member{fmt.Sprintf("node%d", i), ln.Addr().String()})
	}
	for i, ln := range listeners {
		disk, err := blob.OpenDisk(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		f := fetch.New(store{c.rows, disk}, fetch.Options{
			Upstreams: []fetch.Upstream{{Source: up}}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Limits: fetch.Limits{FirstByte: time.Minute, Stall: time.Minute},
		})
		node, err := New(Options{
			Secret: secret, Listener: ln, Dial: (&net.Dialer{}).DialContext, Downloads: f, Reach: 20 * time.Second, // of a busy machine
			Members: func() (string, []Member, bool) {
				list := c.members
				if view != nil {
					list = view(c, i)
				}
				return c.members[i].ID, list, true
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.UsePeers(node)
		node.Start()
		var once sync.Once
		s := &server{id: c.members[i].ID, fetcher: f, node: node, stop: func() {
			once.Do(func() {
				_ = node.Close()
				f.Close()
			})
		}}
		t.Cleanup(func() {
			s.stop()
			_ = disk.Close()
		})
		c.servers = append(c.servers, s)
	}
	return c
}

const (
	symID   = "0E7712BEAF064421884B496F833C8EC121"
	symPath = "app.pdb/" + symID + "/app.sym"
)

func ask(t *testing.T) fetch.Question {
	t.Helper()
	req, err := layout.Route(strings.Split(symPath, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return fetch.Question{Request: req, Products: nil, Client: "192.0.2.1", Via: []string{"self"}}
}

func symFile(size int) string {
	head := "MODULE windows x86_64 " + symID + " app.pdb\n"
	return head + strings.Repeat("PUBLIC 1000 0 a_name_of_a_function\n", size/35)
}

// owner returns the server that owns the key of ask, and the others by rank.
func (c *cluster) owner(t *testing.T) (owner *server, others []*server) {
	t.Helper()
	for _, s := range c.servers {
		if slot := slotOf(t, s); len(s.node.Owners(slot)) == 0 {
			owner = s
		} else {
			others = append(others, s)
		}
	}
	if owner == nil {
		t.Fatal("no server owns the key")
	}
	return owner, others
}

// slotOf returns the key that a server asks the owner of.
func slotOf(t *testing.T, s *server) string {
	t.Helper()
	var slot string
	probe := fetch.New(store{&rows{kept: map[blob.Ref]bool{}, misses: map[string]map[string]fetch.Miss{}}, nil},
		fetch.Options{Upstreams: []fetch.Upstream{{Source: &upstream{}}}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	probe.UsePeers(ownersFunc(func(key string) []fetch.Peer {
		slot = key
		return []fetch.Peer{nobody{}}
	}))
	_, _ = probe.Open(t.Context(), ask(t))
	probe.Close()
	return slot
}

type ownersFunc func(string) []fetch.Peer

func (f ownersFunc) Owners(key string) []fetch.Peer { return f(key) }

// nobody knows that no upstream has any file.
type nobody struct{}

func (nobody) Fetch(context.Context, fetch.PeerAsk) (*fetch.PeerReply, error) {
	return nil, fs.ErrNotExist
}
func (nobody) Run(context.Context, string, []byte) ([]byte, error) { return nil, fetch.ErrNoPeer }

// read opens the file as a client of a server, and again if the depot has it
// now, and reads all of it.
func read(t *testing.T, s *server) (string, error) {
	t.Helper()
	f, err := s.fetcher.Open(t.Context(), ask(t))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	return string(b), err
}

// slow is the body of a file whose second half waits for a signal.
type slow struct {
	first, rest io.Reader
	wait        <-chan struct{}
	ctx         context.Context
}

func (s *slow) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); err == nil {
		return n, nil
	}
	select {
	case <-s.wait:
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	return s.rest.Read(p)
}
func (s *slow) Close() error { return nil }

// serveSlowly answers with a file whose part from n on waits for a signal.
func serveSlowly(text string, n int, wait <-chan struct{}) func(context.Context, fetch.Ask) (*fetch.Reply, error) {
	return func(ctx context.Context, _ fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: &slow{strings.NewReader(text[:n]), strings.NewReader(text[n:]), wait, ctx}, Size: int64(len(text)), Name: "app.sym"}, nil
	}
}

// A hundred clients of four servers share one download of one of them, and read
// the file while it arrives.
func TestOneDownload(t *testing.T) {
	t.Parallel()
	text := symFile(400_000)
	rest := make(chan struct{})
	up := &upstream{fetch: serveSlowly(text, 200_000, rest)}
	c := newCluster(t, 4, up, nil)
	var opened, all sync.WaitGroup
	opened.Add(100)
	for i := range 100 {
		all.Go(func() {
			f, err := c.servers[i%4].fetcher.Open(t.Context(), ask(t))
			opened.Done()
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			defer f.Close()
			if !f.Growing {
				t.Errorf("client %d: the file is complete before its end was sent, want it growing", i)
			}
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
			if err != nil || string(b) != text {
				t.Errorf("client %d: %d bytes, error %v; want %d", i, len(b), err, len(text))
			}
			if end := f.Checked(); end.Ref != blob.Sum([]byte(text)) || end.Object.Name != "app.pdb" {
				t.Errorf("client %d: the file is described as %+v, want app.pdb and the hash of the text", i, end)
			}
		})
	}
	opened.Wait() // all have received the first bytes before the upstream sends the rest
	close(rest)
	all.Wait()
	if n := up.asked.Load(); n != 1 {
		t.Errorf("%d requests to the upstream, want 1", n)
	}
	if len(c.rows.kept) != 1 {
		t.Errorf("%d files kept, want 1", len(c.rows.kept))
	}
	if _, err := read(t, c.servers[0]); !errors.Is(err, fetch.ErrInDepot) {
		t.Errorf("a later client: error %v, want %v", err, fetch.ErrInDepot)
	}
}

// A miss that the owner finds is a miss everywhere, with its reason, and costs one
// request.
func TestOneMiss(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"not found": &fetch.Failure{Source: "up", Class: fetch.ClassNotFound},
		"forbidden": &fetch.Failure{Source: "up", Class: fetch.ClassForbidden, Err: errors.New("403")},
		"busy":      &fetch.Failure{Source: "up", Class: fetch.ClassBusy, Retry: time.Now().Add(time.Hour), Err: errors.New("429")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := &upstream{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) { return nil, answer }}
			c := newCluster(t, 4, up, nil)
			for round := range 3 {
				var all sync.WaitGroup
				for i := range 40 {
					all.Go(func() {
						if _, err := read(t, c.servers[i%4]); !errors.Is(err, fs.ErrNotExist) {
							t.Errorf("round %d: error %v, want %v", round, err, fs.ErrNotExist)
						}
					})
				}
				all.Wait()
			}
			if n := up.asked.Load(); n != 1 {
				t.Errorf("%d requests to the upstream, want 1", n)
			}
			for _, s := range c.servers {
				q := ask(t)
				classes := s.fetcher.Reasons(t.Context(), q, fs.ErrNotExist)
				if len(classes) != 1 && name != "busy" || len(classes) > 0 && classes[0] != fetch.ClassOf(answer) {
					t.Errorf("%s: classes %v, want that of %v", s.id, classes, answer)
				}
			}
			for i, s := range c.servers {
				if n := s.node.Counts().Asked; n > 1 {
					t.Errorf("server %d asked the owner %d times, want at most once", i, n)
				}
			}
		})
	}
}

// The owner dies before its clients have received bytes: one other server
// downloads for all.
func TestOwnerDiesEarly(t *testing.T) {
	t.Parallel()
	text := symFile(400_000)
	var c *cluster
	var owner *server
	arrived := make(chan struct{}, 10)
	up := &upstream{}
	up.fetch = func(ctx context.Context, a fetch.Ask) (*fetch.Reply, error) {
		if up.asked.Load() == 1 { // the owner
			arrived <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &fetch.Reply{Body: io.NopCloser(strings.NewReader(text)), Size: int64(len(text)), Name: "app.sym"}, nil
	}
	c = newCluster(t, 4, up, nil)
	owner, others := c.owner(t)
	var all sync.WaitGroup
	for i := range 75 {
		all.Go(func() {
			b, err := read(t, others[i%3])
			if errors.Is(err, fetch.ErrInDepot) {
				return // the depot has it
			}
			if err != nil || b != text {
				t.Errorf("client %d: %d bytes, error %v; want %d", i, len(b), err, len(text))
			}
		})
	}
	<-arrived
	symtest.Await(t, 20*time.Second, "the questions of three servers", func() bool { return owner.node.Counts().Served == 3 })
	owner.stop()
	all.Wait()
	if n := up.asked.Load(); n != 2 {
		t.Errorf("%d requests to the upstream, want 2: one of the dead owner, one of its successor", n)
	}
}

// The owner dies in the middle of a transfer: clients that have received bytes get
// a broken answer, later ones the file. No one gets wrong bytes.
func TestOwnerDiesLate(t *testing.T) {
	t.Parallel()
	text := symFile(400_000)
	never := make(chan struct{})
	up := &upstream{}
	up.fetch = func(ctx context.Context, a fetch.Ask) (*fetch.Reply, error) {
		if up.asked.Load() == 1 {
			return serveSlowly(text, 200_000, never)(ctx, a)
		}
		return &fetch.Reply{Body: io.NopCloser(strings.NewReader(text)), Size: int64(len(text)), Name: "app.sym"}, nil
	}
	c := newCluster(t, 4, up, nil)
	owner, others := c.owner(t)
	var opened, all sync.WaitGroup
	opened.Add(30)
	for i := range 30 {
		all.Go(func() {
			f, err := others[i%3].fetcher.Open(t.Context(), ask(t))
			opened.Done()
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			defer f.Close()
			b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
			if err == nil || !strings.HasPrefix(text, string(b)) {
				t.Errorf("client %d: %d bytes, error %v; want a broken answer with the right beginning", i, len(b), err)
			}
		})
	}
	opened.Wait()
	owner.stop()
	all.Wait()
	for i, s := range others {
		b, err := read(t, s)
		if err == nil && b != text || err != nil && !errors.Is(err, fetch.ErrInDepot) {
			t.Errorf("server %d afterwards: %d bytes, error %v; want the file", i, len(b), err)
		}
	}
	if n := up.asked.Load(); n > 2 {
		t.Errorf("%d requests to the upstream, want at most 2", n)
	}
}

// Servers that disagree about the owner do not wait for each other.
func TestDisagreement(t *testing.T) {
	t.Parallel()
	text := symFile(100_000)
	up := &upstream{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return &fetch.Reply{Body: io.NopCloser(strings.NewReader(text)), Size: int64(len(text)), Name: "app.sym"}, nil
	}}
	c := newCluster(t, 2, up, func(c *cluster, i int) []Member { return []Member{c.members[1-i]} }) // each knows the other only
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			b, err := read(t, c.servers[i%2])
			if errors.Is(err, fetch.ErrInDepot) {
				return
			}
			if err != nil || b != text {
				t.Errorf("client %d: %d bytes, error %v; want %d", i, len(b), err, len(text))
			}
		})
	}
	all.Wait()
	if n := up.asked.Load(); n > 2 {
		t.Errorf("%d requests to the upstream, want at most one of each server", n)
	}
}

// A server whose owner does not answer downloads the file itself, and does not ask
// it again at once.
func TestDeafOwner(t *testing.T) {
	t.Parallel()
	text := symFile(100_000)
	for name, serve := range map[string]func(net.Conn){
		"accepts nothing": func(net.Conn) {},
		"hangs up":        func(c net.Conn) { _ = c.Close() },
		"speaks HTTP":     func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") },
		"falls silent": func(c net.Conn) {
			_, server, err := configs(secret)
			if err != nil {
				return
			}
			conn := tls.Server(c, server)
			if _, _, err := readText(conn); err == nil {
				_ = (&writer{conn: conn}).send(typeAlive, nil)
			}
		},
		"sends nonsense": func(c net.Conn) {
			_, server, err := configs(secret)
			if err != nil {
				return
			}
			conn := tls.Server(c, server)
			if _, _, err := readText(conn); err == nil {
				w := &writer{conn: conn}
				_ = w.send(typeAlive, nil)
				_ = w.send(typeHead, []byte("{"))
			}
		},
		"sends other bytes": func(c net.Conn) {
			_, server, err := configs(secret)
			if err != nil {
				return
			}
			conn := tls.Server(c, server)
			if _, _, err := readText(conn); err == nil {
				w := &writer{conn: conn}
				_ = w.send(typeAlive, nil)
				f := fetch.File{Size: 5, Ref: blob.Sum([]byte("right"))}
				_ = w.sendJSON(typeHead, &f)
				_ = w.send(typeData, []byte("wrong"))
				_ = w.sendJSON(typeEnd, &f)
			}
		},
		"has another secret": func(c net.Conn) {
			_, server, err := configs(bytes.Repeat([]byte{8}, 32))
			if err == nil {
				_ = tls.Server(c, server).HandshakeContext(context.Background())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln := listen(t)
			var accepted atomic.Int32
			var conns sync.WaitGroup
			conns.Go(func() {
				for {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					accepted.Add(1)
					conns.Go(func() {
						serve(conn)
						_, _ = io.Copy(io.Discard, conn)
						_ = conn.Close()
					})
				}
			})
			up := &upstream{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) {
				return &fetch.Reply{Body: io.NopCloser(strings.NewReader(text)), Size: int64(len(text)), Name: "app.sym"}, nil
			}}
			c := newCluster(t, 1, up, func(*cluster, int) []Member { return []Member{{"deaf", ln.Addr().String()}} })
			t.Cleanup(func() {
				_ = ln.Close()
				c.servers[0].stop()
				conns.Wait()
			})
			c.servers[0].node.opt.Reach = 10 * time.Second
			if name == "accepts nothing" || name == "falls silent" {
				c.servers[0].node.opt.Reach = defaultReach
			}
			b, err := read(t, c.servers[0])
			if !errors.Is(err, fetch.ErrInDepot) && (err != nil || b != text) {
				t.Errorf("%d bytes, error %v; want %d", len(b), err, len(text))
			}
			if n := up.asked.Load(); n != 1 {
				t.Errorf("%d requests to the upstream, want 1", n)
			}
			if n := len(c.servers[0].node.avoided); n != 1 && name != "sends other bytes" {
				t.Errorf("%d servers are avoided after the failure, want the owner", n)
			}
			if n := accepted.Load(); n != 1 && name != "accepts nothing" && name != "falls silent" {
				t.Errorf("the owner was asked %d times, want once", n)
			}
		})
	}
}

// Nobody without the secret gets an answer.
func TestStrangers(t *testing.T) {
	t.Parallel()
	up := &upstream{fetch: func(context.Context, fetch.Ask) (*fetch.Reply, error) {
		return nil, &fetch.Failure{Source: "up", Class: fetch.ClassNotFound}
	}}
	c := newCluster(t, 1, up, nil)
	at := c.members[0].Address
	other, _, err := configs(bytes.Repeat([]byte{8}, 32))
	if err != nil {
		t.Fatal(err)
	}
	// Its own check of the server must not stand in the way.
	other = other.Clone()
	other.VerifyConnection = nil
	right, _, err := configs(secret)
	if err != nil {
		t.Fatal(err)
	}
	bare := right.Clone()
	bare.Certificates = nil
	old := right.Clone()
	old.NextProtos = []string{"symdepot-nodes/0"}
	old.VerifyConnection = nil
	for name, cfg := range map[string]*tls.Config{"another secret": other, "no certificate": bare, "another protocol": old, "no TLS": nil} {
		raw, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		conn := raw
		if cfg != nil {
			conn = tls.Client(raw, cfg)
		}
		q := ask(t)
		_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
		_ = (&writer{conn: conn}).sendJSON(typeAsk, question{File: &fetch.PeerAsk{Question: q}})
		if kind, _, err := readText(conn); err == nil && (cfg != nil || kind == typeAlive) {
			t.Errorf("%s: a message of the type %q, want none", name, kind)
		}
		_ = raw.Close()
	}
	if n := up.asked.Load(); n != 0 {
		t.Errorf("%d requests to the upstream, want none", n)
	}
	symtest.Await(t, 20*time.Second, "four refused connections", func() bool { return c.servers[0].node.Counts().Refused == 4 })
	if n := c.servers[0].node.Counts().Served; n != 0 {
		t.Errorf("%d questions answered, want none", n)
	}
	if _, _, err := configs([]byte("short")); err == nil {
		t.Error("a short secret was accepted")
	}
}

// Malformed questions of somebody who has the secret end the connection.
func TestMalformedQuestions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, &upstream{}, nil)
	cfg, _, err := configs(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, message := range map[string]string{
		"not JSON":     "q\x00\x00\x00\x01{",
		"another type": "h\x00\x00\x00\x02{}",
		"too long":     "q\x7f\xff\xff\xff{}",
		"cut":          "q\x00\x00\x00\x10{}",
	} {
		raw, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.members[0].Address)
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, cfg)
		if _, err := io.WriteString(conn, message); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		if b, _ := io.ReadAll(conn); len(b) > 0 {
			t.Errorf("%s: %d bytes in return, want none", name, len(b))
		}
		_ = raw.Close()
	}
	// No lookups, an unknown kind of download.
	if _, err := (member{c.servers[0].node, c.members[0]}).Fetch(t.Context(), fetch.PeerAsk{}); err == nil {
		t.Error("a question without a key got a file")
	}
	if _, err := (member{c.servers[0].node, c.members[0]}).Run(t.Context(), "unknown", nil); !errors.Is(err, fetch.ErrNoPeer) {
		t.Errorf("an unknown kind of download: error %v, want %v", err, fetch.ErrNoPeer)
	}
}

// Run passes inputs and results on.
func TestRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, &upstream{}, nil)
	for _, s := range c.servers {
		s.fetcher.Serve("echo", func(_ context.Context, input []byte) ([]byte, error) { return append([]byte(s.id+" "), input...), nil })
	}
	owners := map[string]int{}
	for i := range 20 {
		key := fmt.Sprint("key", i)
		for _, s := range c.servers {
			if result, ok := s.fetcher.RunAtOwner(t.Context(), key, "echo", []byte("hello")); ok {
				owners[string(result)]++
			}
		}
	}
	// Each key has one owner, at which the other server runs it.
	if owners["node0 hello"]+owners["node1 hello"] != 20 || len(owners) != 2 {
		t.Errorf("results %v, want 20 of two owners", owners)
	}
}

// The keys spread over the servers, and only those of a server that leaves change
// their owner.
func TestRank(t *testing.T) {
	t.Parallel()
	var list []Member
	for i := range 5 {
		list = append(list, Member{ID: fmt.Sprint("node", i)})
	}
	counts := map[string]int{}
	for i := range 10_000 {
		key := fmt.Sprint("key", i)
		all := rank(key, append([]Member(nil), list...))
		counts[all[0].ID]++
		rest := rank(key, append([]Member(nil), list[1:]...))
		want := all[0]
		if want == list[0] {
			want = all[1]
		}
		if rest[0] != want {
			t.Fatalf("key %d has the owner %s without %s, want %s", i, rest[0].ID, list[0].ID, want.ID)
		}
	}
	for id, n := range counts {
		if n < 1800 || n > 2200 {
			t.Errorf("%s owns %d of 10000 keys, want about 2000", id, n)
		}
	}
}
