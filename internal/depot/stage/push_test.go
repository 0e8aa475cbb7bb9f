package stage

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// testDepot is a depot with an index and contents in a temporary folder, as stages need
// one.
type testDepot struct {
	t     *testing.T
	dir   string
	db    *index.DB
	blobs *blob.Disk
	now   time.Time
	// loses makes the next commit leave out its first entry, which is a fault.
	loses bool
	// fails is the error of the next look at what the depot has.
	fails error
}

func newTestDepot(t *testing.T) *testDepot {
	t.Helper()
	d := &testDepot{t: t, dir: t.TempDir(), now: time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)}
	if err := os.Mkdir(filepath.Join(d.dir, "staged"), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.db, err = index.Open(t.Context(), filepath.Join(d.dir, "index"), index.Options{Now: func() time.Time { return d.now }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.db.Close() })
	if d.blobs, err = blob.OpenDisk(filepath.Join(d.dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.blobs.Close() })
	return d
}

// stages opens the stages of the depot, as one more process does.
func (d *testDepot) stages(opt Options) *Stages {
	opt.Dir, opt.Log, opt.Now = filepath.Join(d.dir, "staged"), slog.New(slog.DiscardHandler), func() time.Time { return d.now }
	return New(d.db.Stages, d, opt)
}

func (d *testDepot) Identify(f io.ReaderAt, size int64, path, as, id string) ([]objfile.Object, error) {
	kind, err := objfile.ParseForced(as)
	if err != nil {
		return nil, err
	}
	return objfile.Identify(f, size, path, objfile.Options{Kind: kind, ID: id})
}

func (d *testDepot) Refuses(err error) bool {
	return errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken)
}

func (d *testDepot) ObjectReader(f io.ReaderAt, _ int64, o objfile.Object) io.Reader {
	return io.NewSectionReader(f, o.Offset, o.Size)
}

func (d *testDepot) RefusesLinks(string) bool { return false }

func (d *testDepot) JudgeLinks(string, string, io.ReaderAt, objfile.Object) ([]string, string, error) {
	return nil, "", nil
}

func (d *testDepot) InBucket() bool { return false }

func (d *testDepot) Place(context.Context, record.Content, io.Reader) error {
	return errors.New("there is no bucket")
}

func (d *testDepot) Lost(context.Context, []record.Content) ([]blob.Ref, error) {
	err := d.fails
	d.fails = nil
	return nil, err
}

func (d *testDepot) OpenStored(ctx context.Context, c record.Content) (blob.File, error) {
	return d.blobs.Open(ctx, c.Ref)
}

func (d *testDepot) Space() (total, free int64, err error) { return 1 << 40, 1 << 40, nil }

func (d *testDepot) CheckClass(_ context.Context, class string) error {
	if class == "unknown" {
		return errors.New("the classes are release and nightly")
	}
	return nil
}

// Commit is the least that the interface promises.
func (d *testDepot) Commit(ctx context.Context, tx record.Tx, files []File, accepted []record.Entry) (int64, error) {
	batch, err := d.blobs.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer batch.Abort()
	var missing []blob.Ref
	for _, f := range files {
		body, err := os.ReadFile(f.Path)
		if err == nil {
			_, _, err = batch.Put(ctx, f.Size, bytes.NewReader(body))
		}
		if err != nil && !batch.Known(ctx, f.Ref) {
			missing = append(missing, f.Ref)
		}
	}
	if len(missing) > 0 {
		return 0, &MissingError{missing}
	}
	if err := batch.Commit(ctx); err != nil {
		return 0, err
	}
	accepted = slices.Concat(tx.Entries, accepted)
	if d.loses {
		d.loses, tx.Entries = false, tx.Entries[1:]
	}
	number, err := d.db.Commit(ctx, tx, nil)
	if err != nil {
		return 0, err
	}
	return number, d.Confirm(ctx, number, accepted)
}

func (d *testDepot) Confirm(ctx context.Context, number int64, accepted []record.Entry) error {
	for _, e := range accepted {
		a := e.Object.Aliases()[0]
		hits, err := d.db.Lookup(ctx, record.Scope{All: true}, symfile.Lookup{Name: a.Name, ID: a.ID, Role: a.Role})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(hits, func(h record.Hit) bool { return h.Ref == e.Ref }) {
			return &LostError{Transaction: number, Files: 1, Path: e.Path, ID: a.ID}
		}
	}
	return nil
}

