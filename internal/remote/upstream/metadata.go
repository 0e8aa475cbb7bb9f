package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of a search result.
const (
	metadataBytes = 8 << 20
	metadataRows  = 10_000
	metadataPath  = 4096 // bytes of one path
)

// metadata searches on a debuginfod server. complete is false if the server says
// so, or if the result was cut.
func (h *HTTP) metadata(ctx context.Context, q fetch.MetadataQuery) (list []fetch.Metadata, complete bool, err error) {
	x := &question{h: h, ask: fetch.Ask{Request: layout.Request{Layout: layout.Debuginfod}, Via: q.Via, Origin: q.Origin}}
	header, err := x.header(layout.Place{Exact: true})
	if err != nil {
		return nil, false, h.failed(fetch.ClassBroken, "%w", err)
	}
	u := h.url([]string{"metadata"})
	if h.dialect.Inside { // the configured URL ends with /buildid
		u = h.base.JoinPath("..", "metadata")
	}
	query := url.Values{"key": {q.Key}, "value": {q.Value}}.Encode()
	if h.base.RawQuery != "" {
		query = h.base.RawQuery + "&" + query
	}
	u.RawQuery = query
	a, err := x.exchange(ctx, []*url.URL{u}, header)
	if err != nil {
		return nil, false, err
	}
	defer a.end()
	if a.resp.StatusCode == http.StatusNotFound {
		return nil, true, nil // search not supported, or too many hops
	}
	if err := x.refusal(a); err != nil {
		return nil, false, err
	}
	text, err := a.textUpTo(h.cfg.Timeouts.Header, metadataBytes)
	if err != nil {
		return nil, false, err
	}
	var answer struct {
		Results []struct {
			Type    string `json:"type"`
			BuildID string `json:"buildid"`
			File    string `json:"file"`
			Archive string `json:"archive"`
		} `json:"results"`
		Complete bool `json:"complete"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, false, h.failed(fetch.ClassBroken, "metadata: the response is not JSON of the debuginfod protocol")
	}
	complete = answer.Complete
	for _, r := range answer.Results {
		id, _ := debugid.ParseBuildID(r.BuildID)
		switch {
		case id == "" || r.Type != "executable" && r.Type != "debuginfo" || len(r.File) > metadataPath || len(r.Archive) > metadataPath:
			continue
		case len(list) == metadataRows:
			return list, false, nil
		}
		list = append(list, fetch.Metadata{Type: r.Type, BuildID: string(id), File: r.File, Archive: r.Archive})
	}
	return list, complete, nil
}

// search is a search for metadata at an upstream.
type search = func(context.Context, fetch.MetadataQuery) ([]fetch.Metadata, bool, error)

// search applies the guard's rules to the metadata search of an upstream.
func (g *Guarded) search(of search) search {
	return func(ctx context.Context, q fetch.MetadataQuery) ([]fetch.Metadata, bool, error) {
		if !g.filter.allowsSearch(q) {
			return nil, false, &fetch.Failure{
				Source: g.src.Name(), Class: fetch.ClassSkipped,
				Err: errors.New("the filters of the upstream exclude this search"),
			}
		}
		if err := g.busy(); err != nil {
			return nil, false, err
		}
		if err := g.enter(ctx, nil); err != nil {
			return nil, false, err
		}
		p, err := g.begin(ctx)
		if err != nil {
			g.leave()
			return nil, false, err
		}
		list, complete, err := of(ctx, q)
		if err == nil {
			p.answered()
		}
		p.end(err)
		return list, complete, err
	}
}

// allowsSearch reports whether the filter permits a search.
func (f *filter) allowsSearch(q fetch.MetadataQuery) bool {
	value := symfile.Fold(q.Value)
	texts := []string{value, value[strings.LastIndexByte(value, '/')+1:]}
	has := func(patterns []string) bool {
		return slices.ContainsFunc(texts, func(s string) bool { return matchAny(patterns, s) })
	}
	switch {
	case has(f.never), len(f.kinds) > 0 && !slices.Contains(f.kinds, symfile.ELF), f.checksum:
		return false
	case q.Key == "buildid":
		return len(f.names) == 0 && (len(f.ids) == 0 || has(f.ids))
	}
	return len(f.ids) == 0 && (len(f.names) == 0 || has(f.names))
}
