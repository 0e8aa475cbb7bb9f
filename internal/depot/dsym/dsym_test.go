package dsym

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
)

// TestParseUUID: every usual spelling is read, and Apple's is returned.
func TestParseUUID(t *testing.T) {
	const want = "4C4C4404-5555-3144-A1FC-C9A4F9CE3EE7"
	for _, text := range []string{want, strings.ToLower(want), strings.ReplaceAll(want, "-", ""), " " + want + "\n"} {
		if got, _, err := ParseUUID(text); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	if _, _, err := ParseUUID("../../etc"); err == nil {
		t.Error("a path is read as a UUID")
	}
}

// TestPropertyList: the list is XML, and texts from outside stay texts.
func TestPropertyList(t *testing.T) {
	text := PropertyList([]Answer{{UUID: "A", DWARF: "/x/<&>", Arch: "arm64"}, {UUID: "</key>", Error: "no"}})
	dec := xml.NewDecoder(strings.NewReader(text))
	var got []string
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if c, ok := tok.(xml.CharData); ok && strings.TrimSpace(string(c)) != "" {
			got = append(got, string(c))
		}
	}
	if want := "A|DBGArchitecture|arm64|DBGDSYMPath|/x/<&>|</key>|DBGError|no"; strings.Join(got, "|") != want {
		t.Errorf("the list has %q, want %q", got, want)
	}
}

// unchanging is a file that nobody writes to.
type unchanging struct{ *os.File }

func (f unchanging) Size() int64 {
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

func (unchanging) Changed() bool { return false }

// TestFetch: the debug information of a UUID is written as a bundle with the bytes that were
// added, and an unknown UUID has an error.
func TestFetch(t *testing.T) {
	d, err := depot.Open(t.Context(), filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const added = "../../../testdata/macho/app-arm64.dSYM/Contents/Resources/DWARF/app-arm64"
	f, err := os.Open(added)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tx, err := d.Begin(t.Context(), depot.TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := tx.Add(t.Context(), depot.Source{Path: "app-arm64", Content: unchanging{f}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	uuid := objects[0].Object.DebugID.GUID.String()
	dir := t.TempDir()
	for range 2 { // the second time from the folder, of which a command wrote one file and was interrupted
		a := Fetch(t.Context(), d, dir, uuid)
		want, err := os.ReadFile(added)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(a.DWARF)
		if err != nil || string(got) != string(want) || a.Arch != "arm64" || !strings.HasPrefix(a.DWARF, a.Bundle) || !strings.HasSuffix(a.Bundle, ".dSYM") {
			t.Errorf("%+v, %v: want a bundle with the bytes of %s", a, err, added)
		}
		if err := os.Remove(filepath.Join(a.Bundle, "Contents", "Info.plist")); err != nil {
			t.Errorf("the bundle is not whole: %v", err)
		}
	}
	if a := Fetch(t.Context(), d, dir, "00000000-0000-0000-0000-000000000001"); a.Error == "" || a.DWARF != "" {
		t.Errorf("%+v, want an error", a)
	}
}
