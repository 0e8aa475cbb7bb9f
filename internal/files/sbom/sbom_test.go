package sbom

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const cyclone = `{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,
"metadata":{"component":{"type":"application","name":"app","hashes":[{"alg":"SHA-256","content":"AA11"}]}},
"components":[{"type":"file","name":"lib/b.so","hashes":[{"alg":"SHA-1","content":"bb"}],"components":[{"type":"file","name":"inner.dll"}]},
{"type":"library","name":"c.so"},{"type":"file","name":"d.so","hashes":[{"alg":"SHA-256","content":"dd"}],
"properties":[{"name":"symdepot:covered","value":"old"},{"name":"mine","value":"1e400"}]}],"x":1.50}`

const spdx23 = `{"spdxVersion":"SPDX-2.3","SPDXID":"SPDXRef-DOCUMENT",
"files":[{"fileName":"./lib/b.so","checksums":[{"algorithm":"SHA1","checksumValue":"BB"}]},{"fileName":"d.so"}],
"packages":[{"name":"p","packageFileName":"p.deb","checksums":[{"algorithm":"SHA256","checksumValue":"cc"}]}]}`

func read(t *testing.T, text string) *Bill {
	t.Helper()
	b, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFind: files are found by a hash, else by the end of their path, unless the bill has another hash for it.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bill, path string
		sums       map[string]string
		want       string
	}{
		{cyclone, "dist/app.exe", map[string]string{"SHA256": "aa11"}, "app"},
		{cyclone, "dist/renamed.so", map[string]string{"SHA1": "bb"}, "lib/b.so"},
		{cyclone, `dist\lib\B.so`, nil, "lib/b.so"},
		{cyclone, "dist/b.so", nil, ""},
		{cyclone, "a.zip!/x/inner.dll", map[string]string{"SHA1": "00"}, "inner.dll"},
		{cyclone, "dist/c.so", nil, ""}, // a library has a name, and no path
		{cyclone, "d.so", map[string]string{"SHA256": "ee"}, ""},
		{cyclone, "d.so", map[string]string{"SHA256": "dd"}, "d.so"},
		{spdx23, "root/lib/b.so", nil, "./lib/b.so"},
		{spdx23, "root/lib/b.so", map[string]string{"SHA1": "cc"}, ""},
		{spdx23, "x/p.deb", map[string]string{"SHA256": "cc"}, "p.deb"},
		{spdx23, "x/d.so", map[string]string{"SHA256": "cc01"}, "d.so"},
	} {
		got := ""
		for _, e := range read(t, c.bill).Find(c.path, c.sums) {
			got += e.Name
		}
		if got != c.want {
			t.Errorf("%s with %v: found %q, want %q", c.path, c.sums, got, c.want)
		}
	}
	if got := fmt.Sprint(read(t, cyclone).Algorithms(), read(t, cyclone).Entries()); got != "[SHA1 SHA256] 5" {
		t.Errorf("the algorithms and entries are %s, want [SHA1 SHA256] 5", got)
	}
}

// TestSet: facts take the place of those of an earlier run, and everything else stays.
func TestSet(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct{ bill, file, want string }{
		{cyclone, "d.so", `"properties":[{"name":"mine","value":"1e400"},{"name":"symdepot:covered","value":"true"},{"name":"symdepot:id","value":"x"}]`},
		{spdx23, "d.so", `"annotations":[{"annotationDate":"2026-11-29T08:00:00Z","annotationType":"OTHER","annotator":"Tool: symdepot-1","comment":"symdepot:covered=true symdepot:id=x"}]`},
	} {
		b := read(t, c.bill)
		for range 2 {
			for _, e := range b.Find(c.file, nil) {
				e.Set([]Fact{{"symdepot:covered", "true"}, {"symdepot:id", "x"}}, "symdepot-1", at)
			}
		}
		text, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var flat any
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&flat); err != nil {
			t.Fatal(err)
		}
		line, _ := json.Marshal(flat)
		if !strings.Contains(string(line), c.want) {
			t.Errorf("the bill is %s, want %s in it", line, c.want)
		}
		if c.bill == cyclone && !strings.Contains(string(line), `"x":1.50`) {
			t.Errorf("the bill is %s; a number changed its spelling", line)
		}
	}
}

// TestNoBill: what is no bill of a known format is refused.
func TestNoBill(t *testing.T) {
	t.Parallel()
	deep := `{"bomFormat":"CycloneDX","components":[` + strings.Repeat(`{"components":[`, 300) + strings.Repeat(`]}`, 300) + `]}`
	for _, c := range []struct {
		text, want string
		format     bool
	}{
		{"", "EOF", true}, {"[]", "", true}, {"{}", "", true}, {`{"bomFormat":"CycloneDX"} {}`, "something follows", true},
		{`{"spdxVersion":"SPDX-3.0"}`, "", true}, {`{"@context":"x","@graph":[]}`, "SPDX 3 is not read", true}, {deep, "more than 200", false},
	} {
		_, err := Read(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrFormat) != c.format {
			t.Errorf("%.40s: error %v, want one with %q, of the format: %v", c.text, err, c.want, c.format)
		}
	}
	if !read(t, `{"bomFormat":"CycloneDX","signature":{"value":"x"}}`).Signed() {
		t.Error("a bill with a signature is not signed")
	}
}

// FuzzRead: a bill that can be read can be written, and read again with as many entries.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{cyclone, spdx23, `{"bomFormat":"CycloneDX","components":[{"hashes":[1,{"alg":7}],"properties":{"a":1}}]}`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Read(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for _, e := range b.entries {
			b.Find(e.Name, e.Sums)
			e.Set([]Fact{{"symdepot:covered", "true"}}, "t", time.Unix(0, 0))
		}
		out, err := b.JSON()
		if err != nil {
			t.Fatalf("%q cannot be written: %v", text, err)
		}
		again, err := Read(strings.NewReader(string(out)))
		if err != nil || again.Entries() != b.Entries() {
			t.Fatalf("%q was written as %q: %v, want %d entries", text, out, err, b.Entries())
		}
	})
}
