package msi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/msi"
)

func open(t testing.TB, data []byte) *msi.Package {
	t.Helper()
	p, err := msi.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOpen: the paths of the files, two of which go to one path, and the program of a custom action.
func TestOpen(t *testing.T) {
	t.Parallel()
	p := open(t, symtest.Testdata(t, "scan/sample.msi"))
	if len(p.Cabinets) != 1 || p.Cabinets[0].Stream == nil || p.Cabinets[0].Name != "one.cab" || len(p.Loose) != 0 || len(p.Programs) != 1 {
		t.Fatalf("the package has %+v, want one cabinet one.cab in it and one program", p)
	}
	want := map[string]string{
		"File1": "Hello Program/hello-x64.exe", "File2": "Hello Program/plugins and more/second.txt",
		"File3": "Hello Program/plugins and more/hello-x64.exe", "File4": "Hello Program/File4/hello-x64.exe",
	}
	if got := p.Cabinets[0].Paths; !maps.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
	for s, begins := range map[*msi.Stream]string{p.Cabinets[0].Stream: "MSCF", &p.Programs[0]: "hello, symbols\n"} {
		b, err := io.ReadAll(io.NewSectionReader(s, 0, s.Size))
		if err != nil || int64(len(b)) != s.Size || !strings.HasPrefix(string(b), begins) {
			t.Errorf("the stream %s has %d bytes, %v; want %d that begin with %q", s.Name, len(b), err, s.Size, begins)
		}
	}
	if p := open(t, symtest.Testdata(t, "scan/outside.msi")); len(p.Cabinets) != 1 || p.Cabinets[0].Stream != nil || len(p.Cabinets[0].Paths) != 4 {
		t.Errorf("a package with a cabinet beside it has %+v", p.Cabinets)
	}
}

// TestJudge makes a package of several media and many files with wixl, and compares with msiextract.
func TestJudge(t *testing.T) {
	t.Parallel()
	wixl, msiextract := symtest.Tool(t, "wixl"), symtest.Tool(t, "msiextract")
	dir := t.TempDir()
	var doc strings.Builder
	doc.WriteString(`<?xml version="1.0"?><Wix xmlns="http://schemas.microsoft.com/wix/2006/wi"><Product Id="*" ` +
		`UpgradeCode="12345678-1234-1234-1234-111111111111" Name="Many" Version="1.0.0" Manufacturer="x" Language="1033">` +
		`<Package InstallerVersion="200" Compressed="yes"/><Media Id="1" Cabinet="a.cab" EmbedCab="yes"/>` +
		`<Directory Id="TARGETDIR" Name="SourceDir"><Directory Id="Top" Name="Top folder">`)
	features := ""
	for i := range 300 {
		id := string([]byte{'A' + byte(i/26), 'a' + byte(i%26)})
		if err := os.WriteFile(filepath.Join(dir, id), bytes.Repeat([]byte(id), 50*i), 0o600); err != nil {
			t.Fatal(err)
		}
		doc.WriteString(`<Directory Id="D` + id + `" Name="Folder ` + id + `"><Component Id="C` + id + `" Guid="*"><File Id="F` + id + `" Source="` + id +
			`" Name="A file of the name ` + id + `.dll"/></Component></Directory>`)
		features += `<ComponentRef Id="C` + id + `"/>`
	}
	doc.WriteString(`</Directory></Directory><Feature Id="F" Level="1">` + features + `</Feature></Product></Wix>`)
	if err := os.WriteFile(filepath.Join(dir, "many.wxs"), []byte(doc.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), wixl, "-o", "many.msi", "many.wxs")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("wixl: %v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "many.msi"))
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, data)
	got := slices.Sorted(maps.Values(p.Cabinets[0].Paths))
	out, err := exec.CommandContext(t.Context(), msiextract, "-l", filepath.Join(dir, "many.msi")).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(strings.Lines(string(out)))
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	if len(got) != 300 || !slices.Equal(got, want) {
		t.Errorf("%d files, want the %d of msiextract", len(got), len(want))
	}
}

// TestOther: what is no package, and what is damaged.
func TestOther(t *testing.T) {
	t.Parallel()
	whole := symtest.Testdata(t, "scan/sample.msi")
	sector := binary.LittleEndian.Uint32(whole[48:])
	root := (int(sector)+1)<<9 + 80 // its class
	for _, c := range []struct {
		name string
		make func(b []byte) []byte
		want error
	}{
		{"text", func([]byte) []byte { return []byte("hello") }, msi.ErrOther},
		{"header alone", func(b []byte) []byte { return b[:512] }, msi.ErrOther},
		{"another class", func(b []byte) []byte { b[root]++; return b }, msi.ErrOther},
		{"a patch", func(b []byte) []byte { b[root] += 2; return b }, msi.ErrPatch},
		{"half", func(b []byte) []byte { return b[:root+2000] }, msi.ErrFormat},
		{"a loop of streams", func(b []byte) []byte { copy(b[root+116:], "\x01\x00\x00\x00"); return b }, msi.ErrFormat},
	} {
		b := c.make(bytes.Clone(whole))
		if _, err := msi.Open(bytes.NewReader(b), int64(len(b))); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(symtest.Testdata(f, "scan/sample.msi"))
	f.Add(symtest.Testdata(f, "scan/outside.msi"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := msi.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !errors.Is(err, msi.ErrOther) && !errors.Is(err, msi.ErrPatch) && !errors.Is(err, msi.ErrFormat) && !errors.Is(err, msi.ErrLimit) {
				t.Fatalf("error %v, want one of the package", err)
			}
			return
		}
		streams := slices.Clone(p.Programs)
		paths := map[string]bool{}
		for _, c := range p.Cabinets {
			if c.Stream != nil {
				streams = append(streams, *c.Stream)
			}
			for _, path := range c.Paths {
				if paths[path] {
					t.Fatalf("the path %q is there twice", path)
				}
				paths[path] = true
			}
		}
		for _, s := range streams {
			if s.Size > int64(len(data)) {
				t.Fatalf("a stream of %d bytes in a file of %d", s.Size, len(data))
			}
			if n, err := io.Copy(io.Discard, io.NewSectionReader(s, 0, s.Size)); err == nil && n != s.Size {
				t.Fatalf("%d bytes of a stream of %d, and no error", n, s.Size)
			}
		}
	})
}
