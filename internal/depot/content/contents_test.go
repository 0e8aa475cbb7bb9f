package content_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

func open(t *testing.T) *hometest.Home {
	t.Helper()
	return hometest.Open(t, filepath.Join(t.TempDir(), "depot"))
}

// harms are what happens to a stored content, and what is said of it; "" is nothing.
var harms = map[string]struct {
	do   func(t *testing.T, r *hometest.Home, body []byte)
	says string
}{
	"intact":  {func(*testing.T, *hometest.Home, []byte) {}, ""},
	"flipped": {func(t *testing.T, r *hometest.Home, body []byte) { r.Flip(t, body) }, "SHA-256"},
	"missing": {func(t *testing.T, r *hometest.Home, body []byte) { r.Lose(t, body) }, "missing"},
	"cut": {func(t *testing.T, r *hometest.Home, body []byte) {
		if err := os.Truncate(r.Path(body), int64(len(body)-1)); err != nil {
			t.Fatal(err)
		}
	}, "bytes"},
}

// damageOf is what the index has about a content, when everything is recorded.
func damageOf(t *testing.T, r *hometest.Home, body []byte) string {
	t.Helper()
	r.Contents.Close()
	what, err := r.DB.Damages.Of(t.Context(), blob.Sum(body))
	if err != nil {
		t.Fatal(err)
	}
	return what
}

// TestOpen: what is damaged or missing is not found, is recorded for all processes and is
// logged.
func TestOpen(t *testing.T) {
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			body := hometest.Sym("app", 1, 3000)
			r.Add(t, "app", "1", body)
			h.do(t, r, body)
			f, err := r.Contents.Open(t.Context(), hometest.Content(body))
			if h.says != "" {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("open: %v, want fs.ErrNotExist", err)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes, %v; want the %d that were added", len(got), err, len(body))
				}
			}
			if what := damageOf(t, r, body); (what != "") != (h.says != "") || !strings.Contains(what, h.says) {
				t.Errorf("the index has the damage %q, want one with %q", what, h.says)
			}
			if logged := strings.Contains(r.Said.String(), blob.Sum(body).String()); logged != (h.says != "") {
				t.Errorf("the log names the content: %v, want %v:\n%s", logged, h.says != "", r.Said)
			}
		})
	}
}

// TestReportDenied: what this process may not read is logged once for what refuses, and is no
// damage.
func TestReportDenied(t *testing.T) {
	r := open(t)
	body := hometest.Sym("app", 1, 100)
	r.Add(t, "app", "1", body)
	for range 2 {
		r.Contents.Report(fmt.Errorf("blob: %w", &account.DeniedError{Path: "/srv/blobs/28", What: "it is root's", Cure: "sudo chown"}))
	}
	if said := r.Said.String(); strings.Count(said, "/srv/blobs/28") != 1 || !strings.Contains(said, "it is root's") || !strings.Contains(said, "sudo chown") {
		t.Errorf("the log says %q, want the folder once, why, and the cure", said)
	}
	if n, err := r.Contents.Suspected(t.Context()); err != nil || len(n) > 0 {
		t.Errorf("%d contents are suspected, %v; want none", len(n), err)
	}
}

// TestOpenUnknown: a content that the index does not list is not found, and no damage.
func TestOpenUnknown(t *testing.T) {
	r := open(t)
	body := hometest.Sym("app", 1, 100)
	if _, err := r.Contents.Open(t.Context(), hometest.Content(body)); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrDamaged) {
		t.Errorf("open of an unknown content: %v, want fs.ErrNotExist and not blob.ErrDamaged", err)
	}
	if said := r.Said.String(); said != "" {
		t.Errorf("the log says %q, want nothing", said)
	}
}

// TestOpenOtherSize: a content whose row has another size than its bytes is damaged.
func TestOpenOtherSize(t *testing.T) {
	r := open(t)
	body := hometest.Sym("app", 1, 3000)
	r.Add(t, "app", "1", body)
	c := hometest.Content(body)
	c.Size++
	if _, err := r.Contents.Open(t.Context(), c); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open: %v, want fs.ErrNotExist", err)
	}
	if what := damageOf(t, r, body); !strings.Contains(what, "instead of") {
		t.Errorf("the index has the damage %q, want one that names both sizes", what)
	}
}

// TestOpenHashed hashes also what the index does not list.
func TestOpenHashed(t *testing.T) {
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			body := hometest.Sym("app", 1, blob.HashedAtOpen+1000)
			if err := r.Blobs.Put(t.Context(), blob.Sum(body), int64(len(body)), bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
			h.do(t, r, body)
			f, err := r.Contents.OpenHashed(t.Context(), blob.Sum(body))
			if err == nil {
				defer f.Close()
			}
			if (err == nil) != (h.says == "") || err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("open: %v, want fs.ErrNotExist if the content was harmed", err)
			}
		})
	}
}

