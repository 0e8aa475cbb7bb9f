package login

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/oauth2"

	"github.com/symdepot/symdepot/internal/base/term"
)

// deviceTime is how long a person has to type a code, if the server does not say.
const deviceTime = 10 * time.Minute

// Device signs a person in with a browser of any machine (RFC 8628). show is given the address
// that the person must open there, the code to type, and until when.
func (s *Logins) Device(ctx context.Context, server string, show func(address, code string, until time.Time)) (l Login, err error) {
	b, err := s.begin(ctx, server)
	if err != nil {
		return l, err
	}
	conf, asking := b.meta.config(), s.with(ctx, b.server)
	request, err := conf.DeviceAuth(asking, s.device())
	if err != nil {
		return l, refusal(ctx, b.server, ErrDenied, err)
	}
	if err := sameOrigin(b.server, request.VerificationURI); err != nil {
		return l, err
	}
	if request.DeviceCode == "" || !isPlain(request.UserCode) {
		return l, fmt.Errorf("%s: %w: its answer has no code", b.server, ErrNoSignIn)
	}
	if request.Expiry.IsZero() {
		request.Expiry = time.Now().Add(deviceTime)
	}
	show(term.Printable(request.VerificationURI), request.UserCode, request.Expiry)
	token, err := await(asking, conf, request)
	if err != nil {
		if ctx.Err() == nil && !time.Now().Before(request.Expiry) || errorCode(err) == "expired_token" {
			return l, fmt.Errorf("%s: %w: the code is no longer valid; run the command again", b.server, ErrNobody)
		}
		return l, refusal(ctx, b.server, ErrDenied, err)
	}
	return s.finish(ctx, b, token)
}

// await asks for the token until the person has decided, or the code ends. A server that does
// not answer is asked again, less often.
func await(ctx context.Context, conf *oauth2.Config, request *oauth2.DeviceAuthResponse) (*oauth2.Token, error) {
	for {
		token, err := conf.DeviceAccessToken(ctx, request)
		if err == nil || ctx.Err() != nil || !time.Now().Before(request.Expiry) {
			return token, err
		}
		if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok && !isAway(answer.Response.StatusCode) {
			return nil, err
		}
		request.Interval = max(request.Interval, 5) + 5 // section 3.5
	}
}

// errorCode returns the word of an OAuth 2.0 error.
func errorCode(err error) string {
	if answer, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return answer.ErrorCode
	}
	return ""
}
