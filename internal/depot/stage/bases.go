package stage

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

const (
	// leastRecipe is the size from which on a file may come as a recipe: for shorter ones,
	// the question for the blocks of the base costs more than it saves.
	leastRecipe = 64 << 10
	// maxLists bounds the lists of blocks that are kept in memory, in bytes.
	maxLists = 8 << 20
	// maxCutting is how many contents are cut into blocks at the same time.
	maxCutting = 2
	// maxOrigins is of how many contents that were made from recipes the base is remembered.
	maxOrigins = 16 << 10
)

// Bases are the stored contents from which clients write recipes of others.
type Bases struct {
	db    index.Stages
	depot Depot
	// open returns the row of an open stage of the caller.
	open    func(ctx context.Context, c Caller, id string) (stages.StageRow, error)
	lists   *memo.Map[blob.Ref, []byte]
	cutting chan struct{} // a semaphore
	// origins are the contents of which recipes of others were written, by those.
	origins *memo.Map[blob.Ref, blob.Ref]
}

func newBases(s *Stages) *Bases {
	weigh := func(_ blob.Ref, list []byte) uint32 { return uint32(len(list)) + 64 } //nolint:gosec // a file has 16 GiB at most
	return &Bases{
		db: s.db, depot: s.depot, open: s.open, lists: memo.NewWeighed(maxLists, weigh),
		cutting: make(chan struct{}, maxCutting), origins: memo.New[blob.Ref, blob.Ref](maxOrigins),
	}
}

// propose returns contents that awaited files may be much like: for each the one of the same
// name that the newest build of the product has, at the path that is most alike at its end. The
// zero Ref is none. The caller may read all of them.
func (b *Bases) propose(ctx context.Context, c Caller, row stages.StageRow, files []stages.StageFile) (list []blob.Ref, err error) {
	list = make([]blob.Ref, len(files))
	if !c.Read(row.Product) {
		return list, nil
	}
	has, asked := false, false
	for i, f := range files {
		if f.State != stages.StageAwaited || f.Size < leastRecipe {
			continue
		}
		if !asked {
			if has, err = b.db.HasBuilds(ctx, row.Product); err != nil {
				return nil, err
			}
			asked = true
		}
		if !has {
			return list, nil
		}
		best := 0
		for _, name := range objectNames(f.Path) {
			named, err := b.db.Namesakes(ctx, row.Product, name)
			if err != nil {
				return nil, err
			}
			for _, n := range named {
				if same := commonEnd(n.Path, f.Path); same > best && n.Size >= leastRecipe && n.Ref != f.Ref {
					best, list[i] = same, n.Ref
				}
			}
		}
	}
	return list, nil
}

// objectNames returns the folded names that the object in a file may have. A Breakpad file has the
// name of its module.
func objectNames(path string) []string {
	base := symfile.Fold(symfile.BaseName(path))
	if module, ok := strings.CutSuffix(base, ".sym"); ok {
		return []string{module, module + ".pdb"}
	}
	return []string{base}
}

// commonEnd returns how many folders and names two paths have in common at their ends.
func commonEnd(a, b string) (n int) {
	split := func(path string) []string {
		return strings.FieldsFunc(symfile.Fold(path), func(r rune) bool { return r == '/' || r == '\\' })
	}
	x, y := split(a), split(b)
	for n < min(len(x), len(y)) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}

// base opens a stored content that the caller may read. One that is hidden, missing or cannot be
// read back is a Refusal of the kind NotFound. It is read unchecked: what a recipe makes of it is
// hashed, and damage only makes a list of blocks that fits less.
func (b *Bases) base(ctx context.Context, c Caller, id string, ref blob.Ref) (blob.File, error) {
	if _, err := b.open(ctx, c, id); err != nil {
		return nil, err
	}
	missing := refuse(NotFound, "there is no content %s to write recipes from: send the file itself", ref)
	var content record.Content
	if err := b.db.Visible(ctx, []blob.Ref{ref}, func(o stages.VisibleObject) {
		if c.Read(o.Product) {
			content = record.Content{Ref: o.Ref, Size: o.Size}
		}
	}); err != nil {
		return nil, err
	}
	if content.Ref != ref {
		return nil, missing
	}
	f, err := b.depot.OpenStored(blob.Unhashed(ctx), content)
	if isNotExist(err) {
		return nil, missing
	}
	return f, err
}

// Blocks returns the list of the blocks of a stored content that the caller may read, for
// recipes: see blocks.List.
func (b *Bases) Blocks(ctx context.Context, c Caller, id string, ref blob.Ref) ([]byte, error) {
	f, err := b.base(ctx, c, id, ref)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if list, ok := b.lists.Get(ref); ok {
		return list, nil
	}
	select {
	case b.cutting <- struct{}{}:
		defer func() { <-b.cutting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	// A content that came as a recipe is much like its base.
	origin, _ := b.origins.Get(ref)
	known, _ := b.lists.Get(origin)
	like, err := blocks.NewIndex(known)
	if err != nil {
		return nil, err
	}
	list, err := like.List(whileWanted{ctx, io.NewSectionReader(blob.Unchecked(f), 0, f.Size())})
	if err != nil {
		return nil, err
	}
	b.lists.Set(ref, list)
	return list, nil
}

// whileWanted ends with the request that reads.
type whileWanted struct {
	ctx context.Context
	r   io.Reader
}

func (w whileWanted) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.r.Read(p)
}

// FromRecipe returns the bytes that a recipe of the content ref gives with a stored content, its
// base, for Put and PutPart. The caller must be able to read the base, and closes the result.
func (b *Bases) FromRecipe(ctx context.Context, c Caller, id string, ref, base blob.Ref, recipe io.Reader) (io.ReadCloser, error) {
	f, err := b.base(ctx, c, id, base)
	if err != nil {
		return nil, err
	}
	b.origins.Set(ref, base)
	return fromRecipe{f, blocks.NewReader(recipe, blob.Unchecked(f), f.Size())}, nil
}

// fromRecipe is a content that is made from a recipe.
type fromRecipe struct {
	base blob.File
	r    *blocks.Reader
}

func (f fromRecipe) Close() error { return f.base.Close() }

func (f fromRecipe) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	switch {
	case errors.Is(err, blocks.ErrRecipe):
		err = refuse(Invalid, "%v", err)
	case errors.Is(err, blocks.ErrBase):
		err = refuse(NotFound, "%v: send the file itself", err)
	}
	return n, err
}
