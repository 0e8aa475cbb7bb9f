package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/flate"

	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/files/unpackcache"
	"github.com/symdepot/symdepot/internal/index/watched"
	"github.com/symdepot/symdepot/objfile"
)

// prefetched is the number of members that follow a requested one and are unpacked with
// it, and prefetchBytes limits their bytes: who asks for one library asks for the next.
const (
	prefetched    = 64
	prefetchBytes = 64 << 20
)

var errChanged = errors.New("the file changed while it was read")

// grown is a part of an unpacked file that may still be growing.
type grown struct {
	r       *unpackcache.Reader
	off, to int64
}

func (g *grown) growing() bool { return g.r.Growing() }

func (g *grown) part(off, n int64) *grown { return &grown{g.r, g.off + off, g.off + off + n} }

func (g *grown) arrived(off int64) (int64, error) {
	if off >= g.to-g.off {
		return 0, io.EOF
	}
	n, err := g.r.Arrived(g.off + off)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return min(n, g.to-g.off-off), err
}

// unpack replaces the bytes of a, a package, by those of a member. They are read from a
// temporary file, which may still be growing.
func (f *Folder) unpack(ctx context.Context, a *File, row *watched.Hit, place scan.Place) error {
	h, err := f.openFile(ctx, &row.File) // of its own: who asks first may leave before the end
	if err != nil {
		return err
	}
	s := stampOf(row.File)
	key := etag(a.Archive+a.Path, row.Member, s)
	r, err := f.shelf.Open(key, func(ctx context.Context, w io.Writer) error {
		return f.extract(ctx, h, row, place, w)
	}, func() { _ = h.Close() })
	if err != nil {
		return err
	}
	if a.Size < 0 { // only the end shows it
		a.Size, err = r.Wait(ctx)
	} else {
		err = r.Ready(ctx)
	}
	if err != nil {
		return errors.Join(err, r.Close())
	}
	a.use(r)
	return nil
}

// use makes the bytes of r the answer.
func (a *File) use(r *unpackcache.Reader) {
	old := a.close
	a.ReaderAt, a.grown = io.NewSectionReader(r, 0, a.Size), &grown{r, 0, a.Size}
	a.close = func() error { return errors.Join(r.Close(), old()) }
}

