package cluster

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// wireCounter counts the bytes of all requests and answers between clients and servers.
type wireCounter struct {
	to    func() string // URL of the server
	bytes atomic.Int64
	// recipes counts the bodies that are recipes.
	recipes atomic.Int64
	// lowered says that a limit of a server was lowered.
	lowered atomic.Bool
	// atPart, if not nil, is called once, when a part has been sent.
	atPart atomic.Pointer[func()]
}

func (c *wireCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, err := url.Parse(c.to())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.Body = countedBody{r.Body, &c.bytes}
	if r.Header.Get(wire.UploadBase) != "" {
		c.recipes.Add(1)
	}
	p := httputil.NewSingleHostReverseProxy(to)
	p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	p.ModifyResponse = func(resp *http.Response) error {
		resp.Body = countedBody{resp.Body, &c.bytes}
		return c.lowerLimit(resp)
	}
	p.ServeHTTP(w, r)
	if strings.Contains(r.URL.Path, "/parts/") {
		if f := c.atPart.Swap(nil); f != nil {
			(*f)()
		}
	}
}

// lowerLimit makes a server ask for parts of each body of 1 MiB and more, so that short recipes have parts too.
func (c *wireCounter) lowerLimit(resp *http.Response) error {
	if resp.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return nil
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	lower := wholeBelow.ReplaceAll(b, []byte("${1}1048576"))
	if !bytes.Equal(lower, b) {
		c.lowered.Store(true)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(lower)), int64(len(lower))
	resp.Header.Set("Content-Length", strconv.Itoa(len(lower)))
	return nil
}

var wholeBelow = regexp.MustCompile(`("whole_below": ?)[0-9]+`)

type countedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// nightly writes a build of Breakpad files of few different words in any order. Builds of one series differ in the
// ids and, after the first, in about a twentieth of each file.
type nightly struct {
	dir   string
	sizes []int
	noise [][]byte
	rng   *rand.Rand
	build int
}

func newNightly(t *testing.T, sizes ...int) *nightly {
	t.Helper()
	n := &nightly{dir: t.TempDir(), sizes: sizes, rng: rand.New(rand.NewPCG(symtest.Seed(t, 33), 1))}
	for _, size := range sizes {
		n.noise = append(n.noise, n.words(size))
	}
	return n
}

func (n *nightly) words(size int) []byte {
	b := make([]byte, 0, size+8)
	for len(b) < size {
		b = fmt.Appendf(b, "%07x ", n.rng.IntN(4096)*49_999)
	}
	return b[:size]
}

func (n *nightly) id(file int) string { return fmt.Sprintf("%016X%016X0", n.build, file+1) }

// next writes the next build into the folder of the files.
func (n *nightly) next(t *testing.T) (bytes int64) {
	t.Helper()
	n.build++
	for i, noise := range n.noise {
		if n.build > 1 {
			at := n.rng.IntN(len(noise) * 9 / 10)
			noise = append(append(bytesOf(noise[:at]), n.words(len(noise)/20)...), noise[at+len(noise)/20-7:]...) // 7 bytes longer
			n.noise[i] = noise
		}
		name := filepath.Join(n.dir, fmt.Sprintf("lib%d.so.sym", i))
		text := fmt.Appendf(nil, "MODULE Linux x86_64 %s lib%d.so\nINFO URL ", n.id(i), i)
		text = append(append(text, noise...), '\n')
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
		bytes += int64(len(text))
	}
	return bytes
}

func bytesOf(b []byte) []byte { return append(make([]byte, 0, len(b)+len(b)/10), b...) }

// isServed checks that a server gives the files of the last build byte for byte.
func (n *nightly) isServed(t *testing.T, server, token string) {
	t.Helper()
	for i := range n.noise {
		want, err := os.ReadFile(filepath.Join(n.dir, fmt.Sprintf("lib%d.so.sym", i)))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("%s/lib%d.so/%s/lib%d.so.sym", server, i, n.id(i), i), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("build %d, file %d: status %d, %d bytes, %v; want the %d bytes that were pushed", n.build, i, resp.StatusCode, len(got), err, len(want))
		}
	}
}

