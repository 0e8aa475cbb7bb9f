package depot

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

// TestRerun: a second push of the same files sends nothing, whatever the kind of a file:
// all of testdata and of the real symbol files, a source bundle whose name is not that of
// its module, and files of each forced kind, also the same bytes under two ids.
func TestRerun(t *testing.T) { onDepots(t, testRerun) }

func testRerun(t *testing.T, d *Depot) {
	material := symtest.Material(t)
	entries, bodies := rerunEntries(t, filepath.Join("..", "..", "testdata"), material)
	entries, bodies = withForced(t, entries, bodies)
	c, spec := pusher("ci"), stage.Spec{Labels: stage.Labels{Product: "Game", Version: "1"}}
	sent, refused := rerunPush(t, d, c, spec, entries, bodies)
	if sent == 0 || len(refused) > len(entries)/4 {
		t.Fatalf("the first push sends %d bytes, and %d of %d files are refused: want nearly all contents", sent, len(refused), len(entries))
	}
	entries = slices.DeleteFunc(entries, func(e stage.Entry) bool { return refused[e.Ref] })
	before := rerunFiles(t, d, 1)
	if sent, refused := rerunPush(t, d, c, spec, entries, bodies); sent != 0 || len(refused) > 0 {
		t.Errorf("the second push sends %d bytes, and %d contents are refused: want none", sent, len(refused))
	}
	if after := rerunFiles(t, d, 2); after != before {
		t.Errorf("the second push has %d objects, want the %d of the first", after, before)
	}
	// Known bytes under another id are another file.
	const other = "3249d99d-0c40-4931-8610-f4e4fb0b6938"
	for _, e := range entries {
		if e.As == "il2cpp" {
			e.ID = other
			// Bytes in a bucket are not read to save an upload.
			if sent, _ := rerunPush(t, d, c, spec, []stage.Entry{e}, bodies); sent != 0 && !d.home.Placed {
				t.Errorf("known bytes under another id: %d bytes are sent, want none", sent)
			}
			break
		}
	}
	if page, err := d.Catalog.Files(t.Context(), answer.Scope{}, 3, catalog.FileQuery{Limit: 10}); err != nil || len(page.Files) != 1 || page.Files[0].Object.DebugID.String() != other {
		t.Errorf("known bytes under another id: %+v, %v; want an object with the id %s", page.Files, err, other)
	}
	wantClean(t, d)
}

// rerunFiles returns the number of objects of a transaction.
func rerunFiles(t *testing.T, d *Depot, tx int64) int64 {
	t.Helper()
	found, err := d.db.Show(t.Context(), tx, nil)
	if err != nil {
		t.Fatalf("build %d: %v", tx, err)
	}
	return found.Files
}

// rerunEntries returns the symbol files of folders.
func rerunEntries(t *testing.T, dirs ...string) (entries []stage.Entry, bodies map[blob.Ref][]byte) {
	t.Helper()
	bodies = map[blob.Ref][]byte{}
	for i, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !identifies(body, path) {
				return nil
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			ref := blob.Sum(body)
			bodies[ref] = body
			entries = append(entries, stage.Entry{Path: string(rune('a'+i)) + "/" + filepath.ToSlash(rel), Size: int64(len(body)), Ref: ref})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(entries) < 100 {
		t.Fatalf("%d symbol files in %v, want at least 100", len(entries), dirs)
	}
	return entries, bodies
}

// withForced adds files whose name or bytes alone do not tell their ids.
func withForced(t *testing.T, entries []stage.Entry, bodies map[blob.Ref][]byte) ([]stage.Entry, map[blob.Ref][]byte) {
	t.Helper()
	add := func(path, as, id string, body []byte) {
		ref := blob.Sum(body)
		bodies[ref] = body
		entries = append(entries, stage.Entry{Path: path, Size: int64(len(body)), Ref: ref, As: as, ID: id})
	}
	mapping := []byte(`{"Game.cpp":{"Game.cs":{"1":1}}}`)
	add("il2cpp/one.json", "il2cpp", "3249d99d-0c40-4931-8610-f4e4fb0b6936", mapping)
	add("il2cpp/two.json", "il2cpp", "3249d99d-0c40-4931-8610-f4e4fb0b6937", mapping)
	add("il2cpp/one/again.json", "il2cpp", "3249d99d-0c40-4931-8610-f4e4fb0b6936", mapping)
	add("android/mapping.txt", "proguard", "", []byte("a.b.C -> a:\n    int x -> a\n"))
	add("web/app.js", "sha1", "", []byte("function a(){}"))
	add("src/prog.src.zip", "", "", sourceBundleOf(t, "hello64.pdb", "8fc0e236-7919-fb8f-4c4c-44205044422e-1"))
	return entries, bodies
}

// sourceBundleOf makes a source bundle of a module.
func sourceBundleOf(t *testing.T, module, id string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("SYSB\x02\x00\x00\x00")
	w := zip.NewWriter(&b)
	w.SetOffset(8)
	for name, text := range map[string]string{
		"files/src/a.c": "int x;\n",
		"manifest.json": `{"files":{"files/src/a.c":{"type":"source","path":"/src/a.c"}},"arch":"x86_64","debug_id":"` + id + `","object_name":"` + module + `"}`,
	} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// rerunPush pushes files, and returns how many bytes it had to send and which contents
// have no id.
func rerunPush(
	t *testing.T, d *Depot, c stage.Caller, spec stage.Spec, entries []stage.Entry, bodies map[blob.Ref][]byte,
) (sent int64, refused map[blob.Ref]bool) {
	t.Helper()
	id := openStage(t, d, c, spec)
	verdicts, err := d.Stages().Check(t.Context(), c, id, entries)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	refused = map[blob.Ref]bool{}
	done := map[blob.Ref]bool{}
	for i, v := range verdicts {
		e := entries[i]
		if v.Answer != stage.Send || done[e.Ref] {
			continue
		}
		done[e.Ref] = true
		sent += e.Size
		_, err := d.Stages().Put(t.Context(), c, id, e.Ref, bytes.NewReader(bodies[e.Ref]))
		if r, ok := errors.AsType[*stage.Refusal](err); ok && r.Kind == stage.NotSymbol {
			refused[e.Ref] = true
		} else if err != nil {
			t.Fatalf("put %s: %v", e.Path, err)
		}
	}
	if _, err := d.Stages().Commit(t.Context(), c, id, stage.Commit{Anew: true, Partial: true}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return sent, refused
}

// identifies reports whether a file is a symbol file.
func identifies(body []byte, path string) bool {
	_, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), path, objfile.Options{})
	return err == nil
}