// testFile is a symbol file that a client has.
type testFile struct {
	path, id string
	body     []byte
}

func newTestFile(n int, size int) testFile {
	f := testFile{path: fmt.Sprintf("out/app%d.sym", n), id: fmt.Sprintf("%032X1", 0x1000+n)}
	b := fmt.Appendf(nil, "MODULE windows x86_64 %s app%d.pdb\n", f.id, n)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "PUBLIC %x 0 function_%d\n", 0x1000+i*16, i)
	}
	f.body = b
	return f
}

func (f testFile) entry() Entry {
	return Entry{Path: f.path, Size: int64(len(f.body)), Ref: blob.Sum(f.body)}
}

// found reports whether the depot has the file under its id.
func (d *testDepot) found(f testFile) bool {
	d.t.Helper()
	objects, err := d.Identify(bytes.NewReader(f.body), int64(len(f.body)), f.path, "", "")
	if err != nil || len(objects) != 1 {
		d.t.Fatalf("%s: %d objects, %v; want one", f.path, len(objects), err)
	}
	a := objects[0].Aliases()[0]
	hits, err := d.db.Lookup(d.t.Context(), record.Scope{All: true}, symfile.Lookup{Name: a.Name, ID: a.ID, Role: a.Role})
	if err != nil {
		d.t.Fatal(err)
	}
	return slices.ContainsFunc(hits, func(h record.Hit) bool { return h.Ref == blob.Sum(f.body) })
}

