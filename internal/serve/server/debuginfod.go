package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
)

// Limits of one /metadata request.
const (
	metadataTime   = 3 * time.Second // then the answer is incomplete
	globLiterals   = 3               // least number of literal characters in an anonymous caller's glob
	metadataLimit  = 1000            // results without limit=
	metadataMost   = 10_000          // the largest limit=
	metadataOffset = 100_000         // the largest offset=
)

// debuginfodHeaders sets the header fields of the debuginfod protocol. The error
// is a tooLargeError if the file exceeds the client's X-DEBUGINFOD-MAXSIZE.
func debuginfodHeaders(h http.Header, r *http.Request, f *answer.File, paths string) error {
	if v := r.Header["X-Debuginfod-Maxsize"]; len(v) == 1 {
		if limit, ok := digits(strings.TrimSpace(v[0])); ok && limit > 0 && f.Size > limit {
			return tooLargeError{limit}
		}
	}
	// Go's canonical form would not do: some clients compare the names literally.
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
	if f.Signature != "" {
		h[wire.DebuginfodSignature] = []string{f.Signature}
	}
	return nil
}

// shown returns the parts of a file's path and archive that the setting paths
// lets clients see.
func shown(paths, file, archive string) (string, string) {
	if archive != "" {
		// Earlier versions recorded the archive as a prefix of the path.
		if i := strings.LastIndex(file, memberSeparator); i >= 0 {
			file = "/" + file[i+len(memberSeparator):]
		}
		archive, _, _ = strings.Cut(archive, memberSeparator) // the outermost archive
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

// memberSeparator separates an archive from its member in recorded paths.
const memberSeparator = "!/"

// base returns the last element of a Unix or Windows path.
func base(p string) string {
	if p == "" {
		return ""
	}
	return path.Base(strings.ReplaceAll(p, `\`, "/"))
}

// metadataResult is one result of /metadata; the fields are in elfutils' order.
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

// metadataSearch answers /metadata, the search of the debuginfod protocol.
type metadataSearch struct {
	*access
	// search searches the depot; see depot.Depot.Metadata.
	search func(ctx context.Context, scope answer.Scope, key, value string, limit int) (_ []depot.Metadata, complete bool, err error)
}

// serve answers a search. Missing parameters and unknown keys are answered 404 with
// an explanation. elfutils answers 503, which clients would retry in vain.
func (s *metadataSearch) serve(x *exchange, r *http.Request) {
	x.protocol = layout.Debuginfod.Name()
	q := r.URL.Query()
	key, value := q.Get("key"), q.Get("value")
	limit := number(q.Get("limit"), metadataLimit, metadataMost)
	offset := number(q.Get("offset"), 0, metadataOffset)
	if key == "" || value == "" {
		s.fail(x, missError{"not found: the parameters key (file, glob or buildid) and value are required, as in ?key=file&value=/usr/bin/app"})
		return
	}
	if key == "glob" && x.caller.id.Anonymous() && literals(value) < globLiterals {
		s.fail(x, missError{fmt.Sprintf("not found: without credentials, "+
			"a glob must contain at least %d characters other than wildcards and slashes", globLiterals)})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), metadataTime)
	defer cancel()
	limiter := s.lookups
	if key == "glob" {
		limiter = s.searches
	}
	if err := limiter.Enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	list, complete, err := s.search(ctx, x.caller.scope, key, value, offset+limit)
	limiter.Leave()
	switch {
	case errors.Is(err, fs.ErrInvalid):
		s.fail(x, missError{"not found: key must be file, glob or buildid"})
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
	if len(list) > offset+limit { // a file can have two results
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

// literals counts the characters of a glob other than wildcards and slashes. Every
// character of a bracket expression counts.
func literals(glob string) (n int) {
	for _, c := range glob {
		if !strings.ContainsRune(`*?[]!^-\/`, c) {
			n++
		}
	}
	return n
}

// federate searches the debuginfod upstreams. It does not forward a request that
// has passed this server before, or that has passed too many servers.
func (s *metadataSearch) federate(
	ctx context.Context, x *exchange, r *http.Request, key, value string,
) (list []depot.Metadata, complete bool) {
	if !s.depot.Fetches() {
		return nil, true
	}
	via, loop := s.via(r)
	if loop {
		return nil, true
	}
	return s.depot.UpstreamMetadata(ctx, answer.Question{Scope: x.caller.scope, Via: via, Origin: origin(r)}, key, value)
}
