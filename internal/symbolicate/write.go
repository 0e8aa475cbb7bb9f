package symbolicate

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/ctxio"
)

// Write writes a table in a format. What the table lacks is said in INFO records of
// a symbol file.
func Write(ctx context.Context, w io.Writer, format Format, t *functab.Table) error {
	w = ctxWriter{ctx, w}
	if format == GSYM {
		return writeGSYM(w, t)
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

func writeGSYM(io.Writer, *functab.Table) error { return fmt.Errorf("no GSYM") }

// lookupFormat is the format of the files in which addresses are looked up.
const lookupFormat = Breakpad

// openLooker opens a file of lookupFormat.
func openLooker(ctx context.Context, r io.ReaderAt, size int64) (Looker, error) {
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	if err := breakpad.ReadSym(ctxio.NewReader(ctx, io.NewSectionReader(r, 0, size)), b); err != nil {
		return nil, err
	}
	return b.Table(ctx)
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
