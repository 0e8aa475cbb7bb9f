package coldstore

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Begin implements [blob.Batcher].
func (s *Store) Begin(ctx context.Context) (blob.Batch, error) {
	b, err := s.Backend.Begin(ctx)
	if err != nil {
		return nil, err
	}
	switch b := b.(type) {
	case blob.Adopter:
		return adopting{batch{b.(blob.Batch), s}, b}, nil
	case again:
		return repeating{batch{b.(blob.Batch), s}, b}, nil
	}
	return batch{b, s}, nil
}

// again is the option of [blob.Batch] with that method.
type again interface {
	Again(ctx context.Context) error
}

type (
	adopting struct {
		batch
		blob.Adopter
	}
	repeating struct {
		batch
		again
	}
)

// batch is a batch of the store below for which cold contents are known.
type batch struct {
	blob.Batch
	s *Store
}

// Known implements [blob.Batch]. The parts of a cold content are added to the batch.
func (b batch) Known(ctx context.Context, ref blob.Ref) bool {
	return b.Batch.Known(ctx, ref) || b.parts(ctx, ref, b.Batch.Known)
}

// Has implements [blob.Batch].
func (b batch) Has(ctx context.Context, ref blob.Ref) bool {
	return b.Batch.Has(ctx, ref) || b.parts(ctx, ref, b.Batch.Has)
}

// parts reports whether a content is cold and has all parts.
func (b batch) parts(ctx context.Context, ref blob.Ref, has func(context.Context, blob.Ref) bool) bool {
	row, err := b.s.opt.Records.Of(ctx, ref)
	if err != nil || b.s.lostFor(row) != "" || !has(ctx, row.File.Ref) {
		return false
	}
	if row.Base == nil || has(ctx, row.Base.Ref) {
		return true
	}
	var key record.Cold
	key, err = b.s.opt.Records.Of(ctx, row.Base.Ref)
	return err == nil && key.Base == nil && has(ctx, key.File.Ref)
}
