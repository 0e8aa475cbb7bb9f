package intake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// PUT of one file: curl -T, wget --body-file, artifact scripts. The path is that
// under which a debugger asks for the file in any layout, or just a name.

var putFace = &face{
	name: "put", noCredential: http.StatusUnauthorized, badCredential: http.StatusUnauthorized,
	quota: http.StatusInsufficientStorage, unfit: http.StatusUnprocessableEntity, wrong: http.StatusUnprocessableEntity,
	write: jsonFailure("error"),
}

// storeRecords are files of symbol stores that have no symbols: their PUT succeeds
// so that the copy of a tree succeeds, and does nothing.
func isStoreRecord(segs []string) bool {
	last := symfile.Fold(segs[len(segs)-1])
	if last == "pingme.txt" || last == "index2.txt" {
		return len(segs) <= 2
	}
	_, err := layout.RouteAdmin(segs)
	return err == nil
}

func serveMkcol(x *exchange) error {
	if err := x.mayWrite(); err != nil {
		return err
	}
	x.w.WriteHeader(http.StatusCreated)
	return nil
}

// versionLike matches names that are versions.
var versionLike = regexp.MustCompile(`^v?[0-9]+(\.[0-9]+)*([-+_][0-9A-Za-z.]+)?$`)

// mayBeVersion refuses PUT to /in/PRODUCT/NAME if NAME may be a version whose slash at the
// end was forgotten: it looks like one or, as a word such as nightly, has no extension. Taken
// for the name of the file, it would hide both. A version from elsewhere, or the parameter
// version without a value, makes it the name of a file.
func mayBeVersion(x *exchange, segs []string, version string) error {
	if x.t.product == "" || version != "" || len(segs) != 1 || x.r.URL.Query().Has("version") {
		return nil
	}
	if name := segs[0]; versionLike.MatchString(name) || !strings.Contains(name, ".") {
		name, at := truncate.Text(name), "/in/"+truncate.Text(x.t.product)+"/"
		return &failure{http.StatusUnprocessableEntity, fmt.Sprintf("%q may be a version or the name of a file. "+
			"If it is a version, end the address with a slash, as in %s%s/, and curl -T adds the name; "+
			"if it is a name, send the file to %sVERSION/%s, or without a version to %s%s?version=", name, at, name, at, name, at, name)}
	}
	return nil
}

// unkeptForms are the forms of a file that are made of it.
var unkeptForms = []layout.Form{layout.FormPointer, layout.FormSection, layout.FormSource, layout.FormGSYM}

