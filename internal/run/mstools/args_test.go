package mstools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symstore"
)

func TestSlashArgs(t *testing.T) {
	dir := t.TempDir()
	here := filepath.Join(dir, "here.pdb")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string // separated by blanks; ~ is an empty argument
		want string // name=values, sorted; or an error's part after !
	}{
		{`/f a.pdb /s store /t Game`, `f=a.pdb s=store t=Game`},
		{`-F a.pdb -S store -T Game -Compress`, `compress= f=a.pdb s=store t=Game`},
		{`/t Game /r /s store /f a.pdb b.pdb c.pdb`, `f=a.pdb,b.pdb,c.pdb r= s=store t=Game`},
		{`/f a.pdb b.pdb /r /f c.pdb`, `f=a.pdb,b.pdb,c.pdb r=`},
		{`/f /build/x.pdb /s /srv/symbols /t /T`, `f=/build/x.pdb s=/srv/symbols t=/T`},
		{`/f /build/x.pdb /build/y.pdb /s /srv`, `f=/build/x.pdb,/build/y.pdb s=/srv`},
		{`/f /s /s store`, `f=/s s=store`},
		{`/f ` + here + ` ` + here + ` /r`, `f=` + here + `,` + here + ` r=`},
		{`/f:a.pdb /s=\\hub\sym /t:Game /d:log`, `d=log f=a.pdb s=\\hub\sym t=Game`},
		{`/f@list.txt /sC:\sym /t"My`, `!unknown option /t"My`},
		{`/f@list.txt /sC:\sym`, `f=@list.txt s=C:\sym`},
		{`/s\\hub\sym -f@l /r`, `f=@l r= s=\\hub\sym`},
		{`-:MSG gone -:rel -:NoRefs -:NOFORCECOPY`, `:msg=gone :noforcecopy= :norefs= :rel=`},
		{`/:MSG=gone`, `:msg=gone`},
		{`/compress zip`, `compress=zip`},
		{`/compress /3 /o`, `3= compress= o=`},
		{`/COMPRESS:LZX`, `compress=LZX`},
		{`/compress rar`, `!must be followed by one of CAB, ZIP, MSZIP, LZX`},
		{`/z PUB /h pri`, `h=pri z=PUB`},
		{`/z all`, `!must be followed by one of PUB, PRI`},
		{`/y idx /yi`, `y=idx yi=`},
		{`/yi idx /p`, `p= yi=idx`},
		{`/c ~ /v ~`, `c= v=`},
		{`--method lzx --all --json`, `-all= -json= -method=lzx`},
		{`--method=lzx`, `-method=lzx`},
		{`--map \\a=/a --map \\b=/b`, `-map=\\a=/a,\\b=/b`},
		{`/s`, `!/s needs a value`},
		{`/f`, `!/f needs a value`},
		{`/s a /s b`, `!/s is given twice`},
		{`/s a /s a`, `s=a`},
		{`/recurse`, `!did you mean /r?`},
		{`/product Game`, `!did you mean /t?`},
		{`/f a.pdb /compres`, `!did you mean /compress?`},
		{`-:NOREF`, `!did you mean -:NOREFS?`},
		{`--metod lzx`, `!did you mean --method?`},
		{`/i 7`, `!unknown option /i`},
		{`/r a.pdb`, `!/r takes no value`},
		{`/t My Game`, `!a value with blanks needs quotes`},
		{`a.pdb`, `!belongs to no option`},
		{``, ``},
	} {
		args := strings.Fields(tt.args)
		for i, a := range args {
			if a == "~" {
				args[i] = ""
			}
		}
		got, err := addSyntax.parse(args)
		if wrong, ok := strings.CutPrefix(tt.want, "!"); ok {
			var usage term.UsageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, want %q", tt.args, err, wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got error %v, want no error", tt.args, err)
			continue
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(got.values)) {
			list = append(list, name+"="+strings.Join(got.values[name], ","))
		}
		if s := strings.Join(list, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.args, s, tt.want)
		}
	}
}

// TestHintForLongWord: no hint for a word is looked for that is nothing like an
// option. The time for that grew with its length, for each option.
func TestHintForLongWord(t *testing.T) {
	word := strings.Repeat("x", 64<<20)
	began := time.Now()
	if near := addSyntax.nearest(word); near != "" {
		t.Errorf("the word resembles %s, want no suggestion", near)
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("it took %s, want at most 2 s", d)
	}
}

func FuzzSlashArgs(f *testing.F) {
	f.Add("/r\n/f\na.pdb\n/s\nstore\n/compress\nLZX")
	f.Add("-:MSG\ngone\n/yi\n--map=a=b\n/sC:\\x\n/\n-\n/@\n/:")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		for _, v := range symstoreVerbs() {
			s, err := v.syntax.parse(args)
			var usage term.UsageError
			if err != nil && !errors.As(err, &usage) || err == nil && s == nil {
				t.Fatalf("parse(%q): %v, error %v; want a result or a usage error", args, s, err)
			}
		}
	})
}

