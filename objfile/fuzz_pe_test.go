package objfile

import (
	"bytes"
	"errors"
	"path"
	"testing"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// fuzzIdentify identifies p under a name and checks what must hold for any
// input: limits of reading, an error of one class or objects that lie in the
// file and have usable names.
func fuzzIdentify(t *testing.T, p []byte, name string) []Object {
	c := &countingReader{r: bytes.NewReader(p)}
	size := int64(len(p))
	objects, err := Identify(c, size, name, Options{})
	if c.n > IDBudget+FeatureBudget {
		t.Fatalf("read %d bytes, want at most %d", c.n, IDBudget+FeatureBudget)
	}
	if err != nil {
		if len(objects) > 0 || errors.Is(err, ErrBroken) == errors.Is(err, ErrNotSymbolFile) {
			t.Fatalf("%d objects with error %v, want none and one of ErrBroken and ErrNotSymbolFile", len(objects), err)
		}
		return nil
	}
	if len(objects) == 0 {
		t.Fatal("neither object nor error")
	}
	for _, o := range objects {
		stored := o.Size
		if o.Deflated > 0 {
			stored = o.Deflated
		}
		if o.Kind == symfile.KindUnknown || o.Offset < 0 || stored < 0 || o.Offset > size || stored > size-o.Offset || o.DebugSize < 0 {
			t.Fatalf("%+v in a file of %d bytes, want an object inside of it", o, size)
		}
		for _, w := range append(o.PDBs, o.Object) {
			if w.Name != "" && !symfile.ValidName(w.Name) {
				t.Fatalf("name %q, want a valid one", w.Name)
			}
			for _, l := range layout.All() {
				_ = l.Paths(w)
			}
			_ = w.Aliases()
		}
	}
	return objects
}

func fuzzKind(f *testing.F, folder, name string, kinds ...string) {
	for p, b := range samples(f) {
		for _, k := range kinds {
			if path.Ext(p) == k {
				f.Add(b)
			}
		}
	}
	if folder != "" {
		for _, b := range realFiles(f, folder) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) { fuzzIdentify(t, p, name) })
}

func FuzzPE(f *testing.F) { fuzzKind(f, "pe", "a.dll", ".dll", ".exe") }

func FuzzDBG(f *testing.F) {
	f.Add(dbgImage{size: 1, names: 20, entries: []peDebug{{kind: 1, data: []byte("coff")}, {kind: 2, data: []byte("NB09xxxxxxxx")}}}.bytes())
	fuzzKind(f, "", "a.dbg", ".dbg")
}

func FuzzBreakpad(f *testing.F) { fuzzKind(f, "", "a.sym", ".sym") }

// FuzzSourceBundle replaces the manifest's text too, which the ZIP archive's
// compression hides from the fuzzer.
func FuzzSourceBundle(f *testing.F) {
	tail := `"arch":"x86_64","code_id":"adac45aa231bba3143d7af433767c61f31021c16","debug_id":"aa45acad-1b23-31ba-43d7-af433767c61f","object_name":"/usr/bin/prog"`
	f.Add(bundle(f, bundleManifest{files: 2, tail: tail}), false)
	f.Add(bundle(f, bundleManifest{files: 1, tail: tail, stored: true, last: 1}), false)
	f.Add([]byte(tail), true)
	f.Fuzz(func(t *testing.T, p []byte, isTail bool) {
		if isTail {
			p = bundle(t, bundleManifest{tail: string(p)})
		}
		fuzzIdentify(t, p, "a.src.zip")
	})
}

func FuzzText(f *testing.F) {
	fuzzKind(f, "", testGUID+".plist", ".r2rmap", ".bcsymbolmap", ".plist")
}

// FuzzIdentify calls Identify with any bytes and any path.
func FuzzIdentify(f *testing.F) {
	for p, b := range samples(f) {
		f.Add(b, p)
	}
	for _, folder := range []string{"elf", "macho", "wasm"} {
		for p, b := range realFiles(f, folder) {
			if len(b) < 20000 {
				f.Add(b, p)
			}
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, name string) { fuzzIdentify(t, p, name) })
}
