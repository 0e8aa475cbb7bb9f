package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// leastInRequest is how many contents of the largest size that is not sent alone fit into one request
// with several.
const leastInRequest = 4

// groups divides contents into those of one request each.
func (u *uploads) groups(list []*found) (groups [][]*found) {
	l := &u.r.limits
	var group []*found
	var sum int64
	for _, f := range list {
		if l.Several < 2 || f.Size > l.SeveralBytes/leastInRequest || f.Size >= l.WholeBelow || u.comparable(f) {
			groups = append(groups, []*found{f})
			continue
		}
		if len(group) == l.Several || sum+f.Size > l.SeveralBytes {
			groups, group, sum = append(groups, group), nil, 0
		}
		group, sum = append(group, f), sum+f.Size
	}
	if len(group) > 0 {
		groups = append(groups, group)
	}
	return groups
}

// small is one of several contents of a request.
type small struct {
	*found
	c *scan.Content
}

// sendGroup sends contents: those to compress in one request, the others in another one.
func (u *uploads) sendGroup(ctx context.Context, group []*found) error {
	if len(group) == 1 {
		return u.sendAlone(ctx, group[0])
	}
	var lists [2][]small // plain, to compress
	for _, f := range group {
		c, err := f.file.Open(ctx)
		if err != nil {
			return &endpoint.LocalError{What: "read " + f.file.Path, Err: err}
		}
		defer c.Close()
		if c.Size() != f.Size {
			return &endpoint.LocalError{What: "read " + f.file.Path, Err: errChanged}
		}
		which := 0
		if u.packs(c) {
			which = 1
		}
		lists[which] = append(lists[which], small{f, c})
	}
	for which, list := range lists {
		var err error
		switch len(list) {
		case 0:
		case 1:
			err = u.sendAlone(ctx, list[0].found)
		default:
			err = u.sendSeveral(ctx, list, which == 1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendSeveral sends contents in one request. Those that arrive damaged are sent alone, and all of
// them if the server refuses the request: its answer is then that to one content.
func (u *uploads) sendSeveral(ctx context.Context, list []small, encode bool) error {
	verdicts, wireBytes, err := u.request(ctx, list, encode)
	if answer, ok := errors.AsType[*answerError](err); ok && !answer.transient() {
		if tell := u.r.p.Retrying; tell != nil {
			tell(fmt.Errorf("%s and %d more files are sent again, one by one: %w", list[0].file.Path, len(list)-1, err), 0)
		}
		for _, f := range list {
			if err := u.sendAlone(ctx, f.found); err != nil {
				return err
			}
		}
		return nil
	}
	if err == nil && len(verdicts) != len(list) {
		err = &endpoint.LocalError{What: "use the answer of the server", Err: fmt.Errorf("%d verdicts for %d contents", len(verdicts), len(list))}
	}
	if err != nil {
		return err
	}
	var sent, bytes int64
	var again []*found
	for i, v := range verdicts {
		f := list[i].found
		switch v.Answer {
		case wire.PushHave:
			sent, bytes = sent+1, bytes+f.Size
		case wire.PushSend:
			again = append(again, f)
			if tell := u.r.p.Retrying; tell != nil {
				tell(fmt.Errorf("%s has arrived damaged and is sent again: %s", f.file.Path, v.Reason), 0)
			}
		default:
			u.r.answered(f, wire.PushVerdict{Answer: wire.PushRefuse, Reason: v.Reason})
		}
	}
	u.r.mu.Lock()
	u.r.res.SentFiles += sent
	u.r.res.SentBytes += bytes
	u.r.res.WireBytes += wireBytes
	u.r.mu.Unlock()
	u.r.progress(bytes)
	for _, f := range again {
		if err := u.sendAlone(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// request sends contents in one request, whose body has size bytes.
func (u *uploads) request(ctx context.Context, list []small, encode bool) (verdicts []wire.PushVerdict, size int64, err error) {
	select {
	case u.requests <- struct{}{}:
		defer func() { <-u.requests }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	announced := make([]wire.PushContent, len(list))
	for i, f := range list {
		announced[i] = wire.PushContent{SHA256: f.SHA256, Size: f.Size}
		size += f.Size
	}
	head := wire.AppendContents(nil, announced)
	size += int64(len(head))
	body := func() io.Reader {
		all := []io.Reader{bytes.NewReader(head)}
		for _, f := range list {
			all = append(all, &wholeReader{io.NewSectionReader(f.c, 0, f.Size), f.Size, f.file.Path})
		}
		return io.MultiReader(all...)
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if encode {
		// Not reused: the transport may still read it when the server has answered.
		buf := bytes.NewBuffer(make([]byte, 0, size/2))
		if err := compress(buf, body()); err != nil {
			return nil, 0, &endpoint.LocalError{What: "read a file", Err: err}
		}
		body, size = func() io.Reader { return bytes.NewReader(buf.Bytes()) }, int64(buf.Len())
		header.Set("Content-Encoding", "zstd")
	}
	if size >= askFirst {
		header.Set("Expect", "100-continue")
	}
	_, err = u.r.p.do(ctx, exchange{
		method: http.MethodPut, path: stagePath(u.r.res.Stage) + "/contents", header: header, body: body, size: size,
		timeout: uploadTime, answer: answerTime, into: &verdicts,
	})
	return verdicts, size, err
}

// wholeReader reads a content. It fails if that ends early, so that no content follows in its place.
type wholeReader struct {
	r    io.Reader
	left int64
	path string
}

func (w *wholeReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if w.left -= int64(n); err == io.EOF && w.left > 0 {
		err = fmt.Errorf("%s: %w", w.path, errChanged)
	}
	return n, err
}
