package depot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/publicform"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// working does the jobs of a depot until the end of a test.
func working(t *testing.T, d *Depot) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Jobs().Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// publicly asks for the public form at a path, and waits until it is made.
func publicly(t *testing.T, d *Depot, path string) (body []byte, ref blob.Ref, err error) {
	t.Helper()
	segs, err := layout.Segments(path)
	if err != nil {
		t.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }
	// The scope of the question must not count.
	q := answer.Question{Scope: answer.Scope{}, Request: req, Hold: hold}
	f, err := d.Public(t.Context(), audience.ScopeOf(false, []string{"app"}), q)
	if err != nil {
		return nil, ref, err
	}
	defer f.Answer().Close()
	body, err = io.ReadAll(io.NewSectionReader(f.Answer(), 0, f.Answer().Size))
	return body, f.Answer().Ref, err
}

// TestPublicFormLife: the public form of a cold file can be made, is made once, is made again if its
// bytes are lost, and goes with the file.
func TestPublicFormLife(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		working(t, d)
		n := newNightly("app", 7, 4000)
		var paths []string
		var bodies [][]byte
		for no := range 3 {
			f, path := n.build(no)
			f.body = append(f.body, "FILE 0 /secret/source.cpp\n"...)
			add(t, d, "app", f)
			c.advance(24 * time.Hour)
			paths, bodies = append(paths, path), append(bodies, f.body)
		}
		sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{})
		if err != nil || sum.Contents == 0 {
			t.Fatalf("cool: %+v, %v; want some cold files", sum, err)
		}
		c.advance(48 * time.Hour)
		if _, err := d.Cold.Strip(t.Context(), coldstore.CoolGrace); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Cold.Store().Below().Stat(t.Context(), blob.Sum(bodies[0])); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("plain bytes of a cold file: %v, want fs.ErrNotExist", err)
		}
		var forms []blob.Ref
		for i, path := range paths {
			var first blob.Ref
			for again := range 3 {
				body, ref, err := publicly(t, d, path)
				if err != nil || bytes.Contains(body, []byte("secret")) || !bytes.Contains(body, []byte("ns::Class1::")) || bytes.Equal(body, bodies[i]) {
					t.Fatalf("%s: %d bytes, %v; want the public form", path, len(body), err)
				}
				if again == 0 {
					first = ref
					forms = append(forms, ref)
				}
				if ref != first || ref != blob.Sum(body) {
					t.Errorf("%s: the form has the hash %s, then %s", path, first, ref)
				}
			}
		}
		list, err := d.Jobs().List(t.Context(), jobs.Filter{Kind: publicform.Kind})
		if err != nil || len(list) != len(paths) {
			t.Errorf("%d jobs, %v; want one for each of %d files", len(list), err, len(paths))
		}
		if err := d.blobs.Delete(t.Context(), forms[0]); err != nil {
			t.Fatal(err)
		}
		if body, ref, err := publicly(t, d, paths[0]); err != nil || ref != forms[0] || len(body) == 0 {
			t.Errorf("a form whose bytes were lost: %d bytes, %v; want it to be made again", len(body), err)
		}
		txs, err := d.List(t.Context(), answer.Scope{}, ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range txs {
			if _, err := d.Retention.Remove(t.Context(), tx.Number, "test"); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := publicly(t, d, paths[1]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the form of a removed file: %v, want fs.ErrNotExist", err)
		}
		c.advance(48 * time.Hour)
		for range 3 { // what is made of what was made goes later
			if _, err := d.Collect(t.Context(), time.Hour, false); err != nil {
				t.Fatal(err)
			}
			c.advance(48 * time.Hour)
		}
		for _, form := range forms {
			if known, err := d.db.HasContent(t.Context(), form); err != nil || known {
				t.Errorf("the form %s is still stored after its file was collected, %v", form, err)
			}
		}
	})
}

