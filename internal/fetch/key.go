package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// missKey is the key of a request in the negative cache. It is the same for all
// spellings of one request.
func missKey(req layout.Request) string {
	if req.Form == layout.FormSource {
		a := sourceAlias(req)
		return a.Name + "/" + a.ID + ";"
	}
	var b strings.Builder
	for _, l := range req.Lookups {
		if l.Unique {
			continue // the preceding named lookup already covers this id
		}
		fmt.Fprintf(&b, "%s/%s/%x", l.Name, l.ID, uint16(l.Role))
		if l.IDKind != symfile.AnyID {
			fmt.Fprintf(&b, "/%d", l.IDKind)
		}
		b.WriteByte(';')
	}
	return b.String()
}

// coalesceKey is equal for questions that share a download: those with equal
// lookup keys (MSFZ support is part of them), checksum, scope and permitted
// upstreams.
func (f *Fetcher) coalesceKey(q Question, permitted []Upstream) string {
	key := missKey(q.Request)
	if len(permitted) < len(f.upstreams) {
		for _, u := range permitted {
			key += "\n" + u.Source.Name()
		}
		key += "\n" + strings.Join(q.Products, "\n")
	}
	if f.checksums && q.Checksum != "" {
		key += "\nchecksum"
	}
	return key
}

// permitted returns the upstreams that may answer a question: those whose files
// the client may see, and none that has asked for it itself. Two servers that ask
// each other would wait for each other's download.
func (f *Fetcher) permitted(q Question) []Upstream {
	if q.Products == nil && len(q.Via) < 2 {
		return f.upstreams
	}
	var list []Upstream
	for _, u := range f.upstreams {
		if !q.sees(u.Product) {
			continue
		}
		if len(q.Via) > 1 {
			if id := u.Source.Traits().ServerID; id != "" && slices.Contains(q.Via, id) {
				continue
			}
		}
		list = append(list, u)
	}
	return list
}

// acceptingMSFZ returns the question as a client asks it that accepts PDBs in
// MSFZ containers; ok is false if that makes no difference.
func acceptingMSFZ(q Question) (wide Question, ok bool) {
	if q.Request.Name == "" || !wants(q.Request, symfile.Debug) || wants(q.Request, symfile.Compressed) {
		return q, false
	}
	q.Request.Form, q.Request.Lookups = layout.FormFile, slices.Clone(q.Request.Lookups)
	q.Request.AcceptMSFZ()
	return q, true
}

// wants reports whether a request asks for an object of a role.
func wants(req layout.Request, role symfile.Role) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role&role != 0 })
}

// A source file that debug information names is asked for by the build-id and
// the path in the debug information. It is kept under a hash of that path:
// names in the index are compared without regard to case, and paths of source
// files must not be.

// mostSource is the limit of a source file in bytes; the longest known are
// generated.
const mostSource = 64 << 20

// sourcePath is the path of a request for a source file with dots resolved, as
// some clients do and others do not.
func sourcePath(req layout.Request) string { return path.Clean("/" + req.Part) }

func sourceName(req layout.Request) string {
	name := symfile.BaseName(sourcePath(req))
	if !symfile.ValidName(name) {
		name = "source"
	}
	return name
}

// sourceAlias is the alias under which a source file is kept.
func sourceAlias(req layout.Request) symfile.Alias {
	sum := sha256.Sum256([]byte(sourcePath(req)))
	return symfile.Alias{Name: hex.EncodeToString(sum[:]), ID: "source-" + req.Lookups[0].ID, Role: symfile.Other}
}

// SourceRequest returns the request that finds a source file that was kept; req
// asks for it by build-id and path.
func SourceRequest(req layout.Request) layout.Request {
	a := sourceAlias(req)
	return layout.Request{Form: layout.FormFile, Layout: req.Layout, Lookups: []symfile.Lookup{{Name: a.Name, ID: a.ID, Role: a.Role}}}
}
