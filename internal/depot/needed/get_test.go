package needed

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/depottest"
	"github.com/symdepot/symdepot/layout"
)

const helloID = "F9EFE0B6AE7500394C4C44205044422E1" // of hello-x64.pdb

// TestNamed reads the arguments of a command line.
func TestNamed(t *testing.T) {
	t.Parallel()
	exe := filepath.Join(testdata, "pdb", "hello-x64.exe")
	damaged := filepath.Join(t.TempDir(), "core.dmp")
	if err := os.WriteFile(damaged, []byte("MDMP\x93\xa7"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  []string
		names string // of the wants
		file  string
		usage bool // the error is one of the command line
		fails bool
	}{
		{what: []string{"hello-x64.pdb", helloID}, names: "hello-x64.pdb"},
		{what: []string{"hello-x64.pdb/" + helloID + "/hello-x64.pdb"}, names: "hello-x64.pdb"},
		{what: []string{exe}, names: "hello-x64.pdb", file: exe},
		{what: []string{"ntdll.pdb/" + helloID + "/ntdll.pdb", exe}, names: "ntdll.pdb hello-x64.pdb", file: exe},
		{what: []string{exe, exe}, names: "hello-x64.pdb", file: exe},
		{what: []string{"hello-x64.pdb", "no id"}, usage: true, fails: true},
		{what: []string{"neither"}, usage: true, fails: true},
		{what: []string{testdata}, usage: true, fails: true},
		{what: []string{damaged}, fails: true},
	} {
		var l List
		file, err := l.Named(t.Context(), c.what)
		if (err != nil) != c.fails {
			t.Errorf("%q: %v, want an error: %v", c.what, err, c.fails)
		}
		if _, usage := errors.AsType[term.UsageError](err); usage != c.usage {
			t.Errorf("%q: %v, want an error of the command line: %v", c.what, err, c.usage)
		}
		if c.fails {
			continue
		}
		var names []string
		for _, w := range l.Wants {
			names = append(names, w.Name)
		}
		if got := strings.Join(names, " "); got != c.names || file != c.file {
			t.Errorf("%q: wants %q and the file %q, want %q and %q", c.what, got, file, c.names, c.file)
		}
	}
}

func want(t *testing.T, name, id string) Want {
	t.Helper()
	w, err := Of(name, id, "")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestNewTarget: one file has the name that was given, unless that is a folder.
func TestNewTarget(t *testing.T) {
	t.Parallel()
	one := []Want{want(t, "hello-x64.pdb", helloID)}
	two := append(slices.Clone(one), want(t, "ntdll.pdb", helloID))
	dir := t.TempDir()
	inTree := filepath.Join("hello-x64.pdb", helloID, "hello-x64.pdb")
	for _, c := range []struct {
		name   string
		wants  []Want
		output string
		lay    layout.Layout
		place  string
	}{
		{"a new name", one, filepath.Join(dir, "app.pdb"), layout.Flat, filepath.Join(dir, "app.pdb")},
		{"a folder", one, dir, layout.Flat, filepath.Join(dir, "hello-x64.pdb")},
		{"a name with a separator at its end", one, filepath.Join(dir, "new") + string(filepath.Separator), layout.Flat, filepath.Join(dir, "new", "hello-x64.pdb")},
		{"nothing", one, "", layout.Flat, "hello-x64.pdb"},
		{"two files", two, filepath.Join(dir, "both"), layout.Flat, filepath.Join(dir, "both", "hello-x64.pdb")},
		{"a layout", one, filepath.Join(dir, "tree"), layout.SymStore, filepath.Join(dir, "tree", inTree)},
	} {
		target, err := NewTarget(c.wants, c.output, c.lay, false)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := target.place(c.wants[0]); err != nil || got != c.place {
			t.Errorf("%s: the file is written to %q, %v; want %q", c.name, got, err, c.place)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewTarget(two, file, layout.Flat, false); err == nil {
		t.Error("two files are written to a file, want an error")
	}
}

// TestGet writes what the depot has or downloads, and says of each want what became of it.
func TestGet(t *testing.T) {
	t.Parallel()
	body := symtest.Testdata(t, "pdb/hello-x64.pdb")
	for _, c := range []struct {
		name   string
		before []byte // what is there; nil: nothing
		force  bool
		readOnly,
		damaged bool
		result string
		says   string
	}{
		{name: "nothing is there", result: InDepot},
		{name: "the same is there", before: body, result: InDepot},
		{name: "another content is there", before: []byte("mine"), result: Failed, says: "--force replaces it, --output names another place"},
		{name: "another content is replaced", before: []byte("mine"), force: true, result: InDepot},
		{name: "the folder is read-only", readOnly: true, result: Failed, says: "denied"},
		{name: "the stored file is damaged", damaged: true, result: Missing},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := openDepot(t, "pdb/hello-x64.pdb")
			dir := t.TempDir()
			path := filepath.Join(dir, "hello-x64.pdb")
			if c.before != nil {
				symtest.Put(t, dir, "hello-x64.pdb", c.before)
			}
			if c.damaged {
				depottest.Damage(t, d, body)
			}
			if c.readOnly {
				if runtime.GOOS == "windows" || os.Geteuid() == 0 {
					t.Skip("folders are not read-only for this user")
				}
				if err := os.Chmod(dir, 0o500); err != nil {
					t.Fatal(err)
				}
			}
			target, err := NewTarget([]Want{want(t, "hello-x64.pdb", helloID)}, dir, layout.Flat, c.force)
			if err != nil {
				t.Fatal(err)
			}
			var outcomes []Outcome
			var paths []string
			r, err := Get(t.Context(), d, target, 2, false, nil, func(o Outcome, path string) { outcomes, paths = append(outcomes, o), append(paths, path) })
			if err != nil || len(outcomes) != 1 || outcomes[0].Result != c.result || !strings.Contains(outcomes[0].Error, c.says) {
				t.Fatalf("outcomes %+v, %v; want one: %s, %q", outcomes, err, c.result, c.says)
			}
			if r.Counts[c.result] != 1 {
				t.Errorf("the report counts %v, want one %s", r.Counts, c.result)
			}
			got, err := os.ReadFile(path)
			switch {
			case c.result == InDepot:
				if err != nil || !bytes.Equal(got, body) || paths[0] != path {
					t.Errorf("%q has %d bytes, %v; want the %d of the depot in %q", paths[0], len(got), err, len(body), path)
				}
			case paths[0] != "":
				t.Errorf("the file was written to %q, want that it was not", paths[0])
			case !bytes.Equal(got, c.before):
				t.Errorf("the file has %d bytes now, want the %d that were there", len(got), len(c.before))
			}
		})
	}
}

// TestGetMissing: what upstreams lack is missing, and for how long that is remembered, if the
// depot lasts.
func TestGetMissing(t *testing.T) {
	t.Parallel()
	for _, forgotten := range []bool{false, true} {
		d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{Upstreams: []depot.Upstream{{Source: &depottest.Upstream{}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		target, err := NewTarget([]Want{want(t, "ntdll.pdb", helloID)}, t.TempDir(), layout.Flat, false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Get(t.Context(), d, target, 1, forgotten, nil, func(Outcome, string) {})
		if err != nil || len(r.Missing) != 1 {
			t.Fatalf("the report %+v, %v; want one file missing", r, err)
		}
		if o := r.Missing[0]; o.Result != Missing || !slices.Equal(o.Upstreams, []string{"upstream"}) || o.Until.IsZero() != forgotten {
			t.Errorf("forgotten %v: %+v, want it missing on the upstream, until a time if the depot lasts", forgotten, o)
		}
	}
}

// TestGetEnds with its context.
func TestGetEnds(t *testing.T) {
	t.Parallel()
	d := openDepot(t, "pdb/hello-x64.pdb")
	dir := t.TempDir()
	target, err := NewTarget([]Want{want(t, "hello-x64.pdb", helloID)}, dir, layout.Flat, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Get(ctx, d, target, 1, false, nil, func(o Outcome, _ string) { t.Errorf("an outcome: %+v, want none", o) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v, want context.Canceled", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the folder has %d files, %v; want none", len(entries), err)
	}
}

// TestHint says how a debugger uses what was written.
func TestHint(t *testing.T) {
	t.Parallel()
	d := openDepot(t, "pdb/hello-x64.pdb")
	dir := t.TempDir()
	for name, c := range map[string]struct {
		output, file, says string
	}{
		"without a file":  {dir, "", ""},
		"a file":          {filepath.Join(dir, "one", "hello-x64.pdb"), "app.exe", "WinDbg: .sympath " + filepath.Join(dir, "one")},
		"another name":    {filepath.Join(dir, "other.pdb"), "app.exe", "WinDbg: name it hello-x64.pdb, then .sympath " + dir},
		"a folder of one": {dir, "app.exe", "WinDbg: .sympath " + dir},
	} {
		w := want(t, "hello-x64.pdb", helloID)
		w.Object = depottest.ObjectOf(t, "hello-x64.pdb", symtest.Testdata(t, "pdb/hello-x64.pdb"))
		target, err := NewTarget([]Want{w}, c.output, layout.Flat, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Get(t.Context(), d, target, 1, false, nil, func(Outcome, string) {}); err != nil {
			t.Fatal(err)
		}
		if got := target.Hint(c.file); got != c.says {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}

// TestRoundTime is how the remaining time of a miss is printed.
func TestRoundTime(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{"1 s": time.Second, "119 s": 119 * time.Second, "2 min": 2 * time.Minute, "2 h": 119*time.Minute + time.Minute, "47 h": 47 * time.Hour, "3 days": 70 * time.Hour} {
		if got := roundTime(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
