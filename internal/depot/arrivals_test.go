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

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/queue"
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
	if err := d.Arrivals.Wish(t.Context(), "token 1", []symfile.Lookup{lookup}); err != nil {
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
