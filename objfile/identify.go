package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symfile"
)

// Options of an identification. The zero value uses the content only.
type Options struct {
	// Kind is one of ForcedKinds, or KindUnknown to detect the kind by content.
	// With a forced kind the whole file may be read, and the other limits do
	// not apply.
	Kind symfile.Kind
	// ID is the debug id, in any spelling, of the module of an il2cpp line
	// mapping, which has no id of its own.
	ID string
	// Script opens the script of a JavaScript source map, whose hash is the id
	// of the map. If Script is nil, a jsmap fails.
	Script func() (io.ReadCloser, error)
	// IDs means that only the ids are wanted: features for which much of the file
	// would be read are unknown.
	IDs bool
}

// Identify returns the objects in the file of size bytes at r, with their ids.
// Only the base name of path counts, except that a SymCache file is known by
// its last two folders. It reads at most IDBudget bytes for the ids and
// FeatureBudget more for the features. It is safe for concurrent use if r is.
//
// The error wraps ErrNotSymbolFile, with the reason, if the file is of no kind
// that has symbols, or ErrBroken if its contents contradict its kind; other
// errors are failures of r.
func Identify(r io.ReaderAt, size int64, path string, opt Options) ([]Object, error) {
	path = strings.TrimRight(path, `/\`)
	name := symfile.BaseName(path)
	if size < 0 {
		return nil, fmt.Errorf("a file of %d bytes", size)
	}
	if opt.Kind != symfile.KindUnknown {
		return checked(identifyAs(io.NewSectionReader(r, 0, size), name, opt))
	}
	b := newBudget(r, size, IDBudget)
	b.ids = opt.IDs
	objects, err := dispatch(b, path, name)
	if b.err != nil {
		return nil, b.err
	}
	if err != nil && !errors.Is(err, ErrNotSymbolFile) && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrUnread) {
		err = broken("%w", err)
	}
	return checked(objects, err)
}

// IdentifyFile is Identify for a file on disk, which it opens and closes. Its errors name
// the file. A folder, a device or a pipe is not opened: the error wraps ErrNotSymbolFile.
func IdentifyFile(path string, opt Options) ([]Object, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, notSymbol("it is not a regular file"))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	objects, err := Identify(f, info.Size(), path, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return objects, nil
}

// maxFatSlices is the number of slices from which a file with the magic
// 0xCAFEBABE is a Java class: there the field has the version of the class
// format, which is 45 or more.
const maxFatSlices = 45

// headSize is the number of bytes that are read to detect the kind of a file.
const headSize = 4096

// dispatch selects the parser by the first bytes of the file, never by its
// extension. The SymCache file is an exception, because its format is not
// public.
func dispatch(b *budget, path, name string) ([]Object, error) {
	if b.size == 0 {
		return nil, notSymbol("empty file")
	}
	head, err := b.bytes(0, min(b.size, headSize))
	if err != nil {
		return nil, err
	}
	if isSymCache(name) {
		return identifySymCache(b, head, path)
	}
	has := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }
	switch {
	case has("MZ"):
		return identifyPE(b, head, name)
	case has("DI") && looksLikeDBG(head):
		return identifyDBG(b, name)
	case pdb.Detect(head) != 0:
		return identifyPDB(b, head, name)
	case has("BSJB"):
		return identifyPortablePDB(b, name)
	case has("\x7fELF"):
		return identifyELF(b, name)
	case has("\xfe\xed\xfa\xce"), has("\xfe\xed\xfa\xcf"), has("\xce\xfa\xed\xfe"), has("\xcf\xfa\xed\xfe"), has("\xca\xfe\xba\xbf"):
		return identifyMachO(b, name)
	case has("\xca\xfe\xba\xbe"):
		if len(head) >= 8 && binary.BigEndian.Uint32(head[4:]) >= maxFatSlices {
			return nil, notSymbol("a Java class")
		}
		return identifyMachO(b, name)
	case has("\x00asm"):
		return identifyWASM(b, name)
	case has("MODULE "):
		return identifyBreakpad(b, head)
	case has("SYSB"):
		return identifySourceBundle(b, head, name)
	case has("BCSymbolMap"):
		return identifyBCSymbolMap(b, head, name)
	case isPerfMap(head):
		return identifyPerfMap(b, head, name)
	case isUUIDMap(head):
		return identifyUUIDMap(b, name)
	}
	return nil, notSymbol("%s", describe(head, b.size))
}

// checked rejects objects whose names no client can ask for. An empty name is
// accepted: the caller gave none.
func checked(objects []Object, err error) ([]Object, error) {
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if o.Name == "" {
			continue
		}
		if !symfile.ValidName(o.Name) {
			return nil, nameError(fmt.Sprintf("the name %q cannot be part of a path", truncate.Text(o.Name)))
		}
		if o.Kind != symfile.ELF && o.Kind != symfile.MachO && o.Kind != symfile.WASM && symfile.IsDevice(o.Name) {
			return nil, nameError(fmt.Sprintf("%q is the name of a device on Windows", o.Name))
		}
	}
	return objects, nil
}

// isRequestable reports whether a client can ask for a file of this name.
func isRequestable(name string) bool { return symfile.ValidName(name) && !symfile.IsDevice(name) }

// whole returns an object that covers the whole file.
func (b *budget) whole(o symfile.Object) Object { return Object{Object: o, Size: b.size} }

// cString returns p up to its first NUL. Old tools wrote names in the code
// page of their machine: bytes that are not UTF-8 are read as Latin-1, which
// is right for most of them and keeps different names different.
func cString(p []byte) string {
	if i := bytes.IndexByte(p, 0); i >= 0 {
		p = p[:i]
	}
	if s := string(p); strings.ToValidUTF8(s, "") == s {
		return s
	}
	runes := make([]rune, len(p))
	for i, c := range p {
		runes[i] = rune(c)
	}
	return string(runes)
}
