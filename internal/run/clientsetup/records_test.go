package clientsetup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const there = "https://other.example:8443/base"

// tree prints a folder: each file with its mode, and with its content or the target of its link.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		var text []byte
		switch {
		case info.Mode().IsRegular():
			text, err = os.ReadFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			var to string
			to, err = os.Readlink(path)
			text = []byte(to)
		}
		fmt.Fprintf(&out, "%s %s %q\n", info.Mode(), rel, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// place is a home folder with the records of its user beside it.
type place struct {
	t    *testing.T
	home string
	*Records
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, home: filepath.Join(t.TempDir(), "home")}
	p.Records = RecordsIn(filepath.Join(t.TempDir(), "own"))
	if err := os.Mkdir(p.home, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) write(name, text string, perm fs.FileMode) string {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil { // whatever the umask is
		p.t.Fatal(err)
	}
	return path
}

// link makes a symbolic link, and reports whether it is one: on Windows that needs a right, and
// Wine has none.
func link(t *testing.T, to, path string) bool {
	t.Helper()
	err := os.Symlink(to, path)
	info, statErr := os.Lstat(path)
	if err == nil && statErr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return true
	}
	if runtime.GOOS != "windows" {
		t.Fatal(err, statErr)
	}
	_ = os.Remove(path) // what Wine has made
	return false
}

// netrcName is the name of .netrc on this system.
func netrcName() string {
	if runtime.GOOS == "windows" {
		return "_netrc"
	}
	return ".netrc"
}

// netrcMachine is a machine of this system without a service manager.
func netrcMachine(home string) Machine {
	m := Machine{System: "freebsd", Home: home}
	if runtime.GOOS == "windows" {
		m.System = runtime.GOOS
	}
	return m
}

// block is the change that gives a file a line for a server.
func (p *place) block(server, name, line string) Edit {
	p.t.Helper()
	s := &Setup{Server: server}
	e, err := s.blockEdit(filepath.Join(p.home, name), block{comment: "#", lines: []string{line}})
	if err != nil {
		p.t.Fatal(err)
	}
	e.Target, e.server = "test", server
	return e
}

func (p *place) apply(edits ...Edit) {
	p.t.Helper()
	if err := p.Apply(p.t.Context(), edits); err != nil {
		p.t.Fatal(err)
	}
}

// undo undoes what was done for a server, and returns what it says, by the name of the file.
func (p *place) undo(server string) map[string]string {
	p.t.Helper()
	before := tree(p.t, p.home)
	dry, err := p.Undo(p.t.Context(), server, true)
	if err != nil {
		p.t.Fatal(err)
	}
	if now := tree(p.t, p.home); now != before {
		p.t.Errorf("a dry undo changed\n%sto\n%s", before, now)
	}
	list, err := p.Undo(p.t.Context(), server, false)
	if err != nil {
		p.t.Fatal(err)
	}
	if len(dry) != len(list) {
		p.t.Errorf("the dry undo says %v, the real one %v", dry, list)
	}
	out := map[string]string{}
	for _, u := range list {
		out[filepath.Base(u.Path)] = u.Done
	}
	return out
}

