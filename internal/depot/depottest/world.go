package depottest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
	"github.com/symdepot/symdepot/layout"
)

// Product is the product of all transactions of a World.
const Product = "app"

// World is a depot that several processes have open, with files whose contents are all in one
// state.
type World struct {
	State State
	Files []File
	// Server is a process that has had the depot open all the time.
	Server *depot.Depot
	// Where is the folder of the depot, or the address of its database. Peer is the store of
	// its bucket; nil if it has none.
	Where string
	Peer  *buckettest.Peer

	db     *index.DB
	bucket bucket.Bucket
	clock  atomic.Int64 // what the present lacks, in nanoseconds
}

// now is the clock of the processes.
func (w *World) now() time.Time { return time.Now().Add(-time.Duration(w.clock.Load())) }

// New makes a depot with one file of each format; the order of the formats is that of the
// files. Spoil then brings their contents into the state.
func New(t *testing.T, s State, formats ...Format) *World {
	t.Helper()
	w := &World{State: s, Where: filepath.Join(t.TempDir(), "depot")}
	if !s.Home.OnDisk() {
		w.Peer = buckettest.S3(t)
		w.bucket = w.openBucket(t)
	}
	if s.Home == DatabaseCluster {
		w.Where = pgtest.Shared(t).Made(t, "index", func(where string) error {
			db, err := index.Open(t.Context(), where, index.Options{Placed: true})
			if err != nil {
				return err
			}
			return db.Close()
		})
	}
	const between = 24 * time.Hour // between two builds
	w.clock.Store(int64(between) * int64(2*len(formats)+1))
	w.Server = w.Process(t, depot.Options{})
	w.openIndex(t)
	if s.Holder == Trashed {
		policy := []byte("retention:\n  trash: 7d\n")
		if _, err := w.Server.Retention.SetPolicy(t.Context(), "policy", policy, "test", -1); err != nil {
			t.Fatal(err)
		}
	}
	for i, format := range formats {
		file := format(t, i, 0)
		switch {
		case s.Holder == Cached:
			w.Download(t, &file)
			file.downloaded = false // the next way in decides
		case s.Home.cold():
			file = w.addCold(t, i, format, func() { w.clock.Add(-int64(between)) })
		default:
			w.Add(t, w.Server, file)
		}
		w.Files = append(w.Files, file)
	}
	w.clock.Store(0)
	if s.Holder == Trashed {
		w.trash(t)
	}
	return w
}

