package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// missKey returns the key of a request in the negative cache. All spellings of
// one request have the same key.
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

// coalesceKey returns the key of a question's download. Questions share a
// download if they have equal lookups (including MSFZ support), scopes and
// permitted upstreams, and if both or neither have a checksum.
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

// permitted returns the upstreams that may answer a question: the client may see
// their files, they have public forms if these are asked for, and they have not passed on this request themselves. Two servers
// that are upstreams of each other would wait for each other's download.
func (f *Fetcher) permitted(q Question) []Upstream {
	if q.Products == nil && len(q.Via) < 2 && !q.Public {
		return f.upstreams
	}
	var list []Upstream
	for _, u := range f.upstreams {
		if !q.sees(u.Product) || q.Public && !u.Public {
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

// acceptingMSFZ returns the question of a client that also accepts PDBs in MSFZ
// containers. ok is false if the question would be the same.
func acceptingMSFZ(q Question) (wide Question, ok bool) {
	if q.Request.Name == "" || !wants(q.Request, symfile.Debug) || wants(q.Request, symfile.Compressed) {
		return q, false
	}
	q.Request.Form, q.Request.Lookups = layout.FormFile, slices.Clone(q.Request.Lookups)
	q.Request.AcceptMSFZ()
	return q, true
}

// wants reports whether a request asks for an object with a role.
func wants(req layout.Request, role symfile.Role) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role&role != 0 })
}

// Clients ask for a source file by the build-id and the path in the debug
// information. It is stored under a hash of that path: names in the index are
// compared without regard to case, but paths of source files are case-sensitive.

// maxSourceFile is the largest source file, in bytes. The longest known ones are
// generated code.
const maxSourceFile = 64 << 20

// sourcePath returns the path of a source file with . and .. resolved. Some
// clients resolve them before they ask, others do not.
func sourcePath(req layout.Request) string { return path.Clean("/" + req.Part) }

func sourceName(req layout.Request) string {
	name := symfile.BaseName(sourcePath(req))
	if !symfile.ValidName(name) {
		name = "source"
	}
	return name
}

// sourceID begins the ids of stored source files.
const sourceID = "source-"

// StoredSource returns the id of the object if a lookup is that of SourceRequest, whose
// name and id mean nothing to a client.
func StoredSource(l symfile.Lookup) (id string, ok bool) { return strings.CutPrefix(l.ID, sourceID) }

// sourceAlias returns the alias of a stored source file.
func sourceAlias(req layout.Request) symfile.Alias {
	sum := sha256.Sum256([]byte(sourcePath(req)))
	return symfile.Alias{Name: hex.EncodeToString(sum[:]), ID: sourceID + req.Lookups[0].ID, Role: symfile.Other}
}

// SourceRequest returns the request that finds a stored source file. req asks
// for it by build-id and path.
func SourceRequest(req layout.Request) layout.Request {
	a := sourceAlias(req)
	return layout.Request{Form: layout.FormFile, Layout: req.Layout, Lookups: []symfile.Lookup{{Name: a.Name, ID: a.ID, Role: a.Role}}}
}

// asked returns a question with its checksum if it matters which upstreams are asked.
func (f *Fetcher) asked(ctx context.Context, q Question) Question {
	if f.checksums {
		return f.withChecksum(ctx, q)
	}
	return q
}

// withChecksum returns a question with the checksum of the PDB that it asks for, if the
// client sent none and the depot has an image that says it. Debuggers of Windows send
// none, and NuGet's server refuses requests without one.
func (f *Fetcher) withChecksum(ctx context.Context, q Question) Question {
	if q.Checksum != "" || q.Request.Form != layout.FormFile && q.Request.Form != layout.FormCabinet || !wants(q.Request, symfile.Debug) {
		return q
	}
	q.Checksum = f.depot.Checksum(ctx, q.Products, q.Request)
	return q
}
