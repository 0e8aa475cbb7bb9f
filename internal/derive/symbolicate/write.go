package symbolicate

import (
	"context"
	"io"
	"strings"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/gsym"
	"github.com/symdepot/symdepot/ppdb"
)

// Write writes a table in a format. What the table lacks is said in INFO records of
// a symbol file.
func Write(ctx context.Context, w io.Writer, format Format, t *functab.Table) error {
	w = ctxWriter{ctx, w}
	if format == GSYM {
		return gsym.Write(w, t)
	}
	var opt breakpad.SymOptions
	for i, text := range t.Warnings() {
		if i == maxInfo {
			break
		}
		opt.Info = append(opt.Info, "WARNING "+strings.Join(strings.Fields(text), " "))
	}
	return opt.Write(w, t)
}

// maxInfo is how many warnings a symbol file has.
const maxInfo = 20

// lookupFormat is the format of the files in which addresses are looked up.
const lookupFormat = GSYM

// openLooker opens a file of lookupFormat.
func openLooker(r io.ReaderAt, size int64) (Looker, error) {
	var magic [4]byte
	if n, _ := r.ReadAt(magic[:], 0); n == len(magic) && string(magic[:]) == ppdb.Magic {
		return openPortableAt(r, size)
	}
	f, err := gsym.NewFile(r, size, 0)
	if err != nil {
		return nil, err
	}
	return gsymLooker{f, &writtenFrames{}}, nil
}

// gsymLooker looks addresses up in a GSYM file. A damaged function is not found.
type gsymLooker struct {
	f       *gsym.File
	written *writtenFrames
}

// Lookup implements Looker.
func (g gsymLooker) Lookup(rva uint64) (functab.Answer, bool) {
	a, ok, err := g.f.Lookup(rva)
	return a, ok && err == nil
}

// memory implements sizedLooker.
func (g gsymLooker) memory() int64 { return g.f.Memory() + maxWritten }

// LookupShown implements shownLooker.
func (g gsymLooker) LookupShown(rva uint64, frames []functab.Line) (functab.Answer, bool) {
	a, ok, err := g.f.LookupShown(rva, frames)
	return a, ok && err == nil
}

// lookupEach looks several addresses up. Of one that is not found, or of a damaged function, OK is
// false. found and lines are memory for the answers.
func (g gsymLooker) lookupEach(rvas []uint64, found []gsym.Found, lines []functab.Line) ([]gsym.Found, []functab.Line) {
	return g.f.LookupEach(rvas, found[:0], lines[:0])
}

// ctxWriter writes until a context ends.
type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (c ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}