// staged returns the names of what is left in the folder of the stages.
func (d *testDepot) staged() (names []string) {
	d.t.Helper()
	err := filepath.WalkDir(filepath.Join(d.dir, "staged"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, filepath.Base(name))
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return names
}

// testCaller may do everything.
func testCaller(name string) Caller {
	yes := func(string) bool { return true }
	return Caller{ID: "test:" + name, Name: name, Read: yes, Write: yes}
}

// opened opens a stage.
func opened(t *testing.T, s *Stages, c Caller, spec Spec) string {
	t.Helper()
	st, _, err := s.Open(t.Context(), c, spec)
	if err != nil {
		t.Fatalf("open a stage: %v", err)
	}
	return st.ID
}

// wanted checks files and returns those that the server asks for.
func wanted(t *testing.T, s *Stages, c Caller, id string, files ...testFile) (send []testFile) {
	t.Helper()
	var list []Entry
	for _, f := range files {
		list = append(list, f.entry())
	}
	verdicts, err := s.Check(t.Context(), c, id, list)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	for i, v := range verdicts {
		if v.Answer == Send {
			send = append(send, files[i])
		}
	}
	return send
}

func put(t *testing.T, s *Stages, c Caller, id string, files ...testFile) {
	t.Helper()
	for _, f := range files {
		if _, err := s.Put(t.Context(), c, id, blob.Sum(f.body), bytes.NewReader(f.body)); err != nil {
			t.Fatalf("put %s: %v", f.path, err)
		}
	}
}

// refusedAs checks the kind of a refusal.
func refusedAs(t *testing.T, what string, err error, kind Kind) *Refusal {
	t.Helper()
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Kind != kind {
		t.Fatalf("%s: %v, want a refusal of kind %d", what, err, kind)
	}
	return r
}

// TestPush: nothing is visible before the commit and all of it after it; a rerun sends
// nothing and makes no transaction.
func TestPush(t *testing.T) {
	t.Parallel()
	d := newTestDepot(t)
	s, c := d.stages(Options{}), testCaller("ci")
	files := []testFile{newTestFile(1, 300), newTestFile(2, 3000), newTestFile(3, 100)}
	id := opened(t, s, c, Spec{Labels: Labels{Product: "Game", Class: "nightly"}})
	if n := len(wanted(t, s, c, id, files...)); n != 3 {
		t.Fatalf("%d files are asked for, want 3", n)
	}
	put(t, s, c, id, files[0])
	_, err := s.Put(t.Context(), c, id, blob.Sum(files[1].body), bytes.NewReader(files[0].body))
	refusedAs(t, "the bytes of another file", err, WrongHash)
	_, err = s.Commit(t.Context(), c, id, Commit{})
	if r := refusedAs(t, "commit without two contents", err, Conflict); len(r.Missing) != 2 {
		t.Errorf("%d contents are missing, want 2", len(r.Missing))
	}
	put(t, s, c, id, files[1:]...)
	for _, f := range files {
		if d.found(f) {
			t.Errorf("%s is found before the commit", f.path)
		}
	}
	done, err := s.Commit(t.Context(), c, id, Commit{Files: 3})
	if err != nil || done.Transaction != 1 || done.Files != 3 {
		t.Fatalf("commit: %+v, %v; want build 1 with 3 files", done, err)
	}
	for _, f := range files {
		if !d.found(f) {
			t.Errorf("%s is not found after the commit", f.path)
		}
	}
	if again, err := s.Commit(t.Context(), c, id, Commit{}); err != nil || again.Transaction != 1 {
		t.Errorf("commit again: %+v, %v; want build 1", again, err)
	}
	if left := d.staged(); len(left) > 0 {
		t.Errorf("%q are left after the commit, want nothing", left)
	}
	id = opened(t, s, c, Spec{Labels: Labels{Product: "Game", Class: "nightly"}})
	if send := wanted(t, s, c, id, files...); len(send) > 0 {
		t.Errorf("a rerun is asked for %d files, want none", len(send))
	}
	if again, err := s.Commit(t.Context(), c, id, Commit{}); err != nil || again.Transaction != 1 || !again.Again {
		t.Errorf("commit of a rerun: %+v, %v; want build 1 again", again, err)
	}
}

// TestAcceptedIsFound: a file that was accepted and is not found after the commit is an
// error of the server, never a success.
func TestAcceptedIsFound(t *testing.T) {
	t.Parallel()
	d := newTestDepot(t)
	s, c := d.stages(Options{}), testCaller("ci")
	id := opened(t, s, c, Spec{})
	files := []testFile{newTestFile(1, 300), newTestFile(2, 300)}
	wanted(t, s, c, id, files...)
	put(t, s, c, id, files...)
	d.loses = true
	_, err := s.Commit(t.Context(), c, id, Commit{})
	refusedAs(t, "commit that loses a file", err, Lost)
}

// TestPushedParts: parts come in any order, through two processes, and survive the end of both.
func TestPushedParts(t *testing.T) {
	t.Parallel()
	const part = 1000
	d, c := newTestDepot(t), testCaller("ci")
	opt := Options{Limits: Limits{Part: part}}
	one, two := d.stages(opt), d.stages(opt)
	f := newTestFile(1, 4*part+1)
	ref, total := blob.Sum(f.body), int64(len(f.body))
	id := opened(t, one, c, Spec{})
	wanted(t, one, c, id, f)
	send := func(s *Stages, n int) error {
		b := f.body[n*part:]
		return s.PutPart(t.Context(), c, id, ref, total, n, bytes.NewReader(b[:min(part, len(b))]))
	}
	refusedAs(t, "a part out of range", one.PutPart(t.Context(), c, id, ref, total, 9, strings.NewReader("")), Invalid)
	refusedAs(t, "a short part", one.PutPart(t.Context(), c, id, ref, total, 0, bytes.NewReader(f.body[:part-1])), WrongHash)
	for i, n := range []int{4, 0, 2} {
		if err := send([]*Stages{one, two}[i%2], n); err != nil {
			t.Fatalf("part %d: %v", n, err)
		}
	}
	three := d.stages(opt)
	if got, err := three.Parts(t.Context(), c, id, ref); err != nil || got.Got != "0,2,4" || got.Length != total || got.Part != part {
		t.Errorf("parts in another process: %+v, %v; want 0,2,4", got, err)
	}
	for _, n := range []int{1, 3} {
		if err := send(three, n); err != nil {
			t.Fatalf("part %d: %v", n, err)
		}
	}
	if done, err := three.Commit(t.Context(), c, id, Commit{}); err != nil || done.Files != 1 || !d.found(f) {
		t.Errorf("commit: %+v, %v, found %t; want 1 file that is found", done, err, d.found(f))
	}
}

// TestPushedBytesAreChecked: what another process received is hashed before it is
// committed, and asked for again if it is not right.
func TestPushedBytesAreChecked(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	one, f := d.stages(Options{}), newTestFile(1, 300)
	id := opened(t, one, c, Spec{})
	wanted(t, one, c, id, f)
	put(t, one, c, id, f)
	name := filepath.Join(d.dir, "staged", id, blob.Sum(f.body).String())
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), len(f.body)), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	two := d.stages(Options{})
	_, err := two.Commit(t.Context(), c, id, Commit{})
	if r := refusedAs(t, "commit of damaged bytes", err, Conflict); len(r.Missing) != 1 || r.Missing[0] != blob.Sum(f.body) {
		t.Errorf("missing: %v, want the damaged content", r.Missing)
	}
	put(t, two, c, id, f)
	if _, err := two.Commit(t.Context(), c, id, Commit{}); err != nil || !d.found(f) {
		t.Errorf("commit after the bytes came again: %v, found %t; want that it is found", err, d.found(f))
	}
}