// TestPushDelta: of the next build only the changed blocks go over the wire, compressed or not,
// also when the client or the server is killed in the middle. With --no-delta, and for a token that may not read, all bytes do.
func TestPushDelta(t *testing.T) {
	t.Parallel()
	p := commandtest.NewPushDepot(t)
	count := &wireCounter{to: func() string { return p.Serving.URL }}
	front := commandtest.Front(t, count)
	writeOnly, _, _ := strings.Cut(p.Must(t, "token", "new", "--name", "writer", "--scope", "write", "--product", "app"), "\n")
	n := newNightly(t, 36<<20, 700<<10, 300<<10, 2000) // three parts; whole; whole; too short
	total := n.next(t)
	var sent int64
	command := func(args ...string) *exec.Cmd {
		cmd := p.Command(t, append([]string{"push", "--product", "app", "--version", fmt.Sprint(n.build), "--json"}, append(args, n.dir)...)...)
		cmd.Env = append(cmd.Env, "SYMDEPOT_SERVER="+front)
		return cmd
	}
	push := func(what string, cmd *exec.Cmd, most, least int64) {
		t.Helper()
		before := count.bytes.Load()
		out, err := cmd.CombinedOutput()
		sent = count.bytes.Load() - before
		if err != nil || !strings.Contains(string(out), `"files":4,`) {
			t.Fatalf("%s: %v\n%s", what, err, out)
		}
		if sent > most || sent < least {
			t.Errorf("%s: %d bytes on the wire, want %d to %d", what, sent, least, most)
		}
		n.isServed(t, p.Serving.URL, p.Token)
	}
	push("first build", command("--encoding", "none"), total+total/50, total)
	if !count.lowered.Load() {
		t.Error("no answer had the limit for whole bodies: the test shows nothing of recipes in parts")
	}
	changed := total / 20
	n.next(t)
	push("second build", command("--encoding", "none"), changed+changed/3, changed)
	if got := count.recipes.Load(); got != 5 {
		t.Errorf("%d recipes, want 5: of three parts and two whole files", got)
	}
	n.next(t)
	push("third build, compressed", command(), changed*3/4, changed/10)
	n.next(t)
	push("build with --no-delta", command("--encoding", "none", "--no-delta"), total+total/50, total)
	n.next(t)
	blind := command("--encoding", "none")
	blind.Env = append(blind.Env, "SYMDEPOT_TOKEN="+writeOnly)
	push("build of a token that may not read", blind, total+total/50, total)

	// The server is killed when the first part has arrived.
	n.next(t)
	kill := func() { p.Kill(t) }
	count.atPart.Store(&kill)
	push("build during which the server is killed", command("--encoding", "none"), 3*changed, changed)
	// The client is killed then, and the push is run again.
	n.next(t)
	cmd := command("--encoding", "none", "--key", "night")
	stop := func() { _ = cmd.Process.Kill() }
	count.atPart.Store(&stop)
	before := count.bytes.Load()
	if err := cmd.Run(); err == nil {
		t.Error("the client was not killed: the test shows nothing")
	}
	first := count.bytes.Load() - before
	push("build after the client was killed", command("--encoding", "none", "--key", "night"), 3*changed-first, 0)
	if out := p.Must(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}

// TestPushDeltaCold: recipes are from cold files too.
func TestPushDeltaCold(t *testing.T) {
	t.Parallel()
	p := commandtest.NewPushDepot(t)
	dir := t.TempDir()
	n := newNightly(t, 600<<10)
	// The files of two architectures have one name: those of x64 become cold.
	for _, arch := range []string{"x64", "x64", "x86"} {
		n.dir = filepath.Join(dir, arch)
		if err := os.MkdirAll(n.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		n.next(t)
		p.Must(t, "push", "--product", "app", "--version", fmt.Sprint(n.build), dir)
	}
	if out := p.Must(t, "cool", "--after", "0s", "--now", "--product", "app"); !strings.Contains(out, "2 contents became cold") {
		t.Errorf("cool: %s, want two cold contents", out)
	}
	n.dir = filepath.Join(dir, "x64")
	total := n.next(t)
	r, err := p.Pusher().Do(t.Context(), client.PushOptions{PushSpec: wire.PushSpec{Product: "app", Version: "next"}, Paths: []string{dir}})
	if err != nil || r.SentFiles != 1 || r.WireBytes > total/4 {
		t.Errorf("push: %+v, %v; want one of two files sent, at most a quarter of %d bytes", r, err, total)
	}
	n.isServed(t, p.Serving.URL, p.Token)
}

// TestNodesPushDelta: any server of a depot with PostgreSQL gives the blocks of a base, and takes
// recipes of parts for the one that has the parts.
func TestNodesPushDelta(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("depot: {peer_listen: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := commandtest.NewClusterWith(t, 2, func(int) []string { return []string{"--config", config, "--auth"} })
	token, _, _ := strings.Cut(c.Run(t, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	b := commandtest.NewBalancer(t)
	b.Reset(c.Nodes)
	n := newNightly(t, 70<<20, 900<<10) // five parts; whole
	for range 2 {
		total := n.next(t)
		p := &client.Pusher{
			URL: b.URL, Token: func() (string, error) { return token, nil }, HTTP: &http.Client{}, Plain: true,
			Backoff: 50 * time.Millisecond, RetryFor: 2 * time.Minute,
		}
		r, err := p.Do(t.Context(), client.PushOptions{PushSpec: wire.PushSpec{Product: "app", Version: fmt.Sprint(n.build)}, Paths: []string{n.dir}})
		most := total
		if n.build > 1 {
			most = total / 14
		}
		if err != nil || r.Files != 2 || r.WireBytes > most {
			t.Errorf("build %d: %+v, %v; want two files, and at most %d of %d bytes sent", n.build, r, err, most, total)
		}
		n.isServed(t, c.Nodes[n.build%2].URL, token)
	}
	if out := c.Run(t, "verify"); !strings.HasPrefix(out, "clean: ") {
		t.Errorf("verify: %s, want clean", out)
	}
}
