package client

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// TestPushRecipes: a changed file is sent as a recipe, and whole if the server cuts blocks in
// another way, proposes nothing alike, has no such content or another one than it says, or if the
// user wants it.
func TestPushRecipes(t *testing.T) {
	t.Parallel()
	before := sym(1, 300_000)
	now := bytes.Replace(before, []byte("f1.pdb"), []byte("f2.pdb"), 1)
	for _, c := range []struct {
		what    string
		change  func(s *pushServer, p *Pusher)
		recipes int // requests with recipes
		whole   bool
	}{
		{"in parts", func(*pushServer, *Pusher) {}, 4, false},
		{"in one request", func(s *pushServer, _ *Pusher) { s.limits.WholeBelow = 1 << 20 }, 1, false},
		{"another method", func(s *pushServer, _ *Pusher) { s.limits.Blocks = "gear-2" }, 0, true},
		{"an old server", func(s *pushServer, _ *Pusher) { s.limits.Blocks, s.base = "", nil }, 0, true},
		{"nothing alike", func(s *pushServer, _ *Pusher) { s.base = sym(2, 300_000) }, 0, true},
		{"no such base", func(s *pushServer, _ *Pusher) { s.gone = true }, 0, true},
		{"another base", func(s *pushServer, _ *Pusher) { s.limits.WholeBelow, s.changed = 1<<20, true }, 1, true},
		{"not wanted", func(_ *pushServer, p *Pusher) { p.NoDelta = true }, 0, true},
	} {
		s := newPushServer()
		s.limits.Blocks, s.base, s.limits.Part = blocks.Method, before, 80_000
		p := newTestPusher(t, s)
		p.Plain = true
		c.change(s, p)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f.sym"), now, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{dir}})
		if err != nil || r.Transaction != 1 || s.recipes != c.recipes || (r.WireBytes >= int64(len(now))) != c.whole {
			t.Errorf("%s: %+v, %v, %d recipes; want %d, and the whole file sent: %v", c.what, r, err, s.recipes, c.recipes, c.whole)
		}
	}
}

// decode replaces the body of a request that is a recipe. It returns false if there is no such
// base.
func (s *pushServer) decode(base string, body []byte) (plain []byte, ok bool) {
	if base == "" {
		return body, true
	}
	s.recipes++
	from := bytes.Clone(s.base)
	if s.changed {
		from[len(from)/2]++
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(blocks.NewReader(bytes.NewReader(body), bytes.NewReader(from), int64(len(from)))); err != nil {
		return fmt.Appendf(nil, "%v", err), true // another hash
	}
	return b.Bytes(), !s.gone
}
