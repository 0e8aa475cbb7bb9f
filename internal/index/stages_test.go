package index

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// stageFor opens a stage.
func stageFor(t *testing.T, db *DB, s stages.StageRow) stages.StageRow {
	t.Helper()
	row, _, err := db.Stages.Open(t.Context(), s, 100)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func stageFile(n int) stages.StageFile {
	return stages.StageFile{Path: fmt.Sprintf("out/%d.pdb", n), Content: record.Content{Ref: ref(n), Size: int64(1000 + n)}}
}

// TestCollected: a transaction that gets further files shows them at once, also
// those that the index knew, and also to filters of missing keys.
func TestCollected(t *testing.T) { onEngines(t, testCollected) }

func testCollected(t *testing.T) {
	db := openTest(t, Options{})
	commitTest(t, db, "old", pdb(1), pdb(2))
	s := stageFor(t, db, stages.StageRow{ID: "s", Caller: "c", Owner: "test:c", Product: "P", Collects: true})
	collect := func(entries ...record.Entry) int64 {
		t.Helper()
		n, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: "P", Entries: entries, Stage: &record.StageCommit{ID: s.ID, Collect: true}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	scope := record.Scope{Products: []string{"P"}}
	scoped, every := db.NewScopeFilter(), db.NewFilter()
	state := uint64(0)
	for i, entries := range [][]record.Entry{{pdb(10)}, {pdb(11), pdb(11)}, {pdb(1)}, {pdb(10)}, {pdb(12), pdb(2)}} {
		if n := collect(entries...); n != 2 {
			t.Fatalf("step %d: build %d, want 2", i, n)
		}
		state++
		for _, f := range []*Filter{scoped, every} {
			if err := f.Refresh(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if excluded, _ := f.Excludes(state, scope, symfile.Fold(e.Aliases[0].ID)); excluded {
					t.Errorf("step %d: a filter excludes %s", i, e.Object.Name)
				}
			}
		}
		for _, e := range entries {
			if len(lookupEntry(t, db, scope, e)) != 1 {
				t.Errorf("step %d: %s is not visible", i, e.Object.Name)
			}
		}
	}
	commitTest(t, db, "P", pdb(10))
	if n := collect(pdb(13)); n != 2 {
		t.Errorf("after another commit: build %d, want 2", n)
	}
	clean(t, db)
	tx, err := db.Show(t.Context(), 2, nil)
	if err != nil || !tx.Collecting || tx.Files != 7 {
		t.Errorf("build: %+v, %v; want one with 7 files that goes on", tx, err)
	}
	if _, err := db.Remove(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if n := collect(pdb(14)); n != 4 {
		t.Errorf("after its removal: build %d, want 4", n)
	}
	ended, err := db.Stages.End(t.Context(), s.ID, db.base.Now().Add(time.Hour))
	if err != nil || !ended {
		t.Errorf("end: %t, %v; want true", ended, err)
	}
	if tx, err := db.Show(t.Context(), 4, nil); err != nil || tx.Collecting {
		t.Errorf("build: %+v, %v; want one that has ended", tx, err)
	}
	if _, err := db.Commit(t.Context(), record.Tx{Kind: "add", Entries: []record.Entry{pdb(15)}, Stage: &record.StageCommit{ID: s.ID, Collect: true}}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file for a stage that has ended: %v, want not found", err)
	}
	clean(t, db)
}

// TestStageCommit: a stage is committed once, with the files that it has, within
// the quota.
func TestStageCommit(t *testing.T) { onEngines(t, testStageCommit) }

func testStageCommit(t *testing.T) {
	db := openTest(t, Options{})
	commit := func(s stages.StageRow, c record.StageCommit, product string, entries ...record.Entry) (int64, bool, error) {
		c.ID = s.ID
		c.Result = func(n int64, again bool) string { return fmt.Sprintf("%d %t", n, again) }
		n, err := db.Commit(t.Context(), record.Tx{Kind: "add", Product: product, Version: "1", Entries: entries, Manifest: blob.Sum([]byte(product)), Stage: &c}, nil)
		return n, c.Again, err
	}
	s := stageFor(t, db, stages.StageRow{ID: "one", Caller: "c", Owner: "test:c", Product: "P"})
	most := stages.StageLimitError{Files: 3, Bytes: 5000}
	if err := db.Stages.PutFiles(t.Context(), s.ID, []stages.StageFile{stageFile(1), stageFile(2)}, stages.StagePut{Most: most, Replace: true}); err != nil {
		t.Fatal(err)
	}
	if err := db.Stages.PutFiles(t.Context(), s.ID, []stages.StageFile{stageFile(2), stageFile(3), stageFile(4)}, stages.StagePut{Most: most, Replace: true}); err == nil {
		t.Error("four files in a stage of three")
	} else if limit, ok := errors.AsType[*stages.StageLimitError](err); !ok || limit.Files != 4 {
		t.Errorf("four files: %v, want an error that says so", err)
	}
	row, err := db.Stages.Get(t.Context(), s.ID)
	if err != nil || row.Files != 2 || row.Bytes != 2003 || row.Changes != 1 {
		t.Errorf("stage: %+v, %v; want two files", row, err)
	}
	if _, _, err := commit(s, record.StageCommit{}, "P", pdb(1)); !errors.Is(err, stages.ErrStageClosed) {
		t.Errorf("commit of an earlier state: %v, want %v", err, stages.ErrStageClosed)
	}
	if _, _, err := commit(s, record.StageCommit{Changes: 1, Quota: 1000}, "P", pdb(1)); err == nil {
		t.Error("a commit above the quota")
	} else if q, ok := errors.AsType[*stages.QuotaError](err); !ok || q.Used != 1001 {
		t.Errorf("a commit above the quota: %v, want an error with 1001 bytes", err)
	}
	if n, again, err := commit(s, record.StageCommit{Changes: 1, Quota: 1001}, "P", pdb(1)); err != nil || n != 1 || again {
		t.Errorf("commit: %d, %t, %v; want build 1", n, again, err)
	}
	if _, _, err := commit(s, record.StageCommit{Changes: 1}, "P", pdb(1)); !errors.Is(err, stages.ErrStageClosed) {
		t.Errorf("commit again: %v, want %v", err, stages.ErrStageClosed)
	}
	if row, err = db.Stages.Get(t.Context(), s.ID); err != nil || row.Number != 1 || row.Result != "1 false" || row.Manifest != blob.Sum([]byte("P")) {
		t.Errorf("committed stage: %+v, %v", row, err)
	}
	if err := db.Stages.PutFiles(t.Context(), s.ID, []stages.StageFile{stageFile(3)}, stages.StagePut{Most: most, Replace: true}); !errors.Is(err, stages.ErrStageClosed) {
		t.Errorf("a file for a committed stage: %v, want %v", err, stages.ErrStageClosed)
	}
	// An equal one is not made, unless it is asked for or the first was removed.
	two := stageFor(t, db, stages.StageRow{ID: "two", Caller: "c", Owner: "test:c"})
	if n, again, err := commit(two, record.StageCommit{}, "P", pdb(1)); err != nil || n != 1 || !again {
		t.Errorf("an equal commit: %d, %t, %v; want build 1 again", n, again, err)
	}
	three := stageFor(t, db, stages.StageRow{ID: "three", Caller: "c", Owner: "test:c"})
	if n, again, err := commit(three, record.StageCommit{Anew: true}, "P", pdb(1)); err != nil || n != 2 || again {
		t.Errorf("an equal commit anew: %d, %t, %v; want build 2", n, again, err)
	}
	for n := int64(1); n <= 2; n++ {
		if _, err := db.Remove(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	four := stageFor(t, db, stages.StageRow{ID: "four", Caller: "c", Owner: "test:c"})
	if n, again, err := commit(four, record.StageCommit{}, "P", pdb(1)); err != nil || n != 3 || again {
		t.Errorf("an equal commit after the removal: %d, %t, %v; want build 3", n, again, err)
	}
	clean(t, db)
	if err := db.Stages.Leftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Stages.Count(t.Context(), s.ID); err != nil || n != (stages.StageCount{}) {
		t.Errorf("files of a committed stage: %v, %v; want none", n, err)
	}
}

// TestStageUploads: uploads of staged contents stay as long as their stage.
func TestStageUploads(t *testing.T) { onEngines(t, testStageUploads) }

func testStageUploads(t *testing.T) {
	db := openTest(t, Options{Placed: true})
	ctx := t.Context()
	u := record.Upload{Place: "place", Content: record.Content{Ref: ref(1), Size: 1001}}
	other := record.Upload{Place: "other", Content: record.Content{Ref: ref(2), Size: 1002}}
	if err := db.Places.Begin(ctx, "node", time.Minute, []record.Upload{u, other}); err != nil {
		t.Fatal(err)
	}
	if err := db.Places.Done(ctx, []string{"place", "other"}); err != nil {
		t.Fatal(err)
	}
	s := stageFor(t, db, stages.StageRow{ID: "s", Caller: "c", Owner: "test:c"})
	f := stageFile(1)
	if err := db.Stages.PutFiles(ctx, s.ID, []stages.StageFile{f}, stages.StagePut{Most: stages.StageLimitError{Files: 10, Bytes: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	f.State, f.Facts = stages.StageArrived, "[]"
	if err := db.Stages.Arrive(ctx, []stages.StageArrival{{Stage: s.ID, Content: f.Content, Files: []stages.StageFile{f}, Objects: []record.Content{f.Content}}, {Stage: "none", Content: f.Content, Files: []stages.StageFile{f}, Objects: []record.Content{f.Content}}}); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Stages.Staged(ctx); err != nil || n != 1001 {
		t.Errorf("staged: %d, %v; want 1001 bytes", n, err)
	}
	if err := db.Stages.KeepUploads(ctx, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Places.Expire(ctx, db.base.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("%d expired uploads, %v; want that of no stage", n, err)
	}
	if is, err := db.Places.Finished(ctx, u.Content); err != nil || !is {
		t.Errorf("the upload of a stage: %t, %v; want that it stays", is, err)
	}
	if err := db.Stages.Delete(ctx, s.ID); err != nil {
		t.Fatal(err)
	}
	if err := db.Stages.KeepUploads(ctx, 8*time.Hour); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Places.Expire(ctx, db.base.Now().Add(3*time.Hour)); err != nil || n != 1 {
		t.Errorf("%d expired uploads after the stage, %v; want 1", n, err)
	}
	if n, err := db.Stages.Staged(ctx); err != nil || n != 0 {
		t.Errorf("staged: %d, %v; want nothing", n, err)
	}
	clean(t, db)
}

// TestStageParts: parts are recorded in any order, and those of another node do not
// count.
func TestStageParts(t *testing.T) { onEngines(t, testStageParts) }

func testStageParts(t *testing.T) {
	db := openTest(t, Options{})
	ctx := t.Context()
	s := stageFor(t, db, stages.StageRow{ID: "s", Caller: "c", Owner: "test:c"})
	c := record.Content{Ref: ref(1), Size: 1001}
	last := "" // mark
	put := func(node string, n int, again bool) string {
		t.Helper()
		got, err := db.Stages.PutPart(ctx, s.ID, node, c, n, 11)
		if err != nil {
			t.Fatal(err)
		}
		if mark := stages.PartsMark(got); (mark == last) != again {
			t.Errorf("part %d at node %s: the mark %x after %x, want the same: %t", n, node, mark, last, again)
		} else {
			last = mark
		}
		return fmt.Sprintf("%x", got[:2])
	}
	own := func(from, node string, want error) {
		t.Helper()
		if err := db.Stages.Own(ctx, s.ID, from, node); !errors.Is(err, want) {
			t.Errorf("node %s becomes the owner instead of %s: %v, want %v", node, from, err, want)
		}
	}
	own("", "a", nil)
	for _, x := range []struct {
		node string
		n    int
		want string
	}{{"a", 0, "0100"}, {"a", 10, "0104"}, {"a", 10, "0104"}, {"b", 3, "0800"}, {"b", 9, "0802"}} {
		if x.node == "b" && x.n == 3 {
			if _, err := db.Stages.PutPart(ctx, s.ID, "b", c, 3, 11); !errors.Is(err, stages.ErrStageMoved) {
				t.Errorf("a part at a node that is not the owner: %v, want %v", err, stages.ErrStageMoved)
			}
			own("a", "b", nil)
			own("a", "b", nil)
			own("a", "c", stages.ErrStageMoved)
		}
		if got := put(x.node, x.n, x.n > 3); got != x.want {
			t.Errorf("part %d at node %s: %s, want %s", x.n, x.node, got, x.want)
		}
	}
	forget := func(got []byte, want bool) {
		t.Helper()
		if is, err := db.Stages.ForgetParts(ctx, s.ID, c.Ref, got); err != nil || is != want {
			t.Errorf("parts %x are forgotten: %t, %v; want %t", got, is, err, want)
		}
	}
	forget(append([]byte{8, 0}, last...), false)
	if k, err := db.Stages.Content(ctx, s.ID, c.Ref); err != nil || k.Node != "b" || k.Whole || k.Size != c.Size {
		t.Errorf("content: %+v, %v; want one at node b, not whole, with the size of the file", k, err)
	}
	forget(append([]byte{8, 2}, last...), true)
	if _, err := db.Stages.Content(ctx, s.ID, c.Ref); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a forgotten content: %v, want not found", err)
	}
	if n, err := db.Stages.Staged(ctx); err != nil || n != 0 {
		t.Errorf("staged: %d, %v; want nothing", n, err)
	}
	if got := put("b", 0, false); got != "0100" {
		t.Errorf("part 0 after all were forgotten: %s, want 0100", got)
	}
	if _, err := db.Stages.PutPart(ctx, "none", "a", c, 0, 11); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part for no stage: %v, want not found", err)
	}
}
