package needed

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/layout"
)

// openDepot opens a new depot, with these files of testdata in a transaction each.
func openDepot(t *testing.T, files ...string) *depot.Depot {
	t.Helper()
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for _, f := range files {
		addFile(t, d, filepath.Join(testdata, f))
	}
	return d
}

// TestVerdicts: one verdict for each module, by what the depot has.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	code, err := debugid.ParsePE("68FD1C2E5000") // of no file
	if err != nil {
		t.Fatal(err)
	}
	id, err := debugid.Parse("F9EFE0B6AE7500394C4C44205044422E1")
	if err != nil {
		t.Fatal(err)
	}
	held := dump.Module{Name: "hello-x64.exe", Code: code, Debug: []dump.Debug{{Name: "hello-x64.pdb", ID: id}}}
	other := dump.Module{Name: "hello-x64.exe", Code: code, Debug: []dump.Debug{{Name: "hello-x64.pdb", ID: debugid.ID{GUID: guid, Age: 1}}}}
	older := dump.Module{Name: "hello-x64.exe", Code: code, Debug: []dump.Debug{{Name: "hello-x64.pdb", ID: debugid.ID{GUID: id.GUID, Age: 2}}}}
	program := dump.Module{Name: "hello-x64.exe", Code: code}
	stripped := dump.Module{Name: "prog-sha1", BuildID: elf}
	vdso := dump.Module{Name: "linux-vdso.so.1", BuildID: "00112233445566778899aabbccddeeff00112233"}
	for _, c := range []struct {
		name  string
		files []string
		m     dump.Module
		want  Verdict
	}{
		{"the PDB", []string{"pdb/hello-x64.pdb"}, held, VerdictHere},
		{"the PDB of another age", []string{"pdb/hello-x64.pdb"}, older, VerdictOtherBuild},
		{"the PDB of another build", []string{"pdb/hello-x64.pdb"}, other, VerdictOtherBuild},
		{"the program of another build", []string{"pdb/hello-x64.exe"}, other, VerdictOurs},
		{"nothing of these names", []string{"pdb/hello-x86.pdb"}, other, VerdictOthers},
		{"an empty depot", nil, held, VerdictOthers},
		{"another build of a program without debug information", []string{"pdb/hello-x64.exe"}, program, VerdictOtherBuild},
		{"no id", []string{"pdb/hello-x64.exe"}, dump.Module{Name: "hello-x64.exe"}, VerdictNoID},
		{"a program without its debug file", []string{"elf/prog-sha1.stripped"}, stripped, VerdictStripped},
		{"a program and its debug file", []string{"elf/prog-sha1.stripped", "elf/prog-sha1.debug"}, stripped, VerdictHere},
		{"the debug file alone", []string{"elf/prog-sha1.debug"}, stripped, VerdictHere},
		{"a program with debug information", []string{"elf/prog-sha1"}, stripped, VerdictHere},
		{"a debug file of another build", []string{"elf/prog-sha1.debug"}, dump.Module{Name: "prog-sha1", BuildID: "00112233445566778899aabbccddeeff00112233"}, VerdictOtherBuild},
		{"the dSYM of another build", []string{"macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64"}, dump.Module{Name: "app-arm64", UUID: guid}, VerdictOtherBuild},
		{"the vDSO", []string{"elf/prog-sha1"}, vdso, VerdictKernel},
		{"the vDSO of 32 bits", nil, dump.Module{Name: "linux-gate.so", BuildID: vdso.BuildID}, VerdictKernel},
		{"a vDSO that somebody has added", []string{"elf/prog-sha1"}, dump.Module{Name: "linux-vdso.so.1", BuildID: stripped.BuildID}, VerdictHere},
	} {
		d := openDepot(t, c.files...)
		list, err := Judge(t.Context(), depot.FinderIn(d), answer.Scope{}, &dump.Dump{Modules: []dump.Module{c.m}})
		if err != nil || len(list) != 1 || list[0].Verdict != c.want || c.want == VerdictKernel && (len(list[0].Files) > 0 || list[0].ID == "") {
			t.Errorf("%s: %+v, %v; want the verdict %s", c.name, list, err, c.want)
		}
		hidden, err := Judge(t.Context(), depot.FinderIn(d), answer.Scope{Products: []string{"other"}}, &dump.Dump{Modules: []dump.Module{c.m}})
		want := VerdictOthers
		switch {
		case c.want == VerdictNoID:
			want = VerdictNoID
		case isVDSO(c.m.Name):
			want = VerdictKernel
		}
		if err != nil || len(hidden) != 1 || hidden[0].Verdict != want {
			t.Errorf("%s, in the scope of another product: %+v, %v; want the verdict %s", c.name, hidden, err, want)
		}
	}
}

