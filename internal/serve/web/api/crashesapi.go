package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// crashesAPI answers requests for the crash dumps that are kept.
type crashesAPI struct{ *web.Crashes }

func (a crashesAPI) routes() []route {
	return []route{
		on(http.MethodGet, "v1/crashes", a.list), on(http.MethodGet, "v1/crashes/*", a.read), on(http.MethodDelete, "v1/crashes/*", a.remove),
		on(http.MethodPost, "v1/crashes/*/stack", a.stack),
	}
}

// list answers GET crashes.
func (a crashesAPI) list(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "limit", "cursor"); err != nil {
		return err
	}
	limit, after, err := web.ReadPage(r.URL.Query(), "crashes")
	if err != nil {
		return err
	}
	list, next, err := a.List(r, limit, after)
	if err != nil {
		return err
	}
	return web.WriteList(w, r, "crashes", list, next)
}

// read answers GET crashes/ID: the dump.
func (a crashesAPI) read(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := web.OnlyParameters(r); err != nil {
		return err
	}
	d, f, err := a.Open(r, args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	web.Finish(w, r)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": d.Name}))
	h.Set("Content-Length", strconv.FormatInt(f.Size(), 10))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	for {
		r.Allow(0)
		if _, err := io.CopyN(w, f, dumpPart); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", web.ErrCut, err)
		}
	}
}

// dumpPart is how many bytes are sent before the time of the answer begins anew.
const dumpPart = 1 << 20

// remove answers DELETE crashes/ID.
func (a crashesAPI) remove(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := web.OnlyParameters(r); err != nil {
		return err
	}
	if err := a.Remove(r, args[0]); err != nil {
		return err
	}
	web.Finish(w, r)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stack answers POST crashes/ID/stack: the stacks, with the files that are there now.
func (a crashesAPI) stack(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := web.OnlyParameters(r); err != nil {
		return err
	}
	s, err := a.Stacks(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, s)
}
