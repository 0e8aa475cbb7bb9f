package depot

import (
	"bytes"
	"testing"
)

// TestAddAgain: files that a live transaction of the same labels has already are no
// transaction of their own, whoever adds them from where, unless the transaction lacks a key
// of theirs.
func TestAddAgain(t *testing.T) {
	d, _ := newDepot(t)
	elf, pdb := testdata(t, "elf/prog-sha1"), testdata(t, "pdb/hello-x64.pdb")
	plain := func(f file, path, label string) Source {
		return Source{Path: path, Label: label, Content: bytesContent{Reader: bytes.NewReader(f.body)}}
	}
	a, b := plain(elf, "/1/prog", "out/prog"), plain(pdb, "/1/a.pdb", "out/a.pdb")
	byHash := plain(elf, "/1/prog", "out/prog")
	byHash.As = "sha1"
	info := TxInfo{Product: "G", Version: "1", Comment: "first", Who: "anna"}
	bob := TxInfo{Product: "G", Version: "1", Who: "bob"}
	other, class, imported := info, info, info
	other.Version, class.Branch = "2", "main"
	imported.Origin = &Origin{Store: "s", Number: "1"}
	steps := []struct {
		name   string
		info   TxInfo
		files  []Source
		number int64
		again  bool
	}{
		{"the first", info, []Source{a, b}, 1, false},
		{"from elsewhere, by somebody else", bob, []Source{plain(pdb, "/2/a.pdb", "out/a.pdb"), plain(elf, "/2/prog", "out/prog")}, 1, true},
		{"a file twice", info, []Source{a, b, a}, 1, true},
		{"fewer files", info, []Source{a}, 2, false},
		{"another name", info, []Source{plain(elf, "/1/prog", "out/prog2"), b}, 3, false},
		{"another version", other, []Source{a, b}, 4, false},
		{"another branch", class, []Source{a, b}, 5, false},
		{"without labels", info, []Source{a, plain(pdb, "/1/a.pdb", "")}, 6, false},
		{"imported", imported, []Source{a, b}, 7, false},
		{"the same again", info, []Source{a, b}, 1, true},
		{"of another kind, with keys that the first lacks", info, []Source{byHash, b}, 8, false},
		{"of that kind again", info, []Source{byHash, b}, 8, true},
	}
	run := func(name string, info TxInfo, files []Source, number int64, again bool) {
		t.Helper()
		tx, err := d.Begin(t.Context(), info)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, f := range files {
			if _, err := tx.Add(t.Context(), f); err != nil {
				t.Fatalf("%s: %s: %v", name, f.Path, err)
			}
		}
		if n, err := tx.Commit(t.Context()); err != nil || n != number || tx.Again() != again {
			t.Errorf("%s: build %d, again %v, %v; want %d, %v", name, n, tx.Again(), err, number, again)
		}
	}
	for _, s := range steps {
		run(s.name, s.info, s.files, s.number, s.again)
	}
	for _, n := range []int64{1, 8} {
		if _, err := d.Retention.Remove(t.Context(), n, "anna"); err != nil {
			t.Fatal(err)
		}
	}
	run("after the removal", info, []Source{a, b}, 9, false)
}
