package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
)

// slowClient is the writer of an answer whose client does not read.
type slowClient struct {
	http.ResponseWriter
	sent chan<- struct{} // receives when the answer is sent
	end  <-chan struct{}
}

func (c slowClient) Write(b []byte) (int, error) {
	select {
	case c.sent <- struct{}{}:
		<-c.end
	case <-c.end:
	}
	return len(b), nil
}

// slowBody is a body that does not come.
type slowBody struct {
	read chan<- struct{} // receives when the body is read
	end  <-chan struct{}
}

func (b slowBody) Read([]byte) (int, error) {
	select {
	case b.read <- struct{}{}:
		<-b.end
	case <-b.end:
	}
	return 0, io.ErrUnexpectedEOF
}

// requestOf is a request of somebody who reads all, for tests without a server.
func requestOf(t *testing.T, method, path string, body io.Reader) *Request {
	t.Helper()
	return &Request{
		Request: httptest.NewRequestWithContext(t.Context(), method, path, body), Segments: strings.Split(strings.Trim(strings.SplitN(path, "?", 2)[0], "/"), "/"),
		Principal: Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}, Body: body, Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"},
	}
}

// TestSlowClientsKeepNoPlace: clients that do not read their answers, and those that do not
// send their forms, keep no others from theirs.
func TestSlowClientsKeepNoPlace(t *testing.T) {
	t.Parallel()
	d := filesDepot(t, "pdb/hello-x64.pdb")
	match := `{"files":[{"name":"hello-x64.pdb","id":"F9EFE0B6AE7500394C4C44205044422E1"}]}`
	for _, c := range []struct {
		name, method, path, body string
		waits                    bool // the body does not come
		places                   int
	}{
		{"pages that are not read", "GET", "/-/search?q=*", "", false, maxPages},
		{"forms that do not come", "POST", "/-/prefs", "", true, maxPages},
		{"logs that do not come", "POST", "/-/trace", "", true, maxPages},
		{"lists that are not read", "POST", "/-/api/v1/match", match, false, maxExamining},
		{"usage that is not read", "GET", "/-/api/v1/usage", "", false, maxComputing},
	} {
		a := New(Config{Files: depot.FinderIn(d), Catalog: d.Catalog, Transactions: d, Retention: d.Retention})
		began, end, gone := make(chan struct{}), make(chan struct{}), make(chan struct{}, c.places)
		serve := func(w http.ResponseWriter, r *Request) {
			if IsAPI(r.Segments) {
				_ = a.Serve(w, r)
			} else {
				_ = a.Pages.Serve(w, r)
			}
		}
		for range c.places {
			var body io.Reader = strings.NewReader(c.body)
			var w http.ResponseWriter = slowClient{httptest.NewRecorder(), began, end}
			if c.waits {
				body, w = slowBody{began, end}, httptest.NewRecorder()
			}
			r := requestOf(t, c.method, c.path, body)
			go func() {
				serve(w, r)
				gone <- struct{}{}
			}()
			<-began
		}
		path := c.path
		method, body := c.method, io.Reader(strings.NewReader(c.body))
		if c.waits {
			method, path, body = "GET", "/-/prefs", http.NoBody
		}
		w, answered := httptest.NewRecorder(), make(chan struct{})
		go func() {
			serve(w, requestOf(t, method, path, body))
			close(answered)
		}()
		select {
		case <-answered:
		case <-time.After(pageTime + 5*time.Second):
			t.Errorf("%s: another client has no answer after a while, want it at once", c.name)
		}
		close(end)
		<-answered
		if w.Code != http.StatusOK {
			t.Errorf("%s: another client gets %d, %s; want 200", c.name, w.Code, w.Body)
		}
		for range c.places {
			<-gone
		}
	}
}

// fullCatalog counts the comparisons of versions that run at the same time.
type fullCatalog struct {
	Catalog
	began chan struct{}
	end   chan struct{}
}

func (c fullCatalog) Compare(context.Context, depot.Scope, string, string, string, string, int) ([]depot.Difference, string, error) {
	c.began <- struct{}{}
	<-c.end
	return nil, "", nil
}

// TestComparesAtOnce: few versions are compared at the same time, because all of their
// differences are in memory.
func TestComparesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fullCatalog{began: make(chan struct{}, 3*maxComputing), end: make(chan struct{})}
		a := New(Config{Catalog: c})
		answered := make(chan int)
		for range 3 * maxComputing {
			r := requestOf(t, http.MethodGet, "/-/api/v1/versions/diff?product=a&here=1&there=2", http.NoBody)
			go func() {
				w := httptest.NewRecorder()
				_ = a.Serve(w, r)
				answered <- w.Code
			}()
		}
		synctest.Wait()
		if n := len(c.began); n != maxComputing {
			t.Errorf("%d comparisons run at the same time, want %d", n, maxComputing)
		}
		close(c.end)
		for range 3 * maxComputing {
			if status := <-answered; status != http.StatusOK {
				t.Errorf("a comparison answers %d, want 200", status)
			}
		}
	})
}
