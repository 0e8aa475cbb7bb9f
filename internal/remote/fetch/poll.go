package fetch

import (
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// The functions below are for downloads of other kinds than symbol files, such
// as those from SymCache servers. They share the limits and the negative cache.

// MayHave reports whether one of the upstreams in list is worth asking for a key.
func (f *Fetcher) MayHave(ctx context.Context, key string, list []Upstream) bool {
	_, missed := f.misses.lookup(ctx, key, key, list)
	return !missed
}

// AskEach calls ask for each upstream in list without a remembered miss, in
// order, until one succeeds; done is then true. It remembers failures. It
// returns any other error at once.
func (f *Fetcher) AskEach(
	ctx context.Context, key string, list []Upstream, ask func(context.Context, Upstream) error,
) (done bool, err error) {
	known, err := f.depot.Misses(ctx, key)
	if err != nil {
		known = map[string]Miss{}
	}
	p := &plan{left: f.misses.withoutMiss(list, known), known: known}
	for _, u := range p.left {
		err := ask(ctx, u)
		switch {
		case err == nil:
			return true, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case !IsFailure(err):
			return false, err
		}
		p.note(f.misses, u.Source.Name(), err)
	}
	if err := f.misses.remember(ctx, key, key, list, p.known, true); err != nil && ctx.Err() == nil {
		f.log.Warn("cannot store misses", "error", err)
	}
	return false, nil
}

// Receive downloads a file from an upstream to a spool, within the limits of all
// downloads. check rejects the reply, head rejects the file by its first bytes.
// The caller keeps or aborts the spool, and closes it.
func (f *Fetcher) Receive(
	ctx context.Context, u Upstream, ask Ask, check func(*Reply) error, head func([]byte) error,
) (*blob.Spool, *Reply, error) {
	leave, err := f.Enter(ctx)
	if err != nil {
		if ctx.Err() == nil {
			err = &Failure{Source: u.Source.Name(), Class: ClassBusy, Err: errManyDownloads}
		}
		return nil, nil, err
	}
	defer leave()
	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	a := answer{from: u, cancel: cancel}
	if a.reply, err = u.Source.Fetch(actx, ask); err != nil {
		return nil, nil, err
	}
	a.asked = time.Now()
	if err := check(a.reply); err != nil {
		_ = a.reply.Body.Close()
		return nil, nil, f.reportWrongFile(a, err)
	}
	sp, err := f.depot.Spool()
	if err != nil {
		_ = a.reply.Body.Close()
		return nil, nil, err
	}
	t := &transfer{f: f, from: u, ask: ask, spool: sp, grew: func(int64) {}, announced: func() bool { return true }}
	err = t.copy(ctx, a)
	if err == nil {
		var b [64]byte
		n, _ := sp.ReadAt(b[:], 0)
		if bad := head(b[:n]); bad != nil {
			err = f.reportWrongFile(a, bad)
		}
	} else if errors.Is(err, errLength) {
		err = f.reportWrongFile(a, errLength)
	}
	if err != nil {
		sp.Abort()
		return nil, nil, errors.Join(err, sp.Close())
	}
	return sp, a.reply, nil
}