// servePut answers PUT.
func servePut(x *exchange) error {
	if err := x.take(); err != nil {
		return err
	}
	segs := x.t.args
	req, routeErr := layout.Route(segs)
	switch {
	case isStoreRecord(segs):
		x.drain()
		x.log.Info("ignored a file of a copied symbol store that has no symbols",
			"path", truncate.Text(strings.Join(segs, "/")), "who", x.who.Name)
		x.w.Header().Set("Warning", `299 - "this file of a symbol store is not kept: the server makes its own"`)
		return x.text(http.StatusOK, "ignored: the server makes its own")
	case routeErr != nil && len(segs) > 1:
		return &failure{http.StatusUnprocessableEntity, fmt.Sprintf("%q is not the path of a symbol file; "+
			"send the file to /in/PRODUCT/VERSION/ to have the path computed", truncate.Text(strings.Join(segs, "/")))}
	case routeErr == nil && slices.Contains(unkeptForms, req.Form):
		return &failure{
			http.StatusUnprocessableEntity,
			fmt.Sprintf("%q names no file that is kept; send the symbol file itself", truncate.Text(strings.Join(segs, "/"))),
		}
	}
	l, err := x.labels(stage.Labels{})
	if err != nil {
		return err
	}
	if err := mayBeVersion(x, segs, l.Version); err != nil {
		return err
	}
	s, err := x.putBody()
	if err != nil {
		return err
	}
	defer s.Close()
	path, err := putPath(segs, &req, routeErr == nil)
	if err != nil {
		return err
	}
	id := x.r.URL.Query().Get("tx") // an open push that receives the file
	if id == "" {
		if id, err = x.collect(l); err != nil {
			return err
		}
	}
	here := false
	check := func(a stage.Arrived) error {
		if routeErr == nil && !anyFinds(&req, a.Objects) {
			return &misplaced{text: fmt.Sprintf("the file does not belong at this path; %s", itsIDs(a.Objects)), paths: pathsOf(a.Objects)}
		}
		var err error
		here, err = x.conflicts(x.r.Context(), l.Product, a, s)
		return err
	}
	entry := stage.Entry{Path: path, Size: s.size}
	a, err := x.stages.PutClaimed(x.r.Context(), x.who.Caller, id, entry, s.reader(), check)
	var bad *misplaced
	if errors.As(err, &bad) {
		return refuseMisplaced(x, bad)
	}
	if err != nil {
		return err
	}
	tellOther(x.w.Header(), &a)
	if here {
		x.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h := x.w.Header()
	if paths := pathsOf(a.Objects); len(paths) > 0 {
		h.Set("Location", x.in.Base+(&url.URL{Path: "/" + paths[0]}).EscapedPath())
	}
	return x.json(http.StatusCreated, map[string]any{"sha256": a.Ref.String(), "paths": pathsOf(a.Objects)})
}

// misplaced is the error for a file that does not belong at the path of the PUT.
type misplaced struct {
	text  string
	paths []string
}

func (e *misplaced) Error() string { return e.text }

func refuseMisplaced(x *exchange, e *misplaced) error {
	x.log.Info("an upload was refused", "protocol", x.t.face.name, "status", http.StatusUnprocessableEntity, "error", e.text,
		"who", x.who.Name, "remote", x.r.RemoteAddr)
	return x.json(http.StatusUnprocessableEntity, map[string]any{"error": e.text, "paths": e.paths})
}

// putPath is the path under which the file is recorded; its base name is that of
// the file.
func putPath(segs []string, req *layout.Request, routed bool) (string, error) {
	p := strings.Join(segs, "/")
	switch {
	case !routed:
		for _, suffix := range []string{".gz", ".zst"} {
			p = strings.TrimSuffix(p, suffix)
		}
	case req.Form == layout.FormSymCache:
	case req.Name != "" && req.Layout != layout.BreakpadTree:
		p = strings.Join(segs[:len(segs)-1], "/") + "/" + req.Name
	}
	return cleanPath(p)
}

// anyFinds reports whether the path names one of the objects. A lookup by the id
// alone, with which servers answer for files under other names, does not count.
func anyFinds(req *layout.Request, objects []symfile.Object) bool {
	return slices.ContainsFunc(objects, func(o symfile.Object) bool {
		return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return !l.Unique && l.Finds(o) })
	})
}

// pathsOf lists the paths of the objects, at most 32.
func pathsOf(objects []symfile.Object) []string {
	list := []string{}
	for _, o := range objects {
		for _, l := range layout.All() {
			for _, p := range l.Paths(o) {
				if !slices.Contains(list, p) && len(list) < 32 {
					list = append(list, p)
				}
			}
		}
	}
	return list
}

// conflicts reports whether the product has the same bytes, and refuses other
// bytes of the same kind, name and id, unless the query has replace.
func (x *exchange) conflicts(ctx context.Context, product string, a stage.Arrived, file io.ReaderAt) (here bool, err error) {
	var own map[string]bool // read if it is needed
	for _, o := range a.Objects {
		aliases := o.Aliases()
		if len(aliases) == 0 {
			continue
		}
		list, err := x.stages.Find(ctx, x.who.Caller, stage.Query{
			Lookup: symfile.Lookup{Name: aliases[0].Name, ID: aliases[0].ID, Role: aliases[0].Role}, Product: &product,
		})
		if err != nil {
			return false, err
		}
		for _, f := range list {
			if here = here || f.Ref == a.Ref; here {
				break
			}
			if own == nil {
				if own, err = contentsOf(a, file); err != nil {
					return false, err
				}
			}
			here = own[f.Ref.String()]
		}
		if here || x.r.URL.Query().Has("replace") {
			continue
		}
		for _, f := range list {
			if slices.ContainsFunc(f.Objects, func(have symfile.Object) bool { return have.Kind == o.Kind && have.Role == o.Role }) {
				return false, &stage.Refusal{
					Kind: stage.Conflict,
					Text: fmt.Sprintf("the product has other bytes of this id (SHA-256 %s); add ?replace to keep both", f.Ref),
				}
			}
		}
	}
	return here, nil
}

