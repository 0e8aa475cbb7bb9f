// Package webtest helps the tests of the API and of the pages: depots with real files,
// requests, and clients that are slow.
package webtest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
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

// RequestOf is a request of somebody who reads all, for tests without a server.
func RequestOf(t *testing.T, method, path string, body io.Reader) *web.Request {
	t.Helper()
	return &web.Request{
		Request:   httptest.NewRequestWithContext(t.Context(), method, path, body),
		Segments:  strings.Split(strings.Trim(strings.SplitN(path, "?", 2)[0], "/"), "/"),
		Principal: web.Principal{Name: "all", Rights: auth.Rights{Admitted: true, All: true}}, Body: body,
		Allow: func(time.Duration) {}, Leave: func() {}, Challenges: []string{"Bearer"},
	}
}

// ActsOf returns what the API and the pages of a depot do.
func ActsOf(d *depot.Depot) *web.Acts {
	var c web.Config
	c.Use(d)
	return web.New(c)
}

// Slow is a request of clients that do not read their answers, or do not send their bodies.
type Slow struct {
	Name, Method, Path, Body string
	Waits                    bool   // the body does not come
	Other                    string // the address that another client reads then; "": Path
	Places                   int    // how many of these requests are answered at the same time
}

// KeepNoPlace wants that slow clients keep no others from their answers.
func KeepNoPlace(t *testing.T, serve func(http.ResponseWriter, *web.Request), cases ...Slow) {
	t.Helper()
	for _, c := range cases {
		began, end, gone := make(chan struct{}), make(chan struct{}), make(chan struct{}, c.Places)
		for range c.Places {
			var body io.Reader = strings.NewReader(c.Body)
			var w http.ResponseWriter = slowClient{httptest.NewRecorder(), began, end}
			if c.Waits {
				body, w = slowBody{began, end}, httptest.NewRecorder()
			}
			r := RequestOf(t, c.Method, c.Path, body)
			go func() {
				serve(w, r)
				gone <- struct{}{}
			}()
			<-began
		}
		path := c.Path
		method, body := c.Method, io.Reader(strings.NewReader(c.Body))
		if c.Waits {
			method, path, body = "GET", c.Other, http.NoBody
		}
		w, answered := httptest.NewRecorder(), make(chan struct{})
		go func() {
			serve(w, RequestOf(t, method, path, body))
			close(answered)
		}()
		select {
		case <-answered:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: another client has no answer after a while, want it at once", c.Name)
		}
		close(end)
		<-answered
		if w.Code != http.StatusOK {
			t.Errorf("%s: another client gets %d, %s; want 200", c.Name, w.Code, w.Body)
		}
		for range c.Places {
			<-gone
		}
	}
}

// Clients of the tests.
var (
	NoOne   = web.Principal{Anonymous: true}
	Insider = web.Principal{Name: "reader", Rights: auth.Rights{Admitted: true, Products: []string{"app"}}}
)

// Testdata is the folder of the real files.
const Testdata = "../../../../testdata"

// FileOf returns a file of testdata.
func FileOf(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Testdata, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// content is a file that does not change.
type content struct{ *bytes.Reader }

func (content) Changed() bool { return false }

// FilesDepot opens a depot with files of testdata in the product app.
func FilesDepot(t *testing.T, names ...string) *depot.Depot {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range names {
		files[name] = FileOf(t, name)
	}
	return DepotOf(t, files)
}

// DepotOf opens a depot with files in the product app.
func DepotOf(t testing.TB, files map[string][]byte) *depot.Depot {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	tx, err := d.Begin(t.Context(), depot.TxInfo{Product: "app"})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if _, err := tx.Add(t.Context(), depot.Source{Path: name, Name: filepath.Base(name), Content: content{bytes.NewReader(b)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}
