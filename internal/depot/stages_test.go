package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// pusher is a caller that may do everything.
func pusher(name string) stage.Caller {
	yes := func(string) bool { return true }
	return stage.Caller{ID: "test:" + name, Name: name, Read: yes, Write: yes}
}

// symbols returns n different symbol files, and the path under which each is
// requested.
func symbols[S byte | int](n int, seed S) (files []file, paths []string) {
	for i := range n {
		id := fmt.Sprintf("%08X2F41492B9369D6B9A059%02X7C2", i, seed)
		id = (id + "00000000000000000000000000000000")[:32] + "1"
		files = append(files, file{fmt.Sprintf("out/app%d.sym", i), bytes.Replace(symFile(id, 300), []byte("app.pdb"), fmt.Appendf(nil, "app%d.pdb", i), 1)})
		paths = append(paths, fmt.Sprintf("app%d.pdb/%s/app%d.sym", i, id, i))
	}
	return files, paths
}

func entry(f file) stage.Entry {
	return stage.Entry{Path: f.path, Size: int64(len(f.body)), Ref: blob.Sum(f.body)}
}

func entriesOf(files []file) (list []stage.Entry) {
	for _, f := range files {
		list = append(list, entry(f))
	}
	return list
}

func openStage(t *testing.T, d *Depot, c stage.Caller, spec stage.Spec) string {
	t.Helper()
	st, _, err := d.Stages().Open(t.Context(), c, spec)
	if err != nil {
		t.Fatalf("open a stage: %v", err)
	}
	return st.ID
}

// announced announces files and returns those that are to be sent.
func announced(t *testing.T, d *Depot, c stage.Caller, id string, files []file) (send []file) {
	t.Helper()
	v, err := d.Stages().Check(t.Context(), c, id, entriesOf(files))
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	for i := range v {
		if v[i].Answer == stage.Send {
			send = append(send, files[i])
		}
	}
	return send
}

func putAll(t *testing.T, d *Depot, c stage.Caller, id string, files []file) {
	t.Helper()
	for _, f := range files {
		if had, err := d.Stages().Put(t.Context(), c, id, blob.Sum(f.body), bytes.NewReader(f.body)); err != nil || had {
			t.Fatalf("put %s: had %t, %v; want a new content", f.path, had, err)
		}
	}
}

// wantRefusal checks the kind of a refusal.
func wantRefusal(t *testing.T, what string, err error, kind stage.Kind) *stage.Refusal {
	t.Helper()
	r, ok := errors.AsType[*stage.Refusal](err)
	if !ok || r.Kind != kind {
		t.Fatalf("%s: %v, want a refusal of kind %d", what, err, kind)
	}
	return r
}

func wantVisible(t *testing.T, d *Depot, files []file, paths []string, want bool) {
	t.Helper()
	for i, p := range paths {
		_, body, err := get(t, d, answer.Scope{}, p)
		switch {
		case want && (err != nil || !bytes.Equal(body, files[i].body)):
			t.Fatalf("%s: %d bytes, %v; want those that were pushed", p, len(body), err)
		case !want && !errors.Is(err, fs.ErrNotExist):
			t.Fatalf("%s: %v, want not found", p, err)
		}
	}
}

// wantClean checks that the index has no faults.
func wantClean(t *testing.T, d *Depot) {
	t.Helper()
	faults, err := d.db.Check(t.Context())
	if err != nil || len(faults) > 0 {
		t.Errorf("check of the index: %q, %v; want no faults", faults, err)
	}
}

// onDepots runs a test with a depot of each pair of engines.
func onDepots(t *testing.T, test func(t *testing.T, d *Depot)) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		test(t, d)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		pgtest.Shared(t)
		test(t, openServers(t, 1, Options{})[0])
	})
}

// TestPush pushes files, again, and some more of them: nothing is visible before
// the commit, and a rerun sends nothing and makes no transaction.
func TestPush(t *testing.T) {
	symtest.Sequential(t)
	onDepots(t, func(t *testing.T, d *Depot) {
		c, spec := pusher("ci"), stage.Spec{Labels: stage.Labels{Product: "Game", Version: "1", Branch: "main", Class: "nightly"}, Build: stage.Build{CI: "test", Commit: "abc"}}
		files, paths := symbols(20, 1)
		id := openStage(t, d, c, spec)
		send := announced(t, d, c, id, files)
		if len(send) != len(files) {
			t.Fatalf("%d of %d files are to be sent, want all", len(send), len(files))
		}
		putAll(t, d, c, id, send[:10])
		r := wantRefusal(t, "commit without all contents", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{})), stage.Conflict)
		if len(r.Missing) != 10 {
			t.Errorf("%d contents are missing, want 10", len(r.Missing))
		}
		if had, err := d.Stages().Put(t.Context(), c, id, blob.Sum(files[0].body), strings.NewReader("")); err != nil || !had {
			t.Errorf("put again: had %t, %v", had, err)
		}
		putAll(t, d, c, id, send[10:])
		wantVisible(t, d, files, paths, false)
		st, err := d.Stages().State(t.Context(), c, id)
		if err != nil || st.Got != 20 || st.Have != 0 || len(st.Missing) != 0 || st.Phase != stage.PhaseOpen {
			t.Errorf("state: %+v, %v; want 20 files", st, err)
		}
		manifest := stage.Manifest(entriesOf(files)).String()
		wantRefusal(t, "commit of other files", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{Manifest: strings.Repeat("0", 64)})), stage.Conflict)
		wantRefusal(t, "commit of more files", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{Files: 21})), stage.Conflict)
		done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Files: 20, Manifest: manifest})
		if err != nil || done.Transaction != 1 || done.Files != 20 || done.KnownBytes != 0 || done.Again {
			t.Fatalf("commit: %+v, %v; want build 1 with 20 files", done, err)
		}
		wantVisible(t, d, files, paths, true)
		again, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
		if err != nil || again.Transaction != 1 || again.NewBytes != done.NewBytes {
			t.Errorf("commit again: %+v, %v; want %+v", again, err, done)
		}
		tx, err := d.db.Show(t.Context(), 1, nil)
		if err != nil || tx.Branch != "main" || tx.Class != "nightly" || !strings.Contains(string(tx.Build), `"abc"`) || tx.Who != "ci" || tx.Arrived.IsZero() {
			t.Errorf("build: %+v, %v; want those of the push, with who and when", tx, err)
		}

		// A rerun, without a key.
		id = openStage(t, d, c, spec)
		if send := announced(t, d, c, id, files); len(send) > 0 {
			t.Errorf("a rerun sends %d files, want none", len(send))
		}
		again, err = d.Stages().Commit(t.Context(), c, id, stage.Commit{Manifest: manifest})
		if err != nil || again.Transaction != 1 || !again.Again {
			t.Errorf("commit of a rerun: %+v, %v; want build 1 again", again, err)
		}
		id = openStage(t, d, c, spec)
		announced(t, d, c, id, files)
		if again, err = d.Stages().Commit(t.Context(), c, id, stage.Commit{Anew: true}); err != nil || again.Transaction != 2 || again.Again {
			t.Errorf("commit anew: %+v, %v; want build 2", again, err)
		}

		// The next version shares all but one file.
		spec.Version = "2"
		more, morePaths := symbols(1, 2)
		id = openStage(t, d, c, spec)
		if send := announced(t, d, c, id, append(files[1:20:20], more...)); len(send) != 1 {
			t.Fatalf("%d files of the next version are to be sent, want 1", len(send))
		}
		putAll(t, d, c, id, more)
		if done, err = d.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil || done.Transaction != 3 || done.Files != 20 || done.NewBytes != int64(len(more[0].body)) {
			t.Errorf("commit of the next version: %+v, %v; want build 3 with 20 files, one of them new", done, err)
		}
		wantVisible(t, d, more, morePaths, true)
		wantClean(t, d)
		wantEmpty(t, d)
	})
}

