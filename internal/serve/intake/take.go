package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
)

// take refuses requests that can be refused before the body is read, and returns the
// limits for files.
func (x *exchange) take() error {
	if err := x.mayWrite(); err != nil {
		return err
	}
	limits, err := x.stages.Limits(x.r.Context(), x.who.Caller)
	if err != nil {
		return err
	}
	if x.limit = limits.MaxFile; x.r.ContentLength > x.limit {
		return tooLarge(x.limit)
	}
	return nil
}

func tooLarge(limit int64) error {
	return &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the file is larger than %d bytes", limit)}
}

// labels returns the labels of an upload. A label comes from the credentials, the
// path or query, or the protocol's fields, in this order; a product in the path or
// query comes first, because the rights decide about it anyway.
func (x *exchange) labels(fields stage.Labels) (stage.Labels, error) {
	q, d := x.r.URL.Query(), x.who.Defaults
	l := stage.Labels{
		Product: first(x.t.product, q.Get("product"), d.Product, fields.Product),
		Version: first(d.Version, x.t.version, q.Get("version"), fields.Version),
		Branch:  first(d.Branch, q.Get("branch"), fields.Branch),
		Class:   first(d.Class, q.Get("class"), fields.Class),
		Comment: first(d.Comment, q.Get("comment"), fields.Comment),
	}
	for _, p := range []struct{ what, s string }{
		{"product", l.Product}, {"version", l.Version}, {"branch", l.Branch}, {"class", l.Class}, {"comment", l.Comment},
	} {
		if err := checkLabel(p.s); err != nil {
			return l, &failure{http.StatusBadRequest, "the " + p.what + " " + err.Error()}
		}
	}
	if !x.who.Write(l.Product) {
		if x.who.Anonymous {
			return l, x.notWriter()
		}
		text := fmt.Sprintf("%s may not write the product %q: use a token with the scope write for this product", x.who.Name, l.Product)
		if l.Product == "" {
			text = x.who.Name + " may not write files without a product: add ?product=PRODUCT to the URL, or take a token of one product"
		}
		return l, &failure{http.StatusForbidden, text}
	}
	return l, nil
}

// mayWrite refuses an upload before its body is read, if the product is known
// from the URL or the credentials.
func (x *exchange) mayWrite() error {
	if first(x.t.product, x.r.URL.Query().Get("product"), x.who.Defaults.Product) == "" {
		return nil
	}
	_, err := x.labels(stage.Labels{})
	return err
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

const maxLabel = 256 // bytes

func checkLabel(s string) error {
	switch {
	case len(s) > maxLabel:
		return fmt.Errorf("has %d bytes; the limit is %d", len(s), maxLabel)
	case !truncate.Printable(s):
		return errors.New("contains characters that cannot be printed")
	}
	return nil
}

// collect opens the stage that collects the files of protocols without an end.
func (x *exchange) collect(l stage.Labels) (id string, err error) {
	st, _, err := x.stages.Open(x.r.Context(), x.who.Caller, stage.Spec{Labels: l, Build: x.who.Build, Collect: true})
	return st.ID, err
}

// upload is an open stage with the files that it has accepted in one request.
type upload struct {
	stages   Stages
	caller   stage.Caller
	stage    string
	accepted []stage.Receipt
	header   http.Header // of the answer; nil: the answer says what the commit says
}

// put is PutClaimed of the stage.
func (u *upload) put(ctx context.Context, e stage.Entry, body io.Reader, check func(stage.Arrived) error) (stage.Arrived, error) {
	a, err := u.stages.PutClaimed(ctx, u.caller, u.stage, e, body, check)
	if err == nil {
		u.accepted = append(u.accepted, a.Receipt)
		if u.header != nil {
			tellOther(u.header, &a)
		}
	}
	return a, err
}

// transaction stores files in a stage of its own and commits it, or nothing. The commit
// confirms each accepted file.
func (x *exchange) transaction(l stage.Labels, fill func(u *upload) error) (stage.Committed, error) {
	st, _, err := x.stages.Open(x.r.Context(), x.who.Caller, stage.Spec{Labels: l, Build: x.who.Build})
	if err != nil {
		return stage.Committed{}, err
	}
	u := &upload{stages: x.stages, caller: x.who.Caller, stage: st.ID, header: x.w.Header()}
	if err := fill(u); err != nil {
		x.abandon(u.caller, u.stage)
		return stage.Committed{}, err
	}
	done, err := x.stages.Commit(x.r.Context(), u.caller, u.stage, stage.Commit{Accepted: u.accepted})
	if err != nil {
		x.abandon(u.caller, u.stage)
	}
	return done, err
}

// enter puts a content that the depot has into a stage, so that it does not go
// with the build that brought it first. ok is false if the client must send it.
func (h *service) enter(ctx context.Context, c stage.Caller, id, path string, f stage.Found) (r stage.Receipt, ok bool, err error) {
	return h.stages.Enter(ctx, c, id, stage.Entry{Path: path, Size: f.Size, Ref: f.Ref})
}

// abandon frees a stage. The request may be over.
func (h *service) abandon(c stage.Caller, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.stages.Abandon(ctx, owner(c), id); err != nil {
		h.log.Warn("an upload that failed could not be abandoned; it expires", "stage", id, "error", err)
	}
}

// trimSlash cuts the final slash of a URL.
func trimSlash(s string) string { return strings.TrimSuffix(s, "/") }

// base is the URL below which the intakes have their paths: with the token and the
// product and version in the path of the request.
func (x *exchange) base() string { return x.in.Origin + x.in.Base + x.t.prefix }

// SendToken says where a token goes in a request that lacks one.
const SendToken = "send a token in the header Authorization: Bearer TOKEN"

func (x *exchange) notWriter() error {
	if x.who.Anonymous {
		return &failure{x.t.face.noCredential, "an upload needs a token with the scope write; " +
			"make one with: symdepot token new --name NAME --scope write; " + SendToken}
	}
	return &failure{http.StatusForbidden, x.who.Name + " may not write: an upload needs a token with the scope write; " +
		"make one with: symdepot token new --name NAME --scope write"}
}
