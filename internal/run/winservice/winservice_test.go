package winservice

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/config"
)

// TestAccountID compares with accounts of Windows, which Microsoft documents.
func TestAccountID(t *testing.T) {
	for name, want := range map[string]string{
		"TrustedInstaller": "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
		"trustedinstaller": "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
	} {
		if got := accountID(name); got != want {
			t.Errorf("the account of the service %s is %s, want %s", name, got, want)
		}
	}
	if got := folderRights("TrustedInstaller"); strings.Count(got, "(A;") != 3 || strings.Contains(got, "BU") || strings.Contains(got, "WD") {
		t.Errorf("the rights are %s, want three of full access and none for users", got)
	}
}

// TestLogs: the file gets every line; the event log gets warnings, errors, and what
// is no record of the log.
func TestLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "symdepot.log")
	f, err := openRotated(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var told []string
	l := &Logs{file: f, tell: func(s severity, line string) { told = append(told, fmt.Sprint(int(s), " ", line)) }}
	all := `{"level":"INFO","msg":"request"}
{"level":"WARN","msg":"careful"}
{"level":"ERROR","msg":"broken"}
symdepot: it ends
`
	for _, part := range []string{all[:10], all[10:50], all[50:]} { // lines come in pieces
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v; want %d", n, err, len(part))
		}
	}
	want := []string{`1 {"level":"WARN","msg":"careful"}`, `2 {"level":"ERROR","msg":"broken"}`, "2 symdepot: it ends"}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("the event log got %q, want %q", told, want)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != all {
		t.Errorf("the file has %q, %v; want %q", b, err, all)
	}
}

// TestRotation: a file that would become too large is moved away, and the oldest is
// forgotten.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "symdepot.log")
	f, err := openRotated(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	f.withCrashes(func(err error) { t.Errorf("the text of a crash will not be in the log: %v", err) })
	for i := range keptLogs + 3 {
		if _, err := fmt.Fprintf(f, "line %02d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range keptLogs + 1 {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		want := fmt.Sprintf("line %02d\n", keptLogs+2-i)
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", filepath.Base(name), b, err, want)
		}
	}
	if _, err := os.Stat(fmt.Sprintf("%s.%d", path, keptLogs+1)); err == nil {
		t.Errorf("there are more than %d old files", keptLogs)
	}
	if f, err = openRotated(path, 10); err != nil { // appends after a restart
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("line %02d\nx\n", keptLogs+2)
	if b, err := os.ReadFile(path); err != nil || string(b) != want {
		t.Errorf("after a restart: %q, %v; want %q", b, err, want)
	}
}

// TestRotationWhileRead: as long as somebody reads the log so that it cannot be moved away,
// it grows, and no older file is lost for that.
func TestRotationWhileRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "symdepot.log")
	f, err := openRotated(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := map[string]bool{}
	f.rename = func(from, to string) error {
		if read[from] || read[to] {
			return os.ErrPermission
		}
		return os.Rename(from, to)
	}
	lines := 0
	write := func(n int) {
		t.Helper()
		for range n {
			if _, err := fmt.Fprintf(f, "line %02d\n", lines); err != nil {
				t.Fatal(err)
			}
			lines++
		}
	}
	// all returns the lines of all files, the oldest first.
	all := func() (text string) {
		for i := keptLogs; i >= 0; i-- {
			b, _ := os.ReadFile(f.old(i))
			text += string(b)
		}
		b, _ := os.ReadFile(path)
		return text + string(b)
	}
	want := func(what string) {
		t.Helper()
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, "line %02d\n", i)
		}
		if got := all(); got != b.String() {
			t.Errorf("%s: the files have %q, want all %d lines", what, got, lines)
		}
	}
	write(3)
	read[path] = true
	write(keptLogs)
	want("while the log is read")
	read = map[string]bool{f.old(1): true}
	write(2)
	want("while the newest of the older files is read")
	read = map[string]bool{}
	write(2)
	want("afterwards")
	if _, err := os.Stat(f.old(0)); err == nil {
		t.Errorf("%s is still there, want it moved to the next number", f.old(0))
	}
}

// TestRotationAgain: a log that could not be opened once is opened by the next line.
func TestRotationAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "symdepot.log")
	f, err := openRotated(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.rename = func(from, to string) error { // in place of the log there is something else for a moment
		err := os.Rename(from, to)
		if from == path {
			err = os.Mkdir(path, 0o755)
		}
		return err
	}
	if _, err := f.Write([]byte("line 00\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("line 01\n")); err == nil {
		t.Error("a line for a log that cannot be opened: no error, want one")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.rename = os.Rename
	if _, err := f.Write([]byte("line 02\n")); err != nil {
		t.Errorf("the next line: error %v, want none", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "line 02\n" {
		t.Errorf("the log has %q, %v; want the next line", b, err)
	}
}

// TestWriteFirst: the first configuration is one that the program accepts, and an
// existing one is kept.
func TestWriteFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "symdepot.yaml")
	if err := WriteFirst(file); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "depot"); c.Depot.Dir != want || c.Public {
		t.Errorf("depot %q, public %v; want %q, false", c.Depot.Dir, c.Public, want)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFirst(file); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("the existing configuration is %q now, %v; want it kept", b, err)
	}
}
