package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/peer"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// openServers opens one depot in PostgreSQL and a bucket n times, as servers that
// download for each other.
func openServers(t *testing.T, n int, opt Options) (list []*Depot) {
	t.Helper()
	open := newServers(t)
	for i := range n {
		d := open(opt)
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Errorf("server %d: close: %v", i, err)
			}
		})
		list = append(list, d)
	}
	for i, d := range list {
		symtest.Await(t, time.Minute, fmt.Sprintf("all servers at server %d", i), func() bool {
			s, ok := d.Nodes.Status()
			return ok && s.Peers == int64(n) && s.Known
		})
	}
	return list
}

// newDatabase returns a database of the shared server that has all tables of an
// index.
func newDatabase(t *testing.T) string {
	t.Helper()
	return pgtest.Shared(t).Made(t, "index", func(where string) error {
		db, err := index.Open(t.Context(), where, index.Options{Placed: true})
		if err != nil {
			return err
		}
		return db.Close()
	})
}

// newServers returns a function that opens a further server of one depot, which
// the caller closes.
func newServers(t *testing.T) (open func(opt Options) *Depot) {
	t.Helper()
	return serversOf(t, buckettest.S3(t))
}

// serversOf is newServers with a store.
func serversOf(t *testing.T, s3 *buckettest.Peer) (open func(opt Options) *Depot) {
	t.Helper()
	where := newDatabase(t)
	return func(opt Options) *Depot {
		t.Helper()
		b, err := upstream.OpenBucket(&bucket.S3Config{Bucket: s3.Bucket, Prefix: "depot", Endpoint: s3.Endpoint, Region: "us-east-1", AccessKey: s3.User, SecretKey: s3.Secret},
			upstream.NewDialer(upstream.DialerOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		opt.Bucket, opt.Local = b, t.TempDir()
		opt.Nodes = nodes.Options{Listener: ln, Address: ln.Addr().String()}
		d, err := Open(t.Context(), where, opt)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// A SymCache file that another server has is downloaded once for the clients of
// all servers, and so is a miss.
func TestNodesSymCacheOnce(t *testing.T) {
	peer.SetReach(time.Minute) // of a busy machine
	far := farServer{&elsewhere{name: "far"}}
	begin := make(chan struct{})
	far.fetch = func(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		<-begin
		if ask.Request.SymCache.Key.Name != "app.pdb" {
			return nil, &fetch.Failure{Source: "far", Class: fetch.ClassNotFound}
		}
		return symReply("3.1.0", "x"), nil
	}
	list := openServers(t, 3, Options{Upstreams: []Upstream{{Source: far}}})
	ask := func(path, want string) {
		t.Helper()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				a := symAsk(t, path)
				a.Hold = holdFor(2 * time.Minute)
				got, err := list[i%3].AnswerSymCache(t.Context(), a)
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				text := got.Action.String()
				if got.File != nil {
					b, err := readAll(got.File)
					if err := errors.Join(err, got.File.Close()); err != nil {
						t.Errorf("client %d: %v", i, err)
					}
					text = fmt.Sprintf("%s %s", got.Version, b)
				}
				if text != want {
					t.Errorf("client %d: %s: %s, want %s", i, path, text, want)
				}
			})
		}
		all.Wait()
	}
	// Each server has a waiting client before the other server answers.
	go func() {
		served := func() (n int64) {
			for _, d := range list {
				s, _ := d.Nodes.Status()
				n += s.Questions.Served
			}
			return n
		}
		_ = symtest.Poll(t.Context(), func() bool { return served() == 2 })
		close(begin)
	}()
	ask("/v3.1.0"+appPath, "3.1.0 x")
	if n := far.asked.Load(); n != 1 {
		t.Errorf("%d requests to the other server, want 1", n)
	}
	ask("/v3.1.0/other.pdb/"+appGUID, "not found")
	if n := far.asked.Load(); n != 2 {
		t.Errorf("%d requests to the other server after a miss, want 2", n)
	}
}

// A form is made by one server, and known to all.
func TestNodesForms(t *testing.T) {
	list := openServers(t, 2, Options{})
	body := testdata(t, "pdb/hello-x64.pdb")
	number := add(t, list[0], "", body)
	var want forms.Form
	if err := list[0].Files(t.Context(), number, func(f TxFile) error {
		want = forms.Form{Ref: f.Ref, Tool: transcode.Cab, Name: "hello-x64.pdb", Time: time.Unix(1e9, 0)}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// While one server makes it, the other does not.
	if _, err := list[0].db.Nodes.Once(t.Context(), want.Work(), func(ctx context.Context) error {
		if _, err := list[1].forms.Derive(ctx, want); !errors.Is(err, forms.ErrMadeElsewhere) {
			t.Errorf("derive what another server makes: error %v, want %v", err, forms.ErrMadeElsewhere)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := list[0].forms.Known(t.Context(), want); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a form that nobody has made: error %v, want the error %v", err, fs.ErrNotExist)
	}
	made, err := list[1].forms.Derive(t.Context(), want)
	if err != nil || made.Size == 0 {
		t.Fatalf("derive: %+v, %v; want a content", made, err)
	}
	if got, err := list[0].forms.Derive(t.Context(), want); err != nil || got != made {
		t.Errorf("derive what another server has made: %+v, %v, want %+v", got, err, made)
	}
}

// A worker that waits at one server gets a job that another server enters.
func TestNodesWorker(t *testing.T) {
	waiting := make(chan struct{}, 10)
	list := openServers(t, 2, Options{Jobs: JobOptions{Hooks: jobs.Hooks{Waiting: func(string) { waiting <- struct{}{} }}}})
	kind := symtestKind{}
	for _, d := range list {
		d.queue.Register(kind, jobs.Limits{})
	}
	type result struct {
		jobs []jobs.Leased
		err  error
	}
	got := make(chan result, 1)
	go func() {
		l, err := list[1].queue.Lease(t.Context(), jobs.Worker{Name: "w", Slots: 1, Abilities: []jobs.Ability{{Kind: kind.Name(), Variant: 1}}}, time.Minute)
		got <- result{l, err}
	}()
	<-waiting
	if _, _, err := list[0].queue.Enqueue(t.Context(), jobs.Entry{Job: jobs.Job{Kind: kind.Name(), Key: "k", Variant: 1}}); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.err != nil || len(r.jobs) != 1 || r.jobs[0].Key != "k" {
		t.Fatalf("leased %+v, error %v; want the job of the other server", r.jobs, r.err)
	}
	// Its end wakes who waits at the server that entered it.
	ended := make(chan jobs.State, 1)
	go func() {
		st, err := list[0].queue.Wait(t.Context(), r.jobs[0].ID, jobs.Queued)
		if err != nil {
			t.Error(err)
		}
		ended <- st
	}()
	if err := list[1].queue.Fail(t.Context(), r.jobs[0].Proof(), jobs.Failure{Class: "bad"}); err != nil {
		t.Fatal(err)
	}
	if st := <-ended; st != jobs.Failed {
		t.Errorf("the job has the state %v, want %v", st, jobs.Failed)
	}
}

// symtestKind is a kind of job that workers do.
type symtestKind struct{ jobs.Kind }

func (symtestKind) Name() string              { return "test" }
func (symtestKind) Abilities() []jobs.Ability { return nil }
func (symtestKind) CanStart() bool            { return false }
func (symtestKind) Existing(context.Context, jobs.Job) (*jobs.Outcome, error) {
	return nil, nil
}
func (symtestKind) Input(context.Context, jobs.Job) (jobs.Input, error) {
	return jobs.Input{}, nil
}
func (symtestKind) Rule(string) jobs.Rule                             { return jobs.Rule{} }
func (symtestKind) CheckAbility(a jobs.Ability) (jobs.Ability, error) { return a, nil }
func (symtestKind) CheckFailure(f jobs.Failure) (jobs.Failure, error) { return f, nil }

// sharedSource is an upstream whose limit servers share.
type sharedSource struct {
	*elsewhere
	servers *atomic.Int64
}

func (s sharedSource) Traits() fetch.Traits {
	return fetch.Traits{
		Paused: func() (time.Time, string) { return time.Time{}, "" }, Pause: func(time.Time, string) {},
		Share: func(servers int) { s.servers.Store(int64(servers)) },
	}
}

// logLines keeps what several goroutines log.
type logLines struct {
	mu  sync.Mutex
	all strings.Builder // guarded by mu
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func (l *logLines) count(what string) int { return strings.Count(l.text(), what) }

// Each server knows the workers of all, how many servers share the limits of
// upstreams, and which of them have other rules of access.
func TestNodesFacts(t *testing.T) {
	var servers atomic.Int64
	var logs logLines
	log := slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	list := openServers(t, 2, Options{Upstreams: []Upstream{{Source: sharedSource{&elsewhere{name: "far"}, &servers}}}, Log: log})
	for _, d := range list {
		d.queue.Register(symtestKind{}, jobs.Limits{})
	}
	policies := make([]atomic.Pointer[string], 2)
	set := func(i int, hash string) { policies[i].Store(&hash) }
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i, d := range list {
		set(i, "same")
		d.Nodes.UsePolicy(func() string { return *policies[i].Load() })
		all.Go(func() { d.Nodes.Work(ctx) })
	}
	w := jobs.Worker{Name: "w", Slots: 2, Abilities: []jobs.Ability{{Kind: "test", Variant: 3, Version: "3.1"}}}
	if _, err := list[1].queue.Lease(t.Context(), w, 0); err != nil {
		t.Fatal(err)
	}
	symtest.Await(t, time.Minute, "the worker at the other server", func() bool {
		got := list[0].queue.Abilities("test")
		return len(got) == 1 && got[0] == w.Abilities[0]
	})
	if got := list[0].queue.Workers(); len(got) != 1 || got[0].Name != "w" || got[0].Slots != 2 {
		t.Errorf("workers %+v, want %+v", got, w)
	}
	// A worker that both servers know counts once.
	if _, err := list[0].queue.Lease(t.Context(), w, 0); err != nil {
		t.Fatal(err)
	}
	if got := list[0].queue.Workers(); len(got) != 1 {
		t.Errorf("workers %+v, want one", got)
	}
	for _, d := range list {
		d.queue.ForgetWorker("w")
	}
	symtest.Await(t, time.Minute, "the end of the worker", func() bool { return len(list[0].queue.Workers())+len(list[1].queue.Workers()) == 0 })
	symtest.Await(t, time.Minute, "the number of servers", func() bool { return servers.Load() == 2 })

	differ := func(want int) func() bool {
		return func() bool {
			a, _ := list[0].Nodes.Status()
			b, _ := list[1].Nodes.Status()
			return a.Differ == want && b.Differ == want
		}
	}
	const warning = "servers of the depot have other rules of access than this one"
	if !differ(0)() || logs.count(warning) != 0 {
		t.Errorf("servers with the same policy differ: %s", logs.text())
	}
	set(1, "another")
	symtest.Await(t, time.Minute, "servers that differ", differ(1))
	set(0, "another")
	symtest.Await(t, time.Minute, "servers that agree again", differ(0))
	if n := logs.count(warning); n != 2 {
		t.Errorf("%d warnings, want one of each server: %s", n, logs.text())
	}
}
