package public

import (
	"bytes"
	"errors"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
)

// maxSeed is the size of the largest real file that fuzzing begins with.
const maxSeed = 64 << 10

// fuzzWrite begins with real files, and checks what must hold for any input: an error of one class and
// no output, or a public form without private texts that has a public form again.
func fuzzWrite(f *testing.F, seeds map[string][]byte) {
	for _, p := range seeds {
		if len(p) <= maxSeed {
			f.Add(p, byte(0))
			f.Add(p, byte(7))
		}
	}
	f.Fuzz(checkWrite)
}

// checkWrite checks what must hold for the public form of any input.
func checkWrite(t *testing.T, p []byte, options byte) {
	t.Helper()
	o := Options{Exported: options&1 != 0, Undecorated: options&2 != 0}
	if options&4 != 0 {
		o.Hide = []string{"*a*"}
	}
	var b bytes.Buffer
	r, err := Write(&b, bytes.NewReader(p), int64(len(p)), o)
	if err != nil {
		if b.Len() > 0 || errors.Is(err, ErrPrivate) == errors.Is(err, objfile.ErrBroken) {
			t.Fatalf("%d bytes beside the error %v, want none and one of ErrPrivate and ErrBroken", b.Len(), err)
		}
		return
	}
	public := b.Bytes()
	if most := 4*len(p) + 1<<20; len(public) > most {
		t.Fatalf("a public form of %d bytes for a file of %d", len(public), len(p))
	}
	if r.Size != int64(len(public)) {
		t.Fatalf("the report says %d bytes, want %d", r.Size, len(public))
	}
	list, err := PrivateTexts(bytes.NewReader(p), int64(len(p)), bytes.NewReader(public), int64(len(public)), o)
	if err == nil && len(list) > 0 {
		t.Fatalf("the public form has the private texts %+v", list)
	}
	if err != nil && !errors.Is(err, objfile.ErrBroken) && !errors.Is(err, ErrPrivate) {
		t.Fatal(err)
	}
}

func FuzzELF(f *testing.F) { fuzzWrite(f, sampleFiles(f, "elf")) }

func FuzzMachO(f *testing.F) { fuzzWrite(f, sampleFiles(f, "macho")) }

func FuzzPE(f *testing.F) { fuzzWrite(f, sampleFiles(f, "pe")) }

func FuzzWASM(f *testing.F) { fuzzWrite(f, sampleFiles(f, "wasm")) }

func FuzzBreakpad(f *testing.F) { fuzzWrite(f, map[string][]byte{"sym": symFile(f)}) }

func FuzzGSYM(f *testing.F) { fuzzWrite(f, map[string][]byte{"gsym": gsymFile(f)}) }

// FuzzPrivateTexts calls PrivateTexts with any two files.
func FuzzPrivateTexts(f *testing.F) {
	for _, p := range sampleFiles(f, "elf", "macho", "wasm") {
		if len(p) <= maxSeed {
			public := symtest.Testdata(f, "elf/e-arm")
			f.Add(p, p)
			f.Add(p, public)
		}
	}
	f.Fuzz(func(t *testing.T, private, public []byte) {
		list, err := PrivateTexts(bytes.NewReader(private), int64(len(private)), bytes.NewReader(public), int64(len(public)), Options{})
		if err != nil && len(list) > 0 {
			t.Fatalf("%d texts beside the error %v", len(list), err)
		}
	})
}
