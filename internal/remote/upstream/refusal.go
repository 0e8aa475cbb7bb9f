package upstream

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
)

// refusal returns the failure that a response means, or nil if it may hold a
// file.
func (x *question) refusal(a *answer) error {
	h, status := x.h, a.resp.StatusCode
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusNonAuthoritativeInfo:
		return h.failed(fetch.ClassUnauthorized, "status 203, which Azure DevOps sends for invalid credentials")
	}
	class := ClassOfStatus(status)
	if class == fetch.ClassUnauthorized {
		return h.failed(class, "status %d: %s", status, h.howToSignIn(a))
	}
	if status >= 400 && strings.Contains(a.resp.Header.Get("Content-Type"), "xml") {
		if text, err := a.text(drainTime); err == nil {
			class = classOfCode(text, class)
		}
	} else {
		a.drain(a.resp)
	}
	if class == fetch.ClassForbidden && status == http.StatusForbidden && h.cfg.Forbidden403 {
		class = fetch.ClassNotFound
	}
	f := h.failed(class, "status %d", status)
	if class == fetch.ClassNotFound {
		f.Err = fmt.Errorf("%w: status %d", errNotFound, status)
	}
	f.Retry = h.retryAfter(a.resp.Header.Get("Retry-After"))
	if f.Class == fetch.ClassBroken && status == http.StatusServiceUnavailable && !f.Retry.IsZero() {
		f.Class = fetch.ClassBusy
	}
	if d, ok := symcache.ParseRetryAfter(a.resp.Header["Retry-After"]); ok && f.Class == fetch.ClassNotFound &&
		x.ask.Request.Form == layout.FormSymCache {
		f.Retry = h.now().Add(d)
	} else if f.Class != fetch.ClassBusy {
		f.Retry = time.Time{}
	}
	return f
}

// howToSignIn says what to do about an answer with status 401.
func (h *HTTP) howToSignIn(a *answer) string {
	text, err := a.text(drainTime)
	if err == nil && bytes.HasPrefix(text, []byte(wire.SignIn)) {
		return wire.SignIn + h.base.Scheme + "://" + h.base.Host + ", or give the upstream a token with token_file"
	}
	return "the server asks for credentials; give the upstream some with token_file, with user and password_file, or with headers_file"
}

// ClassOfStatus returns the class of a status other than 200; 204 is
// ClassAbsent.
func ClassOfStatus(status int) fetch.Class {
	switch status {
	case http.StatusUnauthorized:
		return fetch.ClassUnauthorized
	case http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusUnavailableForLegalReasons:
		return fetch.ClassForbidden
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return fetch.ClassTimeout
	case http.StatusTooManyRequests:
		return fetch.ClassBusy
	case http.StatusNoContent:
		return fetch.ClassNotFound
	}
	if status >= 400 && status < 500 {
		return fetch.ClassNotFound
	}
	return fetch.ClassBroken
}

// classOfCode returns the class for an S3-compatible error response, or class if
// its code is unknown.
func classOfCode(text []byte, class fetch.Class) fetch.Class {
	_, rest, ok := bytes.Cut(text, []byte("<Code>"))
	code, _, end := bytes.Cut(rest, []byte("</Code>"))
	if !ok || !end {
		return class
	}
	switch string(bytes.TrimSpace(code)) {
	case "NoSuchKey", "NoSuchBucket", "NotFound", "NoSuchVersion", "BlobNotFound":
		return fetch.ClassNotFound
	case "AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken",
		"AuthorizationHeaderMalformed", "AuthorizationQueryParametersError":
		return fetch.ClassForbidden
	case "SlowDown", "ServiceUnavailable", "TooManyRequests":
		return fetch.ClassBusy
	case "InternalError":
		return fetch.ClassBroken
	}
	return class
}

// retryAfter parses a Retry-After header field.
func (h *HTTP) retryAfter(s string) time.Time {
	now := h.now()
	if n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32); err == nil {
		return now.Add(min(time.Duration(n)*time.Second, longestRetry))
	}
	if at, err := http.ParseTime(s); err == nil && at.After(now) {
		if at.Sub(now) > longestRetry {
			return now.Add(longestRetry)
		}
		return at
	}
	return time.Time{}
}