// wantEmpty checks that nothing staged is left.
func wantEmpty(t *testing.T, d *Depot) {
	t.Helper()
	if n, err := d.db.Stages.Staged(t.Context()); err != nil || n != 0 {
		t.Errorf("%d staged bytes, %v; want none", n, err)
	}
	if dirs, err := os.ReadDir(filepath.Join(d.dir, "staged")); err != nil && !errors.Is(err, fs.ErrNotExist) || len(dirs) > 0 {
		t.Errorf("folders of stages: %d, %v; want none", len(dirs), err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestPushKey: the same key of the same caller is the same stage, open and
// committed, and for others there is none.
func TestPushKey(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	c := pusher("ci")
	spec := stage.Spec{Labels: stage.Labels{Product: "P"}, Key: "run 7"}
	id := openStage(t, d, c, spec)
	if again := openStage(t, d, c, spec); again != id {
		t.Errorf("the same key: stage %s, want %s", again, id)
	}
	if other := openStage(t, d, pusher("other"), spec); other == id {
		t.Error("the same key of another caller is the same stage")
	}
	wantRefusal(t, "state of another's stage", second(d.Stages().State(t.Context(), pusher("other"), id)), stage.NotFound)
	wantRefusal(t, "state of an odd id", second(d.Stages().State(t.Context(), c, "../../etc")), stage.NotFound)
	wrong := spec
	wrong.Version = "2"
	_, _, err := d.Stages().Open(t.Context(), c, wrong)
	wantRefusal(t, "the key with another version", err, stage.Conflict)
	files, _ := symbols(1, 1)
	announced(t, d, c, id, files)
	putAll(t, d, c, id, files)
	if _, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil {
		t.Fatal(err)
	}
	st, again, err := d.Stages().Open(t.Context(), c, spec)
	if err != nil || !again || st.Phase != stage.PhaseCommitted || st.Transaction != 1 {
		t.Errorf("the key of a committed stage: %+v, again %t, %v; want build 1", st, again, err)
	}
	wantRefusal(t, "check of a committed stage", second(d.Stages().Check(t.Context(), c, id, entriesOf(files))), stage.Conflict)
	wantRefusal(t, "delete of a committed stage", d.Stages().Abandon(t.Context(), c, id), stage.Conflict)
	if _, err := d.Retention.Remove(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	if st, again, err = d.Stages().Open(t.Context(), c, spec); err != nil || again || st.ID == id {
		t.Errorf("the key after its build was removed: %+v, again %t, %v; want a new stage", st, again, err)
	}
	if err := d.Stages().Abandon(t.Context(), c, st.ID); err != nil {
		t.Error(err)
	}
	wantRefusal(t, "state of a deleted stage", second(d.Stages().State(t.Context(), c, st.ID)), stage.NotFound)
}

// TestPossession: contents that the caller may not read are to be sent, and are
// answered as new.
func TestPossession(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	files, _ := symbols(3, 1)
	add(t, d, "Secret", files[0])
	add(t, d, "Open", files[1])
	c := stage.Caller{ID: "test:ci", Name: "ci", Read: func(p string) bool { return p == "Open" }, Write: func(p string) bool { return p == "Mine" }}
	id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "Mine"}})
	send := announced(t, d, c, id, files)
	if len(send) != 2 || send[0].path != files[0].path || send[1].path != files[2].path {
		t.Fatalf("to be sent: %d files, want the first and the third", len(send))
	}
	wantRefusal(t, "commit without a hidden content", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{})), stage.Conflict)
	putAll(t, d, c, id, send)
	if done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil || done.Files != 3 {
		t.Errorf("commit: %+v, %v; want 3 files", done, err)
	}
	_, _, err := d.Stages().Open(t.Context(), c, stage.Spec{Labels: stage.Labels{Product: "Open"}})
	wantRefusal(t, "open for a product that the caller may not write", err, stage.Forbidden)
	if found, err := d.Stages().Find(t.Context(), c, stage.Query{Lookup: request(t, "app0.pdb/"+strings.Split(mustPath(0), "/")[1]+"/app0.sym").Lookups[0]}); err != nil || len(found) != 0 {
		t.Errorf("find of what the caller may write only: %v, %v; want nothing", found, err)
	}
	wantClean(t, d)
}

