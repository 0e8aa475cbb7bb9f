package upstream

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/symfile"
)

func TestPresets(t *testing.T) {
	for _, p := range Presets {
		s, err := PresetByName(strings.ToUpper(p.Preset))
		if err != nil || s.Name != p.Preset {
			t.Errorf("%s: PresetByName: error %v, %v; want %v", p.Preset, err, s.Name, p.Preset)
			continue
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: Check: error %v, want no error", p.Preset, err)
		}
		if !strings.HasPrefix(s.URL, "https://") || strings.HasSuffix(s.URL, "/") || len(s.Guard.Kinds) == 0 {
			t.Errorf(`%s: got %s, length %v; want one that begins with "https://", not strings.HasSuffix(s.URL, "/"), not 0`, p.Preset, s.URL, len(s.Guard.Kinds))
		}
		if takes := slices.Contains(s.Guard.Kinds, symfile.PE) || slices.Contains(s.Guard.Kinds, symfile.ELF); takes != s.Guard.Executables {
			t.Errorf("%s: kinds and executables do not agree", p.Preset)
		}
	}
	for name, want := range map[string]string{ // the same file, once per kind of preset
		"microsoft": "/download/symbols/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb",
		"electron":  "",
		"debian":    "",
	} {
		s, err := PresetByName(name)
		if err != nil {
			t.Fatal(err)
		}
		srv := serve(t, nil)
		s.URL = srv.URL + "/download/symbols"
		g, err := s.Open(t.Context(), OpenOptions{Dialer: NewDialer(DialerOptions{}), ServerID: "me"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Fetch(t.Context(), wish(t, pdbPath))
		if got := strings.Join(srv.asks(), " "); got != want || fetch.ClassOf(err) != fetch.ClassNotFound && fetch.ClassOf(err) != fetch.ClassSkipped {
			t.Errorf("%s asked for %q: %v, want %q and not found", name, got, err, want)
		}
		_ = g.Close()
	}
}

func TestParseUpstream(t *testing.T) {
	for _, c := range []struct{ text, name, typ, url, layout string }{
		{"microsoft", "microsoft", TypeHTTP, "https://msdl.microsoft.com/download/symbols", "symstore"},
		{"Microsoft,rank=3,name=ms", "ms", TypeHTTP, "https://msdl.microsoft.com/download/symbols", "symstore"},
		{"https://sym.example/a/b/", "sym.example/a/b", TypeHTTP, "https://sym.example/a/b/", "auto"},
		{"https://u:p@sym.example/a,b?x=1,layout=ssqp,rank=2", "sym.example/a,b", TypeHTTP, "https://u:p@sym.example/a,b?x=1", "ssqp"},
		{"s3://bucket/pre?region=eu-central-1,layout=unified", "s3://bucket/pre", TypeBucket, "s3://bucket/pre?region=eu-central-1", "unified"},
		{"gs://bucket?anonymous=true", "gs://bucket", TypeBucket, "gs://bucket?anonymous=true", "auto"},
		{"/srv/symbols", "/srv/symbols", TypeFolder, "/srv/symbols", ""},
		{"file:///srv/sym%20bols,layout=gdb,casing=lowercase", filepath.FromSlash("/srv/sym bols"), TypeFolder, filepath.FromSlash("/srv/sym bols"), "gdb"},
		{"./here,layout=auto,executables=false,two_tier=no", "./here", TypeFolder, "./here", "auto"},
	} {
		s, err := ParseUpstream(c.text)
		if err != nil || s.Name != c.name || s.Type != c.typ || s.URL != c.url || s.Layout != c.layout {
			t.Errorf("%s: ParseUpstream: %+v, error %v; want Name %v, Type %v, URL %v, Layout %v", c.text, s, err, c.name, c.typ, c.url, c.layout)
		}
	}
	for text, want := range map[string]string{
		"microsft":                       "known are microsoft, nuget",
		"":                               "unknown preset",
		"sym.example/a":                  "begins with https://",
		"https://":                       "an http or https URL",
		"ftp://x/y":                      "no upstream supports ftp://",
		"https://x,layout=heap":          "known are auto, symstore",
		"/srv,layout=heap":               "known are auto, symstore",
		"https://x,rank=high":            "whole number",
		"https://x,colour=red":           "known are layout",
		"https://x,executables=maybe":    "true or false",
		"https://x,name=":                "empty",
		"s3://x?colour=red":              "endpoint, region",
		"file://server/share":            "of this machine",
		"https://user:secret@x,rank=bad": "whole number",
	} {
		_, err := ParseUpstream(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf(`%q: ParseUpstream: error %v, want an error, one with %q, not strings.Contains(err.Error(), "secret")`, text, err, want)
		}
	}
}
