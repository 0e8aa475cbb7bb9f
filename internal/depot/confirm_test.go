package depot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// sameName returns n symbol files of one path and different ids, and their request paths.
func sameName(n int) (files []file, paths []string) {
	for i := range n {
		id := fmt.Sprintf("%08X2F41492B9369D6B9A059577C1", i+1)
		id = (id + "00000000000000000000000000000000")[:32] + "1"
		files = append(files, file{"app.sym", symFile(id, 300)})
		paths = append(paths, "app.pdb/"+id+"/app.sym")
	}
	return files, paths
}

// claimed puts a file whose hash the client does not announce.
func claimed(t *testing.T, d *Depot, c stage.Caller, id string, f file) stage.Arrived {
	t.Helper()
	a, err := d.Stages().PutClaimed(t.Context(), c, id, stage.Entry{Path: f.path, Size: -1}, bytes.NewReader(f.body), nil)
	if err != nil {
		t.Fatalf("put %s: %v", f.path, err)
	}
	return a
}

// TestSamePaths: contents of one path are files of their own, in whatever order they come
// and however often, in a stage of a protocol that names files by base names, in one that
// collects, and in one that several jobs join.
func TestSamePaths(t *testing.T) { onDepots(t, testSamePaths) }

func testSamePaths(t *testing.T, d *Depot) {
	files, paths := sameName(5)
	for name, spec := range map[string]stage.Spec{
		"own":      {Labels: stage.Labels{Product: "own"}},
		"collects": {Labels: stage.Labels{Product: "collects"}, Collect: true},
	} {
		c := pusher(name)
		id := openStage(t, d, c, spec)
		var accepted []stage.Receipt
		for _, i := range []int{0, 1, 2, 1, 0, 3, 4, 4} {
			accepted = append(accepted, claimed(t, d, c, id, files[i]).Receipt)
		}
		if !spec.Collect {
			done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Accepted: accepted})
			if err != nil || done.Files != 5 {
				t.Fatalf("%s: %+v, %v; want 5 files", name, done, err)
			}
			if again, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Accepted: accepted}); err != nil || again.Transaction != done.Transaction {
				t.Errorf("%s: commit again: %+v, %v; want build %d", name, again, err, done.Transaction)
			}
		}
		for i, p := range paths {
			if _, body, err := get(t, d, answer.Scope{Products: []string{name}}, p); err != nil || !bytes.Equal(body, files[i].body) {
				t.Errorf("%s: %s: %d bytes, %v; want those that were sent", name, p, len(body), err)
			}
		}
	}
	// A later upload of what is known, by its name there.
	c := pusher("known")
	id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "known"}})
	var accepted []stage.Receipt
	for _, f := range files {
		e := entry(f)
		r, entered, err := d.Stages().Enter(t.Context(), c, id, e)
		if err != nil || !entered {
			t.Fatalf("enter %s: %t, %v; want true", f.path, entered, err)
		}
		accepted = append(accepted, r)
	}
	unknown, _ := symbols(1, byte('u'))
	if _, entered, err := d.Stages().Enter(t.Context(), c, id, entry(unknown[0])); err != nil || entered {
		t.Errorf("enter an unknown content: %t, %v; want false", entered, err)
	}
	if done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Accepted: accepted}); err != nil || done.Files != 5 {
		t.Errorf("known files: %+v, %v; want 5 files, and none awaited", done, err)
	}
	wantClean(t, d)
}

// TestJoinedPaths: jobs that join a push may have equal paths for different files. In a
// push of one client a path has its last content.
func TestJoinedPaths(t *testing.T) { onDepots(t, testJoinedPaths) }

func testJoinedPaths(t *testing.T, d *Depot) {
	c := pusher("ci")
	files, paths := sameName(3)
	for _, joins := range []bool{false, true} {
		product := fmt.Sprint("joins ", joins)
		id := ""
		for _, f := range files {
			id = openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: product}, Key: product, Join: joins})
			putAll(t, d, c, id, announced(t, d, c, id, []file{f}))
		}
		want := 1
		if joins {
			want = 3
		}
		done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
		if err != nil || done.Files != int64(want) {
			t.Fatalf("%s: %+v, %v; want %d files", product, done, err, want)
		}
		wantIn := answer.Scope{Products: []string{product}}
		for i, p := range paths {
			_, body, err := get(t, d, wantIn, p)
			if is := err == nil && bytes.Equal(body, files[i].body); is != (i >= 3-want) {
				t.Errorf("%s: file %d is found: %t, %v", product, i, is, err)
			}
		}
	}
	wantClean(t, d)
}

