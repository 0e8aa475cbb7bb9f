package depot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/transcode"
)

// Compressed variants are made in the background for contents that are asked
// for again and again by clients that take them, and kept beside the plain
// bytes. No request ever waits for one.
const (
	variantAsks    = 3       // requests for one content before a variant is worth making
	variantMin     = 4 << 10 // smaller contents gain nothing
	variantMax     = 2 << 30 // larger ones would keep a core busy for minutes
	variantCounted = 4096    // contents counted at once
	variantQueue   = 256     // jobs waiting; further ones are dropped and asked for again
)

var codings = map[string]transcode.Tool{"zstd": transcode.Zstd, "gzip": transcode.Gzip}

type variantKey struct {
	ref  blob.Ref
	tool transcode.Tool
}

type variants struct {
	mu    sync.Mutex
	asked map[variantKey]int // guarded by mu; how often a variant was missing
	queue chan variantKey
}

func (v *variants) init() {
	v.asked = make(map[variantKey]int)
	v.queue = make(chan variantKey, variantQueue)
}

// ask counts one request that a variant would have served, and queues the
// making of it when it is worth it.
func (v *variants) ask(k variantKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.asked) >= variantCounted {
		clear(v.asked) // the counts are a hint; starting over is cheap
	}
	v.asked[k]++
	if v.asked[k] != variantAsks {
		return
	}
	select {
	case v.queue <- k:
	default:
		delete(v.asked, k)
	}
}

// Encoded returns f in the first of the content codings that is kept, or nil:
// then the request counts towards making one. f must be a whole plain file and
// stays the caller's.
func (d *Depot) Encoded(ctx context.Context, f *File, codingNames []string) (*File, error) {
	if f.plain == nil || f.Size < variantMin || f.Size > variantMax {
		return nil, nil
	}
	var first *transcode.Tool
	for _, name := range codingNames {
		tool, ok := codings[name]
		if !ok {
			continue
		}
		if first == nil {
			first = &tool
		}
		v, err := d.db.Derived(ctx, f.Ref, index.Tool{Name: tool.Name, Version: tool.Version})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if v.Size == 0 {
			return nil, nil // was tried: it would not be smaller
		}
		b, err := d.blobs.Open(ctx, v.Ref)
		if err != nil {
			return nil, err
		}
		e := *f
		e.Encoding, e.Size, e.ETag = tool.Name, b.Size(), f.ETag+"-"+tool.Name
		e.r, e.plain, e.closer = b, osFile(b), b
		return &e, nil
	}
	if first != nil {
		d.variants.ask(variantKey{f.Ref, *first})
	}
	return nil, nil
}

// Work makes what was queued until ctx ends.
func (d *Depot) Work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case k := <-d.variants.queue:
			if err := d.makeVariant(ctx, k); err != nil && ctx.Err() == nil {
				d.log.Warn("no compressed variant was made", "content", k.ref.String(), "coding", k.tool.Name, "error", err)
			}
		}
	}
}

// makeVariant compresses one content and records the result, also that it was
// not worth it.
func (d *Depot) makeVariant(ctx context.Context, k variantKey) error {
	src, err := d.blobs.Open(ctx, k.ref)
	if err != nil {
		return err
	}
	defer src.Close()
	batch, err := d.blobs.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Abort()
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(k.tool.Compress(ctx, pw, io.NewSectionReader(src, 0, src.Size()))) }()
	ref, n, err := batch.Put(ctx, -1, pr)
	_ = pr.Close()
	if err != nil {
		return err
	}
	tool := index.Tool{Name: k.tool.Name, Version: k.tool.Version}
	if n > src.Size()*9/10 {
		return d.db.PutDerived(ctx, k.ref, tool, nil)
	}
	if err := batch.Commit(ctx); err != nil {
		return err
	}
	return d.db.PutDerived(ctx, k.ref, tool, &index.Content{Ref: ref, Size: n})
}
