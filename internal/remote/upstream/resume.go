package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// resume requests the rest of a file. If it returns neither a reply nor an
// error, the file must be requested from the start.
func (x *question) resume(ctx context.Context, r *fetch.Resume) (*fetch.Reply, error) {
	h := x.h
	u, ok := h.unredact(r.Path)
	if !ok {
		return nil, nil
	}
	segs := strings.Split(u.Path, "/")
	p := layout.Place{Parts: []string{segs[len(segs)-1]}, Exact: x.ask.Request.Form != layout.FormFile}
	header, err := x.header(p)
	if err != nil {
		return nil, h.failed(fetch.ClassBroken, "%w", err)
	}
	header.Set("Accept-Encoding", "identity")
	header.Set("Range", "bytes="+strconv.FormatInt(r.Offset, 10)+"-")
	header.Set("If-Range", r.Tag)
	a, err := x.exchange(ctx, []*url.URL{u}, header)
	if err != nil {
		return nil, err
	}
	if a.resp.StatusCode == http.StatusPartialContent {
		reply, err := x.rest(r, a)
		if reply == nil {
			a.end()
		}
		return reply, err
	}
	if a.resp.StatusCode == http.StatusOK {
		return x.answer(ctx, p, a) // the file has changed, or ranges are not supported
	}
	err = x.refusal(a)
	a.end()
	switch f, _ := errors.AsType[*fetch.Failure](err); {
	case f.Class == fetch.ClassNotFound || a.resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return nil, nil
	default:
		return nil, f
	}
}

// rest makes a Reply from a part of a file, or nil if it is not the requested
// part.
func (x *question) rest(r *fetch.Resume, a *answer) (*fetch.Reply, error) {
	h := a.resp.Header
	from, total, ok := contentRange(h.Get("Content-Range"))
	if !ok || from != r.Offset || len(h["Content-Encoding"]) > 0 && h.Get("Content-Encoding") != "identity" ||
		a.resp.ContentLength >= 0 && a.resp.ContentLength != total-from ||
		h.Get("Etag") != "" && strings.HasPrefix(r.Tag, `"`) && h.Get("Etag") != r.Tag {
		return nil, nil
	}
	if total > x.limit {
		return nil, x.h.failed(fetch.ClassTooLarge, "%w: %d", errTooLarge, total)
	}
	reply := x.reply(layout.Place{Parts: []string{r.Path[strings.LastIndexByte(r.Path, '/')+1:]}}, a)
	reply.Path, reply.Tag, reply.Offset, reply.Size = r.Path, r.Tag, from, total
	reply.Body = x.newBody(a, &plain{Reader: x.wire(a), size: total, release: func() {}}, nil, from, total)
	return reply, nil
}

// contentRange parses "bytes FROM-TO/TOTAL" of a part that extends to the end of
// the file.
func contentRange(s string) (from, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, all, cut := strings.Cut(s, "/")
	first, last, dash := strings.Cut(span, "-")
	if !ok || !cut || !dash {
		return 0, 0, false
	}
	var to int64
	var errs [3]error
	from, errs[0] = strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	to, errs[1] = strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	total, errs[2] = strconv.ParseInt(strings.TrimSpace(all), 10, 64)
	return from, total, errors.Join(errs[:]...) == nil && from >= 0 && to == total-1 && from <= to
}