// TestHash says what is wrong with the bytes of a content that the index lists.
func TestHash(t *testing.T) {
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			body := hometest.Sym("app", 1, 3000)
			r.Add(t, "app", "1", body)
			h.do(t, r, body)
			what, err := r.Contents.Hash(t.Context(), hometest.Content(body), nil)
			if err != nil || (what != "") != (h.says != "") || !strings.Contains(what, h.says) {
				t.Errorf("hash: %q, %v; want %q", what, err, h.says)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if what, err := r.Contents.Hash(ctx, hometest.Content(body), nil); !errors.Is(err, context.Canceled) || what != "" {
				t.Errorf("hash under a context that has ended: %q, %v; want context.Canceled", what, err)
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		what, err := open(t).Contents.Hash(t.Context(), hometest.Content([]byte("x")), nil)
		if what != "" || err != nil {
			t.Errorf("hash of a content that the index does not list: %q, %v; want nothing: it may have been collected", what, err)
		}
	})
	t.Run("pace", func(t *testing.T) {
		r := open(t)
		body, stop := hometest.Sym("app", 1, 3000), errors.New("stop")
		r.Add(t, "app", "1", body)
		if _, err := r.Contents.Hash(t.Context(), hometest.Content(body), func(int) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("hash: %v, want the error of pace", err)
		}
	})
}

// TestLost: a suspicion is not believed but tried, and ends if the bytes are intact.
func TestLost(t *testing.T) {
	r := open(t)
	bodies := map[string][]byte{}
	var list []record.Content
	n := 0
	for name, h := range harms {
		n++
		body := hometest.Sym("app", n, 3000)
		r.Add(t, "app", "1", body)
		h.do(t, r, body)
		if err := r.DB.Damages.Note(t.Context(), blob.Sum(body), "suspected"); err != nil {
			t.Fatal(err)
		}
		bodies[name], list = body, append(list, hometest.Content(body))
	}
	lost, err := r.Contents.Lost(t.Context(), list)
	if err != nil || len(lost) != len(harms)-1 {
		t.Fatalf("lost: %v, %v; want the %d that were harmed", lost, err, len(harms)-1)
	}
	for _, c := range lost {
		if c.Ref == blob.Sum(bodies["intact"]) {
			t.Error("the intact content is among the lost ones, want that it is not")
		}
	}
	suspected, err := r.Contents.Suspected(t.Context())
	if err != nil || suspected[blob.Sum(bodies["intact"])] || len(suspected) != len(lost) {
		t.Errorf("%d contents are suspected, %v; want the %d lost ones", len(suspected), err, len(lost))
	}
	if lost, err := r.Contents.Lost(t.Context(), nil); err != nil || lost != nil {
		t.Errorf("lost of no contents: %v, %v; want none", lost, err)
	}
}

// TestReport logs a damage once an hour, and records it for others if it may.
func TestReport(t *testing.T) {
	r := open(t)
	body := hometest.Sym("app", 1, 100)
	r.Add(t, "app", "1", body)
	damage := &blob.DamageError{Ref: blob.Sum(body), What: "it was eaten"}
	logged := func(when string, want int) {
		t.Helper()
		if n := strings.Count(r.Said.String(), "level=ERROR"); n != want {
			t.Errorf("%s: %d errors in the log, want %d", when, n, want)
		}
	}
	r.Contents.Report(errors.New("of the network"))
	logged("after an error that is no damage", 0)
	r.Contents.Report(damage)
	r.Contents.Report(damage)
	logged("after two reports", 1)
	r.Later(time.Hour)
	r.Contents.Report(damage)
	logged("an hour later", 2)
	if what := damageOf(t, r, body); what != damage.What {
		t.Errorf("the index has the damage %q, want %q", what, damage.What)
	}
}

// TestReportReadOnly: who may not write the index reports nevertheless, and does not complain.
func TestReportReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "depot")
	r := hometest.Open(t, dir)
	body := hometest.Sym("app", 1, 100)
	r.Add(t, "app", "1", body)
	db, err := index.Open(t.Context(), filepath.Join(dir, "index.db"), index.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var said symtest.Output
	reader := content.New(r.Blobs, false, db, slog.New(slog.NewTextHandler(&said, nil)), time.Now)
	reader.Report(&blob.DamageError{Ref: blob.Sum(body), What: "it was eaten"})
	reader.Close()
	if text := said.String(); !strings.Contains(text, "it was eaten") || strings.Contains(text, "cannot record") {
		t.Errorf("the log of a reader is %q, want the damage alone", text)
	}
	if what := damageOf(t, r, body); what != "" {
		t.Errorf("the index has the damage %q, want none: it was opened for reading", what)
	}
}

// stuck is a store that cannot delete.
type stuck struct{ error }

func (s stuck) Delete(context.Context, blob.Ref) error { return s.error }

func TestDeleter(t *testing.T) {
	other := errors.New("the disk is gone")
	for _, c := range []struct {
		fails, want error
		inUse       int
	}{{nil, nil, 0}, {blob.ErrInUse, nil, 1}, {other, other, 0}} {
		n := 0
		err := content.Deleter(t.Context(), stuck{c.fails}, func(blob.Ref) { n++ })(blob.Ref{})
		if !errors.Is(err, c.want) || n != c.inUse {
			t.Errorf("the store says %v: %v, in use %d; want %v, %d", c.fails, err, n, c.want, c.inUse)
		}
		if err := content.Deleter(t.Context(), stuck{c.fails}, nil)(blob.Ref{}); !errors.Is(err, c.want) {
			t.Errorf("the store says %v, and nobody is told of files in use: %v, want %v", c.fails, err, c.want)
		}
	}
}

// TestIsAway: only the silence of the database or of the bucket is logged elsewhere.
func TestIsAway(t *testing.T) {
	for err, want := range map[error]bool{engine.ErrUnavailable: true, content.ErrUnavailable: true, fs.ErrNotExist: false, blob.ErrDamaged: false} {
		if got := content.IsAway(err); got != want {
			t.Errorf("IsAway(%v): %v, want %v", err, got, want)
		}
	}
}