// TestStageExpires: a stage that nobody uses ends with its bytes.
func TestStageExpires(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s, f := d.stages(Options{}), newTestFile(1, 300)
	id := opened(t, s, c, Spec{})
	wanted(t, s, c, id, f)
	put(t, s, c, id, f)
	later := func(after time.Duration) {
		t.Helper()
		d.now = d.now.Add(after)
		if err := errors.Join(s.Expire(t.Context()), s.Sweep(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	later(23 * time.Hour)
	if st, err := s.State(t.Context(), c, id); err != nil || st.Got != 1 {
		t.Errorf("after 23 hours: %+v, %v; want an open stage with a content", st, err)
	}
	later(25 * time.Hour)
	_, err := s.State(t.Context(), c, id)
	refusedAs(t, "an expired stage", err, NotFound)
	if left := d.staged(); len(left) > 0 || d.found(f) {
		t.Errorf("%q are left of an expired stage, found %t; want nothing", left, d.found(f))
	}
}

// TestCollecting: each file of a stage that collects is found at once, and all of them are
// one transaction, which ends when none has come for five minutes.
func TestCollecting(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s, spec := d.stages(Options{}), Spec{Labels: Labels{Product: "P"}, Collect: true}
	id := opened(t, s, c, spec)
	for n := range 3 {
		f := newTestFile(n, 300)
		a, err := s.PutNew(t.Context(), c, id, f.path, time.Time{}, bytes.NewReader(f.body))
		if err != nil || a.Transaction != 1 || a.Ref != blob.Sum(f.body) || !d.found(f) {
			t.Errorf("file %d: %+v, %v, found %t; want build 1, and that it is found", n, a, err, d.found(f))
		}
	}
	d.now = d.now.Add(6 * time.Minute)
	if err := s.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := opened(t, s, c, spec); next == id {
		t.Error("a stage goes on 6 minutes after its last file, want a new one")
	}
}

// otherServers are servers that reach each other, by name.
type otherServers map[string]*Stages

func (o otherServers) Live(node string) (live, known bool) { return o[node] != nil, true }

func (o otherServers) Send(ctx context.Context, node string, question []byte, body io.Reader) ([]byte, error) {
	s := o[node]
	if s == nil {
		return nil, ErrNoAnswer
	}
	return s.Answer(ctx, question, body)
}

// TestForwarding: parts go to the server that has those of the stage; when it has ended,
// another one takes the stage over, without them.
func TestForwarding(t *testing.T) {
	t.Parallel()
	const part = 1000
	d, c, servers := newTestDepot(t), testCaller("ci"), otherServers{}
	for _, node := range []string{"one", "two"} {
		servers[node] = d.stages(Options{Node: node, Peers: servers, Limits: Limits{Part: part}})
	}
	one, two := servers["one"], servers["two"]
	f := newTestFile(1, 2*part+1)
	ref, total := blob.Sum(f.body), int64(len(f.body))
	id := opened(t, one, c, Spec{})
	wanted(t, one, c, id, f)
	send := func(s *Stages, n int) {
		t.Helper()
		b := f.body[n*part:]
		if err := s.PutPart(t.Context(), c, id, ref, total, n, bytes.NewReader(b[:min(part, len(b))])); err != nil {
			t.Fatalf("part %d: %v", n, err)
		}
	}
	send(two, 0)
	send(one, 1)
	if got, err := two.Parts(t.Context(), c, id, ref); err != nil || got.Got != "0-1" {
		t.Errorf("parts asked of the other server: %+v, %v; want 0-1", got, err)
	}
	if st, err := two.State(t.Context(), c, id); err != nil || st.Node != "one" {
		t.Errorf("the stage is at %q, %v; want at the server that opened it", st.Node, err)
	}
	delete(servers, "one")
	for n := range 3 {
		send(two, n)
	}
	if st, err := two.State(t.Context(), c, id); err != nil || st.Node != "two" {
		t.Errorf("after the first server has ended, the stage is at %q, %v; want at the other", st.Node, err)
	}
	if _, err := two.Commit(t.Context(), c, id, Commit{}); err != nil || !d.found(f) {
		t.Errorf("commit: %v, found %t; want that it is found", err, d.found(f))
	}
}

// TestStagesAreTheCallers: a stage does not exist for others, and has no owner without an
// id.
func TestStagesAreTheCallers(t *testing.T) {
	t.Parallel()
	d := newTestDepot(t)
	s, c := d.stages(Options{}), testCaller("ci")
	id := opened(t, s, c, Spec{Labels: Labels{Product: "Game"}})
	other := testCaller("ci")
	other.ID = "test:another"
	_, err := s.State(t.Context(), other, id)
	refusedAs(t, "the stage of somebody of the same name", err, NotFound)
	c.Write = func(string) bool { return false }
	_, _, err = s.Open(t.Context(), c, Spec{})
	refusedAs(t, "a stage of a product that the caller may not write", err, Forbidden)
	nobody := testCaller("nobody")
	nobody.ID = ""
	_, _, err = s.Open(t.Context(), nobody, Spec{})
	refusedAs(t, "a stage of a caller without an id", err, Forbidden)
	_, _, err = s.Open(t.Context(), testCaller("ci"), Spec{Labels: Labels{Class: "unknown"}})
	refusedAs(t, "a stage of an unknown class", err, Invalid)
}

// TestOtherThingsAreMissing: only a stage that is gone is called gone.
func TestOtherThingsAreMissing(t *testing.T) {
	t.Parallel()
	d := newTestDepot(t)
	s, c := d.stages(Options{}), testCaller("ci")
	id := opened(t, s, c, Spec{})
	err := s.explain(t.Context(), &fs.PathError{Op: "open", Path: "spool", Err: fs.ErrNotExist}, id)
	if _, refused := errors.AsType[*Refusal](err); refused || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there, of a stage that is: %v; want the error of the file", err)
	}
	if err := s.Abandon(t.Context(), c, id); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, "an error of a stage that was deleted meanwhile", s.explain(t.Context(), fs.ErrNotExist, id), NotFound)
}

// sendsParts returns the parts of a file, and a function that sends one to a stage. wrong sends it
// with a changed byte.
func sendsParts(t *testing.T, s *Stages, c Caller, id string, f testFile) (count int, send func(s *Stages, n int, wrong bool) error) {
	t.Helper()
	size := s.limits.Part
	return s.parts(int64(len(f.body))), func(s *Stages, n int, wrong bool) error {
		b := bytes.Clone(f.body[int64(n)*size:])
		b = b[:min(size, int64(len(b)))]
		if wrong {
			b[len(b)/2] ^= 1
		}
		return s.PutPart(t.Context(), c, id, blob.Sum(f.body), int64(len(f.body)), n, bytes.NewReader(b))
	}
}

// TestPartsAreHashedMeanwhile: parts that come before those in front of them are hashed while others
// come, and the content is right in any order.
func TestPartsAreHashedMeanwhile(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{Limits: Limits{Part: 1000}})
	f := newTestFile(1, 7500)
	id := opened(t, s, c, Spec{})
	wanted(t, s, c, id, f)
	count, send := sendsParts(t, s, c, id, f)
	p, done := s.partials.use(partialKey{id, blob.Sum(f.body)})
	defer done()
	for _, step := range [][2]int{{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {0, 1 + maxFollow}, {6, 7}} {
		if err := send(s, step[0], false); err != nil {
			t.Fatalf("part %d: %v", step[0], err)
		}
		if x := p.hashed(); x.parts != step[1] {
			t.Errorf("after part %d, %d parts are hashed, want %d", step[0], x.parts, step[1])
		}
	}
	if err := send(s, count-1, false); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Commit(t.Context(), c, id, Commit{}); err != nil || done.Files != 1 || !d.found(f) {
		t.Errorf("commit: %+v, %v; want the file", done, err)
	}
}

// TestDamagedParts: bytes that are not right are found before the content is accepted, whichever
// part has them, also when the hash of the first parts is known from before; then all parts are
// sent again.
func TestDamagedParts(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	opt := Options{Limits: Limits{Part: 1000}}
	one, two := d.stages(opt), d.stages(opt)
	for i, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 3, 2}, {2, 3, 0, 1}} {
		f := newTestFile(i+1, 3500)
		ref := blob.Sum(f.body)
		id := opened(t, one, c, Spec{Labels: Labels{Version: f.id}})
		wanted(t, one, c, id, f)
		count, send := sendsParts(t, one, c, id, f)
		all := func(s func(n int) *Stages, wrong int) (err error) {
			for k, n := range order {
				if err = send(s(n), n, n == wrong); err != nil && k < count-1 {
					t.Fatalf("order %v, part %d: %v", order, n, err)
				}
			}
			return err
		}
		first := func(int) *Stages { return one }
		for wrong := range count {
			refusedAs(t, fmt.Sprintf("order %v, part %d is wrong", order, wrong), all(first, wrong), WrongHash)
			if got, err := one.Parts(t.Context(), c, id, ref); err != nil || got.Got != "" {
				t.Fatalf("parts after a wrong one: %+v, %v; want none", got, err)
			}
		}
		// The answer was lost, and the last part comes again: it is the only one.
		last := order[count-1]
		if err := send(one, last, false); err != nil {
			t.Fatal(err)
		}
		_, err := one.Commit(t.Context(), c, id, Commit{})
		if r := refusedAs(t, "commit with one part", err, Conflict); len(r.Missing) != 1 {
			t.Errorf("missing: %v, want the content", r.Missing)
		}
		if err := one.Abandon(t.Context(), c, id); err != nil {
			t.Fatal(err)
		}
		id = opened(t, one, c, Spec{Labels: Labels{Version: f.id}})
		wanted(t, one, c, id, f)
		_, send = sendsParts(t, one, c, id, f)
		// Another process finds the wrong part. This one knows the hash of the first parts, and gets
		// other bytes for them.
		refusedAs(t, "two processes", all(func(n int) *Stages {
			if n == last {
				return two
			}
			return one
		}, last), WrongHash)
		refusedAs(t, "the first part is wrong now", all(first, 0), WrongHash)
		if err := all(first, -1); err != nil {
			t.Fatalf("order %v, all right: %v", order, err)
		}
		if err := send(one, 0, true); err != nil {
			t.Errorf("a part of a content that has arrived: %v; want that it is not read", err)
		}
		if done, err := one.Commit(t.Context(), c, id, Commit{}); err != nil || done.Files != 1 || !d.found(f) {
			t.Errorf("commit: %+v, %v; want the file", done, err)
		}
	}
}

