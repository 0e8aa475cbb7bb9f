package answer

import (
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// shortRef is from how many of its first hex digits on a content is found by its SHA-256:
// lists print the base of a cold file so.
const shortRef = 12

// Spellings returns the spellings that a user's query may have in the index.
func Spellings(q string) record.Query {
	q = strings.TrimSpace(q)
	iq := record.Query{Name: symfile.Fold(q)}
	if strings.Contains(q, ",") {
		if id, err := debugid.Parse(q); err == nil { // as dumpbin prints it
			q = id.Breakpad()
		}
	}
	f := symfile.Fold(q)
	if r, err := layout.Route(strings.FieldsFunc(q, func(r rune) bool { return r == '/' })); err == nil && strings.Contains(q, "/") {
		for _, l := range r.Lookups {
			iq.IDs = append(iq.IDs, l.ID)
		}
		return iq
	}
	for _, p := range []string{"0x", "elf-buildid-sym-", "elf-buildid-", "mach-uuid-sym-", "mach-uuid-", "{"} {
		f = strings.TrimPrefix(f, p)
	}
	f = strings.TrimSuffix(f, "}")
	bare := strings.ReplaceAll(f, "-", "")
	if debugid.IsHex(bare) && len(bare) >= 8 {
		iq.IDs = append(iq.IDs, bare)
		if id, err := debugid.Parse(f); err == nil {
			iq.IDs = append(iq.IDs, symfile.Fold(id.Breakpad()))
		}
		if ref, err := blob.ParseRef(bare); err == nil {
			iq.Ref = &ref
		}
		if len(bare) == 32 {
			iq.Prefix = bare // a GUID without its age
		}
		if len(bare) >= shortRef && len(bare) < 32 { // longer ones are other ids, or all of it
			iq.RefPrefix = bare
		}
	} else if strings.HasPrefix(f, "sha1-") || strings.HasPrefix(f, "r2rmap-") {
		iq.IDs = append(iq.IDs, f)
	}
	return iq
}
