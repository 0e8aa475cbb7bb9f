package tree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// TestList: the files of a name are listed by the names of folders, in both tiers and in any
// case. A file, its cabinet and its pointer are one.
func TestList(t *testing.T) {
	t.Parallel()
	const pdb, pe = "F9EFE0B6AE7500394C4C44205044422E1", "5A1B2C3D6000"
	one, bare, two, unnamed := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for dir, files := range map[string][]string{
		one: {
			"000Admin/server.txt", "pingme.txt",
			"Hello.pdb/" + pdb + "/Hello.pdb", "Hello.pdb/" + pdb + "/Hello.pd_", "Hello.pdb/" + pdb + "/file.ptr", "Hello.pdb/" + pdb + "/refs.ptr",
			"Hello.pdb/" + pdb[:32] + "1a/Hello.pd_", "Hello.pdb/" + pdb + "/Hello.sym", "Hello.pdb/nokey/Hello.pdb",
			"hello.exe/" + pe + "/hello.exe", "libx.so/elf-buildid-aabbccdd00112233/libx.so", "he/held.pdb/" + pdb + "/file.ptr",
		},
		bare:    {"pingme.txt", "hello.pdb/" + pdb + "/hello.pdb"},
		two:     {"index2.txt", "000Admin/x", "he/hello.pdb/" + pdb + "/hello.pdb", "ot/other.pdb/" + pdb + "/other.pdb"},
		unnamed: {"ad/ac45aa231bba3143d7af433767c61f31021c16/debuginfo"},
	} {
		for _, f := range files {
			p := filepath.Join(dir, filepath.FromSlash(f))
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte("0000000001,add,file,07/29/2026,10:00:00,\"Game\",\"1\",\"\",\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	folders := map[string]*Folder{}
	for _, dir := range []string{one, bare, two, unnamed} {
		folders[dir] = open(t, dir, Options{})
	}
	for _, c := range []struct {
		dir, name, id string
		kind          symfile.Kind
		limit         int
		complete      bool
		want          string
	}{
		{one, "hello.pdb", "", 0, 10, true, "pdb 1 Hello.pdb, breakpad 1 Hello.sym, pdb 26 Hello.pd_"},
		{one, "hello.pdb", "", symfile.Breakpad, 10, true, "breakpad 1 Hello.sym"},
		{one, "hello.pdb", strings.ToLower(pdb[:32]) + "1a", 0, 10, true, "pdb 26 Hello.pd_"},
		{one, "hello.pdb", "", 0, 1, false, "pdb 1 Hello.pdb"},
		{one, "h*", "", 0, 10, true, "pdb 1 file.ptr, pe 0 hello.exe, pdb 1 Hello.pdb, breakpad 1 Hello.sym, pdb 26 Hello.pd_"},
		{one, "*.so", "", 0, 10, true, "elf 0 libx.so"},
		{one, "hel?.pdb", "", 0, 10, true, "pdb 1 file.ptr"},
		{one, "none.pdb", "", 0, 10, true, ""},
		{one, "", "", 0, 10, true, ""},
		{two, "hello.pdb", "", 0, 10, true, "pdb 1 hello.pdb"},
		{two, "*.pdb", "", 0, 10, true, "pdb 1 hello.pdb, pdb 1 other.pdb"},
		{unnamed, "*", "", 0, 10, true, ""},
	} {
		q := Query{Name: c.name, Kind: c.kind}
		if c.id != "" {
			q.IDs = []string{c.id}
		}
		list, complete := folders[c.dir].List(t.Context(), q, c.limit)
		var got []string
		for _, l := range list {
			got = append(got, fmt.Sprintf("%s %d %s", l.Object.Kind, l.Object.DebugID.Age, filepath.Base(l.Path)))
			if l.Size == 0 || l.ModTime.IsZero() {
				t.Errorf("%s: size %d, time %s", l.Path, l.Size, l.ModTime)
			}
		}
		if text := strings.Join(got, ", "); text != c.want || complete != c.complete {
			t.Errorf("%q: %s, complete %v; want %s, %v", c.name, text, complete, c.want, c.complete)
		}
	}
	list, _ := folders[one].List(t.Context(), Query{Name: "hello.exe"}, 1)
	if len(list) != 1 || !slices.Contains(layout.SymStore.Paths(list[0].Object), "hello.exe/"+pe+"/hello.exe") {
		t.Errorf("the paths of %+v lack its own", list)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if list, complete := folders[one].List(ended, Query{Name: "*"}, 10); len(list) > 0 || complete {
		t.Errorf("after the end of its time a search lists %d files, complete %v", len(list), complete)
	}
	for dir, want := range map[string]Facts{one: {Transactions: 1}, bare: {Names: 1}, two: {}, unnamed: {}} {
		if f := folders[dir]; f.Facts(t.Context()) != want || f.Lists(t.Context()) == (dir == unnamed) {
			t.Errorf("%s: facts %+v, lists %v; want %+v", f.Layout(t.Context()), f.Facts(t.Context()), f.Lists(t.Context()), want)
		}
	}
}