// ending calls a function when it is read to its end.
type ending struct {
	io.Reader
	end func()
}

func (e ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.end()
	}
	return n, err
}

// TestUnrecordedPart: a part that was written and hashed, but not recorded, comes again, and what
// counts are the bytes that are written then.
func TestUnrecordedPart(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{Limits: Limits{Part: 1000}})
	f := newTestFile(1, 2500)
	id := opened(t, s, c, Spec{})
	wanted(t, s, c, id, f)
	_, send := sendsParts(t, s, c, id, f)
	ctx, cancel := context.WithCancel(t.Context())
	body := ending{bytes.NewReader(f.body[:1000]), cancel}
	if err := s.PutPart(ctx, c, id, blob.Sum(f.body), int64(len(f.body)), 0, body); !errors.Is(err, context.Canceled) {
		t.Fatalf("a part that cannot be recorded: %v", err)
	}
	p, done := s.partials.use(partialKey{id, blob.Sum(f.body)})
	defer done()
	if x := p.hashed(); x.parts != 0 {
		t.Errorf("%d parts are hashed before one is recorded, want none", x.parts)
	}
	for n, wrong := range []bool{true, false} {
		if err := send(s, n, wrong); err != nil {
			t.Fatal(err)
		}
	}
	refusedAs(t, "other bytes than those that were hashed first", send(s, 2, false), WrongHash)
}

