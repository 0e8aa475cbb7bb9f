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

	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

// httpStore is a symbol server. It is queried by path, as debuggers do.
type httpStore struct {
	base    *url.URL
	client  *http.Client
	version string // of this program

	tiers sync.Once
	two   bool // index2.txt is there
}

// maxPointer is the size in bytes up to which a file.ptr is read.
const maxPointer = 64 << 10

// askTimeout limits one request for the existence of a file. A server that first
// downloads the file itself takes long.
const askTimeout = 2 * time.Minute

// connectTimeout bounds each connect.
const connectTimeout = 10 * time.Second

func (r *symstoreRun) openHTTPStore(name string) (*httpStore, error) {
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return nil, term.UsageError(name + " is no URL")
	}
	return &httpStore{base: u, client: upstream.NewDialer(upstream.DialerOptions{Connect: connectTimeout}).ClientFor(name), version: r.env.Version}, nil
}

func (h *httpStore) where(stored string) string { return stored }

func (h *httpStore) answer(ctx context.Context, name string, all bool) ([]symstore.Answer, error) {
	keys, err := identifyOnDisk(name, all)
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

// find looks a key up; nil if the server does not have it. It asks as stores
// spell keys, and then in lower case, which newer servers want.
func (h *httpStore) find(ctx context.Context, name, key string) (*symstore.Found, error) {
	h.tiers.Do(func() {
		// Without a word from the server one tier is what everybody assumes.
		h.two, _ = h.has(ctx, "index2.txt", true)
	})
	spellings := [][2]string{{name, key}}
	if l := strings.ToLower(name); l != name || strings.ToLower(key) != key {
		spellings = append(spellings, [2]string{l, strings.ToLower(key)})
	}
	for _, s := range spellings {
		folders := [][]string{{s[0], s[1]}}
		if h.two {
			folders = append([][]string{{layout.Bucket(s[0]), s[0], s[1]}}, folders...)
		}
		for _, dir := range folders {
			f, err := h.findIn(ctx, dir, s[0])
			if f != nil || err != nil {
				return f, err
			}
		}
	}
	return nil, nil
}

// findIn asks for the three forms in Microsoft's order.
func (h *httpStore) findIn(ctx context.Context, dir []string, name string) (*symstore.Found, error) {
	path := func(leaf string) string { return escapePath(append(dir[:len(dir):len(dir)], leaf)) }
	f := &symstore.Found{Name: name, Dir: escapePath(dir)}
	for _, form := range []struct {
		leaf string
		at   *string
	}{{name, &f.Plain}, {layout.CabinetName(name), &f.Compressed}} {
		ok, err := h.has(ctx, path(form.leaf), false)
		if err != nil {
			return nil, err
		}
		if ok {
			*form.at = h.at(path(form.leaf))
			return f, nil
		}
	}
	body, err := h.get(ctx, path("file.ptr"))
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
	f.Pointer = h.at(path("file.ptr"))
	return f, nil
}

func escapePath(parts []string) string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = url.PathEscape(p)
	}
	return strings.Join(list, "/")
}

// has asks with HEAD whether a path is there; empty says that an empty file
// counts. A server that does not know HEAD is asked with GET.
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

// get opens a path; nil if it is not there.
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
		// The error names the URL without its secrets.
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	return resp, err
}

// judge reports whether an answer is a file. Servers that are not asked well, or
// are ill, answer with pages for people; only 404 and 410 mean "not here".
func (h *httpStore) judge(resp *http.Response, path string) (bool, error) {
	switch resp.StatusCode {
	case http.StatusOK:
		return !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), nil
	case http.StatusNotFound, http.StatusGone:
		return false, nil
	}
	return false, fmt.Errorf("%w: %s answers %s", errNoStore, h.at(path), resp.Status)
}