// TestLost: no commit succeeds without a file that was accepted, the error names it, and
// the log and the count tell operators.
func TestLost(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	c := pusher("ci")
	files, paths := sameName(2)
	id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "P"}})
	first := claimed(t, d, c, id, files[0]).Receipt
	putAll(t, d, c, id, announced(t, d, c, id, files[1:])) // the path has another content now
	_, err = d.Stages().Commit(t.Context(), c, id, stage.Commit{Accepted: []stage.Receipt{first}})
	if r := wantRefusal(t, "a commit without an accepted file", err, stage.Lost); !strings.Contains(r.Text, "app.sym") || !strings.Contains(r.Text, "000000012f41492b") {
		t.Errorf("the refusal %q does not name the file and its id", r.Text)
	}
	wantVisible(t, d, files, paths, false)
	if n := d.Confirmed.Lost(); n != 1 || !strings.Contains(log.String(), "accepted files are not found") {
		t.Errorf("%d lost files, log %q; want one, in the log", n, log.String())
	}
	done, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Stages().Commit(t.Context(), c, id, stage.Commit{Accepted: []stage.Receipt{first}})
	wantRefusal(t, "a repeated commit that accepted another file", err, stage.Lost)

	// What add promises is looked up, too.
	tx, err := d.Begin(t.Context(), TxInfo{Product: "P"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Add(t.Context(), Source{Path: files[0].path, Content: bytesContent{Reader: bytes.NewReader(files[0].body)}}); err != nil {
		t.Fatal(err)
	}
	number, err := tx.Commit(t.Context())
	if err != nil || number != done.Transaction+1 {
		t.Fatalf("add: build %d, %v", number, err)
	}
	before := d.Confirmed.Lost()
	err = d.Confirmed.found(t.Context(), done.Transaction, tx.entries, nil)
	if lost, ok := errors.AsType[*stage.LostError](err); !ok || lost.Transaction != done.Transaction || d.Confirmed.Lost() != before+1 {
		t.Errorf("a file that only another build has: %v, want that it is lost", err)
	}
}

// TestAudit: verify names the files of a stage that do not stand in its transaction.
func TestAudit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	c := pusher("ci")
	files, _ := sameName(3)
	id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "P"}, Collect: true})
	for _, f := range files[:2] {
		claimed(t, d, c, id, f)
	}
	faults := func() (list []string) {
		t.Helper()
		if _, err := d.Check.Verify(t.Context(), func(f content.Fault) { list = append(list, f.What) }, nil); err != nil {
			t.Fatal(err)
		}
		return list
	}
	now = now.Add(2 * time.Minute)
	if got := faults(); len(got) > 0 {
		t.Errorf("faults %q of an intact depot, want none", got)
	}
	// A file whose row says that it arrived, and that no transaction got.
	lost := stages.StageFile{Path: "bin/lost.sym", Content: record.Content{Ref: entry(files[2]).Ref, Size: 1}, State: stages.StageArrived}
	objects, err := identify(Source{Path: lost.Path, Content: bytesContent{Reader: bytes.NewReader(files[2].body)}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]map[string]any{{"Object": objects[0].Object, "SHA256": lost.Ref.String(), "Size": objects[0].Size}})
	if err != nil {
		t.Fatal(err)
	}
	lost.Facts = string(text)
	if err := d.db.Stages.PutFiles(t.Context(), id, []stages.StageFile{lost}, stages.StagePut{Most: stages.StageLimitError{Files: 9, Bytes: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	if got := faults(); len(got) > 0 {
		t.Errorf("faults %q of a stage in use, want none", got)
	}
	now = now.Add(2 * time.Minute)
	if got := faults(); len(got) != 1 || !strings.Contains(got[0], `bin/lost.sym was accepted from ci for product "P" and is not found in build 1`) {
		t.Errorf("faults %q, want the lost file", got)
	}
}

// TestClaims: the same bytes under two ids are two files, also under one name.
func TestClaims(t *testing.T) { onDepots(t, testClaims) }

func testClaims(t *testing.T, d *Depot) {
	c := pusher("ci")
	ids := []string{"11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-aaaaaaaaaaaa"}
	body := []byte("com.example.A -> a:\n    int b -> c\n")
	for _, collects := range []bool{false, true} {
		product := fmt.Sprint("collects ", collects)
		id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: product}, Collect: collects})
		var accepted []stage.Receipt
		for _, uuid := range ids {
			a, err := d.Stages().PutClaimed(t.Context(), c, id, stage.Entry{Path: "mapping.txt", As: "proguard", ID: uuid, Size: -1}, bytes.NewReader(body), nil)
			if err != nil {
				t.Fatalf("%s: %v", uuid, err)
			}
			accepted = append(accepted, a.Receipt)
		}
		if !collects {
			if _, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Accepted: accepted}); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantClean(t, d)
}