// extract writes a member of the package h to w, and keeps those that follow it.
func (f *Folder) extract(ctx context.Context, h handle, row *watched.Hit, place scan.Place, w io.Writer) error {
	x := &extraction{ctx: ctx, f: f, h: h, row: row, w: w}
	if place.Method != scan.Nested {
		rc, err := scan.OpenPlace(ctx, h, row.File.Size, place, f.placeOptions(&row.File))
		if err == nil {
			defer rc.Close()
			return x.copy(rc, place)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	err := scan.Visit(ctx, scan.Source{Path: within(row.File.Dir, row.File.Name), At: h, Size: row.File.Size}, f.opt.scanOptions(), x)
	if err == nil && !x.done {
		err = fmt.Errorf("%w: it has no member %s", errLies, row.Member)
	}
	return err
}

// extraction writes one member.
type extraction struct {
	ctx  context.Context
	f    *Folder
	h    handle
	row  *watched.Hit
	w    io.Writer
	done bool
}

// copy writes the first bytes of r as the member, and keeps those that follow it in the
// same stream.
func (x *extraction) copy(r io.Reader, place scan.Place) error {
	if err := x.write(r); err != nil {
		return err
	}
	x.follow(r, place, place.Offset+x.row.Size)
	return nil
}

func (x *extraction) write(r io.Reader) error {
	most := x.row.Size
	if most < 0 {
		most = sources.MaxFile + 1
	}
	n, err := io.Copy(x.w, io.LimitReader(r, most))
	switch {
	case err != nil:
		return err
	case x.row.Size < 0 && n == most:
		return sources.ErrTooLarge
	case x.row.Size >= 0 && n != x.row.Size:
		return fmt.Errorf("%w: %s has %d bytes, and not %d", errLies, x.row.Member, n, x.row.Size)
	case x.h.changed():
		return errChanged
	}
	x.done = true
	return nil
}

// follow keeps the members that follow at offset at in the stream r. They are a guess of
// what is asked for next, so an error is none.
func (x *extraction) follow(r io.Reader, place scan.Place, at int64) {
	if place.Method == scan.Deflate || x.row.ID == 0 {
		return
	}
	rows, err := x.f.db.After(x.ctx, x.row.File.ID, x.row.ID, prefetched)
	if err != nil {
		return
	}
	left := int64(prefetchBytes)
	for i := range rows {
		row := &rows[i]
		p := decodePlace(row.Place)
		if p.Method != place.Method || p.Base != place.Base || p.Offset < at {
			continue // another object of the same member, or elsewhere
		}
		if left -= p.Offset - at + row.Size; left < 0 || x.ctx.Err() != nil || x.f.shelf.Waiting() {
			return
		}
		if _, err := io.CopyN(io.Discard, r, p.Offset-at); err != nil {
			return
		}
		disk := x.f.path(&row.File)
		key := etag(disk+"/"+trimSlash(memberName(row.Member)), row.Member, stampOf(row.File))
		added, err := x.f.shelf.Add(x.ctx, key, row.Size, &checkedEnd{io.LimitReader(r, row.Size), x.h})
		if err != nil {
			return
		}
		at = p.Offset
		if added {
			at += row.Size
		}
	}
}

// checkedEnd fails at the end if the package has changed.
type checkedEnd struct {
	io.Reader
	h handle
}

func (c *checkedEnd) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF && c.h.changed() {
		err = errChanged
	}
	return n, err
}

// Contents does nothing: the member is in the payload.
func (x *extraction) Contents([]string) error { return nil }

// Meet opens the member and the archives around it.
func (x *extraction) Meet(e *scan.Entry) (bool, error) {
	if x.done {
		return false, scan.ErrEnough
	}
	if name := memberName(e.Member); name == e.Member && strings.HasPrefix(name, "data.tar") && isDebian(x.row.File.Name) {
		return true, nil
	}
	return x.is(e.Member) || strings.HasPrefix(trimSlash(memberName(x.row.Member)), trimSlash(memberName(e.Member))+scan.Separator), nil
}

// is reports whether a member is the one that is wanted.
func (x *extraction) is(member string) bool {
	return trimSlash(memberName(member)) == trimSlash(memberName(x.row.Member))
}

// Skipped does nothing: the member is missing then.
func (x *extraction) Skipped(*scan.Skip) {}

// File writes the member.
func (x *extraction) File(e *scan.Entry) error {
	if !x.is(e.Member) || x.done {
		return nil
	}
	if err := x.write(e.Reader()); err != nil {
		return err
	}
	return scan.ErrEnough
}

// cut replaces the bytes of a by those of an object in it: a slice of a fat file, or an
// embedded one, which is inflated.
func (f *Folder) cut(ctx context.Context, a *File, o *objfile.Object) (*File, error) {
	whole, size := a.ReaderAt, a.Size
	fail := func(err error) (*File, error) { return nil, errors.Join(err, a.Close()) }
	stored := o.Size
	if o.Deflated != 0 {
		stored = o.Deflated
	}
	if o.Offset > size || stored > size-o.Offset {
		return fail(errRow)
	}
	a.Size = o.Size
	a.ETag += "-" + strconv.FormatInt(o.Offset, 36)
	if o.Deflated == 0 {
		a.ReaderAt = io.NewSectionReader(whole, o.Offset, o.Size)
		if a.grown != nil {
			a.grown = a.grown.part(o.Offset, o.Size)
		}
		return a, nil
	}
	// The shelf reads the whole file until it is done, also if the reader has left.
	hold := make(chan struct{})
	r, err := f.shelf.Open(a.ETag, func(ctx context.Context, w io.Writer) error {
		z := flate.NewReader(io.NewSectionReader(whole, o.Offset, o.Deflated))
		n, err := io.Copy(w, io.LimitReader(z, o.Size))
		if err == nil && n != o.Size {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && a.Changed() {
			err = errChanged
		}
		return err
	}, func() { close(hold) })
	if err != nil {
		return fail(err)
	}
	_, err = r.Wait(ctx)
	<-hold
	if err != nil {
		return fail(errors.Join(err, r.Close()))
	}
	a.use(r)
	return a, nil
}
