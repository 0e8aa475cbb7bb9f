package importexport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
)

const (
	downloads  = 8    // objects that are copied at once
	attempts   = 4    // for each of them
	sampleKeys = 4000 // keys looked at to detect a layout
	// oneFolder is how many times as many objects, or bytes, are copied at once if they are
	// all in one folder: files that belong together are in one.
	oneFolder = 8
)

// firstPause is the pause after the first attempt; later ones are longer.
var firstPause = 500 * time.Millisecond

// copier copies objects of a bucket into the folder of an importer.
type copier struct {
	im      *importer
	b       bucket.Bucket
	records bool // the bucket has records of transactions
	most    int  // objects that are copied before they are imported
}

// detect finds out the layout, and whether there are records.
func (c *copier) detect() error {
	var sample layout.Sample
	marked, n := layout.None, 0
	for i, err := range c.b.List(c.im.ctx, "") {
		if err != nil {
			return err
		}
		sample.Add(i.Key)
		top, _, _ := strings.Cut(i.Key, "/")
		for _, m := range layout.Marks() {
			if marked == layout.None && strings.EqualFold(top, m.Name) {
				marked = m.Layout
			}
		}
		if n++; n == sampleKeys {
			break
		}
	}
	if c.im.layout == layout.None {
		if c.im.layout = marked; marked == layout.None {
			c.im.layout = sample.Layout()
		}
		if at, err := c.has("000Admin/"); err != nil {
			return err
		} else if at {
			c.im.layout = layout.SymStore
			if _, err := c.b.Head(c.im.ctx, "index2.txt"); err == nil {
				c.im.layout = layout.Index2
			}
		}
	}
	var err error
	switch c.im.layout.Records() {
	case layout.SymStoreRecords:
		c.records, err = c.has("000Admin/")
	case layout.SymsorterRecords:
		c.records, err = c.has("bundles/")
	}
	return err
}

// has reports whether there is an object below a prefix.
func (c *copier) has(prefix string) (bool, error) {
	for _, err := range c.b.List(c.im.ctx, prefix) {
		return err == nil, err
	}
	return false, nil
}

// run imports the bucket.
func (c *copier) run() error {
	im := c.im
	temp, err := os.MkdirTemp("", "symdepot-import-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if im.dir, err = filepath.EvalSymlinks(temp); err != nil {
		return err
	}
	if !c.records {
		return c.parts()
	}
	if err := c.each(func(bucket.Info) bool { return true }, c.copy); err != nil {
		return err
	}
	return im.run()
}

// parts imports the files of a bucket without records.
func (c *copier) parts() error {
	im := c.im
	if err := im.open(); err != nil {
		return err
	}
	defer im.root.Close()
	have, err := im.importedFiles()
	if err != nil {
		return err
	}
	want := func(i bucket.Info) bool {
		if im.layout.IsRecord(i.Key) {
			return strings.HasSuffix(i.Key, ".meta") // it names the file beside it
		}
		if have[fileKey(im.store+"/"+i.Key, i.ModTime)] {
			im.before++
			return false
		}
		return true
	}
	return c.each(want, func(part []bucket.Info) error {
		if err := c.copy(part); err != nil {
			return err
		}
		if err := im.walkLoose(have); err != nil {
			return err
		}
		return c.empty()
	})
}

// empty removes what was copied.
func (c *copier) empty() error {
	list, err := os.ReadDir(c.im.dir)
	for _, e := range list {
		err = errors.Join(err, c.im.root.RemoveAll(e.Name()))
	}
	return err
}

