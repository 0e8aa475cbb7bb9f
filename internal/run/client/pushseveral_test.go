package client

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// several receives a body of several contents.
func (s *pushServer) several(w http.ResponseWriter, body []byte, answer func(int, any)) {
	r := bufio.NewReader(bytes.NewReader(body))
	list, err := wire.ReadContents(r, s.limits.Several)
	if err != nil {
		problem(w, 404, "not-found") // as a server of before, or one that cannot read it
		return
	}
	var verdicts []wire.PushVerdict
	for _, c := range list {
		b, _ := io.ReadAll(io.LimitReader(r, c.Size))
		v := wire.PushVerdict{Answer: wire.PushHave}
		if s.spoil > 0 {
			s.spoil--
			b = bytes.ToUpper(b)
		}
		switch {
		case s.refuseIn != "" && bytes.Contains(b, []byte(s.refuseIn)):
			v = wire.PushVerdict{Answer: wire.PushRefuse, Reason: "because"}
		case blob.Sum(b).String() != c.SHA256:
			v = wire.PushVerdict{Answer: wire.PushSend, Reason: "another hash"}
		default:
			s.have[c.SHA256] = true
		}
		verdicts = append(verdicts, v)
	}
	answer(200, verdicts)
}

// smallFiles makes a folder with n small files that do not compress, and as many that do.
func smallFiles(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for i := range n {
		text := fmt.Appendf(nil, "MODULE Linux x86_64 %032X0 text%d.so\n%s", i+1, i, strings.Repeat("PUBLIC 1000 0 function\n", 20))
		for name, b := range map[string][]byte{fmt.Sprintf("a%d.sym", i): sym(i, 500), fmt.Sprintf("b%d.sym", i): text} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// TestPushSeveral: small contents go several in one request, to a server that takes it; what the
// server does not take is sent alone.
func TestPushSeveral(t *testing.T) {
	t.Parallel()
	const n = 6
	for _, c := range []struct {
		what    string
		change  func(s *pushServer, p *Pusher)
		several int // requests with several contents; -1: that depends on the order of the files
		alone   int // contents that are sent alone
		told    string
	}{
		{"a new server", func(*pushServer, *Pusher) {}, -1, 0, ""},
		{"all in one list", func(_ *pushServer, p *Pusher) { p.Plain = true }, 3, 0, ""},
		{"an old server", func(s *pushServer, _ *Pusher) { s.limits.Several = 0 }, 0, 2 * n, ""},
		{"too large for a request with several", func(s *pushServer, _ *Pusher) { s.limits.SeveralBytes = 1000 }, 0, 2 * n, ""},
		{"an old server among new ones", func(s *pushServer, p *Pusher) { s.limits.Several, p.Plain, s.old = 4, true, true }, 3, 2 * n, "one by one"},
		{"a damaged content", func(s *pushServer, p *Pusher) { s.spoil, p.Plain = 1, true }, 3, 1, "has arrived damaged and is sent again"},
		{"a damaged list", func(s *pushServer, p *Pusher) { s.damageList, p.Plain = 1, true }, 3, 4, "one by one"},
		{"lost answers", func(s *pushServer, p *Pusher) { s.cutPut, p.Plain = 2, true }, 5, 0, "EOF"},
	} {
		s := newPushServer()
		s.limits.CheckBatch, s.limits.Several, s.limits.SeveralBytes = 100, 4, 1<<20
		p := newTestPusher(t, s)
		p.Parallel = 1
		var told []string
		p.Retrying = func(failed error, _ time.Duration) { told = append(told, failed.Error()) }
		c.change(s, p)
		r, err := p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{smallFiles(t, n)}})
		if err != nil || r.Transaction != 1 || r.Files != 2*n || r.SentFiles != 2*n {
			t.Errorf("%s: %+v, %v; want %d files, all of them sent", c.what, r, err, 2*n)
		}
		if c.told != strings.Join(told, "") && !strings.Contains(strings.Join(told, ""), c.told) || c.told == "" && len(told) > 0 {
			t.Errorf("%s: told %q, want %q", c.what, told, c.told)
		}
		alone := 0
		for request, times := range s.requests {
			if method, last, _ := strings.Cut(request, " "); method == "PUT" && last != "contents" {
				alone += times
			}
		}
		if c.several < 0 && (s.encoded == 0 || s.requests["PUT contents"]+alone > n) {
			t.Errorf("%s: %d requests, %d of them in zstd; want some in zstd, and at most half as many as files", c.what, s.requests["PUT contents"]+alone, s.encoded)
		}
		if c.several >= 0 && (s.requests["PUT contents"] != c.several || alone != c.alone) {
			t.Errorf("%s: %d requests with several contents and %d alone, want %d and %d", c.what, s.requests["PUT contents"], alone, c.several, c.alone)
		}
	}
}

// TestPushSeveralRefused: a content that the server refuses among others is reported; the others arrive.
func TestPushSeveralRefused(t *testing.T) {
	t.Parallel()
	s := newPushServer()
	s.limits.CheckBatch, s.limits.Several, s.limits.SeveralBytes, s.refuseIn = 100, 64, 1<<20, "text3.so"
	p := newTestPusher(t, s)
	var refused []string
	p.Event = func(e PushEvent) {
		if e.Event == "refused" {
			refused = append(refused, filepath.Base(e.Path)+" "+e.Reason)
		}
	}
	r, err := p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{smallFiles(t, 6)}})
	if err == nil || r.SentFiles != 11 || !slices.Equal(refused, []string{"b3.sym because"}) {
		t.Errorf("push: %+v, %v, refused %q; want 11 files sent and b3.sym refused", r, err, refused)
	}
}

// TestWholeReader: a content that has become shorter is an error, not the beginning of the next one.
func TestWholeReader(t *testing.T) {
	t.Parallel()
	for text, fails := range map[string]bool{"whole": false, "who": true} {
		b, err := io.ReadAll(&wholeReader{strings.NewReader(text), 5, "lib.so"})
		if string(b) != text || (err != nil) != fails || fails && !strings.HasPrefix(err.Error(), "lib.so: it changed") {
			t.Errorf("%q is read as %q, %v; want an error: %v", text, b, err, fails)
		}
	}
}
