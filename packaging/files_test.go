package packaging

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/config"
)

// TestConfigurations: the program accepts the configurations of the packages, and
// they have a depot.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/symdepot.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("configurations: %q, %v; want 2", files, err)
	}
	for _, name := range files {
		c, err := config.Load(name, func(string) string { return "" })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Depot.Dir == "" || c.Listen != "127.0.0.1:8080" || c.Public {
			t.Errorf("%s: depot %q, listen %q, public %v; want a depot, and a server for this machine only", name, c.Depot.Dir, c.Listen, c.Public)
		}
	}
}

// plist reads a property list of Apple: a dict as map[string]any, and so on.
func plist(d *xml.Decoder, start xml.StartElement) (any, error) {
	text := func() (string, error) {
		var s string
		err := d.DecodeElement(&s, &start)
		return s, err
	}
	switch start.Name.Local {
	case "true", "false":
		return start.Name.Local == "true", d.Skip()
	case "string", "integer", "key":
		return text()
	case "dict", "array", "plist":
	default:
		return nil, errors.New("unknown element " + start.Name.Local)
	}
	var list []any
	for {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			v, err := plist(d, tok)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		case xml.EndElement:
			if start.Name.Local != "dict" {
				return list, nil
			}
			m := map[string]any{}
			for i := 0; i+1 < len(list); i += 2 {
				key, ok := list[i].(string)
				if !ok {
					return nil, errors.New("a dict has a value without a key")
				}
				m[key] = list[i+1]
			}
			if len(list)%2 != 0 {
				return nil, errors.New("a dict has a key without a value")
			}
			return m, nil
		}
	}
}

// TestPlist: the property list for launchd can be read, and says what to run. No
// launchd runs here.
func TestPlist(t *testing.T) {
	t.Parallel()
	const name = "macos/org.symdepot.symdepot.plist"
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var top any
	for d := xml.NewDecoder(f); ; {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := tok.(xml.StartElement); ok {
			if top, err = plist(d, start); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, _ := top.([]any)
	if len(list) != 1 {
		t.Fatalf("%s has %d values at the top, want a dict", name, len(list))
	}
	dict, _ := list[0].(map[string]any)
	if want := strings.TrimSuffix(filepath.Base(name), ".plist"); dict["Label"] != want {
		t.Errorf("Label is %v, want %s, the name of the file", dict["Label"], want)
	}
	args, _ := dict["ProgramArguments"].([]any)
	if len(args) != 4 || args[1] != "serve" || args[2] != "--config" {
		t.Errorf("ProgramArguments is %v, want symdepot serve --config FILE", args)
	}
	for key, value := range dict { // of launchd.plist(5)
		switch key {
		case "Label", "UserName", "GroupName", "WorkingDirectory", "StandardErrorPath", "StandardOutPath", "Umask", "ExitTimeOut":
			if _, ok := value.(string); !ok {
				t.Errorf("%s is %v, want one value", key, value)
			}
		case "ProgramArguments", "RunAtLoad", "KeepAlive", "SoftResourceLimits":
		default:
			t.Errorf("launchd has no key %s", key)
		}
	}
	if plutil := symtest.Judge(t, "plutil"); plutil != "" { // of macOS
		if out, err := exec.Command(plutil, "-lint", name).CombinedOutput(); err != nil {
			t.Errorf("plutil: %v\n%s", err, out)
		}
	}
	if plistutil := symtest.Judge(t, "plistutil"); plistutil != "" { // of libplist
		if out, err := exec.Command(plistutil, "-i", name).CombinedOutput(); err != nil {
			t.Errorf("plistutil: %v\n%s", err, out)
		}
	}
}

// TestReadme: the page of this folder has one line for each file.
func TestReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(".", func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "README.md" || strings.HasSuffix(name, ".go") {
			return err
		}
		if !strings.Contains(string(page), "`"+filepath.ToSlash(name)+"`") {
			t.Errorf("README.md has no line for `%s`", filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
