package transcode

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestEnvironment: a program has no secret of the server, and no variable that makes it ask
// a symbol server, a source server, a proxy or a share for what a PDB names.
func TestEnvironment(t *testing.T) {
	const planted = "planted-value.example"
	for _, name := range []string{
		"PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "OTEL_EXPORTER_OTLP_HEADERS", "SYMDEPOT_TOKEN", "SYMDEPOT_DEPOT",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "_NT_SYMBOL_PROXY", "_NT_SYMBOL_PATH", "_NT_ALT_SYMBOL_PATH", "_NT_ALTERNATE_SYMBOL_PATH",
		"_NT_EXECUTABLE_IMAGE_PATH", "_NT_SOURCE_PATH", "SRCSRV_INI_FILE", "SYMSRV_INI_FILE", "_NT_SYMCACHE_PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES",
		"TMPDIR", "HOME", "USERPROFILE", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "KRB5CCNAME",
	} {
		if name != "TMPDIR" { // the folder of the test
			t.Setenv(name, "srv*https://"+planted+"/symbols")
		}
	}
	r := room(t)
	sc := with(t, r, "app.pdb")
	for _, p := range []*Program{{Name: "a", Command: []string{"a"}}, {Name: "a", Command: []string{"a"}, Wine: true}} {
		allowed := []string{"PATH", "TEMP", "TMP", "TMPDIR", "HOME", "_NT_SYMCACHE_PATH", "_NT_SYMBOL_PATH"}
		if p.Wine {
			allowed = append(allowed, "WINEPREFIX", "WINEDEBUG")
		}
		if runtime.GOOS == "windows" {
			allowed = append(allowed, "SystemRoot", "SystemDrive")
		}
		seen := map[string]bool{}
		for _, e := range p.environment(sc, filepath.Join(t.TempDir(), "program")) {
			name, value, _ := strings.Cut(e, "=")
			if seen[name] || !slices.Contains(allowed, name) || strings.Contains(value, planted) || strings.Contains(value, "://") || strings.Contains(value, `\\`) {
				t.Errorf("the program gets %q, want each of %q once, with folders of the server only", e, allowed)
			}
			seen[name] = true
		}
		for _, name := range []string{"_NT_SYMBOL_PATH", "_NT_SYMCACHE_PATH", "TEMP"} {
			if !seen[name] {
				t.Errorf("the program has no %s, so that its default counts", name)
			}
		}
	}
}

// TestNamesReachNothing: the name of a PDB, which a client chooses, is a file in the scratch
// folder: no share, no URL, no option, no other folder.
func TestNamesReachNothing(t *testing.T) {
	t.Parallel()
	r := room(t)
	p := &Program{Name: "a", Command: []string{"tool", "-pdb", "{pdb}"}}
	for _, name := range []string{
		`\\evil.example\share\a.pdb`, `//evil.example/share/a.pdb`, "http://evil.example/a.pdb", `\\?\UNC\evil.example\a.pdb`, `C:\a.pdb`, "C:a.pdb", "../../a.pdb", `..\a.pdb`, "/etc/passwd",
		"-o/etc/passwd.pdb", "--config=x.pdb", "@list.pdb", "srv*evil.pdb", "a.pdb:stream", "NUL", "con.pdb", "a\x00.pdb", "a\n.pdb", "", ".", "..", "a.pdb ", "a.pdb.", strings.Repeat("x", 5000) + ".pdb",
	} {
		sc, err := r.New(name)
		if err != nil {
			continue
		}
		file := sc.PDB()
		if rel, err := filepath.Rel(r.dir, file); err != nil || !filepath.IsLocal(rel) || len(filepath.Base(file)) > 255 {
			t.Errorf("%.60q becomes %.100q, want a file below %s", name, file, r.dir)
		}
		argv := p.arguments(sc)
		if last := argv[len(argv)-1]; last != file || !filepath.IsAbs(last) {
			t.Errorf("%.60q becomes the argument %.100q, want the path %.100q", name, last, file)
		}
		sc.Remove()
	}
}
