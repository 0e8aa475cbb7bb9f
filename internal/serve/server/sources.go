package server

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/layout"
)

// sourceFiles answers requests for source files that SourceLink and srcsrv make:
// /-/src/sha256/HASH/NAME and /-/src/PRODUCT/VERSION/PATH.
type sourceFiles struct {
	*access
	sources *sourcefiles.Files
}

// isSource reports whether an own path is one of source files.
func isSource(own []string) bool { return len(own) > 1 && own[1] == "src" }

// serve answers a request.
func (s *sourceFiles) serve(x *exchange, r *http.Request, p *place) {
	x.protocol = protocolOwn
	ctx := r.Context()
	if err := s.lookups.Enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	f, control, err := s.open(r, x, p.own[2:])
	s.lookups.Leave()
	if err != nil {
		x.result = resultError
		if errors.Is(err, fs.ErrNotExist) {
			x.result = resultMiss
			err = missError{notFoundText + sourceHint(p.own[2:], err)}
		}
		s.fail(x, err)
		return
	}
	defer func() { _ = f.Close() }()
	x.result = resultHit
	s.deliver(x, r, &delivery{
		file: f, encode: true, modified: true, refusal: noCache,
		header: func(h http.Header, _ *answer.File) {
			// Never HTML: the text of a source must not become a page of this site.
			h["Content-Type"] = plainText
			h["Cache-Control"] = s.cacheControl(control)
			addVary(h, "Accept-Encoding")
		},
		sent: func() { s.audit(x, r, &layout.Request{Layout: layout.Debuginfod, Form: layout.FormSource}, f, false) },
	})
}

// open opens the file that the segments behind /-/src name.
func (s *sourceFiles) open(r *http.Request, x *exchange, segs []string) (f *answer.File, control []string, err error) {
	if len(segs) < 3 {
		return nil, nil, fs.ErrNotExist
	}
	if segs[0] == "sha256" && len(segs) == 3 {
		var sum [32]byte
		if n, err := hex.Decode(sum[:], []byte(segs[1])); err == nil && n == len(sum) && len(segs[1]) == 2*len(sum) {
			f, err := s.sources.OpenContent(r.Context(), x.caller.scope, sum)
			return f, immutable, err
		}
	}
	f, err = s.sources.OpenFiled(r.Context(), x.caller.scope, segs[0], segs[1], strings.Join(segs[2:], "/"))
	return f, shortLived, err // a newer transaction may have another one
}

// sourceHint says what is wrong with the address of a source file.
func sourceHint(segs []string, err error) string {
	switch {
	case len(segs) < 3:
		return ": the addresses of source files are /-/src/sha256/HASH/NAME and /-/src/PRODUCT/VERSION/PATH"
	case err == fs.ErrNotExist:
		return ""
	}
	return ": " + strings.TrimSuffix(err.Error(), ": "+fs.ErrNotExist.Error())
}
