package stage

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// severalOf returns what PutSeveral receives of files.
func severalOf(files ...testFile) (list []Entry, body []byte) {
	for _, f := range files {
		list = append(list, f.entry())
		body = append(body, f.body...)
	}
	return list, body
}

// answers returns the answers of verdicts.
func answers(list []Verdict) (words []string) {
	for _, v := range list {
		words = append(words, v.Answer)
	}
	return words
}

// TestSeveral: contents that come in one request are accepted as those that come alone, each on its own.
func TestSeveral(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{})
	id := opened(t, s, c, Spec{})
	first, second, damaged, third := newTestFile(1, 300), newTestFile(2, 200_000), newTestFile(3, 5000), newTestFile(4, 4000)
	text := testFile{path: "out/no.sym", body: []byte("no symbols")}
	wanted(t, s, c, id, first, second, damaged, third, text)
	put(t, s, c, id, first)
	list, body := severalOf(first, second, text, damaged, third)
	body[len(body)-len(third.body)-1] ^= 1
	verdicts, err := s.PutSeveral(t.Context(), c, id, list, bytes.NewReader(body))
	if want := []string{Have, Have, Refuse, Send, Have}; err != nil || !slices.Equal(answers(verdicts), want) {
		t.Fatalf("five contents: %v, %v; want %v", verdicts, err, want)
	}
	if !strings.Contains(verdicts[2].Reason, "no.sym") || !strings.Contains(verdicts[3].Reason, "SHA-256") {
		t.Errorf("the reasons are %q and %q, want the file and the SHA-256", verdicts[2].Reason, verdicts[3].Reason)
	}
	if _, err := s.Commit(t.Context(), c, id, Commit{Partial: true}); refusedAs(t, "commit", err, Conflict).Missing[0] != blob.Sum(damaged.body) {
		t.Error("the damaged content is not missing")
	}
	// Again: what has arrived, and what was refused, is dropped.
	list, body = severalOf(first, text, damaged)
	verdicts, err = s.PutSeveral(t.Context(), c, id, list, bytes.NewReader(body))
	if want := []string{Have, Refuse, Have}; err != nil || !slices.Equal(answers(verdicts), want) {
		t.Fatalf("contents again: %v, %v; want %v", verdicts, err, want)
	}
	done, err := s.Commit(t.Context(), c, id, Commit{Partial: true})
	if err != nil || done.Files != 4 || len(done.Refused) != 1 {
		t.Fatalf("commit: %+v, %v; want 4 files and one refused", done, err)
	}
	for _, f := range []testFile{first, second, damaged, third} {
		if !d.found(f) {
			t.Errorf("%s is not found", f.path)
		}
	}
	if left := d.staged(); len(left) > 0 {
		t.Errorf("%q are left of the stage", left)
	}
}

// TestSeveralRefused: a request that is wrong as a whole is refused. What arrived in front of the
// place where it ends need not come again.
func TestSeveralRefused(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{})
	one, two, three, other := newTestFile(1, 300), newTestFile(2, 3000), newTestFile(3, 3000), newTestFile(4, 300)
	all, body := severalOf(one, two, three)
	longer := slices.Clone(all)
	longer[1].Size++
	huge := slices.Repeat([]Entry{{Size: MaxSeveralBytes, Ref: blob.Sum(nil)}}, 1)
	huge = append(huge, all...)
	many := make([]Entry, MaxSeveral+1)
	for i := range many {
		many[i].Ref[0] = byte(i)
	}
	strange, strangeBody := severalOf(one, other)
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		list []Entry
		body io.Reader
		kind Kind // of the refusal; zero: the error is broken
		left int  // contents that are still awaited
	}{
		{"another size", longer, bytes.NewReader(body), Invalid, 3},
		{"a content twice", append(slices.Clone(all), all[0]), bytes.NewReader(body), Invalid, 3},
		{"too many bytes", huge, bytes.NewReader(body), TooLarge, 3},
		{"a negative size", []Entry{{Size: -1}}, bytes.NewReader(body), TooLarge, 3},
		{"too many contents", many, bytes.NewReader(body), TooLarge, 3},
		{"a content that is not of the stage", strange, bytes.NewReader(strangeBody), Conflict, 3},
		{"an early end", all, bytes.NewReader(body[:len(body)-1]), WrongHash, 1},
		{"bytes behind the end", all, bytes.NewReader(append(slices.Clone(body), 0)), Invalid, 0},
		{"a lost connection", all, io.MultiReader(bytes.NewReader(body[:len(one.body)+100]), &failingReader{broken}), 0, 2},
	} {
		id := opened(t, s, c, Spec{})
		wanted(t, s, c, id, one, two, three)
		_, err := s.PutSeveral(t.Context(), c, id, tt.list, tt.body)
		if tt.kind != 0 {
			refusedAs(t, tt.name, err, tt.kind)
		} else if !errors.Is(err, broken) {
			t.Errorf("%s: %v, want the error of the connection", tt.name, err)
		}
		st, err := s.State(t.Context(), c, id)
		if err != nil || len(st.Missing) != tt.left {
			t.Errorf("%s: %d contents are awaited, %v; want %d", tt.name, len(st.Missing), err, tt.left)
		}
		if err := s.Abandon(t.Context(), c, id); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutSeveral(t.Context(), c, id, all, bytes.NewReader(body)); err == nil {
			t.Errorf("%s: contents of a stage that was deleted are accepted", tt.name)
		}
	}
	if left := d.staged(); len(left) > 0 {
		t.Errorf("%q are left of the stages", left)
	}
	id := opened(t, s, c, Spec{})
	wanted(t, s, c, id, one, two, three)
	_, err := s.PutSeveral(t.Context(), testCaller("another"), id, all, bytes.NewReader(body))
	refusedAs(t, "contents for the stage of another caller", err, NotFound)
	id = opened(t, s, c, Spec{Collect: true})
	_, err = s.PutSeveral(t.Context(), c, id, all, bytes.NewReader(body))
	refusedAs(t, "contents for a stage that collects", err, Conflict)
}

type failingReader struct{ err error }

func (f *failingReader) Read([]byte) (int, error) { return 0, f.err }