// TestSameBytesAtOnce: requests with the same bytes share a staged file, and the first
// commit stores and removes it.
func TestSameBytesAtOnce(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	c := pusher("both")
	files, paths := sameName(100)
	for i, f := range files {
		id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "both"}, Collect: true})
		var both sync.WaitGroup
		for range 4 {
			both.Go(func() {
				if _, err := d.Stages().PutClaimed(t.Context(), c, id, stage.Entry{Path: f.path, Size: -1}, bytes.NewReader(f.body), nil); err != nil {
					t.Errorf("file %d: %v, want it stored, as the same bytes are", i, err)
				}
			})
		}
		both.Wait()
		if _, body, err := get(t, d, answer.Scope{Products: []string{"both"}}, paths[i]); err != nil || !bytes.Equal(body, f.body) {
			t.Errorf("%s: %d bytes, %v; want those that were sent", paths[i], len(body), err)
		}
	}
	// A staged file that is gone, and whose content nobody has stored, is to be sent again.
	gone := stage.File{Content: record.Content{Ref: blob.Sum([]byte("gone")), Size: 4}, Path: filepath.Join(t.TempDir(), "gone")}
	_, err := stageDepot{commits: d.commits}.Commit(t.Context(), record.Tx{Product: "both"}, []stage.File{gone}, nil)
	if m, ok := errors.AsType[*stage.MissingError](err); !ok || len(m.Refs) != 1 || m.Refs[0] != gone.Ref {
		t.Errorf("commit of a staged file that is gone: %v, want a MissingError that names its content", err)
	}
}

// TestCollectedMeanwhile: stored contents that a garbage collection frees between the answer
// that the depot has them and the end of a commit are contents to send again, all of them.
func TestCollectedMeanwhile(t *testing.T) {
	t.Parallel()
	d, _ := newDepot(t)
	files, paths := sameName(3)
	add(t, d, "P", files...)
	batch, err := d.blobs.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Abort()
	tx := record.Tx{Product: "again"}
	want := map[blob.Ref]bool{}
	for i, f := range files {
		ref := blob.Sum(f.body)
		tx.Entries = append(tx.Entries, record.Entry{Path: f.path, Ref: ref, Size: int64(len(f.body))})
		if !batch.Known(t.Context(), ref) {
			t.Fatalf("file %d is not known, want that it is stored", i)
		}
		if i == 0 {
			continue
		}
		want[ref] = true
		if err := d.blobs.Delete(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	_, err = d.commits.commit(t.Context(), tx, batch)
	missing, ok := errors.AsType[*stage.MissingError](err)
	if !ok || len(missing.Refs) != len(want) || !want[missing.Refs[0]] || !want[missing.Refs[1]] {
		t.Fatalf("commit: %v, want a MissingError of the two contents that are gone", err)
	}
	wantVisible(t, d, files[:1], paths[:1], true)
	if _, _, err := get(t, d, answer.Scope{Products: []string{"again"}}, paths[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of the commit that failed: %v, want that it is not found", err)
	}
}

// TestDamagedMeanwhile: a content that is damaged between the answer that the depot has it
// and the commit is not called stored, and stays suspected until its bytes have come.
func TestDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	d, _ := logged(t, Options{})
	body := symFile(symID, 5000)
	f := file{"app.sym", body}
	add(t, d, "P", f)
	c := pusher("ci")
	id := openStage(t, d, c, stage.Spec{Labels: stage.Labels{Product: "P"}})
	if send := announced(t, d, c, id, []file{f}); len(send) != 0 {
		t.Fatalf("the check of a stored file asks for %d files, want none", len(send))
	}
	lossy["flipped"](t, d, body)
	// Another process, as that of the server, found it.
	if err := d.db.Damages.Note(t.Context(), blob.Sum(body), "other bytes"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{})
	wantRefusal(t, "a commit of a content that is damaged meanwhile", err, stage.Lost)
	if n, err := suspected(t.Context(), d); err != nil || n != 1 {
		t.Errorf("%d suspected contents after it, %v; want 1", n, err)
	}
	add(t, d, "P", f)
	if n, err := suspected(t.Context(), d); err != nil || n != 0 {
		t.Errorf("%d suspected contents after an add, %v; want none", n, err)
	}
}