// TestPartsOfTwoProcesses: what a process has hashed does not count when another one has found it wrong and has got
// other bytes since.
func TestPartsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	opt := Options{Limits: Limits{Part: 1000}}
	one, two := d.stages(opt), d.stages(opt)
	for i, second := range []*Stages{one, two} { // which gets the second part then
		f := newTestFile(i+1, 3500)
		id := opened(t, one, c, Spec{Labels: Labels{Version: f.id}})
		wanted(t, one, c, id, f)
		_, send := sendsParts(t, one, c, id, f)
		get := func(s *Stages, n int, wrong bool) {
			t.Helper()
			if err := send(s, n, wrong); err != nil {
				t.Fatal(err)
			}
		}
		get(one, 0, false)
		get(two, 1, true)
		get(two, 2, false)
		refusedAs(t, "the second part is wrong", send(two, 3, false), WrongHash)
		get(two, 0, true)
		get(second, 1, false)
		if second == two {
			refusedAs(t, "the first part is wrong now", errors.Join(send(two, 2, false), send(one, 3, false)), WrongHash)
			continue
		}
		get(one, 2, false)
		p, done := one.partials.use(partialKey{id, blob.Sum(f.body)})
		if x := p.hashed(); x.parts != 3 {
			t.Errorf("%d parts are hashed again, want 3", x.parts)
		}
		done()
		refusedAs(t, "the first part is wrong now", send(one, 3, false), WrongHash)
	}
}

