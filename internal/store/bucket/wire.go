package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/glob"
)

const (
	userAgent = "symdepot"
	// maxPage is the largest size of a listing page: a thousand escaped keys of
	// maximum length with their attributes.
	maxPage = 16 << 20
	// maxErrorBody is the number of bytes that are read of an error response.
	maxErrorBody = 64 << 10
	pageKeys     = 1000
	// expectAbove is the body size in bytes above which a request waits for
	// "100 Continue".
	expectAbove = 1 << 20
)

// roundTripper is the RoundTripper that all three stores use.
type roundTripper struct {
	next http.RoundTripper
}

func (p roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	if req.Header.Get("Accept-Encoding") == "" { // prevents decompression by net/http
		req.Header.Set("Accept-Encoding", "identity")
	}
	if req.ContentLength > expectAbove {
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := p.next.RoundTrip(req)
	if err == nil && resp.StatusCode >= 300 {
		resp.Body = limited{io.LimitReader(resp.Body, maxErrorBody), resp.Body}
	}
	return resp, err
}

// noRedirects prevents redirects: the stores need none, and a signature or token must
// not be sent to another host.
func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// newClient returns an HTTP client for one of the stores.
func newClient(via http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{Transport: roundTripper{via}, CheckRedirect: noRedirects, Timeout: timeout}
}

// exchange sends a request. For any status other than 2xx it returns the error
// that failed makes of the response. If the status is 401 and refused is not nil,
// it calls refused first.
func exchange(client *http.Client, req *http.Request, refused func(), failed func(*http.Response) error) (*http.Response, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer closeBody(resp)
	if resp.StatusCode == http.StatusUnauthorized && refused != nil {
		refused()
	}
	return nil, failed(resp)
}

// unexpected returns the error for a successful response that cannot be parsed.
func unexpected(resp *http.Response, err error) error {
	return &Error{Status: resp.StatusCode, Err: fmt.Errorf("invalid response: %w", err)}
}

// parseSize parses the size of an object. It returns -1 for an invalid one.
func parseSize(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// pages yields a listing page by page. next is the token of the following page,
// empty after the last one. It is sent as the parameter cursor.
func pages(query url.Values, cursor string, page func(url.Values) (list []Info, next string, err error)) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		query := maps.Clone(query)
		for {
			list, next, err := page(query)
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, info := range list {
				if !yield(info, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if next == query.Get(cursor) {
				yield(Info{}, errSamePage)
				return
			}
			query.Set(cursor, next)
		}
	}
}

var errSamePage = errors.New("the store returned the same listing page twice")

// bucketError converts the error of a request for the bucket itself: for such a
// request, 404 means that the bucket does not exist.
func bucketError(err error) error {
	if e := (*Error)(nil); errors.As(err, &e) && e.Status == http.StatusNotFound {
		e.Err = ErrNoBucket
	}
	return err
}

// errNoTransport prevents a fallback to the default transport.
var errNoTransport = errors.New("bucket: the RoundTripper is nil")

// failure converts an error response to an *Error.
func failure(status int, code string, retryAfter string, now time.Time) *Error {
	e := &Error{Status: status, Code: cleanCode(code), Err: errors.New("unexpected response")}
	switch {
	case status == http.StatusNotFound:
		e.Err = fs.ErrNotExist
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Err = fs.ErrPermission
	case status == http.StatusPreconditionFailed:
		e.Err = ErrPrecondition
	case status == http.StatusRequestedRangeNotSatisfiable:
		e.Err = ErrRange
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		e.Err = ErrThrottled
		e.Retry = retryTime(retryAfter, now)
	case status >= 500:
		e.Err = errors.New("the store reported a server error")
	case status >= 300 && status < 400:
		e.Err = errors.New("the store sent a redirect; redirects are not followed")
	}
	return e
}

// cleanCode returns the error code of a store if it is a plain word, because it
// is logged.
func cleanCode(s string) string {
	if len(s) > 64 {
		return ""
	}
	for _, c := range s {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return ""
		}
	}
	return s
}

// retryTime parses Retry-After: seconds or a date, at most one day ahead.
func retryTime(s string, now time.Time) time.Time {
	const most = 24 * time.Hour
	if n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64); err == nil {
		return now.Add(time.Duration(min(max(n, 0), int64(most/time.Second))) * time.Second)
	}
	t, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	if t.Sub(now) > most {
		return now.Add(most)
	}
	return t
}

// scrub removes the URL from an error of net/http, because it may contain a
// signature.
func scrub(err error) error {
	for {
		u := (*url.Error)(nil)
		if !errors.As(err, &u) {
			return err
		}
		err = u.Err
	}
}

// etag is a strong entity tag without its quotes, or empty.
func etag(s string) string {
	if strings.HasPrefix(s, "W/") {
		return ""
	}
	return strings.Trim(s, `"`)
}

// validTag reports whether s can be an entity tag of a store.
func validTag(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r > '~' })
}

func httpTime(s string) time.Time {
	t, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// escapeKey escapes all characters except letters, digits, "-._~" and those in
// keep. All stores and proxies interpret the result in the same way.
func escapeKey(key, keep string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// validText reports whether s is UTF-8 without control characters.
func validText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// validHeader reports whether s can be sent unchanged as a header.
func validHeader(s string) bool {
	return validText(s) && s == strings.TrimSpace(s)
}

// parseEndpoint parses the URL of a store.
func parseEndpoint(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Host == "" || u.Opaque != "", u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("bucket: invalid endpoint; use http://HOST or https://HOST, with an optional port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("bucket: endpoint %s://%s: must not have a user name, query or fragment", u.Scheme, u.Host)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// locate returns the URL of a store, given or the standard one, and the name of a
// prefix in a bucket there.
func locate(bucket, prefix, endpoint, standard string) (base *url.URL, name string, err error) {
	if base, err = parseEndpoint(cmp.Or(endpoint, standard)); err != nil {
		return nil, "", err
	}
	name = bucket + strings.TrimSuffix("/"+escapeKey(prefix, "/"), "/")
	if base.String() != standard {
		name += "?endpoint=" + url.QueryEscape(base.String())
	}
	return base, name, nil
}

// mayCarrySecret refuses to send secrets over plain HTTP, except to this
// machine.
func mayCarrySecret(u *url.URL) error {
	if u.Scheme == "https" || glob.IsLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("bucket: http://%s would send the token or signature unencrypted; use https", u.Host)
}

// hostIn reports whether u is https and its host is in hosts. An element of hosts
// that begins with a dot matches every host that ends with it.
func hostIn(u *url.URL, hosts ...string) bool {
	h := strings.ToLower(u.Hostname())
	for _, s := range hosts {
		if u.Scheme == "https" && (h == s || s[0] == '.' && strings.HasSuffix(h, s)) {
			return true
		}
	}
	return false
}

// cleanPrefix removes leading and trailing slashes from a prefix, and appends one
// slash if the result is not empty.
func cleanPrefix(s string) (string, error) {
	s = strings.Trim(s, "/")
	if s == "" {
		return "", nil
	}
	if !validKey(s) {
		return "", fmt.Errorf("bucket: prefix %q has empty, \".\" or \"..\" segments or control characters", s)
	}
	return s + "/", nil
}

// closeBody reads the rest of a short body, so that the connection can be
// reused.
func closeBody(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	resp.Body.Close()
}

// withoutCancel returns a context that the end of ctx does not cancel: a shared
// request must not fail because one of the waiting callers gave up.
func withoutCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), credentialTimeout)
}