func TestCommandLine(t *testing.T) {
	for name, want := range map[string][]string{
		"/usr/bin/symdepot":            {"add"},
		"symstore":                     {"symstore", "add"},
		"/opt/x/SymStore.EXE":          {"symstore", "add"},
		`C:\tools\symstore.exe`:        {"symstore", "add"},
		"convertstore":                 {"symstore", "convert", "add"},
		"AgeStore.exe":                 {"symstore", "agestore", "add"},
		"symchk":                       {"symstore", "chk", "add"},
		`C:\x\Symdepot-Credential.EXE`: {"credential", "--debugger", "add"},
		"symstore-linux-amd64":         {"add"},
		"/opt/symstore/symdepot":       {"add"},
	} {
		if got := CommandLine([]string{name, "add"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: CommandLine: %q, want %v", name, got, want)
		}
	}
}

func TestSymstoreCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{term.UsageError("x"), 2},
		{symstore.ErrNotStore, 3},
		{errNoStore, 3},
		{symstore.ErrNoTransaction, 4},
		{symstore.ErrDamaged, 5},
		{fmt.Errorf("%w: %w", symstore.ErrReadOnly, fs.ErrPermission), 19},
		{symstore.ErrLocked, 32},
		{symstore.ErrLockLost, 32},
		{symstore.ErrNoLocks, 50},
		{symstore.ErrExists, 80},
		{&fs.PathError{Op: "write", Err: syscall.ENOSPC}, 112},
		{symstore.ErrName, 123},
		{&fs.PathError{Op: "open", Err: syscall.ENAMETOOLONG}, 206},
		{context.Canceled, 130},
		{term.Exit(7), 7},
	} {
		err := tt.err
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		if got := symstoreCode(err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestWildcardMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.*", "Makefile", true},
		{"*", "x", true},
		{"*.pdb", "A.PDB", true},
		{"*.pdb", "a.pdbx", false},
		{"a?c.dll", "abc.dll", true},
		{"a?c.dll", "ac.dll", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false},
		{"[a].pdb", "[a].pdb", true},
		{"ü*", "Über", true},
		{"", "", true},
		{"**", "x", true},
	} {
		if got := wildcardMatch(tt.pattern, tt.name); got != tt.want {
			t.Errorf("%q, %q: wildcardMatch: %t, want %v", tt.pattern, tt.name, got, tt.want)
		}
	}
}

func TestPathMap(t *testing.T) {
	m, err := parsePathMap([]string{`\\hub\builds=/mnt/b`, `C:=/mnt/c`})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		`\\HUB\builds\1.2\a.pdb`: "/mnt/b/1.2/a.pdb",
		`//hub/builds/a.pdb`:     "/mnt/b/a.pdb",
		`\\hub\builds`:           "/mnt/b",
		`C:\x\a.pdb`:             "/mnt/c/x/a.pdb",
		`/srv/a.pdb`:             "/srv/a.pdb",
		"a.pdb":                  "a.pdb",
	} {
		got, err := m.local(p)
		if err != nil || filepath.ToSlash(got) != want {
			t.Errorf("%s: local: %q, error %v; want filepath.ToSlash(got) %v", p, got, err, want)
		}
	}
	if got := m.recorded(filepath.FromSlash("/mnt/b/1.2/a.pdb")); got != `\\hub\builds\1.2\a.pdb` {
		t.Errorf("recorded %q, want the path of the share", got)
	}
	if got := m.recorded(filepath.FromSlash("/mnt/c/a.pdb")); got != `C:\a.pdb` {
		t.Errorf("recorded %q, want the path on C:", got)
	}
	if onWindows {
		return
	}
	for _, p := range []string{`\\server\share\x`, `D:\x`, `\\hub\builds2\x`} {
		if got, err := m.local(p); err == nil || !strings.Contains(err.Error(), "--map") {
			t.Errorf(`%s: local: %q, error %v; want an error, one with "--map"`, p, got, err)
		}
	}
	if got, err := m.local(`.\sub\a.pdb`); got != "./sub/a.pdb" || err != nil {
		t.Errorf(`local(%q): %q, error %v; want "./sub/a.pdb"`, `.\sub\a.pdb`, got, err)
	}
	if _, err := parsePathMap([]string{"x"}); err == nil {
		t.Error("parsePathMap(x) has no error, want one")
	}
}

func TestTextOf(t *testing.T) {
	for in, want := range map[string]string{
		"a\r\nb":                      "a\r\nb",
		"\xef\xbb\xbfa":               "a",
		"\xff\xfea\x00\xe4\x00\n\x00": "aä\n",
		"\xfe\xff\x00a\x00\n":         "a\n",
		"\xff\xfe":                    "",
		"\xff\xfea":                   "",
	} {
		got, err := term.ReadText(strings.NewReader(in))
		if err != nil || got != want {
			t.Errorf("%q: ReadText: %q, error %v; want %v", in, got, err, want)
		}
	}
	if _, err := term.ReadText(io.LimitReader(zeros{}, term.MaxText+2)); err == nil {
		t.Error("a list without end is read")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
