package intake

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// fakeStages keeps everything in memory.
type fakeStages struct {
	mu       sync.Mutex
	limit    atomic.Int64 // of a file, in bytes
	contents map[blob.Ref]*fakeContent
	stages   map[string]*fakeStage
	txs      []*fakeStage
	puts     int
	fail     error // of the next Commit
}

type fakeContent struct {
	stage.Arrived
	products map[string]bool // in which it is visible
}

type fakeStage struct {
	stage.Spec
	caller    string
	id        string
	files     map[string]blob.Ref // by path and content
	committed bool
}

func newFake() *fakeStages {
	s := &fakeStages{contents: map[blob.Ref]*fakeContent{}, stages: map[string]*fakeStage{}}
	s.limit.Store(64 << 20)
	return s
}

func (s *fakeStages) Limits(context.Context, stage.Caller) (stage.Limits, error) {
	return stage.Limits{MaxFile: s.limit.Load()}, nil
}

func (s *fakeStages) Open(_ context.Context, c stage.Caller, spec stage.Spec) (stage.State, bool, error) {
	if !c.Write(spec.Product) {
		return stage.State{}, false, &stage.Refusal{Kind: stage.Forbidden, Text: "may not write"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if spec.Collect {
		for _, f := range s.stages {
			if f.Collect && f.caller == c.ID && f.Labels == spec.Labels {
				return stage.State{ID: f.id}, true, nil
			}
		}
	}
	f := &fakeStage{Spec: spec, caller: c.ID, id: fmt.Sprintf("stage%d", len(s.stages)), files: map[string]blob.Ref{}}
	s.stages[f.id] = f
	if spec.Collect {
		f.committed = true
		s.txs = append(s.txs, f)
	}
	return stage.State{ID: f.id}, false, nil
}

func (s *fakeStages) get(c stage.Caller, id string) (*fakeStage, error) {
	f, ok := s.stages[id]
	if !ok || f.caller != c.ID {
		return nil, &stage.Refusal{Kind: stage.NotFound, Text: "there is no such stage"}
	}
	if c.Again != nil {
		if err := c.Again(context.Background(), f.Product); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (s *fakeStages) readable(c stage.Caller, k *fakeContent, product *string) bool {
	for p := range k.products {
		if c.Read(p) && (product == nil || *product == p) {
			return true
		}
	}
	return false
}

func (s *fakeStages) Enter(_ context.Context, c stage.Caller, id string, e stage.Entry) (stage.Receipt, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.get(c, id)
	if err != nil {
		return stage.Receipt{}, false, err
	}
	k, ok := s.contents[e.Ref]
	if !ok || !s.readable(c, k, nil) {
		return stage.Receipt{}, false, nil
	}
	f.files[e.Path+" "+e.Ref.String()] = e.Ref
	if f.Collect {
		k.products[f.Product] = true
	}
	return stage.Receipt{Path: e.Path}, true, nil
}

func (s *fakeStages) Staged(_ context.Context, c stage.Caller, id, sha1 string) (stage.Receipt, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.get(c, id)
	if err != nil {
		return stage.Receipt{}, false, err
	}
	for path, ref := range f.files {
		if s.contents[ref].SHA1 == sha1 {
			return stage.Receipt{Path: path[:strings.LastIndexByte(path, ' ')]}, true, nil
		}
	}
	return stage.Receipt{}, false, nil
}

func (s *fakeStages) Refuse(_ context.Context, c stage.Caller, id string, _ stage.Entry, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.get(c, id)
	return err
}

func (s *fakeStages) PutClaimed(_ context.Context, c stage.Caller, id string, e stage.Entry, body io.Reader, check func(stage.Arrived) error) (stage.Arrived, error) {
	b, err := io.ReadAll(body)
	if err != nil {
		return stage.Arrived{}, err
	}
	path := e.Path
	kind := symfile.KindUnknown
	if e.As != "" {
		if kind, err = objfile.ParseForced(e.As); err != nil {
			return stage.Arrived{}, err
		}
	}
	a := stage.Arrived{Content: record.Content{Ref: blob.Sum(b), Size: int64(len(b))}, SHA1: sha1Hex(b)}
	objects, err := objfile.Identify(bytes.NewReader(b), a.Size, path, objfile.Options{Kind: kind})
	for _, o := range objects {
		a.Objects = append(a.Objects, o.Object)
	}
	if errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken) {
		return a, &stage.Refusal{Kind: stage.NotSymbol, Text: err.Error()}
	} else if err != nil {
		return a, err
	}
	s.mu.Lock()
	k, known := s.contents[a.Ref]
	a.Had = known && s.readable(c, k, nil)
	if f, err := s.get(c, id); err == nil {
		a.Other = s.hasOther(f.Product, &a)
	}
	s.mu.Unlock()
	if check != nil {
		if err := check(a); err != nil {
			return a, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	f, err := s.get(c, id)
	if err != nil {
		return a, err
	}
	if !known {
		k = &fakeContent{Arrived: a, products: map[string]bool{}}
		s.contents[a.Ref] = k
	}
	f.files[path+" "+a.Ref.String()] = a.Ref
	if f.Collect {
		k.products[f.Product] = true
	}
	return a, nil
}

// hasOther reports whether a product has other bytes with the id of an object. The caller
// holds mu.
func (s *fakeStages) hasOther(product string, a *stage.Arrived) bool {
	for _, k := range s.contents {
		for _, o := range k.Objects {
			if k.products[product] && k.Ref != a.Ref && slices.ContainsFunc(a.Objects, func(p symfile.Object) bool {
				return p.Kind == o.Kind && p.Name == o.Name && p.DebugID == o.DebugID && o.DebugID != (debugid.ID{})
			}) {
				return true
			}
		}
	}
	return false
}

func (s *fakeStages) Find(_ context.Context, c stage.Caller, q stage.Query) ([]stage.Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []stage.Found
	for _, k := range s.contents {
		if !s.readable(c, k, q.Product) {
			continue
		}
		is := q.SHA1 != "" && q.SHA1 == k.SHA1
		f := stage.Found{Content: k.Content, SHA1: k.SHA1, Objects: k.Objects}
		for _, o := range k.Objects {
			is = is || q.SHA1 == "" && q.Lookup.Finds(o)
		}
		if is {
			list = append(list, f)
		}
	}
	return list, nil
}

func (s *fakeStages) Commit(_ context.Context, c stage.Caller, id string, _ stage.Commit) (stage.Committed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail; err != nil {
		s.fail = nil
		return stage.Committed{}, err
	}
	f, err := s.get(c, id)
	if err != nil {
		return stage.Committed{}, err
	}
	if len(f.files) == 0 {
		return stage.Committed{}, &stage.Refusal{Kind: stage.Invalid, Text: "the stage is empty"}
	}
	for _, ref := range f.files {
		s.contents[ref].products[f.Product] = true
	}
	for i, t := range s.txs {
		if t.Labels == f.Labels && mapsEqual(t.files, f.files) {
			f.committed = true
			return stage.Committed{Transaction: int64(i + 1), Again: true}, nil
		}
	}
	f.committed = true
	s.txs = append(s.txs, f)
	return stage.Committed{Transaction: int64(len(s.txs))}, nil
}

func mapsEqual(a, b map[string]blob.Ref) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

func (s *fakeStages) Abandon(_ context.Context, c stage.Caller, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.get(c, id); err != nil {
		return err
	}
	delete(s.stages, id)
	return nil
}

// transactions describes all transactions: "product version: path, path".
func (s *fakeStages) transactions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []string{}
	for _, t := range s.txs {
		if len(t.files) == 0 {
			continue // a collecting stage in which everything was refused
		}
		var files []string
		for p := range t.files {
			files = append(files, p[:strings.LastIndexByte(p, ' ')])
		}
		slices.Sort(files)
		list = append(list, strings.Join(strings.Fields(t.Product+" "+t.Version+" "+t.Class), " ")+": "+strings.Join(files, ", "))
	}
	return list
}

// open counts the stages that are neither committed nor abandoned.
func (s *fakeStages) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.stages {
		if !f.committed {
			n++
		}
	}
	return n
}

// server is a test server: tokens "good" may write all, "game" the product Game
// only, "reader" nothing. Without a token it asks for one.
type server struct {
	*fakeStages
	*httptest.Server
	h   *Handler
	cfg Config
	dir string
}

// restart replaces the handler by another one of the same folder. If the first is
// killed, it does not close anything.
func (s *server) restart(t *testing.T, killed bool) {
	t.Helper()
	old := s.h
	if killed {
		t.Cleanup(func() { _ = old.Close() })
	} else if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.h, err = New(s.cfg); err != nil {
		t.Fatal(err)
	}
}

func whoOf(token string) (Who, *Denied) {
	all, none := func(string) bool { return true }, func(string) bool { return false }
	switch token {
	case "":
		return Who{Caller: stage.Caller{Read: none, Write: none}, Anonymous: true}, &Denied{http.StatusUnauthorized, "credentials are required"}
	case "good":
		return Who{Caller: stage.Caller{ID: "test:good", Name: "good", Read: all, Write: all}, Writer: true, Credential: "good"}, nil
	case "game":
		game := func(p string) bool { return p == "Game" }
		return Who{Caller: stage.Caller{ID: "test:game", Name: "game", Read: game, Write: game}, Writer: true, Defaults: stage.Labels{Product: "Game", Class: "nightly"}}, nil
	case "reader":
		return Who{Caller: stage.Caller{ID: "test:reader", Name: "reader", Read: all, Write: none}}, nil
	}
	return Who{Caller: stage.Caller{Read: none, Write: none}, Anonymous: true}, &Denied{http.StatusUnauthorized, "invalid credentials"}
}

func newServer(t *testing.T, change ...func(*Config)) *server {
	t.Helper()
	s := &server{fakeStages: newFake(), dir: t.TempDir()}
	cfg := Config{Stages: s.fakeStages, Dir: s.dir}
	for _, f := range change {
		f(&cfg)
	}
	s.cfg = cfg
	var err error
	if s.h, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segs, err := layout.Segments(r.URL.EscapedPath())
		if err != nil || !Claims(r.Method, segs) {
			http.Error(w, "not an upload", http.StatusTeapot)
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == "" {
			token = r.Header.Get("Auth-Token")
		}
		in := Request{Segs: segs, Origin: "http://" + r.Host, Challenge: []string{`Basic realm="test"`}}
		in.Who, in.Denied = whoOf(token)
		in.Token = func(_ context.Context, secret string) (Who, *Denied) { return whoOf(secret) }
		s.h.ServeIntake(w, r, in)
	}))
	t.Cleanup(func() {
		s.Close()
		if err := s.h.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.h.sentry.root.Stat("."); !errors.Is(err, os.ErrClosed) { // Windows removes no folder that is open
			t.Errorf("the folder of chunks after Close: %v, want it closed", err)
		}
		if n := s.open(); n != 0 && !t.Failed() {
			t.Logf("%d stages are open at the end", n)
		}
	})
	return s
}

// do sends a request with the token "good", unless the header has credentials or
// "-" says none.
func (s *server) do(t *testing.T, method, path string, body io.Reader, header ...string) (status int, text string, h http.Header) {
	t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = s.URL + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer good")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "-" {
			r.Header.Del(header[i])
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, string(b), res.Header
}

// expect sends a request and compares the status and a part of the body.
func (s *server) expect(t *testing.T, method, path string, body io.Reader, wantStatus int, wantText string, header ...string) string {
	t.Helper()
	status, text, _ := s.do(t, method, path, body, header...)
	if status != wantStatus || !strings.Contains(text, wantText) {
		t.Errorf("%s %s: status %d, %q; want %d with %q", method, path, status, text, wantStatus, wantText)
	}
	return text
}

func (s *server) wantTransactions(t *testing.T, want ...string) {
	t.Helper()
	if got := s.transactions(); !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("builds:\n%q\nwant\n%q", got, want)
	}
}

func sha1Hex(b []byte) string {
	sum := sha1.Sum(b)
	return hex.EncodeToString(sum[:])
}

// object returns the first object of a file.
func object(t testing.TB, b []byte, name string) symfile.Object {
	t.Helper()
	list, err := objfile.Identify(bytes.NewReader(b), int64(len(b)), name, objfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Object
}

func data(t testing.TB, name string) []byte { return symtest.Testdata(t, name) }
