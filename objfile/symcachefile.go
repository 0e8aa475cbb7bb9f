package objfile

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
)

const symCacheExt = ".symcache"

var (
	// A file of Windows Performance Analyzer's third cache generation:
	// PDB-vMAJOR.MINOR.PATCH[-PRERELEASE].symcache.
	symCacheLeaf = regexp.MustCompile(`(?i)^(.+)-v\d{1,9}\.\d{1,9}\.\d{1,9}(-[0-9a-z-]+)?\.symcache$`)
	// The first two generations lay flat: IMAGE-KEYv1.symcache.
	symCacheOld = regexp.MustCompile(`(?i)^.+-[0-9a-f]{16,40}v[12]\.symcache$`)
)

// identifySymCache goes by NAME.pdb/GUIDAGE/NAME.pdb-vN.N.N.symcache: the
// contents are not public.
func identifySymCache(b *budget, head []byte, path string) ([]Object, error) {
	if bytes.HasPrefix(head, []byte("SYMC")) || bytes.HasPrefix(head, []byte("CMYS")) {
		return nil, notSymbol("a symcache of Sentry's, which Windows Performance Analyzer does not read")
	}
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	leaf := parts[len(parts)-1]
	if symCacheOld.MatchString(leaf) {
		return nil, notSymbol("a SymCache file of version 1 or 2, which today's clients do not ask for")
	}
	m := symCacheLeaf.FindStringSubmatch(leaf)
	if m == nil {
		return nil, notSymbol("a .symcache file whose name does not end in a version such as -v3.1.0")
	}
	if len(parts) < 3 {
		return nil, notSymbol("a SymCache file outside of its folders NAME.pdb and GUID with age")
	}
	name, key := parts[len(parts)-3], parts[len(parts)-2]
	if !strings.EqualFold(m[1], name) {
		return nil, notSymbol("a SymCache file named for another PDB than its folder %q", clip(name))
	}
	id, err := debugid.ParseBreakpad(key)
	if err != nil || id.PDB20 {
		return nil, notSymbol("a SymCache file in a folder that is not a GUID with age: %q", clip(key))
	}
	if id.IsZero() {
		return nil, notSymbol("a SymCache file without an id: its GUID is zero")
	}
	o := b.whole(layout.Object{Kind: layout.SymCache, Role: layout.SymCacheFile, Name: name, CodeName: leaf, DebugID: id})
	// What the file holds is unknown, but WPA shows function names from it.
	o.Features = Features{Symtab: true}
	return []Object{o}, nil
}