// mustPath returns the path of symbol file i of seed 1.
func mustPath(i int) string {
	_, paths := symbols(i+1, 1)
	return paths[i]
}

// TestPushRefusals: what is refused, and in which words.
func TestPushRefusals(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Stages: stage.Limits{MaxFile: 1000, MaxFiles: 3, MaxBytes: 2000, Open: 4, CheckBatch: 5, Quotas: map[string]int64{"Small": 400}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := pusher("ci")
	files, _ := symbols(5, 1)
	id := openStage(t, d, c, stage.Spec{})
	for _, x := range []struct {
		what string
		e    stage.Entry
		kind stage.Kind
	}{
		{"a path that leads out", stage.Entry{Path: "../x", Size: 1}, stage.Invalid},
		{"an absolute path", stage.Entry{Path: "/x", Size: 1}, stage.Invalid},
		{"a path with a backslash", stage.Entry{Path: `a\x`, Size: 1}, stage.Invalid},
		{"a path with a line feed", stage.Entry{Path: "a\nx", Size: 1}, stage.Invalid},
		{"a path that is not UTF-8", stage.Entry{Path: "a\xff", Size: 1}, stage.Invalid},
		{"a long path", stage.Entry{Path: strings.Repeat("a/", 600) + "x", Size: 1}, stage.Invalid},
		{"a negative size", stage.Entry{Path: "x", Size: -1}, stage.Invalid},
		{"an empty file with the hash of another", stage.Entry{Path: "x", Ref: blob.Sum([]byte("x"))}, stage.Invalid},
		{"a large file", stage.Entry{Path: "x", Size: 1001}, stage.TooLarge},
		{"a long kind", stage.Entry{Path: "x", Size: 1, As: strings.Repeat("x", 300)}, stage.Invalid},
	} {
		wantRefusal(t, x.what, second(d.Stages().Check(t.Context(), c, id, []stage.Entry{x.e})), x.kind)
	}
	wantRefusal(t, "a large batch", second(d.Stages().Check(t.Context(), c, id, make([]stage.Entry, 6))), stage.Invalid)
	e := entriesOf(files)
	two := []stage.Entry{e[0], e[0]}
	two[1].Path, two[1].Size = "other", 7
	same := []stage.Entry{e[0], e[1]}
	same[1].Path = same[0].Path
	wantRefusal(t, "two contents of one path", second(d.Stages().Check(t.Context(), c, id, same)), stage.Invalid)
	wantRefusal(t, "two sizes of one content", second(d.Stages().Check(t.Context(), c, id, two)), stage.Invalid)
	wantRefusal(t, "too many files", second(d.Stages().Check(t.Context(), c, id, e[:4])), stage.TooLarge)
	v, err := d.Stages().Check(t.Context(), c, id, []stage.Entry{{Path: "empty.pdb", Ref: blob.Sum(nil)}, {Path: "x", Size: 1, As: "nonsense"}, e[0]})
	if err != nil || v[0].Answer != stage.Refuse || v[1].Answer != stage.Refuse || v[2].Answer != stage.Send {
		t.Fatalf("verdicts: %+v, %v; want two refusals", v, err)
	}
	ref := blob.Sum(files[0].body)
	put := func(ref blob.Ref, body string) error {
		return second(d.Stages().Put(t.Context(), c, id, ref, strings.NewReader(body)))
	}
	wantRefusal(t, "a content that was not checked", put(blob.Sum(files[1].body), "x"), stage.Conflict)
	wantRefusal(t, "a short content", put(ref, string(files[0].body[1:])), stage.WrongHash)
	wantRefusal(t, "a long content", put(ref, string(files[0].body)+"x"), stage.WrongHash)
	wantRefusal(t, "another content", put(ref, strings.Repeat("x", len(files[0].body))), stage.WrongHash)
	broken := errors.New("connection lost")
	if _, err := d.Stages().Put(t.Context(), c, id, ref, io.MultiReader(bytes.NewReader(files[0].body[:100]), &failingReader{broken})); !errors.Is(err, broken) {
		t.Errorf("a body that ends with an error: %v, want %v", err, broken)
	}
	putAll(t, d, c, id, files[:1])
	wantRefusal(t, "commit with refused files", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{})), stage.NotSymbol)
	done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Partial: true})
	if err != nil || done.Files != 1 || len(done.Refused) != 2 {
		t.Errorf("commit of the others: %+v, %v; want 1 file", done, err)
	}

	id = openStage(t, d, c, stage.Spec{})
	wantRefusal(t, "commit of nothing", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{})), stage.Invalid)
	no := file{"notes.txt", []byte("no symbols")}
	announced(t, d, c, id, []file{no})
	wantRefusal(t, "a text", put(blob.Sum(no.body), string(no.body)), stage.NotSymbol)
	wantRefusal(t, "a text again", put(blob.Sum(no.body), string(no.body)), stage.NotSymbol)
	wrong := entry(files[1])
	wrong.ID = "00000000000000000000000000000000A"
	if _, err := d.Stages().Check(t.Context(), c, id, []stage.Entry{wrong}); err != nil {
		t.Fatal(err)
	}
	if r := wantRefusal(t, "another id", put(wrong.Ref, string(files[1].body)), stage.NotSymbol); !strings.Contains(r.Text, "the client says") {
		t.Errorf("another id: %q, want both ids", r.Text)
	}
	_, err = d.Stages().PutNew(t.Context(), c, id, "x.txt", time.Time{}, strings.NewReader("no symbols"))
	wantRefusal(t, "a new text", err, stage.NotSymbol)
	_, err = d.Stages().PutNew(t.Context(), c, id, "x.pdb", time.Time{}, strings.NewReader(strings.Repeat("x", 1001)))
	wantRefusal(t, "a large new file", err, stage.TooLarge)

	small := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "Small"}})
	if r := wantRefusal(t, "a quota", second(d.Stages().Check(t.Context(), c, small, entriesOf(files[2:5]))), stage.Quota); !strings.Contains(r.Text, "more than the quota") {
		t.Errorf("quota: %q, want the word quota", r.Text)
	}
	openStage(t, d, c, stage.Spec{})
	openStage(t, d, c, stage.Spec{})
	_, _, err = d.Stages().Open(t.Context(), c, stage.Spec{})
	wantRefusal(t, "a fifth stage", err, stage.TooMany)
	wantClean(t, d)
}