func (w *World) openBucket(t *testing.T) bucket.Bucket {
	t.Helper()
	p := w.Peer
	b, err := bucket.OpenS3(bucket.S3Config{
		Bucket: p.Bucket, Prefix: "depot", Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret,
	}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openIndex opens the index of the depot, past the depot.
func (w *World) openIndex(t *testing.T) {
	t.Helper()
	at := w.Where
	if w.State.Home != DatabaseCluster {
		at = filepath.Join(w.Where, "index.db")
	}
	db, err := index.Open(t.Context(), at, index.Options{MustExist: true, Placed: !w.State.Home.OnDisk()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w.db = db
}

// Process opens the depot as one more process does, until the test ends.
func (w *World) Process(t *testing.T, opt depot.Options) *depot.Depot {
	t.Helper()
	switch {
	case w.State.Home != DatabaseCluster:
		opt.Now = w.now
	case opt.Upstreams == nil: // the others have none, and would not download for it
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		opt.Nodes = nodes.Options{Listener: ln, Address: ln.Addr().String()}
	}
	if w.Peer != nil {
		opt.Bucket, opt.Local = w.openBucket(t), t.TempDir()
	}
	d, err := depot.Open(t.Context(), w.Where, opt)
	if err != nil {
		t.Fatal(err)
	}
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// whole is the bytes of a file, as symdepot add opens it.
type whole struct{ *bytes.Reader }

func (whole) Changed() bool { return false }

// Add adds a file as a new transaction, and returns its number.
func Add(t *testing.T, d *depot.Depot, info depot.TxInfo, name string, body []byte) int64 {
	t.Helper()
	return addFile(t, d, info, depot.Source{Path: "/build/" + name, Content: whole{bytes.NewReader(body)}})
}

func addFile(t *testing.T, d *depot.Depot, info depot.TxInfo, src depot.Source) int64 {
	t.Helper()
	tx, err := d.Begin(t.Context(), info)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Add(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	number, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// Add adds a file as symdepot add does: if a transaction of the version has it already, none
// is made.
func (w *World) Add(t *testing.T, d *depot.Depot, f File) {
	t.Helper()
	src := depot.Source{Path: "/build/" + f.Name, Label: f.Name, Content: whole{bytes.NewReader(f.Body)}}
	addFile(t, d, depot.TxInfo{Product: Product, Version: "1"}, src)
}

// addCold adds two builds of a module and makes one of them cold. It returns that.
func (w *World) addCold(t *testing.T, module int, format Format, nextDay func()) File {
	t.Helper()
	older, newer := format(t, module, 0), format(t, module, 1)
	for _, f := range []File{older, newer} {
		w.Add(t, w.Server, f)
		nextDay()
	}
	sum, err := w.Server.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour})
	if err != nil || sum.Contents != 1 {
		t.Fatalf("cool: %+v, %v; want 1 content", sum, err)
	}
	file := older
	if w.State.Home == Key || w.State.Home == KeyInBucket {
		file = newer
		alone := []coldstore.Candidate{{Ref: blob.Sum(newer.Body), Size: int64(len(newer.Body)), Needed: 1}}
		if _, err := w.Server.Cold.CoolOne(t.Context(), alone, 0, coldstore.CoolOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	row, err := w.Server.Cold.Of(t.Context(), blob.Sum(file.Body))
	if err != nil || (row.Base != nil) != (file.Path == older.Path) {
		t.Fatalf("the record of %s: %+v, %v; want that of a %s", file.Name, row, err, w.State.Home)
	}
	return file
}

// Upstream is a server from which a depot downloads. It has one file, or none while Body is nil.
type Upstream struct {
	File
	Asked atomic.Int32
}

// Name implements fetch.Source.
func (*Upstream) Name() string { return "upstream" }

// Close implements fetch.Source.
func (*Upstream) Close() error { return nil }

// Traits implements fetch.Source.
func (*Upstream) Traits() fetch.Traits { return fetch.Traits{} }

// Fetch implements fetch.Source.
func (u *Upstream) Fetch(context.Context, fetch.Ask) (*fetch.Reply, error) {
	u.Asked.Add(1)
	if u.Body == nil {
		return nil, &fetch.Failure{Source: u.Name(), Class: fetch.ClassNotFound}
	}
	body := io.NopCloser(bytes.NewReader(u.Body))
	return &fetch.Reply{Body: body, Size: int64(len(u.Body)), Name: u.File.Name, Path: "http://upstream/" + u.Path}, nil
}

// Download requests a file of a process with an upstream that has it.
func (w *World) Download(t *testing.T, f *File) {
	t.Helper()
	f.downloaded = true
	d := w.Process(t, depot.Options{Upstreams: []depot.Upstream{{Source: &Upstream{File: *f}}}})
	if got, _, err := Get(t, d, f.Path); err != nil || !bytes.Equal(got, f.Body) {
		t.Fatalf("a download of %s: %d bytes, %v; want the %d of the upstream", f.Path, len(got), err, len(f.Body))
	}
}

// trash removes the transactions of the files.
func (w *World) trash(t *testing.T) {
	t.Helper()
	for i := range w.Files {
		for _, number := range w.transactions(t, &w.Files[i]) {
			if _, err := w.Server.Retention.Remove(t.Context(), number, "test"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if list, _, _, err := w.Server.Retention.Trash(t.Context()); err != nil || len(list) != len(w.Files) {
		t.Fatalf("%d builds are in the trash, %v; want %d", len(list), err, len(w.Files))
	}
}

// transactions returns the live transactions that hold a file.
func (w *World) transactions(t *testing.T, f *File) (numbers []int64) {
	t.Helper()
	list, err := w.Server.Find(t.Context(), answer.Scope{}, blob.Sum(f.Body).String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range list {
		if found.Number > 0 {
			numbers = append(numbers, found.Number)
		}
	}
	return numbers
}

// Spoil brings the stored bytes of all files into the state.
func (w *World) Spoil(t *testing.T) {
	t.Helper()
	harm := w.State.Harm
	if harm == Intact {
		return
	}
	for i := range w.Files {
		ref := blob.Sum(w.Files[i].Body)
		if row, err := w.Server.Cold.Of(t.Context(), ref); err == nil {
			ref = row.File.Ref
		}
		if w.State.Home.OnDisk() {
			w.spoilFile(t, ref)
		} else {
			w.spoilObject(t, ref)
		}
	}
	if !harm.seen() {
		return
	}
	if w.State.Holder == Trashed { // nobody can ask for them
		w.Faults(t)
	} else {
		d := w.Process(t, depot.Options{})
		for i := range w.Files {
			if _, _, err := Get(t, d, w.Files[i].Path); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s is served: %v, want fs.ErrNotExist", w.Files[i].Path, err)
			}
		}
	}
	for i := range w.Files {
		symtest.Await(t, 10*time.Second, "the damage in the index", func() bool {
			what, err := w.db.Damages.Of(t.Context(), blob.Sum(w.Files[i].Body))
			return err == nil && what != ""
		})
	}
}

// overwrite replaces bytes in the middle of stored ones.
func overwrite(b []byte) { copy(b[len(b)/2:], "XXXX") }

// pathOf is where a depot on disk has the bytes of a content or a cold file.
func pathOf(t *testing.T, d *depot.Depot, ref blob.Ref) string {
	t.Helper()
	disk, ok := d.Cold.Store().Below().(*blob.Disk)
	if !ok {
		t.Fatal("the contents are not on disk")
	}
	return disk.Path(ref)
}

// Damage changes the stored bytes of a content on disk.
func Damage(t *testing.T, d *depot.Depot, body []byte) {
	t.Helper()
	damageFile(t, pathOf(t, d, blob.Sum(body)))
}

func damageFile(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(b)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// spoilFile changes or deletes a stored file.
func (w *World) spoilFile(t *testing.T, ref blob.Ref) {
	t.Helper()
	path := pathOf(t, w.Server, ref)
	if !w.State.Harm.deleted() {
		damageFile(t, path)
	} else if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// spoilObject changes or deletes the object of a content.
func (w *World) spoilObject(t *testing.T, ref blob.Ref) {
	t.Helper()
	u, _, err := w.db.Places.Of(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	h := ref.String()
	key := "c/" + h[:2] + "/" + h + "/" + u.Place
	var body []byte
	if !w.State.Harm.deleted() {
		o, err := w.bucket.Get(t.Context(), key, 0, -1, "")
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(o.Body)
		if err = errors.Join(err, o.Body.Close()); err != nil {
			t.Fatal(err)
		}
		overwrite(body)
	}
	if err := w.bucket.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if body != nil {
		if _, err := w.bucket.Put(t.Context(), key, int64(len(body)), bytes.NewReader(body), bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Get asks as a debugger does, and reads all of the answer.
// cached says that the answer came from the cache.
func Get(t *testing.T, d *depot.Depot, path string) (body []byte, cached bool, err error) {
	t.Helper()
	req, err := layout.Route(strings.Split(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Get(t.Context(), answer.Question{Request: req})
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	var b bytes.Buffer
	for buf := make([]byte, 32<<10); ; {
		n, err := f.ReadAt(buf, int64(b.Len()))
		b.Write(buf[:n])
		if err == io.EOF {
			return b.Bytes(), f.Cached, nil
		}
		if err != nil {
			return b.Bytes(), f.Cached, err
		}
		if f.Growing && int64(b.Len()) == f.Size {
			return b.Bytes(), f.Cached, nil
		}
	}
}

// Faults are what verify finds.
func (w *World) Faults(t *testing.T) (list []content.Fault) {
	t.Helper()
	checker := w.Process(t, depot.Options{}).Check
	_, err := checker.Run(t.Context(), check.Options{Restore: true}, func(f content.Fault) { list = append(list, f) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// CheckHealed fails unless all files are in a transaction, or in the cache if they were
// downloaded, the server and a new process answer with their bytes, verify finds no fault,
// nothing is suspected any more, and nothing of that changes when all that held the contents
// before has gone: the cached files and the trash.
func (w *World) CheckHealed(t *testing.T) {
	t.Helper()
	w.checkAnswers(t, "afterwards", w.Files)
	w.checkSound(t, "afterwards")
	if w.State.Holder == Added {
		return
	}
	d := w.Process(t, depot.Options{Cache: cache.Limits{MaxUnused: time.Nanosecond}})
	files, after := w.Files, "without trash"
	if w.State.Holder == Cached {
		files, after = slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.downloaded }), "without cache"
		if _, err := d.Cache.Evict(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Retention.Collect(t.Context(), lifecycle.CollectOptions{EmptyTrash: true}); err != nil {
		t.Fatal(err)
	}
	w.checkAnswers(t, after, files)
	w.checkSound(t, after)
}

// checkAnswers checks what debuggers get of files.
func (w *World) checkAnswers(t *testing.T, when string, files []File) {
	t.Helper()
	for name, d := range map[string]*depot.Depot{"the server": w.Server, "a new process": w.Process(t, depot.Options{})} {
		for _, f := range files {
			got, cached, err := Get(t, d, f.Path)
			if err != nil || !bytes.Equal(got, f.Body) {
				t.Errorf("%s: %s: GET of %s: %d bytes, %v; want the %d that were sent", when, name, f.Path, len(got), err, len(f.Body))
				continue
			}
			if want := f.downloaded && w.State.Holder != Added; cached != want {
				t.Errorf("%s: %s: GET of %s: from the cache: %v, want %v", when, name, f.Path, cached, want)
			}
		}
	}
	for i := range files {
		want := !files[i].downloaded || w.State.Holder == Added
		if got := len(w.transactions(t, &files[i])) > 0; got != want {
			t.Errorf("%s: %s is in a build: %v, want %v", when, files[i].Name, got, want)
		}
	}
}

// checkSound checks what verify and the index know.
func (w *World) checkSound(t *testing.T, when string) {
	t.Helper()
	if faults := w.Faults(t); len(faults) > 0 {
		t.Errorf("%s: verify: %d faults, the first is %+v; want none", when, len(faults), faults[0])
	}
	for c, err := range w.db.Damages.All(t.Context()) {
		t.Errorf("%s: content %s is still suspected, error %v; want none", when, c.Ref, err)
	}
}
