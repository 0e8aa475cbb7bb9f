package mstools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

// httpStore is a symbol server, asked by path as debuggers ask it.
type httpStore struct {
	base    *url.URL
	client  *http.Client
	version string // of this program

	tiers sync.Once
	two   bool // the server has an index2.txt: names are in two tiers
}

// maxPointer is the largest size in bytes of a file.ptr.
const maxPointer = 64 << 10

// askTimeout limits one HEAD request. A server that first downloads the file from
// its own upstream takes long to answer.
const askTimeout = 2 * time.Minute

// connectTimeout limits each connection attempt.
const connectTimeout = 10 * time.Second

func (r *symstoreRun) openHTTPStore(name string) (*httpStore, error) {
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return nil, term.UsageError(name + " is not a URL with a host")
	}
	return &httpStore{
		base: u, client: upstream.NewDialer(upstream.DialerOptions{Connect: connectTimeout}).ClientFor(name),
		version: r.env.Version,
	}, nil
}

func (h *httpStore) where(stored string) string { return stored }

func (h *httpStore) answer(ctx context.Context, name string, all bool) ([]symstore.Answer, error) {
	keys, err := symstore.IdentifyFile(name, all)
	if err != nil {
		return nil, err
	}
	var list []symstore.Answer
	for _, k := range keys {
		found, err := h.find(ctx, k.Name, k.Key)
		if err != nil {
			return nil, err
		}
		list = append(list, symstore.Answer{Key: k, Found: found})
	}
	return list, nil
}

// at returns the URL of a path below the base.
func (h *httpStore) at(parts ...string) string {
	return h.base.JoinPath(parts...).Redacted()
}

// find looks a key up. It returns nil if the server does not have the key. It
// asks with the spelling of symbol stores first, then in lower case, which some
// servers require.
func (h *httpStore) find(ctx context.Context, name, key string) (*symstore.Found, error) {
	h.tiers.Do(func() {
		// Without index2.txt, or after an error, the server has one tier.
		h.two, _ = h.has(ctx, "index2.txt", true)
	})
	spellings := [][2]string{{name, key}}
	if l := strings.ToLower(name); l != name || strings.ToLower(key) != key {
		spellings = append(spellings, [2]string{l, strings.ToLower(key)})
	}
	tiers := []bool{false}
	if h.two {
		tiers = []bool{true, false}
	}
	for _, s := range spellings {
		for _, two := range tiers {
			store := layout.Dialect{Layout: layout.SymStore, TwoTier: two, Cabinets: true, Pointers: true}
			f, err := h.findAt(ctx, store.StorePlaces(s[0], s[1]), s[0])
			if f != nil || err != nil {
				return f, err
			}
		}
	}
	return nil, nil
}

// findAt asks for the forms of one file in turn. It returns nil if the server has
// none of them.
func (h *httpStore) findAt(ctx context.Context, places []layout.Place, name string) (*symstore.Found, error) {
	for _, p := range places {
		leaf := escapePath(p.Parts)
		f := &symstore.Found{Name: name, Dir: escapePath(p.Parts[:len(p.Parts)-1])}
		if p.Pointer {
			return h.pointer(ctx, leaf, f)
		}
		ok, err := h.has(ctx, leaf, false)
		if err != nil {
			return nil, err
		}
		switch {
		case !ok:
			continue
		case p.Packed:
			f.Compressed = h.at(leaf)
		default:
			f.Plain = h.at(leaf)
		}
		return f, nil
	}
	return nil, nil
}

// pointer completes f from a file.ptr. It returns nil if the server has none, or
// an empty one.
func (h *httpStore) pointer(ctx context.Context, leaf string, f *symstore.Found) (*symstore.Found, error) {
	body, err := h.get(ctx, leaf)
	if body == nil || err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxPointer))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	if f.Target = symstore.ParsePointer(data); f.Target == (symstore.Pointer{}) {
		return nil, nil
	}
	f.Pointer = h.at(leaf)
	return f, nil
}

func escapePath(parts []string) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = url.PathEscape(p)
	}
	return strings.Join(list, "/")
}

// has asks with HEAD whether the server has a file at a path. An empty file counts
// only if empty is set. has falls back to GET for servers without HEAD.
func (h *httpStore) has(ctx context.Context, path string, empty bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := h.ask(ctx, http.MethodHead, path)
	if err == nil && (resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented) {
		resp.Body.Close()
		resp, err = h.ask(ctx, http.MethodGet, path)
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	ok, err := h.judge(resp, path)
	return ok && (empty || resp.ContentLength != 0), err
}

// get opens a file. It returns nil if the server does not have it.
func (h *httpStore) get(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := h.ask(ctx, http.MethodGet, path)
	if err != nil {
		return nil, err
	}
	ok, err := h.judge(resp, path)
	if !ok || err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}

func (h *httpStore) ask(ctx context.Context, method, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, h.base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "symdepot/"+h.version)
	resp, err := h.client.Do(req)
	if err != nil && !errors.Is(err, context.Canceled) {
		// The error of net/http names the URL without its password.
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	return resp, err
}

// judge reports whether a response is a file. Some servers answer 200 with an HTML
// page instead of an error, which counts as not found like 404 and 410. Every
// other status is an error.
func (h *httpStore) judge(resp *http.Response, path string) (bool, error) {
	switch resp.StatusCode {
	case http.StatusOK:
		return !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), nil
	case http.StatusNotFound, http.StatusGone:
		return false, nil
	}
	return false, fmt.Errorf("%w: %s answers %s", errNoStore, h.at(path), resp.Status)
}
