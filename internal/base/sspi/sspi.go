// Package sspi authenticates the current user of Windows to a server with the
// Kerberos ticket of the login, as browsers and debuggers do, without a password.
// The HTTP scheme is Negotiate (RFC 4559).
package sspi

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/base/binding"
)

// ErrUnsupported is the error of [Begin] on systems other than Windows.
var ErrUnsupported = errors.New("only Windows has a ticket of the current user; elsewhere use a token or a password")

// ErrNTLM is the error of [Begin] and [Login] if Windows has no Kerberos ticket
// for the host and offers NTLM instead. Such a token is not sent: its receiver can
// use it to log in to a third server, or compute the password from it.
var ErrNTLM = errors.New("there is no Kerberos ticket for this host, and NTLM is not used")

// A Login makes the tokens of one authentication.
type Login interface {
	// Next returns the token that follows the server's token, which is nil at
	// the start.
	Next(challenge []byte) ([]byte, error)
	Close()
}

// Begin starts the authentication of the current user to the HTTP service of a
// host, given without a port. A binding ties the tokens to the TLS connection (see
// package binding); nil is none. The caller closes the Login.
func Begin(host string, binding []byte) (Login, error) {
	l, err := begin(host, binding)
	if err != nil {
		return nil, err
	}
	return kerberosOnly{l}, nil
}

// kerberosOnly refuses NTLM tokens of a Login.
type kerberosOnly struct{ Login }

func (k kerberosOnly) Next(challenge []byte) ([]byte, error) {
	token, err := k.Login.Next(challenge)
	if err == nil && bytes.Contains(token, []byte("NTLMSSP\x00")) {
		return nil, ErrNTLM
	}
	return token, err
}

// maxTokens limits the tokens of one request. Kerberos needs one, and a second if
// the server prefers a different mechanism first.
const maxTokens = 4

// Transport adds the user's ticket to requests that a server refuses with 401 and
// the challenge Negotiate. From then on it adds one to every request to that
// server. A request with an Authorization field is sent unchanged, and a request
// whose body cannot be sent again is sent once. Over TLS, the tokens are bound to
// the certificate that the server showed last.
type Transport struct {
	Base http.RoundTripper
	// Allowed reports whether the host of a request may get a ticket.
	Allowed func(*http.Request) bool
	// Begin starts an authentication; nil means [Begin].
	Begin func(host string, binding []byte) (Login, error)

	asks  atomic.Bool            // the server has accepted a token
	bound atomic.Pointer[[]byte] // the binding of the server's last certificate
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" || !t.Allowed(req) {
		return t.Base.RoundTrip(req)
	}
	if !t.asks.Load() {
		resp, err := t.Base.RoundTrip(req)
		if err != nil || !repeatable(req) {
			return resp, err
		}
		if _, ok := challenge(resp); !ok {
			return resp, nil
		}
		t.bind(resp)
		discard(resp)
		if req, err = repeat(req); err != nil {
			return nil, err
		}
	}
	used := t.binding()
	resp, err := t.authenticate(req, used)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !repeatable(req) {
		return resp, err
	}
	if t.bind(resp); bytes.Equal(used, t.binding()) {
		return resp, nil
	}
	// The server has a new certificate since.
	discard(resp)
	if req, err = repeat(req); err != nil {
		return nil, err
	}
	return t.authenticate(req, t.binding())
}

// bind remembers the binding of the connection that a response came over.
func (t *Transport) bind(resp *http.Response) {
	var b []byte
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		b = binding.EndPoint(resp.TLS.PeerCertificates[0])
	}
	t.bound.Store(&b)
}

func (t *Transport) binding() []byte {
	if b := t.bound.Load(); b != nil {
		return *b
	}
	return nil
}

// applicationData returns a SEC_CHANNEL_BINDINGS of sspi.h, eight numbers of 32
// bits: both addresses are empty, and the binding follows as application data.
func applicationData(binding []byte) []byte {
	b := make([]byte, 24, 32+len(binding))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(binding)))
	b = binary.LittleEndian.AppendUint32(b, 32) // its offset
	return append(b, binding...)
}

// CloseIdleConnections closes those of the base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// authenticate sends a request with a token, and again for each token with which
// the server continues.
func (t *Transport) authenticate(req *http.Request, binding []byte) (*http.Response, error) {
	begin := t.Begin
	if begin == nil {
		begin = Begin
	}
	login, err := begin(strings.TrimSuffix(req.URL.Hostname(), "."), binding)
	if err != nil {
		return nil, unsent(req, err)
	}
	defer login.Close()
	var theirs []byte
	for n := 1; ; n++ {
		ours, err := login.Next(theirs)
		if err != nil {
			return nil, unsent(req, err)
		}
		signed := req.Clone(req.Context())
		signed.Header.Set("Authorization", scheme+" "+base64.StdEncoding.EncodeToString(ours))
		resp, err := t.Base.RoundTrip(signed)
		if err != nil {
			return nil, err
		}
		token, refused := challenge(resp)
		if !refused {
			if resp.StatusCode != http.StatusUnauthorized {
				t.asks.Store(true)
			}
			return resp, nil
		}
		if len(token) == 0 || n == maxTokens || !repeatable(req) {
			return resp, nil
		}
		discard(resp)
		if req, err = repeat(req); err != nil {
			return nil, err
		}
		theirs = token
	}
}

// repeatable reports whether a request can be sent again.
func repeatable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

// repeat returns a request that was sent, with its body from the start.
func repeat(req *http.Request) (*http.Request, error) {
	if req.GetBody == nil {
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	again := *req
	again.Body = body
	return &again, nil
}

// unsent closes the body of a request that is not sent, as [http.RoundTripper]
// demands, and returns err.
func unsent(req *http.Request, err error) error {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return err
}

// discard reads and closes a refusal, so that its connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
}

// scheme is the name of the authentication scheme.
const scheme = "Negotiate"

// challenge reports whether a response asks for Negotiate, and returns the
// server's token, if there is one.
func challenge(resp *http.Response) (token []byte, ok bool) {
	if resp.StatusCode != http.StatusUnauthorized {
		return nil, false
	}
	for _, v := range resp.Header.Values("WWW-Authenticate") {
		for offer := range strings.SplitSeq(v, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(offer), " ")
			if !strings.EqualFold(name, scheme) {
				continue
			}
			token, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
			return token, err == nil
		}
	}
	return nil, false
}