// TestVerdictOfRemoved: files that were removed are ours.
func TestVerdictOfRemoved(t *testing.T) {
	t.Parallel()
	d := openDepot(t, "pdb/hello-x64.pdb")
	if _, err := d.Retention.Remove(t.Context(), 1, "me"); err != nil {
		t.Fatal(err)
	}
	w, err := Of("hello-x64.pdb", "F9EFE0B6AE7500394C4C44205044422E1", "")
	if err != nil {
		t.Fatal(err)
	}
	m, err := JudgeWant(t.Context(), depot.FinderIn(d), answer.Scope{}, w)
	if err != nil || m.Verdict != VerdictOurs {
		t.Errorf("a removed PDB: %+v, %v; want the verdict %s", m, err, VerdictOurs)
	}
}

// TestVerdictOfTree: a file of a served folder is held; its SHA-256 is not known.
func TestVerdictOfTree(t *testing.T) {
	t.Parallel()
	const key = "F9EFE0B6AE7500394C4C44205044422E1"
	b, err := os.ReadFile(filepath.Join(testdata, "pdb", "hello-x64.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.MkdirAll(filepath.Join(dir, "hello-x64.pdb", key), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hello-x64.pdb", key, "hello-x64.pdb"), b, 0o666); err != nil {
		t.Fatal(err)
	}
	folder, err := tree.Open(t.Context(), dir, tree.Options{Layout: layout.SymStore})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Sources: []*tree.Folder{folder}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, err := Of("hello-x64.pdb", key, "")
	if err != nil {
		t.Fatal(err)
	}
	m, err := JudgeWant(t.Context(), depot.FinderIn(d), answer.Scope{}, w)
	if err != nil || m.Verdict != VerdictHere || m.Files[0].Size != int64(len(b)) || m.Files[0].SHA256 != "" {
		t.Errorf("a PDB of a served folder: %+v, %v; want it held, without SHA-256", m, err)
	}
	if m, err = JudgeWant(t.Context(), depot.FinderIn(d), answer.Scope{Products: []string{"app"}}, w); err != nil || m.Verdict != VerdictOthers {
		t.Errorf("outside of the scope: %+v, %v; want the verdict %s", m, err, VerdictOthers)
	}
}

// TestJudgeIsFetch: for each file of a dump, Judge and Fetch say the same.
func TestJudgeIsFetch(t *testing.T) {
	t.Parallel()
	d := openDepot(t, "pdb/hello-x64.pdb", "elf/prog-sha1.stripped", "elf/prog-sha1.debug", "macho/app-arm64")
	b, err := os.ReadFile(filepath.Join(testdata, "minidump", "test_app.dmp"))
	if err != nil {
		t.Fatal(err)
	}
	crash, err := dump.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	crash.Modules = append(crash.Modules, dump.Module{Name: "prog-sha1", BuildID: elf}, dump.Module{Name: "libc.so.6", BuildID: "00112233445566778899aabbccddeeff00112233"})
	modules, err := Judge(t.Context(), depot.FinderIn(d), answer.Scope{}, crash)
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]bool{}
	var l List
	for i, m := range modules {
		l.Add(ofModule(&crash.Modules[i], "")...)
		for _, f := range m.Files {
			judged[f.Path] = f.Held
		}
	}
	fetched := map[string]bool{}
	if err := Fetch(t.Context(), d, l.Wants, 2, nil, func(o Outcome) { fetched[o.Path] = o.Result == InDepot }); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(judged, fetched) {
		t.Errorf("judged %v\nfetched %v; want the same", judged, fetched)
	}
	if !slices.Contains(slices.Collect(maps.Values(fetched)), true) {
		t.Error("no file of the dump is held, want some")
	}
}

// TestWriteManifest: the files that are missing, each once, and none that breaks a line.
func TestWriteManifest(t *testing.T) {
	t.Parallel()
	file := func(name, id string, held bool) FileState {
		return FileState{Want: Want{Name: name, ID: id}, Held: held}
	}
	modules := []Module{
		{Verdict: VerdictOurs, Files: []FileState{file("a.exe", "1", false), file("a.pdb", "2", false)}},
		{Verdict: VerdictStripped, Files: []FileState{file("b.exe", "3", true), file("b.pdb", "4", false)}},
		{Verdict: VerdictHere, Files: []FileState{file("c.exe", "5", false), file("c.pdb", "6", true)}},
		{Verdict: VerdictOthers, Files: []FileState{file("a.pdb", "2", false), file("x,y", "7", false), file("x\r\ny", "8", false)}},
	}
	var b strings.Builder
	if err := WriteManifest(&b, modules); err != nil || b.String() != "a.exe,1,1\r\na.pdb,2,1\r\nb.pdb,4,1\r\n" {
		t.Errorf("manifest %q, %v", b.String(), err)
	}
	var l List
	if err := l.Manifest("manifest", b.String()); err != nil {
		t.Error(err)
	}
}