type failingReader struct{ err error }

func (r *failingReader) Read([]byte) (int, error) { return 0, r.err }

// TestParts sends contents in parts, in any order and several times.
func TestParts(t *testing.T) {
	t.Parallel()
	const part = 1000
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Stages: stage.Limits{Part: part}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := pusher("ci")
	for seed, order := range [][]int{{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {0, 1, 5, 2, 4, 3}, {2, 0, 0, 1, 2, 5, 4, 3}} {
		id := fmt.Sprintf("%032X1", seed+1)
		f := file{"big.sym", symFile(id, 5*part+1)[:]}
		ref, total := blob.Sum(f.body), int64(len(f.body))
		sid := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Version: id}})
		announced(t, d, c, sid, []file{f})
		send := func(n int) error {
			b := f.body[n*part:]
			return d.Stages().PutPart(t.Context(), c, sid, ref, total, n, bytes.NewReader(b[:min(part, len(b))]))
		}
		wantRefusal(t, "a part that is out of range", d.Stages().PutPart(t.Context(), c, sid, ref, total, 6, strings.NewReader("")), stage.Invalid)
		wantRefusal(t, "a negative part", d.Stages().PutPart(t.Context(), c, sid, ref, total, -1, strings.NewReader("")), stage.Invalid)
		wantRefusal(t, "another length", d.Stages().PutPart(t.Context(), c, sid, ref, total+1, 0, strings.NewReader("")), stage.Invalid)
		wantRefusal(t, "a short part", d.Stages().PutPart(t.Context(), c, sid, ref, total, 0, bytes.NewReader(f.body[:part-1])), stage.WrongHash)
		wantRefusal(t, "a long part", d.Stages().PutPart(t.Context(), c, sid, ref, total, 0, bytes.NewReader(f.body[:part+1])), stage.WrongHash)
		for i, n := range order {
			if err := send(n); err != nil {
				t.Fatalf("order %v: part %d: %v", order, n, err)
			}
			if seed == 2 && i == 2 {
				if got, err := d.Stages().Parts(t.Context(), c, sid, ref); err != nil || got.Got != "0-1,5" || got.Length != total || got.Part != part {
					t.Errorf("parts: %+v, %v; want 0-1,5", got, err)
				}
			}
		}
		if got, err := d.Stages().Parts(t.Context(), c, sid, ref); err != nil || got.Got != "0-5" {
			t.Errorf("parts: %+v, %v; want 0-5", got, err)
		}
		if done, err := d.Stages().Commit(t.Context(), c, sid, stage.Commit{}); err != nil || done.Files != 1 {
			t.Errorf("order %v: commit: %+v, %v; want 1 file", order, done, err)
		}
		wantVisible(t, d, []file{f}, []string{"app.pdb/" + id + "/app.sym"}, true)
	}
	wantEmpty(t, d)

	// A wrong part makes the whole content wrong, and all is to be sent again.
	f := file{"big.sym", symFile("10000000000000000000000000000000F", 2500)}
	ref, total := blob.Sum(f.body), int64(len(f.body))
	sid := openStage(t, d, c, stage.Spec{})
	announced(t, d, c, sid, []file{f})
	for n := range 3 {
		b := slices.Clone(f.body[n*part : min((n+1)*part, len(f.body))])
		b[0] ^= byte(n)
		err = d.Stages().PutPart(t.Context(), c, sid, ref, total, n, bytes.NewReader(b))
		if err != nil && n < 2 {
			t.Fatal(err)
		}
	}
	wantRefusal(t, "parts of another content", err, stage.WrongHash)
	if got, err := d.Stages().Parts(t.Context(), c, sid, ref); err != nil || got.Got != "" {
		t.Errorf("parts after a wrong one: %+v, %v; want none", got, err)
	}
	for n := range 3 {
		if err := d.Stages().PutPart(t.Context(), c, sid, ref, total, n, bytes.NewReader(f.body[n*part:min((n+1)*part, len(f.body))])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Stages().Commit(t.Context(), c, sid, stage.Commit{}); err != nil {
		t.Error(err)
	}
	wantEmpty(t, d)
	wantClean(t, d)
}

// TestPushResumes: a stage goes on in another process, with its contents and parts.
func TestPushResumes(t *testing.T) {
	t.Parallel()
	const part = 1000
	dir := filepath.Join(t.TempDir(), "depot")
	open := func() *Depot {
		d, err := Open(t.Context(), dir, Options{Stages: stage.Limits{Part: part}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	one, two := open(), open()
	c := pusher("ci")
	files, paths := symbols(2, 1)
	big := file{"big.sym", symFile(symID, 3500)}
	id := openStage(t, one, c, stage.Spec{})
	announced(t, one, c, id, append(files[:2:2], big))
	putAll(t, one, c, id, files[:1])
	putAll(t, two, c, id, files[1:])
	ref, total := blob.Sum(big.body), int64(len(big.body))
	for n := range 4 {
		d := one
		if n%2 == 1 {
			d = two
		}
		if err := d.Stages().PutPart(t.Context(), c, id, ref, total, n, bytes.NewReader(big.body[n*part:min((n+1)*part, len(big.body))])); err != nil {
			t.Fatal(err)
		}
	}
	// A third process hashes what it did not receive.
	name := filepath.Join(dir, "staged", id, blob.Sum(files[0].body).String())
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), len(files[0].body)), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	three := open()
	r := wantRefusal(t, "commit with a damaged content", second(three.Stages().Commit(t.Context(), c, id, stage.Commit{})), stage.Conflict)
	if len(r.Missing) != 1 || r.Missing[0] != blob.Sum(files[0].body) {
		t.Errorf("missing: %v, want the damaged content", r.Missing)
	}
	putAll(t, three, c, id, files[:1])
	if done, err := three.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil || done.Files != 3 {
		t.Fatalf("commit: %+v, %v; want 3 files", done, err)
	}
	for _, d := range []*Depot{one, two, three} {
		wantVisible(t, d, append(files, big), append(paths, symPath), true)
	}
	wantEmpty(t, one)
	wantClean(t, one)
}

// TestSeveralObjects pushes files whose objects are not the whole file: a rerun
// sends nothing.
func TestSeveralObjects(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	c := pusher("ci")
	var files []file
	for _, name := range []string{"macho/app-fat", "pe/x64.exe", "elf/prog-sha1"} {
		f := testdata(t, name)
		f.path = filepath.ToSlash(f.path)
		files = append(files, f)
	}
	for version, send := range []int{3, 0} {
		id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Version: fmt.Sprint(version)}})
		todo := announced(t, d, c, id, files)
		if len(todo) != send {
			t.Errorf("push %d sends %d files, want %d", version+1, len(todo), send)
		}
		putAll(t, d, c, id, todo)
		if done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil || done.Files != 3 {
			t.Fatalf("push %d: %+v, %v; want 3 files", version+1, done, err)
		}
	}
	direct, _ := newDepot(t)
	add(t, direct, "", files...)
	if got, want := objectsOf(t, d, 1), objectsOf(t, direct, 1); !slices.Equal(got, want) {
		t.Errorf("objects of a push: %q, want those of an add: %q", got, want)
	}
	if got, want := objectsOf(t, d, 2), objectsOf(t, d, 1); !slices.Equal(got, want) {
		t.Errorf("objects of a rerun: %q, want %q", got, want)
	}
	wantClean(t, d)
}