// content returns a file.
func (p *place) content(name string) string {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.home, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// empty fails unless nothing is recorded.
func (p *place) empty() {
	p.t.Helper()
	if _, err := os.Lstat(p.dir); err == nil {
		p.t.Errorf("after the last undo there is still\n%s", tree(p.t, p.dir))
	}
}

// TestUndo: everything is as it was: content, mode, links, folders, and a file that had no end
// of line.
func TestUndo(t *testing.T) {
	p := newPlace(t)
	p.write(".profile", "a\nb", 0o640)
	p.write("real", "mine\n", 0o600)
	if !link(t, "real", filepath.Join(p.home, ".gdbinit")) {
		p.write(".gdbinit", "mine\n", 0o600)
	}
	before := tree(t, p.home)
	whole, err := wholeFile(filepath.Join(p.home, "new", "folder", "file"), "text\n")
	if err != nil {
		t.Fatal(err)
	}
	whole.Target, whole.server = "test", here
	p.apply(p.block(here, ".profile", "x"), p.block(here, ".gdbinit", "y"), whole)
	if got := p.content(".gdbinit"); !strings.Contains(got, "mine\n# >>> symdepot "+here+"\ny\n") {
		t.Errorf("the file has %q", got)
	}
	if info, err := os.Stat(filepath.Join(p.home, ".profile")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v; want that of before", info.Mode(), err)
	}
	done := tree(t, p.home)
	p.apply(p.block(here, ".profile", "x"), p.block(here, ".gdbinit", "y"))
	if again := tree(t, p.home); again != done {
		t.Errorf("twice is not once:\n%s\n%s", done, again)
	}
	p.undo(here)
	if after := tree(t, p.home); after != before {
		t.Errorf("after --undo:\n%sbefore:\n%s", after, before)
	}
	p.empty()
	if list, err := p.Undo(t.Context(), here, false); err != nil || len(list) != 0 {
		t.Errorf("a second undo: %v, %v; want nothing", list, err)
	}
}

// TestUndoKeepsChanges: what a person has changed since stays.
func TestUndoKeepsChanges(t *testing.T) {
	p := newPlace(t)
	p.write("grown", "a\n", 0o644)
	p.write("same", "a\n", 0o644)
	whole, err := wholeFile(filepath.Join(p.home, "whole"), "text\n")
	if err != nil {
		t.Fatal(err)
	}
	whole.Target, whole.server = "test", here
	p.apply(p.block(here, "grown", "x"), p.block(here, "made", "x"), p.block(here, "gone", "x"), p.block(here, "emptied", "x"), whole,
		p.block(here, "same", "x"))
	p.write("grown", p.content("grown")+"b\n", 0o644)
	p.write("made", "c\n"+p.content("made"), 0o644)
	p.write("emptied", "only mine\n", 0o644)
	p.write("whole", "text\nmore\n", 0o644)
	if err := os.Remove(filepath.Join(p.home, "gone")); err != nil {
		t.Fatal(err)
	}
	done := p.undo(here)
	for name, want := range map[string]string{"grown": "a\nb\n", "made": "c\n", "emptied": "only mine\n", "whole": "text\nmore\n", "same": "a\n"} {
		if got := p.content(name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if done["grown"] != doneTakenOut || done["whole"] != doneLeft || done["same"] != donePutBack || done["gone"] != "" {
		t.Errorf("said %v", done)
	}
	p.empty()
}

// TestUndoOfTwo: two servers in one file, undone in both orders.
func TestUndoOfTwo(t *testing.T) {
	for _, existed := range []bool{true, false} {
		for _, order := range [][2]string{{here, there}, {there, here}} {
			p := newPlace(t)
			if existed {
				p.write("f", "a", 0o644)
			}
			before := tree(t, p.home)
			p.apply(p.block(here, "f", "x"))
			p.apply(p.block(there, "f", "y"))
			if list, err := p.Servers(); err != nil || len(list) != 2 {
				t.Errorf("servers %v, %v; want two", list, err)
			}
			p.undo(order[0])
			if got := p.content("f"); strings.Contains(got, order[0]+"\n") || !strings.Contains(got, order[1]+"\n") {
				t.Errorf("after the undo of %s: %q", order[0], got)
			}
			p.undo(order[1])
			if after := tree(t, p.home); after != before {
				t.Errorf("existed %v, order %v: after\n%sbefore\n%s", existed, order, after, before)
			}
			p.empty()
		}
	}
}

// TestApplyAllOrNone: a change that fails takes those before it back.
func TestApplyAllOrNone(t *testing.T) {
	p := newPlace(t)
	p.write("a", "a\n", 0o644)
	p.write("b", "b\n", 0o644)
	p.write("file", "", 0o644)
	changed := p.block(here, "b", "x")
	p.write("b", "changed meanwhile\n", 0o644)
	before := tree(t, p.home)
	err := p.Apply(t.Context(), []Edit{p.block(here, "a", "x"), p.block(here, "new", "x"), changed})
	if err == nil || !strings.Contains(err.Error(), "was changed meanwhile") {
		t.Errorf("error %v, want one that says so", err)
	}
	below := Edit{Path: filepath.Join(p.home, "file", "below"), After: []byte("x"), Target: "test", server: here}
	if err := p.Apply(t.Context(), []Edit{p.block(here, "a", "x"), below}); err == nil {
		t.Error("a file below a file: no error")
	}
	if after := tree(t, p.home); after != before {
		t.Errorf("after\n%sbefore\n%s", after, before)
	}
	p.empty()
	// A set-up that stood there before stays.
	p.apply(p.block(here, "a", "x"))
	stood := tree(t, p.home)
	if err := p.Apply(t.Context(), []Edit{p.block(here, "a", "y"), changed}); err == nil {
		t.Error("no error")
	}
	if after := tree(t, p.home); after != stood {
		t.Errorf("after\n%sbefore\n%s", after, stood)
	}
	p.undo(here)
	if after := tree(t, p.home); after != before {
		t.Errorf("after\n%sbefore\n%s", after, before)
	}
}

// TestUndoAfterCrash: the record was written, and the file was not.
func TestUndoAfterCrash(t *testing.T) {
	p := newPlace(t)
	p.write("f", "a\n", 0o644)
	p.apply(p.block(here, "f", "x"))
	p.apply(p.block(here, "f", "longer"))
	for _, now := range []string{"a\n", "a\n# >>> symdepot " + here + "\nx\n# <<< symdepot " + here + "\n"} {
		q := *p
		p.write("f", now, 0o644)
		q.undo(here)
		if got := p.content("f"); got != "a\n" {
			t.Errorf("with %q: %q, want what stood before", now, got)
		}
		p.apply(p.block(here, "f", "x"))
		p.apply(p.block(here, "f", "longer"))
	}
}

// TestRefresh: a new token comes into the files that have one, and nothing else changes there.
func TestRefresh(t *testing.T) {
	p := newPlace(t)
	p.write(netrcName(), "machine a login b password c\n", 0o600)
	before := tree(t, p.home)
	old, next := "sd_"+strings.Repeat("o", 43), "sd_"+strings.Repeat("n", 43)
	headers := Edit{Path: filepath.Join(p.home, "headers"), After: headersText(nil, old), Target: "debuginfod", server: here,
		form: formHeaders, whole: true, private: true}
	f, err := netrc(t.Context(), &Setup{Server: here, Token: old, Machine: netrcMachine(p.home)})
	if err != nil || len(f.Edits) != 1 {
		t.Fatalf("%v, %v; want one change", f, err)
	}
	f.Edits[0].server = here
	p.apply(headers, f.Edits[0])
	if list, err := p.WithTokens(); err != nil || len(list) != 1 || list[0] != here {
		t.Errorf("servers with tokens: %v, %v", list, err)
	}
	if server, err := p.Debuginfod(); err != nil || server != here {
		t.Errorf("debuginfod is set up for %q, %v", server, err)
	}
	for _, server := range []string{there, here} { // another server changes nothing
		if err := p.Refresh(t.Context(), server, next); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"headers", netrcName()} {
		if got := p.content(name); strings.Count(got, next) != 1 || strings.Contains(got, old) {
			t.Errorf("%s has %q", name, got)
		}
		if info, err := os.Stat(filepath.Join(p.home, name)); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info.Mode(), err)
		}
	}
	if got := p.content(netrcName()); !strings.HasPrefix(got, "# >>> ") || !strings.HasSuffix(got, "machine a login b password c\n") {
		t.Errorf(".netrc has %q, want the block before the rest", got)
	}
	p.undo(here)
	if after := tree(t, p.home); after != before {
		t.Errorf("after\n%sbefore\n%s", after, before)
	}
	// What a person has taken out, or added, stays so.
	f.Edits[0].Before = []byte(p.content(netrcName()))
	p.apply(headers, f.Edits[0])
	p.write(netrcName(), "machine a login b password c\n", 0o600)
	p.write("headers", "X-Mine: 1\n"+p.content("headers"), 0o600)
	if err := p.Refresh(t.Context(), here, next); err != nil {
		t.Fatal(err)
	}
	if got := p.content(netrcName()); got != "machine a login b password c\n" {
		t.Errorf(".netrc has %q", got)
	}
	if got, want := p.content("headers"), "X-Mine: 1\nAuthorization: Bearer "+next+"\n"; got != want {
		t.Errorf("the headers are %q, want %q", got, want)
	}
}

// TestDamagedRecord: a record that cannot be read says where the earlier contents are.
func TestDamagedRecord(t *testing.T) {
	p := newPlace(t)
	p.write("f", "a\n", 0o644)
	p.apply(p.block(here, "f", "x"))
	for _, text := range []string{"{", "[null]", `[{"path":1}]`} {
		if err := os.WriteFile(filepath.Join(p.dir, listName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Undo(t.Context(), here, false); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%s: %v, want an error that says so", text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "before-"+sum([]byte(filepath.Join(p.home, "f")))[:16])); err != nil {
		t.Error(err)
	}
}
