package objfile

import (
	"errors"
	"strings"

	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// isSymCache reports whether a file is named as those of a SymCache folder are.
func isSymCache(name string) bool {
	name = symfile.Fold(name)
	for _, unfinished := range [...]string{".pending", ".tmp", ".error"} {
		name = strings.TrimSuffix(name, unfinished)
	}
	return strings.HasSuffix(name, symcache.Extension) || strings.HasSuffix(name, ".negative"+symcache.Extension[1:])
}

// identifySymCache uses the path NAME.pdb/GUIDAGE/NAME.pdb-vN.N.N.symcache, because
// the format of the content is not public.
func identifySymCache(b *budget, head []byte, path string) ([]Object, error) {
	if err := symcache.Detect(head); errors.Is(err, symcache.ErrForeign) || errors.Is(err, symcache.ErrOtherFormat) {
		return nil, notSymbol("%s", err.Error())
	}
	e, err := symcache.ParsePath(path)
	switch {
	case err != nil:
		// Without the path, so that files of one fault can be counted.
		why := strings.TrimSuffix(err.Error(), ": "+symcache.ErrEntry.Error())
		if _, rest, ok := strings.Cut(why, "\": "); ok {
			why = rest
		}
		return nil, notSymbol("a SymCache file, but %s", why)
	case e.Kind == symcache.Old:
		return nil, notSymbol("a SymCache file of version 1 or 2, which today's clients do not ask for")
	case e.Kind == symcache.Negative:
		return nil, notSymbol("a note of another server that it could not make a SymCache file")
	case e.Kind != symcache.File:
		return nil, notSymbol("a SymCache file that is not finished")
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	o := b.whole(symfile.Object{
		Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: e.Key.Name, CodeName: parts[len(parts)-1], DebugID: e.Key.ID,
	})
	// What the file holds is unknown, but WPA shows function names from it.
	o.Features = Features{Symtab: true}
	return []Object{o}, nil
}
