package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/wire"
	"github.com/symdepot/symdepot/layout"
)

// Limits of one /metadata request.
const (
	metadataTime   = 3 * time.Second // then the answer is what was found until then
	globLiterals   = 3               // of an anonymous caller's glob
	metadataLimit  = 1000            // results without limit=
	metadataMost   = 10_000          // the largest limit=
	metadataOffset = 100_000         // the largest offset=
)

// debuginfodHeaders sets the headers of the debuginfod protocol. The error is
// a tooLargeError if the client wants no file of this size.
func debuginfodHeaders(h http.Header, r *http.Request, f *depot.File, paths string) error {
	if v := r.Header["X-Debuginfod-Maxsize"]; len(v) == 1 {
		if limit, ok := digits(strings.TrimSpace(v[0])); ok && limit > 0 && f.Size > limit {
			return tooLargeError{limit}
		}
	}
	// The names in elfutils' own spelling; some clients look for just that.
	if f.Size >= 0 {
		h[wire.DebuginfodSize] = []string{itoa(f.Size)}
	}
	file, archive := shown(paths, f.Path, f.Archive)
	if file != "" {
		h[wire.DebuginfodFile] = []string{file}
	}
	if archive != "" {
		h[wire.DebuginfodArchive] = []string{archive}
	}
	return nil
}

// shown returns what may be reported of a file's origin.
func shown(paths, file, archive string) (string, string) {
	if archive != "" {
		// Depots of earlier versions have the archive in front of the path.
		if i := strings.LastIndex(file, memberSeparator); i >= 0 {
			file = "/" + file[i+len(memberSeparator):]
		}
		archive, _, _ = strings.Cut(archive, memberSeparator) // the package, not what is in it
	}
	switch paths {
	case PathsFull:
		return file, archive
	case PathsNone:
		return "", ""
	}
	if archive == "" {
		return base(file), ""
	}
	return file, base(archive)
}

// memberSeparator stands between an archive and its member in recorded paths.
const memberSeparator = "!/"

// base returns the last part of a path of any system.
func base(p string) string {
	if p == "" {
		return ""
	}
	return path.Base(strings.ReplaceAll(p, `\`, "/"))
}

// metadataResult is one row of a /metadata answer, in elfutils' order.
type metadataResult struct {
	Type    string `json:"type"`
	BuildID string `json:"buildid"`
	File    string `json:"file"`
	Archive string `json:"archive,omitempty"`
}

type metadataAnswer struct {
	Results  []metadataResult `json:"results"`
	Complete bool             `json:"complete"`
}

// metadataSearch answers the search of the debuginfod protocol, /metadata.
type metadataSearch struct{ *access }

// serve answers the search of the debuginfod protocol. Missing arguments and
// unknown keys, for which elfutils answers 503, are 404 with a text here, because
// trying again will not help.
func (s *metadataSearch) serve(x *exchange, r *http.Request) {
	x.protocol = layout.Debuginfod.Name()
	q := r.URL.Query()
	key, value := q.Get("key"), q.Get("value")
	limit := number(q.Get("limit"), metadataLimit, metadataMost)
	offset := number(q.Get("offset"), 0, metadataOffset)
	if key == "" || value == "" {
		s.fail(x, missError{"not found: ask with ?key=file|glob|buildid&value=…"})
		return
	}
	if key == "glob" && x.caller.id.Anonymous() && literals(value) < globLiterals {
		s.fail(x, missError{fmt.Sprintf("not found: without credentials a glob needs %d characters that are no wildcards or slashes", globLiterals)})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), metadataTime)
	defer cancel()
	limiter := s.lookups
	if key == "glob" {
		limiter = s.searches
	}
	if err := limiter.enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	list, complete, err := s.depot.Metadata(ctx, x.caller.scope, key, value, offset+limit)
	limiter.leave()
	switch {
	case errors.Is(err, fs.ErrInvalid):
		s.fail(x, missError{"not found: the keys are file, glob and buildid"})
		return
	case err != nil:
		s.fail(x, err)
		return
	}
	for i := range list {
		list[i].File, list[i].Archive = shown(s.cfg.Paths, list[i].File, list[i].Archive)
	}
	more, all := s.federate(r.Context(), x, r, key, value)
	list, complete = append(list, more...), complete && all
	answer := metadataAnswer{Results: []metadataResult{}, Complete: complete}
	if len(list) > offset+limit { // a file may have two rows
		list, answer.Complete = list[:offset+limit], false
	}
	for _, m := range list[min(offset, len(list)):] {
		answer.Results = append(answer.Results, metadataResult(m))
	}
	body, err := json.Marshal(answer)
	if err != nil {
		s.fail(x, err)
		return
	}
	h := x.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{itoa(int64(len(body)) + 1)}
	h["Cache-Control"] = noCache
	x.WriteHeader(http.StatusOK)
	_, x.err = x.Write(append(body, '\n'))
}

// literals counts the characters of a glob that are no wildcards or slashes. Of
// a class in brackets, each character counts.
func literals(glob string) (n int) {
	for _, c := range glob {
		if !strings.ContainsRune(`*?[]!^-\/`, c) {
			n++
		}
	}
	return n
}

// number reads an optional decimal parameter.
func number(s string, zero, most int) int {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return min(n, most)
	}
	return zero
}
