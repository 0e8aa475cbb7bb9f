package scan

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// input is a file on disk, a member of an archive, or the decompressed content
// of one of these. There are three ways to read its bytes.
type input struct {
	path, archive, member, name string
	size                        int64 // -1 if unknown
	mod                         time.Time
	signature                   string // see File.Signature

	at     io.ReaderAt                                  // random access, with a known size; or
	reopen func(context.Context) (io.ReadCloser, error) // from the beginning, any number of times; or
	once   io.Reader                                    // once, as a stream

	place Place // where in the outermost file the bytes are

	base  *store  // the bytes that at and reopen read; held by the walk
	crc   *uint32 // expected checksum of the bytes of at, if it must be checked
	sum   *uint32 // CRC-32 of the bytes according to the archive; nil: it has none
	meter *meter
	top   bool // a file on disk, not a part of one
	depth int  // number of archives around it
	wraps int  // number of compressions since the innermost archive
}

// meter limits what is unpacked out of one file on disk.
type meter struct {
	limit    int64
	used     atomic.Int64 // unpacked bytes; Files opened by other goroutines count too
	entries  int64        // entries that are still allowed; used by the walk only
	reported bool         // the exceeded limit was reported; used by the walk only
}

// add counts n unpacked bytes.
func (m *meter) add(n int64) error {
	if n > m.limit || m.used.Add(n) > m.limit {
		// Other goroutines see the exceeded limit, and the sum cannot overflow.
		m.used.Store(m.limit + 1)
		return fmt.Errorf("%w: the file unpacks to more than %d bytes", errLimit, m.limit)
	}
	return nil
}

// entry counts an entry of an archive.
func (m *meter) entry() error {
	m.entries--
	if m.entries < 0 {
		m.entries = -1
		return fmt.Errorf("%w: the archive has too many entries", errLimit)
	}
	return m.add(0)
}

// exceeded reports whether a limit is exceeded.
func (m *meter) exceeded() bool { return m.entries < 0 || m.used.Load() > m.limit }

// meterReader counts what it reads, and ends with the context.
type meterReader struct {
	ctx context.Context
	r   io.Reader
	m   *meter
}

func (r *meterReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if limit := r.m.add(int64(n)); limit != nil {
		return 0, limit
	}
	return n, err
}

// start opens the input at its beginning.
func (in *input) start(ctx context.Context) (io.ReadCloser, error) {
	switch {
	case in.at != nil:
		return io.NopCloser(io.NewSectionReader(in.at, 0, in.size)), nil
	case in.reopen != nil:
		return in.reopen(ctx)
	}
	return io.NopCloser(in.once), nil
}

// streamed reports whether the bytes can be read only once.
func (in *input) streamed() bool { return in.at == nil && in.reopen == nil }

// child returns an input for a member of the archive. The caller sets its
// bytes.
func (in *input) child(name string, size int64, mod time.Time) *input {
	for len(name) > 2 && name[:2] == "./" {
		name = name[2:]
	}
	m := &input{
		path: in.path + Separator + name, archive: in.archive, member: name, name: memberBase(name),
		size: size, mod: mod, base: in.base, meter: in.meter, depth: in.depth + 1,
	}
	if in.depth == 0 {
		m.archive = in.path
	} else {
		m.member = in.member + Separator + name
	}
	return m
}

// closers reads from one stream and closes several.
type closers struct {
	io.Reader
	all []io.Closer
}

func (c *closers) Close() error {
	for _, x := range c.all {
		_ = x.Close()
	}
	return nil
}

// setupCost is the number of unpacked bytes that opening a stream with a large
// block or window counts as. Without it, a file of many tiny streams, each with
// a costly setup, could take days to read.
const setupCost = 256 << 10