func objectsOf(t *testing.T, d *Depot, number int64) (list []string) {
	t.Helper()
	if _, err := d.db.Show(t.Context(), number, func(f record.TxFile) error {
		list = append(list, fmt.Sprintf("%s %s %s %d", f.Object.Name, f.Object.Kind, f.Ref, f.Size))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// TestOtherBytes: other bytes with the id of a file of the product are counted, or
// refused.
func TestOtherBytes(t *testing.T) {
	t.Parallel()
	for _, deny := range []bool{false, true} {
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Stages: stage.Limits{DenyOther: deny}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		add(t, d, "P", file{"app.sym", symFile(symID, 300)})
		add(t, d, "Q", file{"app.sym", symFile(symID, 400)})
		other := file{"app.sym", symFile(symID, 500)}
		for _, product := range []string{"P", "New"} {
			c := pusher("ci")
			id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: product}})
			announced(t, d, c, id, []file{other})
			_, err := d.Stages().Put(t.Context(), c, id, blob.Sum(other.body), bytes.NewReader(other.body))
			if deny && product == "P" {
				wantRefusal(t, "other bytes", err, stage.NotSymbol)
				continue
			}
			done, cerr := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
			want := int64(0)
			if product == "P" {
				want = 1
			}
			if err != nil || cerr != nil || done.Other != want {
				t.Errorf("product %s: %v, %v, %d files with other bytes, want %d", product, err, cerr, done.Other, want)
			}
		}
	}
}

// TestOtherBytesThatAreHere: other bytes with the id of a file of the product are counted,
// or refused, also if the depot has them and they are not sent.
func TestOtherBytesThatAreHere(t *testing.T) {
	t.Parallel()
	for _, deny := range []bool{false, true} {
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Stages: stage.Limits{DenyOther: deny}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		other := file{"app.sym", symFile(symID, 500)}
		add(t, d, "P", file{"app.sym", symFile(symID, 300)})
		add(t, d, "Q", other)
		c := pusher("ci")
		for product, want := range map[string]int64{"P": 1, "Q": 0, "New": 0} {
			id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: product}})
			v, err := d.Stages().Check(t.Context(), c, id, []stage.Entry{{Path: other.path, Ref: blob.Sum(other.body), Size: int64(len(other.body))}})
			if err != nil || len(v) != 1 {
				t.Fatalf("check: %v, %v; want one verdict", v, err)
			}
			if deny && want > 0 {
				if v[0].Answer != stage.Refuse || !strings.Contains(v[0].Reason, "other bytes") {
					t.Errorf("product %s, denied: %+v, want a refusal because of other bytes", product, v[0])
				}
				continue
			}
			done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
			if v[0].Answer != stage.Have || err != nil || done.Other != want {
				t.Errorf("product %s: %+v, %v, %d files with other bytes, want %d and nothing sent", product, v[0], err, done.Other, want)
			}
		}
	}
}

