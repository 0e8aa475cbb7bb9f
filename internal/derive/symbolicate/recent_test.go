package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"unsafe"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestRecent: files are found again without asking the index, for callers who see the same products,
// as long as the index does not change, and if none may come from elsewhere.
func TestRecent(t *testing.T) {
	t.Parallel()
	generation, gerr, finds := uint64(1), error(nil), 0
	r := &recentAnswers{generation: func(context.Context) (uint64, error) { return generation, gerr }}
	found := &files{list: []*piece{pieceOf(&record.Hit{Stored: record.Stored{Ref: blob.Ref{1}}})}}
	answer, failure := Answer{Source: blob.Ref{1}, From: "elf a"}, error(nil)
	ask := func(module string, products ...string) {
		t.Helper()
		a, f, err := r.find(t.Context(), Ask{Products: products, Module: ModuleQuery{DebugID: module}},
			func(context.Context, Ask, bool) (Answer, *files, error) {
				finds++
				return answer, found, failure
			})
		if err != failure || a.From != answer.From || err != nil && f != found {
			t.Errorf("%+v, %v, %v; want what was found", a, f, err)
		}
	}
	finder := func(what string, want int, asks func()) {
		t.Helper()
		finds = 0
		if asks(); finds != want {
			t.Errorf("%s: the files were looked for %d times, want %d", what, finds, want)
		}
	}
	finder("one module", 1, func() { ask("A"); ask("A"); ask("A") })
	finder("others", 3, func() { ask("B"); ask("A", "p"); ask("A", "p", "q"); ask("A", "p"); ask("A") })
	finder("no product", 1, func() {
		a, _, err := r.find(t.Context(), Ask{Products: []string{}, Module: ModuleQuery{DebugID: "A"}},
			func(context.Context, Ask, bool) (Answer, *files, error) {
				finds++
				return Answer{}, nil, fs.ErrNotExist
			})
		if a.From != "" || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a caller who sees no product is answered %+v, %v", a, err)
		}
	})
	finder("files without a product", 2, func() { ask("N", ""); ask("N", []string{}...); ask("N", "") })
	finder("other lists of products", 2, func() { ask("M", "p", "1:q"); ask("M", "p1:", "q"); ask("M", "p", "1:q") })
	finder("long texts", 2, func() { ask(strings.Repeat("A", maxRecentKey+1)); ask(strings.Repeat("A", maxRecentKey+1)) })
	body := strings.Repeat("body", 1<<20)
	ask(body[:9])
	for k := range r.list {
		if k.module.DebugID == body[:9] && unsafe.StringData(k.module.DebugID) == unsafe.StringData(body) {
			t.Error("a part of a request keeps the whole request in memory")
		}
	}
	generation++
	finder("a new generation", 1, func() { ask("A"); ask("A") })
	gerr = errors.New("no generation")
	finder("no generation", 2, func() { ask("A"); ask("A") })
	gerr = nil
	failure = fs.ErrNotExist
	finder("not found", 2, func() { ask("C"); ask("C") })
	failure = nil
	found.missing = []string{"a.dwo"}
	finder("a missing part", 2, func() { ask("D"); ask("D") })
	found.missing, found.alternate = nil, "abcd"
	finder("a missing supplementary file", 2, func() { ask("E"); ask("E") })
	found.alternate = ""
	answer.Source = blob.Ref{}
	finder("a file of a tree", 2, func() { ask("F"); ask("F") })
	answer.Source = blob.Ref{1}
	for i := range 3 * maxRecent {
		ask(fmt.Sprint(i))
	}
	if len(r.list) > maxRecent {
		t.Errorf("%d answers are kept, want at most %d", len(r.list), maxRecent)
	}
	r = nil
	finder("nothing is kept", 2, func() { ask("A"); ask("A") })
}
