package server

import (
	"context"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/symfile"
)

// missingPath is the path of the list of files that clients requested and did not
// get.
const missingPath = "missing.csv"

// missingList lists the files that clients requested and did not get, the most
// requested first.
type missingList interface {
	List(ctx context.Context, f catalog.WantedFilter, each func(catalog.Wanted) error) error
}

// missingFiles answers missing.csv for callers that may read everything: the names of
// missing files may be those of other products. The parameters since (a duration),
// client and name (with * and ?) select files, limit their number.
func (s *ownPaths) missingFiles(x *exchange, r *http.Request) {
	if !s.seesAll(x) {
		return
	}
	q := r.URL.Query()
	f := catalog.WantedFilter{Client: q.Get("client"), Name: symfile.Fold(q.Get("name")), Limit: number(q.Get("limit"), 0, 1<<31-1)}
	if text := q.Get("since"); text != "" {
		var d term.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d <= 0 {
			s.text(x, http.StatusBadRequest, "since: "+term.DurationSyntax+"\n")
			return
		}
		f.Since = time.Now().Add(-time.Duration(d))
	}
	if err := s.searches.Enter(r.Context(), x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	defer s.searches.Leave()
	h := x.Header()
	h["Content-Type"] = []string{"text/csv; charset=utf-8"}
	h["Cache-Control"] = noStore
	w := &longAnswer{Writer: x, s: s.service, rc: http.NewResponseController(x.w)}
	out, err := display.NewMissingCSV(w)
	if err == nil && !x.head {
		err = s.wanted.List(r.Context(), f, out.Write)
	}
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
	case x.status == 0:
		h.Del("Content-Type")
		s.fail(x, err)
	default:
		x.err, x.abort = err, true // a part is not taken for the whole list
	}
}

// builtIn are the server's own paths of one segment.
var builtIn = map[string]bool{
	"healthz": true, "readyz": true, "metrics": true, "metadata": true, missingPath: true, "index2.txt": true, "pingme.txt": true,
	"favicon.ico": true, "robots.txt": true,
}
