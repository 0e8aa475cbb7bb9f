package srclink

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readScript(t testing.TB, text string) *Script {
	t.Helper()
	s, err := ReadScript(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func entries(t testing.TB, s *Script) []Entry {
	t.Helper()
	var all []Entry
	for e, err := range s.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// script returns a stream of the variables and files, one a line.
func script(variables string, files ...string) string {
	return "SRCSRV: ini ---\r\nVERSION=2\r\nSRCSRV: variables ---\r\n" + strings.ReplaceAll(variables, "\n", "\r\n") +
		"\r\nSRCSRV: source files ---\r\n" + strings.Join(files, "\r\n") + "\r\nSRCSRV: end ---\r\n"
}

const httpScript = `SRCSRV: ini ------------------------------------------------
VERSION=2
INDEXVERSION=2
VERCTRL=http
DATETIME=Sat Nov 21 10:00:00 2026
SRCSRV: variables ------------------------------------------
SRCSRVVERCTRL=http
HTTP_ALIAS=https://symbols.example.com/src
HTTP_EXTRACT_TARGET=%HTTP_ALIAS%/%var2%/%fnfile%(%var1%)
SRCSRVTRG=%http_extract_target%
SRCSRVCMD=
SRCSRV: source files ---------------------------------------
c:\build\game\main.cpp*9f86d0
c:\build\game\util.h*0a08
SRCSRV: end ------------------------------------------------
`

// The streams of known tools: Microsoft's documentation has Team Foundation and
// Perforce, and its own PDBs UNC paths.
const tfsScript = `SRCSRV: ini ------------------------------------------------
VERSION=3
INDEXVERSION=2
VERCTRL=Team Foundation Server
DATETIME=Thu Mar 10 16:13:00 2016
SRCSRV: variables ------------------------------------------
TFS_EXTRACT_CMD=tf.exe view /version:%var4% /noprompt "$%var3%" /server:%fnvar%(%var2%) /console >%srcsrvtrg%
TFS_EXTRACT_TARGET=%targ%\%var2%%fnbksl%(%var3%)\%var4%\%fnfile%(%var5%)
SRCSRVVERCTRL=tfs
SRCSRVERRDESC=access
SRCSRVERRVAR=var2
VSTFSSERVER=http://vstfdevdiv:8080/DevDiv2
SRCSRVTRG=%TFS_extract_target%
SRCSRVCMD=%TFS_extract_cmd%
SRCSRV: source files ------------------------------------- 
f:\dd\vctools\crt\vcruntime\src\string\i386\_strlen_.asm*VSTFSSERVER*/DevDiv/vc/i386/strlen.asm*1363200*strlen.asm
SRCSRV: end ------------------------------------------------`

const uncScript = `SRCSRV: ini
VERSION=1
SRCSRV: variables
SRCSRVTRG=\\server\share\%fnbksl%(%var2%)
SRCSRV: source files
c:\a.c*src/a.c
`

func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		version int
		file    int
		want    Resolution
	}{
		"http": {httpScript, 2, 1, Resolution{Class: HTTP, Target: "https://symbols.example.com/src/0a08/util.h"}},
		"tfs": {tfsScript, 3, 0, Resolution{Class: Command,
			Target: `%targ%\VSTFSSERVER\DevDiv\vc\i386\strlen.asm\1363200\strlen.asm`,
			Command: `tf.exe view /version:1363200 /noprompt "$/DevDiv/vc/i386/strlen.asm" /server:http://vstfdevdiv:8080/DevDiv2 /console >` +
				`%targ%\VSTFSSERVER\DevDiv\vc\i386\strlen.asm\1363200\strlen.asm`, Reason: "its target is no URL"}},
		"unc":       {uncScript, 1, 0, Resolution{Class: UNC, Target: `\\server\share\src\a.c`}},
		"percent":   {script(`SRCSRVTRG=https://x/a%%20b/%var2%%`, "a*b"), 2, 0, Resolution{Class: HTTP, Target: "https://x/a%20b/b%"}},
		"no target": {script(`SRCSRVCMD=`, "a"), 2, 0, Resolution{Class: Broken, Reason: "it has neither a target nor a command"}},
		"names without case, empty values": {script("srcsrvtrg=http://x/%VAR2%%vAr3%%Var10%%var11%", "a*b"), 2, 0,
			Resolution{Class: HTTP, Target: "http://x/b", Env: []string{"var11"}}},
		"functions within each other": {script(`SRCSRVTRG=%fnfile%(%fnbksl%(x/(y)/%fnvar%(%var2%)))`+"\nN=c/d", "a*n"), 2, 0,
			Resolution{Class: UNC, Target: "d"}},
		"a function without brackets": {script(`SRCSRVTRG=x%fnfile%y%fnbksl%(z`, "a"), 2, 0,
			Resolution{Class: UNC, Target: "xy(z", Env: []string{"fnbksl", "fnfile"}}},
		"a variable in a line": {script("SRCSRVTRG=%var2%\nH=https://h/", "a*%h%b"), 2, 0, Resolution{Class: HTTP, Target: "https://h/b"}},
	} {
		s := readScript(t, c.text)
		if s.Version != c.version {
			t.Errorf("%s: version %d, want %d", name, s.Version, c.version)
		}
		if diff := cmp.Diff(c.want, s.Resolve(entries(t, s)[c.file])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCommands: whatever a stream does to look harmless, its class is Command
// if a debugger could run something.
func TestCommands(t *testing.T) {
	deep := strings.Builder{}
	for i := range maxDepth + 2 {
		fmt.Fprintf(&deep, "A%d=%%A%d%%\n", i, i+1)
	}
	for name, text := range map[string]string{
		"plain":                        script("SRCSRVTRG=%targ%\\x\nSRCSRVCMD=calc.exe", "a"),
		"no target":                    script("SRCSRVCMD=calc.exe", "a"),
		"lower case":                   script("srcsrvcmd=calc.exe", "a"),
		"in ini":                       "SRCSRV: ini\nSRCSRVCMD=calc.exe\nSRCSRV: source files\na",
		"variables behind the files":   "SRCSRV: ini\nVERSION=1\nSRCSRV: source files\na\nSRCSRV: variables\nSRCSRVCMD=calc.exe\n",
		"variables behind the end":     "SRCSRV: end\nSRCSRV: source files\na\nSRCSRV: variables\nSRCSRVCMD=calc.exe\n",
		"command from the environment": script("SRCSRVTRG=c:\\x\nSRCSRVCMD=%comspec%", "a"),
		"target from the environment":  script("SRCSRVTRG=%os%http://x/\nSRCSRVCMD=calc.exe", "a"),
		"command in a line":            script("SRCSRVTRG=%var2%\nSRCSRVCMD=%var3%", "a*c:\\x*calc.exe"),
		"one of many lines":            script("SRCSRVTRG=%var2%\nSRCSRVCMD=%var3%", "a*http://x*calc.exe", "b*http://y", "c*ftp://z*calc.exe"),
		"two commands":                 script("SRCSRVTRG=c:\\x\nSRCSRVCMD=calc.exe\nSRCSRVCMD=", "a"),
		"two targets":                  script("SRCSRVTRG=c:\\x\nSRCSRVCMD=calc.exe\nSRCSRVTRG=http://x/", "a"),
		"target in capitals":           script("SRCSRVTRG=HTTP://x/\nSRCSRVCMD=calc.exe", "a"),
		"target without an end":        script("SRCSRVTRG=http://x/%srcsrvtrg%\nSRCSRVCMD=calc.exe", "a"),
		"command without an end":       script("SRCSRVTRG=c:\\x\nSRCSRVCMD=%srcsrvcmd%", "a"),
		"too deep":                     script(deep.String()+"SRCSRVTRG=c:\\x\nSRCSRVCMD=%A0%", "a"),
		"a long line":                  script("SRCSRVTRG=http://x/%var2%\nSRCSRVCMD=calc.exe", "a*"+strings.Repeat("b", maxLine)),
		"a long target":                script("SRCSRVTRG=http://x/%var2%\nSRCSRVCMD=calc.exe", "a*"+strings.Repeat("b", maxResult)),
		"a long head":                  "SRCSRV: variables " + strings.Repeat("-", 2*maxLine) + "\nSRCSRVCMD=calc.exe\nSRCSRV: source files\na\n",
		"no files":                     script("SRCSRVTRG=c:\\x\nSRCSRVCMD=calc.exe"),
	} {
		sum, err := readScript(t, text).Summary()
		if err != nil || sum.Class != Command {
			t.Errorf("%s: class %q, error %v; want command", name, sum.Class, err)
		}
		if sum.Example.Reason == "" {
			t.Errorf("%s: no reason: %+v", name, sum)
		}
	}
	for name, text := range map[string]string{
		"http":               httpScript,
		"http, a command":    script("SRCSRVTRG=http://x/%var2%\nSRCSRVCMD=calc.exe", "a*b"),
		"http, empty values": script("SRCSRVTRG=http://x/%var2%%e%\nSRCSRVCMD=%e%\nE=", "a*b"),
	} {
		if sum, err := readScript(t, text).Summary(); err != nil || sum.Class != HTTP {
			t.Errorf("%s: %+v, error %v; want class http", name, sum, err)
		}
	}
}

func TestSummary(t *testing.T) {
	sum, err := readScript(t, script("SRCSRVTRG=%var2%", "a*https://x/1", "b*\\\\h\\s\\f", "c*http://y:8080/2", "d*https://X/3")).Summary()
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{Class: UNC, Files: 4, Name: "b", Example: Resolution{Class: UNC, Target: `\\h\s\f`},
		Places: []Place{{"http", "y:8080"}, {"https", "x"}}}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEffort: a stream that grows while it is resolved ends at the limits.
func TestEffort(t *testing.T) {
	bomb := "SRCSRVTRG=%a0%\nSRCSRVCMD=%a0%x\nA14=\n"
	for i := range 14 {
		bomb += fmt.Sprintf("A%d=%s\n", i, strings.Repeat(fmt.Sprintf("%%A%d%%", i+1), 50))
	}
	s := readScript(t, script(bomb, "a"))
	r := s.Resolve(entries(t, s)[0])
	if r.Class != Command || !strings.Contains(r.Reason, "effort") {
		t.Errorf("%+v; want the class command because of the effort", r)
	}
	files := make([]string, 200_000)
	for i := range files {
		files[i] = "a"
	}
	sum, err := readScript(t, script(bomb, files...)).Summary()
	if err != nil || sum.Class != Command || sum.Files != len(files) {
		t.Errorf("%+v, error %v; want the class command", sum, err)
	}
}

func TestScriptLimits(t *testing.T) {
	for name, text := range map[string]string{
		"lines":              strings.Repeat("x\n", maxLines+1),
		"a variable's line":  script("X=" + strings.Repeat("x", maxLine)),
		"bytes of variables": script(strings.Repeat("X="+strings.Repeat("x", 1000)+"\n", 1100)),
	} {
		if _, err := ReadScript(strings.NewReader(text), int64(len(text))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ReadScript(strings.NewReader(""), MaxScript+1); err == nil {
		t.Error("a stream of more than the limit was read")
	}
	for _, text := range []string{"", "\x00\x00", "SRCSRV:", "no stream", "SRCSRV: variables\n=\n%\n\n"} {
		if sum, err := readScript(t, text).Summary(); err != nil || sum.Class != Broken {
			t.Errorf("%q: %+v, error %v; want class broken", text, sum, err)
		}
	}
	if _, err := ReadScript(failing{}, 100); !errors.Is(err, errFailing) {
		t.Errorf("error %v, want that of the reader", err)
	}
}

type failing struct{}

var errFailing = errors.New("the disk is gone")

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errFailing }

func FuzzScript(f *testing.F) {
	for _, s := range []string{
		httpScript, tfsScript, uncScript, script("SRCSRVTRG=%fnvar%(%fnfile%(a/%var2%))%%%\nX=%y%\nY=%x%", "a*x", "b*"),
	} {
		f.Add(s, "https://symbols.example.com", "http://new/")
	}
	f.Fuzz(func(t *testing.T, text, old, to string) {
		s, err := ReadScript(strings.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		sum, err := s.Summary()
		if err != nil {
			return
		}
		n := 0
		for e, err := range s.Entries() {
			if err != nil {
				t.Fatal(err)
			}
			n++
			r := s.Resolve(e)
			if len(r.Target) > maxResult || len(r.Command) > maxResult {
				t.Errorf("%d bytes of target, %d of command", len(r.Target), len(r.Command))
			}
			if r.Class.rank() > sum.Class.rank() {
				t.Errorf("%+v is worse than %+v", r, sum)
			}
			if r.Class == HTTP && (r.Command != "" || !strings.HasPrefix(r.Target, "http")) || r.Class == "" {
				t.Errorf("%+v", r)
			}
		}
		if n != sum.Files {
			t.Errorf("%d files, the summary has %d", n, sum.Files)
		}
		var out strings.Builder
		if changed, err := s.Rebase(&out, old, to); err != nil || changed == 0 && out.String() != text {
			t.Errorf("%d changes, error %v; the text differs: %t", changed, err, out.String() != text)
		}
	})
}