// each lists the bucket and calls do for the objects that are wanted, in parts. Objects
// of one folder that follow each other are in one part, unless they are very many.
func (c *copier) each(want func(bucket.Info) bool, do func([]bucket.Info) error) error {
	var part []bucket.Info
	var size int64
	for i, err := range c.b.List(c.im.ctx, "") {
		if err != nil {
			return err
		}
		if i.Key == "" || strings.HasSuffix(i.Key, "/") {
			continue // a folder, as some tools make them
		}
		if why := badKey(i.Key); why != "" {
			c.im.countSkipped(c.im.store+"/"+i.Key, why, true)
			continue
		}
		if !want(i) {
			continue
		}
		times := 1
		if len(part) > 0 && path.Dir(part[len(part)-1].Key) == path.Dir(i.Key) {
			times = oneFolder
		}
		if len(part) >= times*c.most || size >= int64(times)*looseBytes {
			if err := do(part); err != nil {
				return err
			}
			part, size = nil, 0
		}
		part = append(part, i)
		size += max(0, i.Size)
	}
	if len(part) == 0 {
		return nil
	}
	return do(part)
}

// badKey says why the key of an object cannot be the path of a file here; empty: it can.
func badKey(key string) string {
	if strings.Contains(key, `\`) || path.Clean("/"+key) != "/"+key || !filepath.IsLocal(filepath.FromSlash(key)) {
		return "the name of the object cannot be the path of a file"
	}
	return ""
}

// copy copies objects. One that is gone, or cannot be a file here, is skipped.
func (c *copier) copy(part []bucket.Info) error {
	root, err := os.OpenRoot(c.im.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	g, ctx := errgroup.WithContext(c.im.ctx)
	g.SetLimit(downloads)
	for _, i := range part {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return c.object(ctx, root, i) })
	}
	return g.Wait()
}

// object copies one object, and tries again if the store fails.
func (c *copier) object(ctx context.Context, root *os.Root, i bucket.Info) error {
	name := filepath.FromSlash(i.Key)
	skip := func(why error) error {
		c.im.countSkipped(c.im.store+"/"+i.Key, why.Error(), true)
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return skip(err) // another object has the name of the folder
	}
	// Not every system tells names apart that the store does.
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrInvalid):
		return skip(err)
	case err != nil:
		return err
	}
	pause := firstPause
	for try := 1; ; try++ {
		err = c.content(ctx, f, i)
		if err == nil || try == attempts || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) ||
			errors.Is(err, fs.ErrPermission) || errors.Is(err, bucket.ErrPrecondition) {
			break
		}
		if err := ctxio.Pause(ctx, pause); err != nil {
			break
		}
		pause *= 2
	}
	err = errors.Join(err, f.Close())
	if err == nil && !i.ModTime.IsZero() {
		err = root.Chtimes(name, i.ModTime, i.ModTime)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, bucket.ErrNoBucket) &&
		(errors.Is(err, fs.ErrNotExist) || errors.Is(err, bucket.ErrPrecondition)) {
		return errors.Join(root.Remove(name), skip(fmt.Errorf("it was changed or deleted meanwhile: %w", err)))
	}
	return err
}

// content writes the bytes of an object to a file.
func (c *copier) content(ctx context.Context, f *os.File, i bucket.Info) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	o, err := c.b.Get(ctx, i.Key, 0, -1, i.ETag)
	if err != nil {
		return err
	}
	defer o.Body.Close()
	limit := i.Size
	if limit < 0 {
		limit = maxUnpacked
	}
	n, err := io.Copy(f, io.LimitReader(o.Body, limit+1))
	if err == nil && (n > limit || i.Size >= 0 && n < i.Size) {
		return fmt.Errorf("%s/%s: it has other than the %d bytes of the listing", c.im.store, i.Key, i.Size)
	}
	return err
}

// open opens the folder and reads which transactions were imported before.
func (im *importer) open() (err error) {
	if im.root, err = os.OpenRoot(im.dir); err != nil {
		return err
	}
	im.taken = map[string]int64{}
	if im.d != nil {
		im.taken, err = im.d.Origins(im.ctx, im.store)
	}
	if err != nil {
		return errors.Join(err, im.root.Close())
	}
	return nil
}
