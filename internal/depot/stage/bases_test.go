package stage

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// noisyFile is a Breakpad file of which two builds differ in their ids and a few bytes only.
func noisyFile(path string, build int) testFile {
	f := testFile{path: path, id: fmt.Sprintf("%032X1", 0x5000+build)}
	f.body = fmt.Appendf(nil, "MODULE windows x86_64 %s noisy.pdb\n", f.id)
	r := rand.New(rand.NewPCG(1, 2))
	for len(f.body) < 400_000 {
		f.body = fmt.Appendf(f.body, "PUBLIC %x 0 f%x\n", len(f.body), r.Uint64())
	}
	return f
}

// recipe returns the written recipe of a file from a stored one.
func recipe(t *testing.T, s *Stages, c Caller, id string, base blob.Ref, f testFile) []byte {
	t.Helper()
	list, err := s.Bases.Blocks(t.Context(), c, id, base)
	if err != nil {
		t.Fatalf("blocks: %v", err)
	}
	index, err := blocks.NewIndex(list)
	if err != nil {
		t.Fatal(err)
	}
	r, err := index.Recipe(bytes.NewReader(f.body))
	if err != nil {
		t.Fatal(err)
	}
	written, _ := r.Open(bytes.NewReader(f.body), 0, int64(len(f.body)))
	text, err := io.ReadAll(written)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pushed pushes files as one build.
func pushed(t *testing.T, s *Stages, c Caller, product string, files ...testFile) {
	t.Helper()
	id := opened(t, s, c, Spec{Labels: Labels{Product: product, Version: files[0].id}})
	put(t, s, c, id, wanted(t, s, c, id, files...)...)
	if _, err := s.Commit(t.Context(), c, id, Commit{}); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// TestRecipes: a file comes as a recipe from the last build at the most similar path, and a recipe that gives other bytes is refused by their hash.
func TestRecipes(t *testing.T) {
	t.Parallel()
	d := newTestDepot(t)
	s, c := d.stages(Options{}), testCaller("ci")
	x64, x86 := noisyFile("bin/x64/noisy.sym", 1), noisyFile("bin/x86/noisy.sym", 2)
	pushed(t, s, c, "Game", noisyFile("old/bin/x64/noisy.sym", 0))
	pushed(t, s, c, "Game", x64, x86)
	for i, f := range []testFile{noisyFile("out/x64/noisy.sym", 3), noisyFile("out/x86/noisy.sym", 4)} {
		short := newTestFile(i, 100)
		id := opened(t, s, c, Spec{Labels: Labels{Product: "Game", Version: f.path}})
		verdicts, err := s.Check(t.Context(), c, id, []Entry{f.entry(), short.entry()})
		want := blob.Sum(x64.body)
		if f.path == "out/x86/noisy.sym" {
			want = blob.Sum(x86.body)
		}
		if err != nil || verdicts[0] != (Verdict{Answer: Send, Base: want}) || verdicts[1] != (Verdict{Answer: Send}) {
			t.Fatalf("check of %s: %+v, %v; want the base %s, and none for a short file", f.path, verdicts, err, want)
		}
		text := recipe(t, s, c, id, want, f)
		if len(text) > len(f.body)/3 {
			t.Errorf("%s: a recipe of %d bytes for a file of %d", f.path, len(text), len(f.body))
		}
		feed := func(recipe []byte) error {
			body, err := s.Bases.FromRecipe(t.Context(), c, id, blob.Sum(f.body), want, bytes.NewReader(recipe))
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			_, err = s.Put(t.Context(), c, id, blob.Sum(f.body), body)
			return err
		}
		refusedAs(t, "half a recipe", feed(text[:len(text)/2]), Invalid)
		refusedAs(t, "a recipe of other bytes", feed(bytes.Replace(text, []byte(f.id), []byte(x64.id), 1)), WrongHash)
		refusedAs(t, "a recipe of more bytes", feed(append(bytes.Clone(text), 2, 'x')), WrongHash)
		if err := feed(text); err != nil {
			t.Fatalf("put a recipe: %v", err)
		}
		put(t, s, c, id, short)
		if _, err := s.Commit(t.Context(), c, id, Commit{}); err != nil || !d.found(f) {
			t.Fatalf("commit: %v, found %v", err, d.found(f))
		}
	}
}

// TestRecipesTellNothing: a caller gets neither proposals nor blocks nor bytes of what it may not
// read, and the answer is that for a content that nobody has.
func TestRecipesTellNothing(t *testing.T) {
	t.Parallel()
	d := newTestDepot(t)
	s, owner := d.stages(Options{}), testCaller("owner")
	secret := noisyFile("x/noisy.sym", 1)
	pushed(t, s, owner, "Secret", secret)
	pushed(t, s, owner, "Game", newTestFile(1, 100))
	ref := blob.Sum(secret.body)
	mine := noisyFile("x/noisy.sym", 2)
	for name, reads := range map[string]string{"a reader of another product": "Game", "a caller that reads nothing": "none"} {
		for _, product := range []string{"Game", "Secret"} {
			c := testCaller(name)
			c.Read = func(product string) bool { return product == reads }
			id := opened(t, s, c, Spec{Labels: Labels{Product: product}})
			verdicts, err := s.Check(t.Context(), c, id, []Entry{mine.entry()})
			if err != nil || verdicts[0] != (Verdict{Answer: Send}) {
				t.Errorf("%s pushes to %s: %+v, %v; want no base", name, product, verdicts, err)
			}
			for _, missing := range []blob.Ref{ref, blob.Sum([]byte("nobody has it"))} {
				want := refuse(NotFound, "there is no content %s to write recipes from: send the file itself", missing)
				_, err := s.Bases.Blocks(t.Context(), c, id, missing)
				if r := refusedAs(t, "blocks", err, NotFound); r.Text != want.Text {
					t.Errorf("%s asks for blocks: %q, want %q", name, r.Text, want.Text)
				}
				_, err = s.Bases.FromRecipe(t.Context(), c, id, blob.Sum(mine.body), missing, bytes.NewReader(nil))
				if r := refusedAs(t, "a recipe", err, NotFound); r.Text != want.Text {
					t.Errorf("%s sends a recipe: %q, want %q", name, r.Text, want.Text)
				}
			}
			other := testCaller("other")
			_, err = s.Bases.Blocks(t.Context(), other, id, ref)
			refusedAs(t, "blocks in the stage of another caller", err, NotFound)
		}
	}
}