// TestRefuse: a file that a client of the stage refuses is listed, ends a commit that is not
// partial, and is no part of one that is.
func TestRefuse(t *testing.T) {
	onDepots(t, func(t *testing.T, d *Depot) {
		c, ctx := pusher("anna"), t.Context()
		files, paths := symbols(1, 9)
		id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "app"}})
		if err := d.Stages().Refuse(ctx, c, id, stage.Entry{Path: "notes.txt"}, "a text file"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Stages().PutNew(ctx, c, id, files[0].path, time.Time{}, bytes.NewReader(files[0].body)); err != nil {
			t.Fatal(err)
		}
		want := []stage.Refused{{Path: "notes.txt", Reason: "a text file"}}
		if got, err := d.Stages().Refused(ctx, c, id); err != nil || !slices.Equal(got, want) {
			t.Errorf("refused files: %v, %v; want %v", got, err, want)
		}
		_, err := d.Stages().Refused(ctx, pusher("ben"), id)
		wantRefusal(t, "the list for another principal", err, stage.NotFound)
		wantRefusal(t, "to refuse a file of another principal", d.Stages().Refuse(ctx, pusher("ben"), id, stage.Entry{Path: "x"}, "x"), stage.NotFound)
		wantRefusal(t, "to refuse a file without a relative path", d.Stages().Refuse(ctx, c, id, stage.Entry{Path: "../x"}, "x"), stage.Invalid)
		_, err = d.Stages().Commit(ctx, c, id, stage.Commit{})
		wantRefusal(t, "a commit that is not partial", err, stage.NotSymbol)
		done, err := d.Stages().Commit(ctx, c, id, stage.Commit{Partial: true})
		if err != nil || done.Files != 1 || !slices.Equal(done.Refused, want) {
			t.Errorf("a partial commit: %+v, %v; want one file, and the other refused", done, err)
		}
		wantVisible(t, d, files, paths, true)
		wantClean(t, d)
	})
}

// TestCollect: the files of a protocol without an end are visible at once and are
// one transaction, which goes on in another process and ends after a while.
func TestCollect(t *testing.T) {
	onDepots(t, func(t *testing.T, d *Depot) {
		c := pusher("ci")
		spec := stage.Spec{Labels: stage.Labels{Product: "P", Version: "1"}, Collect: true}
		files, paths := symbols(12, 1)
		add(t, d, "", files[3]) // known in another product
		for i, f := range files {
			id := openStage(t, d, c, spec)
			var number int64
			if i == 5 {
				add(t, d, "P", files[11])
			}
			a, err := d.Stages().PutNew(t.Context(), c, id, f.path, time.Time{}, bytes.NewReader(f.body))
			if err != nil {
				t.Fatalf("file %d: %v", i, err)
			}
			number = a.Transaction
			if number != 2 || a.Ref != blob.Sum(f.body) || len(a.Objects) != 1 || len(a.SHA1) != 40 {
				t.Errorf("file %d: %+v; want build 2", i, a)
			}
			wantVisible(t, d, files[i:i+1], paths[i:i+1], true)
			if f, _, err := get(t, d, answer.Scope{Products: []string{"P"}}, paths[i]); err != nil {
				t.Errorf("file %d in its product: %v, %v", i, f, err)
			}
		}
		id := openStage(t, d, c, spec)
		if send := announced(t, d, c, id, files[:1]); len(send) != 0 {
			t.Error("a known file is to be sent")
		}
		found, err := d.Stages().Find(t.Context(), c, stage.Query{Lookup: request(t, paths[0]).Lookups[0]})
		if err != nil || len(found) != 1 || found[0].Ref != blob.Sum(files[0].body) {
			t.Errorf("find: %+v, %v; want one", found, err)
		}
		tx, err := d.db.Show(t.Context(), 2, nil)
		if err != nil || tx.Files != 12 || !tx.Collecting {
			t.Errorf("build: %+v, %v; want 12 files, and that it goes on", tx, err)
		}
		wantClean(t, d)
	})
}

// TestCollectEqualAtOnce: uploads of equal bytes that come at the same moment, as two runs
// of one build send them, are all accepted.
func TestCollectEqualAtOnce(t *testing.T) {
	onDepots(t, func(t *testing.T, d *Depot) {
		c := pusher("ci")
		files, paths := symbols(40, 1)
		for i, f := range files {
			var runs sync.WaitGroup
			for range 4 {
				runs.Go(func() {
					id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "P"}, Collect: true})
					if _, err := d.Stages().PutNew(t.Context(), c, id, f.path, time.Time{}, bytes.NewReader(f.body)); err != nil {
						t.Errorf("file %d: %v, want that it is accepted", i, err)
					}
				})
			}
			runs.Wait()
		}
		wantVisible(t, d, files, paths, true)
		wantClean(t, d)
	})
}

// TestExpiry: stages end when nobody uses them, and nothing of them is left.
func TestExpiry(t *testing.T) {
	t.Parallel()
	d, clock := newDepot(t)
	c := pusher("ci")
	files, paths := symbols(4, 1)
	id := openStage(t, d, c, stage.Spec{})
	announced(t, d, c, id, files[:2])
	putAll(t, d, c, id, files[:1])
	collecting := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "P"}, Collect: true})
	if _, err := d.Stages().PutNew(t.Context(), c, collecting, files[2].path, time.Time{}, bytes.NewReader(files[2].body)); err != nil {
		t.Fatal(err)
	}
	expire := func(after time.Duration) {
		t.Helper()
		clock.t = clock.t.Add(after)
		if err := errors.Join(d.Stages().Expire(t.Context()), d.Stages().Sweep(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	expire(4 * time.Minute)
	if tx, err := d.db.Show(t.Context(), 1, nil); err != nil || !tx.Collecting {
		t.Errorf("after 4 minutes: %+v, %v; want a build that goes on", tx, err)
	}
	expire(2 * time.Minute)
	if tx, err := d.db.Show(t.Context(), 1, nil); err != nil || tx.Collecting {
		t.Errorf("after 6 minutes: %+v, %v; want a build that has ended", tx, err)
	}
	if next := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "P"}, Collect: true}); next == collecting {
		t.Error("a stage that has ended goes on")
	}
	if _, err := d.Stages().State(t.Context(), c, id); err != nil {
		t.Errorf("after 6 minutes: %v, want an open stage", err)
	}
	expire(23 * time.Hour)
	putAll(t, d, c, id, files[1:2])
	expire(23 * time.Hour)
	if _, err := d.Stages().State(t.Context(), c, id); err != nil {
		t.Errorf("a day after it was opened: %v, want an open stage", err)
	}
	expire(2 * time.Hour)
	wantRefusal(t, "an expired stage", second(d.Stages().State(t.Context(), c, id)), stage.NotFound)
	wantVisible(t, d, files[:2], paths[:2], false)
	wantVisible(t, d, files[2:3], paths[2:3], true)
	wantEmpty(t, d)
	wantClean(t, d)
}

