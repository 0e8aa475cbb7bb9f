package mstools

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file of this package anew")

// commandLine is one command, and the answer to its question.
type commandLine struct {
	line  string // words separated by blanks; STORE, OTHER, BUILD and DIR are folders
	stdin string
}

// commandLines run one after the other on one store. Each line of the golden file that
// begins with store says what the store has after a command that changed it.
var commandLines = []commandLine{
	{line: ""},
	{line: "ad /f a.pdb"},
	{line: "add /f"},
	{line: "add /s STORE /t Game"},
	{line: "add /f BUILD/app.pdb /t Game"},
	{line: "add /f BUILD/app.pdb /s STORE"},
	{line: "add /f BUILD/app.pdb /x DIR/x.txt /s STORE"},
	{line: "add /f BUILD/app.pdb /x DIR/x.txt /m pdb"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game /a"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game --force"},
	{line: "add /y DIR/x.txt /f BUILD/app.pdb /s STORE /t Game"},
	{line: "add /y DIR/x.txt /yi DIR/y.txt /s STORE /t Game"},
	{line: "add /yi /s STORE /t Game"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game -:REL"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game /p -:MSG"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game /compress zip"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game --method rar"},
	{line: "query /f BUILD/app.pdb /s STORE"},
	{line: "add /f BUILD/none.pdb /s STORE /t Game"},
	{line: "add /f BUILD/notes.txt /s STORE /t Game"},
	{line: "add /f BUILD/app.pdb BUILD/app.exe /s STORE /t Game /v 1 /c first"},
	{line: "add /f BUILD/app.pdb /s STORE /t Game /v 2 /compress"},
	{line: "add /r /f BUILD /s STORE /t Game /v 3 /p"},
	{line: "query /f BUILD/app.pdb /s STORE"},
	{line: "query /f BUILD/app.exe BUILD/notes.txt /s STORE"},
	{line: "check STORE"},
	{line: "add /f BUILD/app.exe /x DIR/x.txt"},
	{line: "add /y DIR/x.txt /s OTHER /t Tool"},
	{line: "check OTHER"},
	{line: "del /i 0000000009 /s STORE"},
	{line: "del /i 0000000001 /s STORE"},
	{line: "check STORE"},
	{line: "convert STORE"},
	{line: "age STORE"},
	{line: "age STORE -days=1 -date=1-2-2026"},
	{line: "age STORE -days=x"},
	{line: "age STORE -size=x"},
	{line: "age STORE --keep x"},
	{line: "age STORE --hold 2"},
	{line: "age STORE OTHER -days=1"},
	{line: "age STORE --gone DIR/none -days=1"},
	{line: "age STORE -date=32-32-2026"},
	{line: "add /f BUILD/app.exe /s STORE /t Game /v 4"},
	{line: "age STORE --keep 1", stdin: "n\n"},
	{line: "age STORE --keep 1", stdin: "y\n"},
	{line: "check STORE"},
	{line: "age DIR --keep 1"},
	{line: "chk"},
	{line: "chk BUILD/app.exe /s STORE"},
}

// TestCommandLines: what each command prints, its exit code, and what the store has then.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	if filepath.Separator != '/' {
		t.Skip("the golden file has slashes")
	}
	root := t.TempDir()
	folder := func(name string) string {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	build, dir, store, other := folder("build"), folder("dir"), filepath.Join(root, "store"), filepath.Join(root, "other")
	for name, from := range map[string]string{"app.pdb": "pdb/hello-x64.pdb", "app.exe": "pdb/hello-x64.exe", "notes.txt": "pdb/hello.c"} {
		b, err := os.ReadFile("../../../testdata/" + from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(build, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	places := strings.NewReplacer("STORE", store, "OTHER", other, "BUILD", build, "DIR", dir)
	names := strings.NewReplacer(store, "STORE", other, "OTHER", build, "BUILD", dir, "DIR", root, "ROOT")
	times := regexp.MustCompile(`\b\d{2}/\d{2}/\d{4}\b|\b\d{4}-\d{2}-\d{2}\b|\b\d{2}:\d{2}(:\d{2})?\b`)
	var golden strings.Builder
	had := ""
	for _, c := range commandLines {
		args := strings.Fields(c.line)
		for i := range args {
			args[i] = places.Replace(args[i])
		}
		var out, errs bytes.Buffer
		code := Run(t.Context(), args, Env{Stdin: strings.NewReader(c.stdin), Stdout: &out, Stderr: &errs})
		fmt.Fprintf(&golden, "$ symstore %s\n", c.line)
		text := out.String()
		if c.line == "" {
			text, _, _ = strings.Cut(text, "\n") // the rest is a page of the manual
			text += "\n"
		}
		golden.WriteString(times.ReplaceAllString(names.Replace(text), "TIME"))
		if errs.Len() > 0 {
			fmt.Fprintf(&golden, "stderr: %s", times.ReplaceAllString(names.Replace(errs.String()), "TIME"))
		}
		fmt.Fprintf(&golden, "exit %d\n", code)
		if has := contents(t, store); has != had {
			had = has
			golden.WriteString(has)
		}
		golden.WriteByte('\n')
	}
	const file = "testdata/commands.txt"
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have, wants := strings.Split(golden.String(), "\n"), strings.Split(string(want), "\n")
	for i, line := range have {
		if i >= len(wants) || line != wants[i] {
			t.Fatalf("%s:%d: have %q, want %q", file, i+1, line, strings.Join(wants[min(i, len(wants)):min(i+1, len(wants))], ""))
		}
	}
	if len(have) != len(wants) {
		t.Errorf("%d lines, want %d", len(have), len(wants))
	}
}

// contents lists the files of a store, with what the small records of it say.
func contents(t *testing.T, store string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, store+string(filepath.Separator)))
		if strings.HasPrefix(name, "000Admin/") && !strings.Contains(name, ".txt") && !strings.HasPrefix(name, "000Admin/0") {
			return nil // locks and the journal
		}
		list = append(list, "store: "+name+"\n")
		return nil
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	slices.Sort(list)
	return strings.Join(list, "")
}
