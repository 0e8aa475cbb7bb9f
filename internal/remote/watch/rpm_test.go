package watch

import (
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestRPM: members of RPM packages answer, and the sources of a debugsource package, which
// is not unpacked at the scan.
func TestRPM(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	for _, payload := range []string{"w2.xzdio", "w3.zstdio", "w6.gzdio", "w.ufdio"} {
		t.Run(payload, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, "prog-1.rpm", symtest.RPM(t, "prog", payload, map[string][]byte{"etc/p.conf": []byte("c"), "usr/bin/prog": m.prog, "usr/lib/libprog.so": m.lib, "usr/share/doc/p": []byte("doc")}))
			put(t, dir, "prog-debugsource-1.rpm", symtest.RPM(t, "prog-debugsource", payload, map[string][]byte{"usr/src/symdepot-src/prog.c": []byte("the source"), "usr/src/symdepot-src/other.c": make([]byte, 100_000)}))
			f := open(t, dir, Options{})
			if s := scanned(t, f); s.Objects != 2 || s.Problems != 0 {
				t.Fatalf("the scan found %d objects and %d problems, want 2 and none", s.Objects, s.Problems)
			}
			a := wantBytes(t, f, "buildid/"+m.id+"/debuginfo", m.prog)
			if a.Path != "/usr/bin/prog" || a.Archive != filepath.Join(dir, "prog-1.rpm") {
				t.Errorf("the answer is %q in %q", a.Path, a.Archive)
			}
			wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
			a = wantBytes(t, f, "buildid/"+m.id+"/source/usr/src/symdepot-src/prog.c", []byte("the source"))
			if a.Archive != filepath.Join(dir, "prog-debugsource-1.rpm") {
				t.Errorf("the source is in %q", a.Archive)
			}
			wantMissing(t, f, "buildid/"+m.id+"/source/usr/src/symdepot-src/other.c")
		})
	}
}

// TestPackagesInAnArchive: what one package in an archive lists says nothing about the
// members behind it.
func TestPackagesInAnArchive(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "all.tar", makeTar(t,
		entry{"doc-1.rpm", symtest.RPM(t, "doc", "w3.zstdio", map[string][]byte{"usr/share/doc/p/readme": []byte("doc"), "usr/src/debug/p/gone.c": []byte("text")})},
		entry{"prog-1.rpm", symtest.RPM(t, "prog", "w3.zstdio", map[string][]byte{"usr/bin/prog": m.prog})},
		entry{"usr/lib/libprog.so", m.lib}))
	f := open(t, dir, Options{})
	if s := scanned(t, f); s.Objects != 2 || s.Problems != 0 {
		t.Fatalf("the scan found %d objects and %d problems, want 2 and none", s.Objects, s.Problems)
	}
	wantBytes(t, f, "buildid/"+m.id+"/debuginfo", m.prog)
	wantBytes(t, f, "buildid/"+m.libID+"/executable", m.lib)
}