// TestPushAtOnce: many agents push at the same time, with shared files.
func TestPushAtOnce(t *testing.T) {
	onDepots(t, func(t *testing.T, d *Depot) {
		const agents = 12
		files, paths := symbols(30, 1)
		var wg sync.WaitGroup
		numbers := make([]int64, agents)
		for n := range agents {
			wg.Go(func() {
				c := pusher(fmt.Sprintf("agent %d", n))
				mine := files[n%6 : n%6+20]
				err := pushAll(t.Context(), d, c, stage.Spec{Labels: stage.Labels{Version: fmt.Sprint(n % 6)}}, mine, &numbers[n])
				if err != nil {
					t.Errorf("agent %d: %v", n, err)
				}
			})
		}
		wg.Wait()
		for n := range 6 {
			if numbers[n] == 0 || numbers[n] != numbers[n+6] {
				t.Errorf("agents %d and %d with equal files: builds %d and %d, want one", n, n+6, numbers[n], numbers[n+6])
			}
		}
		wantVisible(t, d, files[:25], paths[:25], true)
		wantClean(t, d)
		wantEmpty(t, d)
	})
}

// TestPushNodes: the parts of a content come to any server, and all are on one of
// them. When that ends, the stage goes on at another one: whole contents are in
// the bucket, parts are to be sent again.
func TestPushNodes(t *testing.T) {
	t.Parallel()
	const part = 1000
	open := newServers(t)
	opt := Options{Stages: stage.Limits{Part: part}}
	owner, other, third := open(opt), open(opt), open(opt)
	defer func() {
		if err := errors.Join(other.Close(), third.Close()); err != nil {
			t.Error(err)
		}
	}()
	peers := func(d *Depot, n int64) {
		t.Helper()
		symtest.Await(t, time.Minute, fmt.Sprint(n, " servers"), func() bool {
			s, ok := d.Nodes.Status()
			return ok && s.Peers == n && s.Known
		})
	}
	for _, d := range []*Depot{owner, other, third} {
		peers(d, 3)
	}
	c := pusher("ci")
	files, paths := symbols(6, 1)
	big, half := file{"big.sym", symFile(symID, 4500)}, file{"half.sym", bytes.Replace(symFile(symID, 2500), []byte("app.pdb"), []byte("half.pdb"), 1)}
	id := openStage(t, owner, c, stage.Spec{})
	announced(t, other, c, id, append(files[:6:6], big, half))
	for i, d := range []*Depot{owner, other, third} {
		putAll(t, d, c, id, files[i:i+1])
	}
	send := func(d *Depot, f file, n int) error {
		return d.Stages().PutPart(t.Context(), c, id, blob.Sum(f.body), int64(len(f.body)), n, bytes.NewReader(f.body[n*part:min((n+1)*part, len(f.body))]))
	}
	must := func(d *Depot, f file, n int) {
		t.Helper()
		if err := send(d, f, n); err != nil {
			t.Fatalf("part %d of %s: %v", n, f.path, err)
		}
	}
	wantParts := func(d *Depot, f file, want string) {
		t.Helper()
		if got, err := d.Stages().Parts(t.Context(), c, id, blob.Sum(f.body)); err != nil || got.Got != want || got.Length != int64(len(f.body)) || got.Part != part {
			t.Fatalf("parts of %s: %+v, %v; want %q", f.path, got, err, want)
		}
	}
	for i, n := range []int{4, 2, 0, 1} {
		must([]*Depot{other, third, owner, other}[i], big, n)
	}
	for _, d := range []*Depot{owner, other, third} {
		wantParts(d, big, "0-2,4")
	}
	must(third, big, 2) // again
	ref, total := blob.Sum(big.body), int64(len(big.body))
	wantRefusal(t, "a part that is out of range", third.Stages().PutPart(t.Context(), c, id, ref, total, 5, strings.NewReader("")), stage.Invalid)
	wantRefusal(t, "a short part at another server", other.Stages().PutPart(t.Context(), c, id, ref, total, 3, strings.NewReader("short")), stage.WrongHash)
	wantRefusal(t, "a long part at another server", other.Stages().PutPart(t.Context(), c, id, ref, total, 3, bytes.NewReader(append(big.body[3*part:4*part:4*part], 'x'))), stage.WrongHash)
	broken := errors.New("connection lost")
	if err := other.Stages().PutPart(t.Context(), c, id, ref, total, 3, io.MultiReader(bytes.NewReader(big.body[3*part:3*part+100]), &failingReader{broken})); !errors.Is(err, broken) {
		t.Errorf("a body that ends with an error: %v, want %v", err, broken)
	}
	wantParts(other, big, "0-2,4")
	must(other, big, 3)
	wantParts(third, big, "0-4")
	if dirs, err := os.ReadDir(filepath.Join(other.dir, "staged", id)); err == nil && slices.ContainsFunc(dirs, func(d os.DirEntry) bool { return strings.HasSuffix(d.Name(), ".part") }) {
		t.Error("a server that is not the owner has parts")
	}
	must(other, half, 1)
	if st, err := third.Stages().State(t.Context(), c, id); err != nil || st.Got != 4 || len(st.Missing) != 4 || st.Node != owner.Nodes.Name() {
		t.Errorf("state: %+v, %v; want 4 of 8 files, of server %s", st, err, owner.Nodes.Name())
	}

	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	peers(other, 2)
	peers(third, 2)
	wantParts(other, half, "")
	must(third, half, 2)
	wantParts(third, half, "2")
	must(other, half, 0)
	must(third, half, 1)
	wantParts(other, big, "0-4")
	putAll(t, third, c, id, files[3:])
	done, err := third.Stages().Commit(t.Context(), c, id, stage.Commit{})
	if err != nil || done.Files != 8 {
		t.Fatalf("commit at the third server: %+v, %v; want 8 files", done, err)
	}
	for _, d := range []*Depot{other, third} {
		wantVisible(t, d, append(files, big), append(paths, symPath), true)
	}
	if again, err := other.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil || again.Transaction != done.Transaction {
		t.Errorf("commit at the other server: %+v, %v; want %d", again, err, done.Transaction)
	}
	for _, d := range []*Depot{other, third} {
		if err := d.Stages().Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		wantEmpty(t, d)
	}
	wantClean(t, other)
}

