package unpackcache_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/files/unpackcache"
)

// TestGrowing: a reader gets the first bytes while the file is still being filled, and a
// failure at the end reaches it.
func TestGrowing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  error
	}{{"complete", nil}, {"damaged", errors.New("damaged")}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := unpackcache.New(unpackcache.Options{Dir: dir})
			goOn, given := make(chan struct{}), make(chan struct{})
			r, err := s.Open("key", func(_ context.Context, w io.Writer) error {
				_, _ = io.WriteString(w, "first ")
				<-goOn
				_, _ = io.WriteString(w, "second")
				return c.end
			}, func() { close(given) })
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Ready(t.Context()); err != nil {
				t.Fatalf("Ready: %v, want the first bytes", err)
			}
			p := make([]byte, 5)
			if n, err := r.ReadAt(p, 0); err != nil || string(p[:n]) != "first" {
				t.Fatalf("the first bytes are %q, %v, want %q", p[:n], err, "first")
			}
			if !r.Growing() || r.OSFile() != nil {
				t.Errorf("a file that is being filled is complete, want it to grow")
			}
			close(goOn)
			_, err = r.Wait(t.Context())
			if !errors.Is(err, c.end) {
				t.Fatalf("Wait: %v, want %v", err, c.end)
			}
			p = make([]byte, 20)
			n, err := r.ReadAt(p, 6)
			if c.end == nil && (err != io.EOF || string(p[:n]) != "second") {
				t.Errorf("the rest is %q, %v, want %q", p[:n], err, "second")
			}
			if c.end != nil && !errors.Is(err, c.end) {
				t.Errorf("reading a damaged file: %v, want %v", err, c.end)
			}
			<-given
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if s.Has("key") != (c.end == nil) {
				t.Errorf("the file is kept: %v, want %v", s.Has("key"), c.end == nil)
			}
			s.Close()
			if left, _ := os.ReadDir(dir); len(left) > 0 || s.Held() != 0 {
				t.Errorf("%d files and %d bytes are left, want none", len(left), s.Held())
			}
		})
	}
}

// TestAdd: a file that nobody asked for displaces no other.
func TestAdd(t *testing.T) {
	t.Parallel()
	s := unpackcache.New(unpackcache.Options{Dir: t.TempDir(), KeptBytes: 10})
	defer s.Close()
	add := func(key, text string) (bool, error) {
		return s.Add(t.Context(), key, int64(len(text)), strings.NewReader(text))
	}
	for _, c := range []struct {
		key, text string
		want      bool
	}{{"a", "123456", true}, {"a", "123456", false}, {"b", "12345", false}, {"c", "1234", true}} {
		if got, err := add(c.key, c.text); got != c.want || err != nil {
			t.Errorf("Add %s of %d bytes: %v, %v, want %v", c.key, len(c.text), got, err, c.want)
		}
	}
	if _, err := s.Add(t.Context(), "d", 3, strings.NewReader("")); err == nil && s.Has("d") {
		t.Error("a file that is shorter than announced is kept")
	}
	r, err := s.Open("a", nil, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(io.NewSectionReader(r, 0, 100)); err != nil || !bytes.Equal(got, []byte("123456")) {
		t.Errorf("the added file has %q, %v", got, err)
	}
}

// TestClosed: a closed cache opens nothing, and gives back what fill would have used.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := unpackcache.New(unpackcache.Options{Dir: t.TempDir(), HeldFiles: 1})
	wait := make(chan struct{})
	fill := func(ctx context.Context, _ io.Writer) error {
		close(wait)
		<-ctx.Done()
		return ctx.Err()
	}
	r, err := s.Open("a", fill, func() {})
	if err != nil {
		t.Fatal(err)
	}
	<-wait
	if _, err := s.Open("b", fill, func() {}); !errors.Is(err, unpackcache.ErrFull) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("beyond the limit: %v, want %v", err, unpackcache.ErrFull)
	}
	s.Close()
	if err := r.Ready(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("a file whose cache was closed: %v, want %v", err, context.Canceled)
	}
	_ = r.Close()
	given := false
	if _, err := s.Open("c", fill, func() { given = true }); !errors.Is(err, os.ErrClosed) || !given {
		t.Errorf("a closed cache: %v, given %v, want %v, true", err, given, os.ErrClosed)
	}
}

// TestForget: a forgotten file stays readable for those who have it, and is filled again
// for others.
func TestForget(t *testing.T) {
	s := unpackcache.New(unpackcache.Options{Dir: t.TempDir()})
	defer s.Close()
	fills := 0
	open := func() *unpackcache.Reader {
		t.Helper()
		r, err := s.Open("key", func(_ context.Context, w io.Writer) error { fills++; _, err := io.WriteString(w, "text"); return err }, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	old := open()
	s.Forget("key")
	again := open()
	if b := make([]byte, 4); fills != 2 {
		t.Errorf("filled %d times, want 2", fills)
	} else if _, err := old.ReadAt(b, 0); err != nil || string(b) != "text" {
		t.Errorf("forgotten file: %q, %v, want its text", b, err)
	}
	_, _ = old.Close(), again.Close()
	s.Forget("key")
	if s.Has("key") || s.Held() != 0 {
		t.Errorf("%d bytes are held after the last file was forgotten, want none", s.Held())
	}
}
