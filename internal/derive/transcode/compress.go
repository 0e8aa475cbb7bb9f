// Package transcode makes derived contents of a file: compressed variants,
// cabinets, and, with programs that the operator supplies, SymCache files. It
// stores nothing and asks no server.
package transcode

import (
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/ctxio"
)

// Tool identifies how a derived content is made. A stored one is valid only for the
// tool and version that made it.
type Tool struct {
	Name    string // content coding: "zstd" or "gzip"
	Version int    // raised when the settings below change
}

// The content codings, best first.
var (
	Zstd = Tool{"zstd", 1}
	Gzip = Tool{"gzip", 1}
)

// Compress writes r to w in the tool's content coding. It uses one core and a few
// megabytes of memory.
func (t Tool) Compress(ctx context.Context, w io.Writer, r io.Reader) error {
	var enc io.WriteCloser
	var err error
	switch t {
	case Zstd:
		// An 8 MiB window is what every client's decoder accepts.
		enc, err = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20), zstd.WithLowerEncoderMem(true))
	case Gzip:
		enc, err = gzip.NewWriterLevel(w, 6)
	default:
		return fmt.Errorf("no content coding %q, version %d", t.Name, t.Version)
	}
	if err != nil {
		return err
	}
	if _, err := io.Copy(enc, ctxio.NewReader(ctx, r)); err != nil {
		_ = enc.Close()
		return err
	}
	return enc.Close()
}