// pushAll pushes files as a client does.
func pushAll(ctx context.Context, d *Depot, c stage.Caller, spec stage.Spec, files []file, number *int64) error {
	st, _, err := d.Stages().Open(ctx, c, spec)
	if err != nil {
		return err
	}
	for range 5 {
		if st.Phase == stage.PhaseCommitted {
			*number = st.Transaction
			return nil
		}
		v, err := d.Stages().Check(ctx, c, st.ID, entriesOf(files))
		if err != nil {
			return err
		}
		for i := range v {
			if v[i].Answer != stage.Send {
				continue
			}
			if _, err := d.Stages().Put(ctx, c, st.ID, blob.Sum(files[i].body), bytes.NewReader(files[i].body)); err != nil {
				return err
			}
		}
		done, err := d.Stages().Commit(ctx, c, st.ID, stage.Commit{Manifest: stage.Manifest(entriesOf(files)).String()})
		if r, ok := errors.AsType[*stage.Refusal](err); ok && len(r.Missing) > 0 {
			continue
		}
		*number = done.Transaction
		return err
	}
	return errors.New("contents are missing again and again")
}

// TestPushModel compares random calls with a simple model of a stage.
func TestPushModel(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Stages: stage.Limits{Part: 150}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	rng := rand.New(rand.NewPCG(11, 0))
	files, paths := symbols(6, 1)
	visible := map[int]bool{}
	c := pusher("ci")
	var transactions int64
	for round := range 60 {
		id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Version: fmt.Sprint(round)}})
		checked, arrived, parts := map[int]bool{}, map[int]bool{}, map[[2]int]bool{}
		for open := true; open; {
			i := rng.IntN(len(files))
			ref, size := blob.Sum(files[i].body), int64(len(files[i].body))
			switch rng.IntN(8) {
			case 0, 1:
				send := announced(t, d, c, id, files[i:i+1])
				checked[i] = true
				if want := !visible[i] && !arrived[i]; (len(send) == 1) != want {
					t.Fatalf("round %d: check of file %d: to be sent %t, want %t", round, i, len(send) == 1, want)
				}
				if visible[i] {
					arrived[i] = true
				}
			case 2, 3:
				had, err := d.Stages().Put(t.Context(), c, id, ref, bytes.NewReader(files[i].body))
				switch {
				case !checked[i]:
					wantRefusal(t, "a content that was not checked", err, stage.Conflict)
				case err != nil || had != arrived[i]:
					t.Fatalf("round %d: put of file %d: had %t, %v; want %t", round, i, had, err, arrived[i])
				default:
					arrived[i] = true
				}
			case 4, 5:
				n := rng.IntN(3)
				err := d.Stages().PutPart(t.Context(), c, id, ref, size, n, bytes.NewReader(files[i].body[min(150*n, int(size)):min(150*(n+1), int(size))]))
				switch {
				case !checked[i]:
					wantRefusal(t, "a part that was not checked", err, stage.Conflict)
				case arrived[i] && err == nil:
				case int64(150*n) >= size:
					wantRefusal(t, "a part that is out of range", err, stage.Invalid)
				case err != nil:
					t.Fatalf("round %d: part %d of file %d: %v, want success", round, n, i, err)
				default:
					parts[[2]int{i, n}] = true
					all := true
					for k := range (int(size) + 149) / 150 {
						all = all && parts[[2]int{i, k}]
					}
					arrived[i] = arrived[i] || all
				}
			case 6:
				if rng.IntN(4) == 0 {
					if err := d.Stages().Abandon(t.Context(), c, id); err != nil {
						t.Fatal(err)
					}
					open = false
				}
			default:
				done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
				missing := 0
				for k := range checked {
					if !arrived[k] {
						missing++
					}
				}
				switch {
				case missing > 0:
					if r := wantRefusal(t, "commit with missing contents", err, stage.Conflict); len(r.Missing) != missing {
						t.Fatalf("round %d: %d contents are missing, want %d", round, len(r.Missing), missing)
					}
				case len(checked) == 0:
					wantRefusal(t, "commit of nothing", err, stage.Invalid)
				default:
					transactions++
					if err != nil || done.Transaction != transactions || done.Files != int64(len(checked)) {
						t.Fatalf("round %d: commit: %+v, %v; want build %d with %d files", round, done, err, transactions, len(checked))
					}
					for k := range checked {
						visible[k] = true
					}
					open = false
				}
			}
		}
		for i := range files {
			wantVisible(t, d, files[i:i+1], paths[i:i+1], visible[i])
		}
	}
	wantClean(t, d)
	wantEmpty(t, d)
}