// classed adds files as a build of a class.
func classed(t *testing.T, d *Depot, class string, files ...file) int64 {
	t.Helper()
	tx, err := d.Begin(t.Context(), TxInfo{Product: "app", Class: class})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	for _, f := range files {
		if _, err := tx.Add(t.Context(), Source{Path: f.path, Label: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
			t.Fatalf("%s: %v", f.path, err)
		}
	}
	n, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// jobsOf lists the jobs of a kind, newest first.
func jobsOf(t *testing.T, d *Depot, kind string) []jobs.Job {
	t.Helper()
	list, err := d.Jobs().List(t.Context(), jobs.Filter{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// ended waits until the newest job of a kind has ended, and returns it.
func ended(t *testing.T, d *Depot, kind string) jobs.Job {
	t.Helper()
	list := jobsOf(t, d, kind)
	if len(list) == 0 {
		t.Fatalf("there is no job of the kind %s", kind)
	}
	if _, err := d.Jobs().Wait(t.Context(), list[0].ID, list[0].State); err != nil {
		t.Fatal(err)
	}
	return jobsOf(t, d, kind)[0]
}

// damagedELF is a file whose id can be read, and its symbols cannot.
func damagedELF(t *testing.T) file {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "testdata", "elf", "prog-sha1.debug"))
	if err != nil {
		t.Fatal(err)
	}
	const sectionSize, link, symtab = 64, 40, 2
	first := int(binary.LittleEndian.Uint64(body[0x28:]))
	for at := first; at+sectionSize <= len(body); at += sectionSize {
		if binary.LittleEndian.Uint32(body[at+4:]) == symtab {
			binary.LittleEndian.PutUint32(body[at+link:], 0xffff)
		}
	}
	return file{"build/damaged.debug", body}
}

// TestPublish: the public forms of a class are made at the push and at a promotion, once, also
// after a restart, and what has none is said.
func TestPublish(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	setPolicy(t, d, "classes:", "  - {name: release, publish: public}", "  - {name: nightly, keep_last: 5}")
	n := newNightly("app", 7, 40)
	ours := func() file {
		f, _ := n.build(int(n.rand.Int32()))
		f.path, f.body = strings.Replace(f.path, "app", "app"+string(rune('a'+n.rand.IntN(26))), 1), append(f.body, "FILE 0 /secret/source.cpp\n"...)
		return f
	}
	made := func(what string, f file, want bool) {
		t.Helper()
		j, err := d.db.Jobs.Last(t.Context(), publicform.Kind, blob.Sum(f.body).String(), 0)
		if got := err == nil && j.State == jobs.Done && j.Result != nil; got != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a public form was made: %v, %v; want %v", what, got, err, want)
		}
	}
	ppdb, err := os.ReadFile(filepath.Join("..", "..", "testdata", "ppdb", "lines.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	first, second, night := ours(), ours(), ours()

	// A command adds, and does no jobs: they wait for a server.
	classed(t, d, "release", first, second, file{"build/lines.pdb", ppdb})
	nightly := classed(t, d, "nightly", night)
	if list := jobsOf(t, d, publicform.BuildKind); len(list) != 1 || list[0].State != jobs.Queued || list[0].Key != "build 1" {
		t.Fatalf("jobs after the commits: %+v, want one for build 1 that waits", list)
	}
	made("before the job", first, false)
	working(t, d)
	if j := ended(t, d, publicform.BuildKind); j.State != jobs.Done ||
		j.Detail != "build 1: files with a public form: 2, with nothing public: 1" {
		t.Errorf("the job of the build: %s %q", j.State, j.Detail)
	}
	made("the first file", first, true)
	made("the second file", second, true)
	made("a file of another class", night, false)

	// The same build once more makes nothing again.
	if again := classed(t, d, "release", first, second, file{"build/lines.pdb", ppdb}); again != 1 {
		t.Errorf("the same build once more is build %d, want 1", again)
	}
	ended(t, d, publicform.BuildKind)
	if list := jobsOf(t, d, publicform.Kind); len(list) != 3 {
		t.Errorf("%d jobs for files, want one for each of three: %+v", len(list), list)
	}

	if _, err := d.Retention.Promote(t.Context(), nightly, "release", "anna", false); err != nil {
		t.Fatal(err)
	}
	if j := ended(t, d, publicform.BuildKind); j.State != jobs.Done || !strings.HasPrefix(j.Detail, "build 2: files with a public form: 1,") {
		t.Errorf("the job of a promoted build: %s %q", j.State, j.Detail)
	}
	made("a promoted file", night, true)

	classed(t, d, "release", ours(), damagedELF(t))
	if j := ended(t, d, publicform.BuildKind); j.State != jobs.Failed || !strings.Contains(j.Detail, "failed: 1, the first: damaged.debug: ") {
		t.Errorf("the job of a build with a damaged file: %s %q, want a failure that names the file", j.State, j.Detail)
	}
}

// TestPublishGrowing: a build that gets a file while its job runs gets another job, and the job of a
// server that was killed is done by the next one.
func TestPublishGrowing(t *testing.T) {
	t.Parallel()
	d, c := newDepot(t)
	enter := func() {
		t.Helper()
		setPolicy(t, d, "classes:", "  - {name: release, publish: public}")
		if _, err := d.Retention.Promote(t.Context(), 1, "release", "anna", false); err != nil {
			t.Fatal(err)
		}
	}
	f, _ := newNightly("app", 7, 40).build(1)
	add(t, d, "app", f)
	for range 3 {
		enter()
	}
	if list := jobsOf(t, d, publicform.BuildKind); len(list) != 1 {
		t.Fatalf("%d jobs that wait for one build, want one", len(list))
	}
	leased, err := d.db.Jobs.Lease(t.Context(), "worker", []string{publicform.BuildKind}, nil, time.Hour, 5)
	if err != nil || len(leased) != 1 {
		t.Fatalf("%d jobs were leased, %v; want one", len(leased), err)
	}
	for range 3 {
		enter()
	}
	if list := jobsOf(t, d, publicform.BuildKind); len(list) != 2 || list[0].State != jobs.Queued || list[0].Variant != 1 {
		t.Errorf("jobs while one runs: %+v, want another one that waits", list)
	}
	c.advance(2 * time.Hour)
	working(t, d)
	for _, j := range jobsOf(t, d, publicform.BuildKind) {
		if st, err := d.Jobs().Wait(t.Context(), j.ID, j.State); err != nil || st != jobs.Done {
			t.Errorf("job %d, whose server was killed or that waited behind it: %s, %v; want done", j.ID, st, err)
		}
	}
	if list := jobsOf(t, d, publicform.Kind); len(list) != 1 {
		t.Errorf("%d jobs for one file, want one", len(list))
	}
}

// TestPublicFormCold: public forms become cold too, built from each other and never from private
// contents; they are read, healed, counted and freed as others are.
func TestPublicFormCold(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		ctx := t.Context()
		working(t, d)
		n := newNightly("app", 7, 6000)
		var paths []string
		forms, sources := map[blob.Ref][]byte{}, map[blob.Ref]bool{}
		var order []blob.Ref
		for no := range 5 {
			f, path := n.build(no)
			f.body = append(f.body, "FILE 0 /secret/source.cpp\n"...)
			add(t, d, "app", f)
			body, ref, err := publicly(t, d, path)
			if err != nil {
				t.Fatal(err)
			}
			c.advance(24 * time.Hour)
			paths, order = append(paths, path), append(order, ref)
			forms[ref], sources[blob.Sum(f.body)] = body, true
		}
		setPolicy(t, d, "classes:", "  - {name: all, match: {product: app}, keep_last: 1}", "brake: 100%")
		before := preview(t, d)
		cool := func() {
			t.Helper()
			c.advance(48 * time.Hour)
			if _, err := d.Cold.Cool(ctx, coldstore.CoolOptions{}); err != nil {
				t.Fatal(err)
			}
			c.advance(48 * time.Hour)
			if _, err := d.Cold.Strip(ctx, coldstore.CoolGrace); err != nil {
				t.Fatal(err)
			}
			// A base that only forms need is not exchanged: its file is there.
			if err := d.Cold.Unpin(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
		cool()
		deltas, key := 0, blob.Ref{}
		check := func() {
			t.Helper()
			deltas, key = 0, blob.Ref{}
			for i, ref := range order {
				row, err := d.Cold.Of(ctx, ref)
				if last := i == len(order)-1; last != errors.Is(err, fs.ErrNotExist) {
					t.Errorf("form %d: %v; want all cold but the newest", i, err)
				}
				if err != nil || row.Base == nil {
					continue
				}
				deltas, key = deltas+1, row.Base.Ref
				if _, isForm := forms[row.Base.Ref]; !isForm || sources[row.Base.Ref] {
					t.Errorf("form %d is built from %s, which is no form", i, row.Base.Ref)
				}
				if row.File.Size*5 > row.Size {
					t.Errorf("form %d takes %d of %d bytes, want less than a fifth", i, row.File.Size, row.Size)
				}
			}
		}
		check()
		if deltas < 2 {
			t.Fatalf("%d forms are deltas, want 2 and more", deltas)
		}
		read := func(what string) {
			t.Helper()
			for i, path := range paths {
				if body, ref, err := publicly(t, d, path); err != nil || ref != order[i] || !bytes.Equal(body, forms[ref]) {
					t.Errorf("%s: form %d has %d bytes, %v", what, i, len(body), err)
				}
			}
		}
		read("cold")
		wantClean(t, d)
		after := preview(t, d)
		if before.Builds() != 4 || after.Builds() != 4 || before.Frees.DerivedSize == 0 || after.Frees.Stored >= before.Frees.Stored/2 {
			t.Errorf("plans free %+v of %d builds before, and %+v of %d after", before.Frees, before.Builds(), after.Frees, after.Builds())
		}

		// The bytes of the base are lost: the next requests make the forms again.
		lost := key
		if row, err := d.Cold.Of(ctx, key); err == nil {
			lost = row.File.Ref
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := d.Cold.Store().Below().Delete(ctx, lost); err != nil {
			t.Fatal(err)
		}
		for ref := range forms {
			d.Cold.Store().Forget(ref)
		}
		read("after the loss of the base")
		wantClean(t, d)
		cool()
		check()
		read("cold again")

		// A purge frees the form of the build although others are built from it.
		for i, ref := range order {
			if ref != key && deltas > 0 {
				continue
			}
			if _, err := d.Retention.Purge(ctx, int64(i+1), "anna", "a leak"); err != nil {
				t.Fatal(err)
			}
			if known, err := d.db.HasContent(ctx, ref); err != nil || known {
				t.Errorf("the form of a purged build is stored: %v, %v", known, err)
			}
			paths, order = append(paths[:i:i], paths[i+1:]...), append(order[:i:i], order[i+1:]...)
			break
		}
		read("after the purge")
		wantClean(t, d)
		txs, err := d.List(ctx, answer.Scope{}, ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, tx := range txs {
			if _, err := d.Retention.Remove(ctx, tx.Number, "test"); err != nil && tx.Removed.IsZero() {
				t.Fatal(err)
			}
		}
		for range 2 { // a base goes after what was built from it
			c.advance(48 * time.Hour)
			if _, err := d.Collect(ctx, time.Hour, false); err != nil {
				t.Fatal(err)
			}
		}
		if st, err := d.db.Stats(ctx); err != nil || st.Contents != 0 {
			t.Errorf("%d contents are left, %v; want none", st.Contents, err)
		}
	})
}

// TestPublicFormCounted: the space of a public form belongs to the build of its file: in the usage
// of the product, in a plan, in the trash and in what garbage collection frees.
func TestPublicFormCounted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		ctx := t.Context()
		working(t, d)
		n := newNightly("app", 7, 6000)
		var paths []string
		for no := range 3 {
			f, path := n.build(no)
			f.body = append(f.body, "FILE 0 /secret/source.cpp\n"...)
			add(t, d, "app", f)
			c.advance(24 * time.Hour)
			paths = append(paths, path)
		}
		setPolicy(t, d, "classes:", "  - {name: all, match: {product: app}, keep_last: 1}", "brake: 100%", "trash: 7d")
		usage := func() (own, total, plan, trash int64) {
			t.Helper()
			u, err := d.Retention.Usage(ctx)
			if err != nil || len(u.Products) > 1 {
				t.Fatalf("usage: %+v, %v; want one product at most", u, err)
			}
			for _, p := range u.Products {
				own += p.Own
			}
			_, _, space, err := d.Retention.Trash(ctx)
			if err != nil || space != u.Trash {
				t.Errorf("the trash holds %d bytes back, and its list says %d, %v", u.Trash, space, err)
			}
			return own, u.Live, u.Plan.Frees, u.Trash
		}
		block := d.Retention.Block
		own, live, plan, _ := usage()
		var all, old int64
		for i, path := range paths {
			body, _, err := publicly(t, d, path)
			if err != nil {
				t.Fatal(err)
			}
			form := (int64(len(body)) + block - 1) / block * block
			all += form
			if i < 2 {
				old += form
			}
		}
		own2, live2, plan2, _ := usage()
		if own2-own != all || live2-live != all || plan2-plan != old {
			t.Errorf("with forms of %d bytes, %d of them of old builds, the product has %d more, all builds %d, the plan %d",
				all, old, own2-own, live2-live, plan2-plan)
		}
		c.advance(48 * time.Hour)
		if _, err := d.Cold.Cool(ctx, coldstore.CoolOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Cold.Strip(ctx, -time.Hour); err != nil {
			t.Fatal(err)
		}
		_, _, cold, _ := usage()
		if cold >= plan2/2 {
			t.Errorf("the plan frees %d bytes of cold files and forms, want less than half of %d", cold, plan2)
		}
		p := preview(t, d)
		if p.Frees.Stored != cold || p.Frees.DerivedStored != cold {
			t.Errorf("the plan frees %+v, and the usage says %d", p.Frees, cold)
		}
		if _, err := d.Retention.Apply(ctx, p.Ticket.Number, 0, "anna"); err != nil {
			t.Fatal(err)
		}
		if _, _, _, trash := usage(); trash != cold {
			t.Errorf("the trash holds %d bytes back, want the %d of the plan", trash, cold)
		}
		c.advance(8 * 24 * time.Hour)
		got, err := d.Retention.Collect(ctx, lifecycle.CollectOptions{Grace: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, _, trash := usage(); trash != 0 || got.Contents == 0 {
			t.Errorf("after gc of %+v the trash holds %d bytes", got, trash)
		}
		wantClean(t, d)
	})
}

// TestPublicFormAdded: a file that is the public form of another one may be built from that one when
// both are cold. The form's record then does not lead in circles: plans are computed, and all goes.
func TestPublicFormAdded(t *testing.T) {
	t.Parallel()
	d, c := roomyDepot(t)
	ctx := t.Context()
	n := newNightly("app", 7, 6000)
	plain, _ := n.build(0)
	whole := file{plain.path, append(slices.Clone(plain.body), "FILE 0 /secret/source.cpp\n"...)}
	newest, _ := n.build(1)
	for _, f := range []file{whole, plain, newest} {
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	form, err := d.door.Form(ctx, record.Stored{Ref: blob.Sum(whole.body), Size: int64(len(whole.body))})
	if err != nil {
		t.Fatal(err)
	}
	defer form.Answer().Close()
	if form.Answer().Ref != blob.Sum(plain.body) {
		t.Fatal("the public form is not the added file")
	}
	c.advance(24 * time.Hour)
	series := []coldstore.Candidate{
		{Ref: blob.Sum(whole.body), Size: int64(len(whole.body)), Order: 1}, {Ref: blob.Sum(plain.body), Size: int64(len(plain.body)), Order: 2},
	}
	for i := range series { // a key, and a delta of it
		if done, err := d.Cold.CoolOne(ctx, series[:i+1], i, coldstore.CoolOptions{}); err != nil || i == 1 && done.Base != series[0].Ref {
			t.Fatalf("content %d: %+v, %v; want the first a key, the second a delta of it", i, done, err)
		}
	}
	setPolicy(t, d, "classes:", "  - {name: all, match: {product: app}, keep_last: 1}", "brake: 100%")
	p := preview(t, d)
	if p.Builds() != 2 {
		t.Errorf("the plan removes %d builds, want 2", p.Builds())
	}
	if _, err := d.Retention.Apply(ctx, p.Ticket.Number, 0, "anna"); err != nil {
		t.Fatal(err)
	}
	if err := d.Cold.Unpin(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.advance(48 * time.Hour)
		if _, err := d.Collect(ctx, time.Hour, false); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := d.db.Stats(ctx); err != nil || st.Contents != 1 {
		t.Errorf("%d contents are left, %v; want that of the newest build", st.Contents, err)
	}
}