// putBody spools the body, checks its digests and unpacks it.
func (x *exchange) putBody() (*spool, error) {
	sent := sha256.New()
	body, err := x.decoded(&tee{x.body, sent}, x.r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	plain := sha256.New()
	s, err := x.spool(body, x.limit, plain)
	if err != nil {
		return nil, err
	}
	if err := x.checkDigests(sent.Sum(nil), plain.Sum(nil)); err != nil {
		s.Close()
		return nil, err
	}
	if s.size == 0 {
		s.Close()
		return nil, &stage.Refusal{Kind: stage.NotSymbol, Text: "the file is empty"}
	}
	if !unpack.Packed(s) {
		return s, nil
	}
	defer s.Close()
	out, err := x.unpacked(s)
	if errors.Is(err, unpack.ErrPacked) {
		return nil, &failure{http.StatusUnprocessableEntity, err.Error()}
	}
	return out, err
}

// unpacked decompresses a spooled file to another one.
func (x *exchange) unpacked(s *spool) (*spool, error) {
	out, err := x.spool(bytes.NewReader(nil), 0)
	if err != nil {
		return nil, err
	}
	if _, err := unpack.File(x.r.Context(), spoolWriter{out}, s, s.size, x.limit); err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

type tee struct {
	r interface{ Read([]byte) (int, error) }
	w interface{ Write([]byte) (int, error) }
}

func (t *tee) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	_, _ = t.w.Write(b[:n]) // a hash
	return n, err
}

// checkDigests compares the digests in the header (RFC 9530, and that of
// Artifactory) with the bytes as they were sent or as they are without coding.
func (x *exchange) checkDigests(sent, plain []byte) error {
	for _, name := range []string{"Content-Digest", "Repr-Digest", "X-Checksum-Sha256"} {
		v := x.r.Header.Get(name)
		if v == "" {
			continue
		}
		sum, ok := digestOf(name, v)
		if !ok {
			continue // another algorithm
		}
		if !bytes.Equal(sum, sent) && !bytes.Equal(sum, plain) {
			return &failure{http.StatusUnprocessableEntity, fmt.Sprintf("the SHA-256 of the body is %x, not that of %s", sent, name)}
		}
	}
	return nil
}

// digestOf returns the SHA-256 in a header field. One that cannot be decoded
// equals no digest.
func digestOf(name, v string) (sum []byte, ok bool) {
	if name == "X-Checksum-Sha256" {
		sum, err := hex.DecodeString(strings.TrimSpace(v))
		if err != nil {
			return nil, true
		}
		return sum, true
	}
	for part := range strings.SplitSeq(v, ",") {
		rest, ok := strings.CutPrefix(strings.TrimSpace(part), "sha-256=")
		if !ok {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(strings.Trim(rest, ":"))
		if err != nil {
			return nil, true
		}
		return sum, true
	}
	return nil, false
}

// contentsOf returns the SHA-256 of a file and of its objects: each slice of a fat file is
// a content of its own, also the only one. Compressed objects are not read.
func contentsOf(a stage.Arrived, file io.ReaderAt) (map[string]bool, error) {
	own := map[string]bool{a.Ref.String(): true}
	list, err := objfile.Identify(file, a.Size, "", objfile.Options{})
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if o.Deflated != 0 || o.Offset == 0 && o.Size == a.Size {
			continue
		}
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(file, o.Offset, o.Size)); err != nil {
			return nil, err
		}
		own[hex.EncodeToString(h.Sum(nil))] = true
	}
	return own, nil
}