// TestPartsAtOnce: parts come from several connections at once, each of them twice.
func TestPartsAtOnce(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{Limits: Limits{Part: 1000}})
	f := newTestFile(1, 60_500)
	id := opened(t, s, c, Spec{})
	wanted(t, s, c, id, f)
	count, send := sendsParts(t, s, c, id, f)
	parts := make(chan int)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range parts {
				err := send(s, n, false)
				if r, ok := errors.AsType[*Refusal](err); ok && r.Kind == Busy {
					continue // it is coming from the other
				}
				if err != nil {
					t.Errorf("part %d: %v", n, err)
				}
			}
		})
	}
	for n := range count {
		parts <- n
		parts <- n
	}
	close(parts)
	wg.Wait()
	if done, err := s.Commit(t.Context(), c, id, Commit{}); err != nil || done.Files != 1 || !d.found(f) {
		t.Errorf("commit: %+v, %v; want the file", done, err)
	}
}

// TestPartsAgain: parts that come again while their content is being accepted do not undo that.
func TestPartsAgain(t *testing.T) {
	t.Parallel()
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{Limits: Limits{Part: 1000}})
	id := opened(t, s, c, Spec{})
	const files = 40
	for i := range files {
		f := newTestFile(i+1, 2500)
		wanted(t, s, c, id, f)
		count, send := sendsParts(t, s, c, id, f)
		var wg sync.WaitGroup
		for range 3 {
			for n := range count {
				wg.Go(func() {
					err := send(s, n, false)
					if r, ok := errors.AsType[*Refusal](err); err != nil && (!ok || r.Kind != Busy) {
						t.Errorf("part %d: %v", n, err)
					}
				})
			}
		}
		wg.Wait()
	}
	if done, err := s.Commit(t.Context(), c, id, Commit{}); err != nil || done.Files != files {
		t.Errorf("commit: %+v, %v; want %d files", done, err, files)
	}
}
