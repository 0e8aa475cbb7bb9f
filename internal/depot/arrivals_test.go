package depot

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/symfile"
)

// got is a request that a receiver of webhooks has got.
type got struct {
	id, signature, timestamp string
	body                     []byte
}

// receiver is a receiver of webhooks that answers with the status that status returns.
func receiver(t *testing.T, status func(n int) int) (url string, requests chan got) {
	t.Helper()
	requests = make(chan got, 100)
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- got{r.Header.Get("webhook-id"), r.Header.Get("webhook-signature"), r.Header.Get("webhook-timestamp"), body}
		n++
		w.WriteHeader(status(n))
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

// TestWebhook: when a build brings a file that was wished for, the receiver is told of it, again until it
// answers with success, and the caller sees it in the products that the caller reads.
func TestWebhook(t *testing.T) {
	t.Parallel()
	url, requests := receiver(t, func(n int) int { return []int{500, 302, 204}[min(n, 3)-1] })
	c := &clock{t: time.Now()}
	settled := make(chan queue.Job, 100)
	secret := []byte("a secret of 28 bytes in all!")
	opt := Options{Now: c.now, Webhooks: []arrivals.Hook{{URL: url + "/hooks/0123", Secret: secret, Client: noRedirects()}}}
	opt.Jobs.Hooks.Settled = func(j queue.Job) { settled <- j }
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	f, path := newNightly("app", 7, 100).build(0)
	add(t, d, "other", file{"unrelated.txt", []byte("MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF1 unrelated\nPUBLIC 1 0 f\n")})
	parts := strings.Split(strings.Trim(path, "/"), "/")
	lookup := symfile.Lookup{Name: symfile.Fold(parts[0]), ID: symfile.Fold(parts[1]), Role: symfile.AnyRole}
	if err := d.Arrivals.Wish(t.Context(), "token 1", []symfile.Lookup{lookup}, c.now()); err != nil {
		t.Fatal(err)
	}
	build := add(t, d, "app", f)
	working(t, d)
	for attempt := range 3 {
		q := <-requests
		var at int64
		if _, err := fmt.Sscan(q.timestamp, &at); err != nil {
			t.Fatalf("the time stamp is %q", q.timestamp)
		}
		if want := arrivals.Sign(secret, q.id, at, q.body); q.signature != want {
			t.Errorf("attempt %d: the signature is %q, want %q", attempt, q.signature, want)
		}
		var m struct {
			Type string
			Data struct{ Arrivals []arrivals.Item }
		}
		if err := json.Unmarshal(q.body, &m); err != nil {
			t.Fatal(err)
		}
		if q.id != "arrivals-1-1" || m.Type != "symdepot.arrivals" || len(m.Data.Arrivals) != 1 {
			t.Fatalf("attempt %d: message %s: %s; want one arrival", attempt, q.id, q.body)
		}
		if a := m.Data.Arrivals[0]; a.Build != build || a.Product != "app" || a.ID != lookup.ID || a.Name != lookup.Name || a.Number != 1 {
			t.Errorf("attempt %d: the arrival is %+v, want %s %s of build %d", attempt, a, lookup.Name, lookup.ID, build)
		}
		if attempt == 2 {
			break
		}
		<-settled
		list, err := d.Jobs().List(t.Context(), jobs.Filter{Kind: arrivals.DeliverKind})
		if err != nil || len(list) != 1 {
			t.Fatalf("%d jobs, error %v; want one", len(list), err)
		}
		if j := list[0]; strings.Contains(j.Detail, "0123") || !strings.Contains(j.Detail, " answered ") {
			t.Errorf("the attempt of a job %s ended with %q, want the status without the path of the address", j.Kind, j.Detail)
		}
		c.advance(time.Minute)
	}
	for _, x := range []struct {
		scope answer.Scope
		after int64
		want  int
	}{{answer.Scope{}, 0, 1}, {answer.Scope{Products: []string{"app"}}, 0, 1}, {answer.Scope{Products: []string{"other"}}, 0, 0}, {answer.Scope{}, 1, 0}} {
		if list, err := d.Arrivals.After(t.Context(), x.scope.Index(), x.after, 10); err != nil || len(list) != x.want {
			t.Errorf("%+v after %d: %d arrivals, error %v; want %d", x.scope, x.after, len(list), err, x.want)
		}
	}
	// Without a wish, a build makes no job.
	before, err := d.Jobs().List(t.Context(), jobs.Filter{Kind: arrivals.MatchKind})
	if err != nil {
		t.Fatal(err)
	}
	again, _ := newNightly("app", 8, 100).build(1)
	add(t, d, "app", again)
	if list, err := d.Jobs().List(t.Context(), jobs.Filter{Kind: arrivals.MatchKind}); err != nil || len(list) != len(before) {
		t.Errorf("%d jobs, error %v; want the %d of before", len(list), err, len(before))
	}
}

func noRedirects() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// arrived returns the arrivals after a number.
func arrived(t *testing.T, d *Depot, after int64) []arrivals.Item {
	t.Helper()
	list, err := d.Arrivals.After(t.Context(), answer.Scope{}.Index(), after, 10)
	if err != nil {
		t.Fatal(err)
	}
	return arrivals.Items(list)
}

// TestArrivalsFromElsewhere: a wish ends with a download, also with one that came before the wish and after the question, and
// with a file of a watched folder. Receivers are told.
func TestArrivalsFromElsewhere(t *testing.T) {
	t.Parallel()
	url, requests := receiver(t, func(int) int { return 204 })
	source := &elsewhere{name: "up"}
	d, c := withUpstreams(t, Options{Webhooks: []arrivals.Hook{{URL: url, Secret: []byte("a secret of 28 bytes in all!"), Client: noRedirects()}}}, source)
	source.sends("app.sym", symFile(symID, 1000))
	wish := func(id string, since time.Time) {
		t.Helper()
		if err := d.Arrivals.Wish(t.Context(), "token 1", []symfile.Lookup{{ID: symfile.Fold(id), Role: symfile.AnyRole}}, since); err != nil {
			t.Fatal(err)
		}
	}
	start := c.now()
	wish(symID, start)
	wish("00000000000000000000000000000000F", start)
	const path = "app.pdb/" + symID + "/app.sym"
	if _, err := fetched(t.Context(), t, d, path); err != nil {
		t.Fatal(err)
	}
	list := arrived(t, d, 0)
	if len(list) != 1 || list[0].Source != "up" || list[0].Build != 0 || list[0].ID != symfile.Fold(symID) {
		t.Fatalf("the arrivals are %+v, want one from the upstream", list)
	}
	working(t, d)
	if q := <-requests; q.id != "arrivals-1-1" || !strings.Contains(string(q.body), `"source":"up"`) || strings.Contains(string(q.body), `"build"`) {
		t.Errorf("message %s: %s; want one arrival of an upstream", q.id, q.body)
	}
	// The download came while the stack was walked: after the question, before the wish.
	wish(symID, start)
	if list = arrived(t, d, 1); len(list) != 1 || list[0].Number != 2 || list[0].Source != "up" {
		t.Errorf("the arrivals are %+v, want the file again", list)
	}
	if list = arrived(t, d, 0); len(list) != 1 {
		t.Errorf("the arrivals are %+v, want the newest of the file alone", list)
	}
	// It was there before the question: so it is not what was missing.
	wish(symID, c.now().Add(time.Hour))
	if list = arrived(t, d, 2); len(list) != 0 {
		t.Errorf("the arrivals are %+v, want none", list)
	}

	// A watched folder. The files that the first scan finds count, too.
	dir := t.TempDir()
	folder, err := watch.Open(t.Context(), dir, watch.Options{Index: filepath.Join(t.TempDir(), "watched.db"), Product: "app"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	d.Watched.Use([]*watch.Folder{folder})
	const id, later = "11111111111111111111111111111111A", "22222222222222222222222222222222B"
	symtest.Put(t, dir, "one.sym", symFile(id, 1000))
	wish(id, c.now())
	wish(later, c.now())
	for i, want := range []string{id, later} {
		if i == 1 {
			symtest.Put(t, dir, "two.sym", symFile(later, 1000))
		}
		if _, err := folder.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		list := arrived(t, d, int64(2+i))
		if len(list) != 1 || list[0].ID != symfile.Fold(want) || list[0].Product != "app" || list[0].Source != "folder "+filepath.Base(dir) {
			t.Errorf("scan %d: the arrivals are %+v, want %s of the folder", i, list, want)
		}
	}
	list2, err := d.Arrivals.After(t.Context(), answer.Scope{Products: []string{"other"}}.Index(), 0, 10)
	if err != nil || len(list2) != 0 {
		t.Errorf("a caller of another product sees %+v, %v; want nothing", list2, err)
	}
	if sum, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("a fault: %+v", f) }, nil); err != nil {
		t.Errorf("verify: %+v, %v", sum, err)
	}
}
