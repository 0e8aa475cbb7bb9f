package sspi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary a program that prints a token of the system, if
// SYMDEPOT_SSPI_TOKEN is set to a host, a comma, and the binding in hexadecimal
// digits.
func TestMain(m *testing.M) {
	job := os.Getenv("SYMDEPOT_SSPI_TOKEN")
	if job == "" {
		os.Exit(m.Run())
	}
	host, digits, _ := strings.Cut(job, ",")
	binding, err := hex.DecodeString(digits)
	if err == nil {
		var l Login
		if l, err = Begin(host, binding); err == nil {
			var token []byte
			if token, err = l.Next(nil); err == nil {
				fmt.Println(base64.StdEncoding.EncodeToString(token))
			}
			l.Close()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// server asks for the token "ticket for 127.0.0.1", or with legs for further
// tokens that answer its own, and records the tokens that it gets.
func server(t *testing.T, offer string, legs int) (url string, got *[]string) {
	t.Helper()
	got = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("body: %v", err)
		}
		var token []byte
		if value, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Negotiate "); ok {
			if token, err = base64.StdEncoding.DecodeString(value); err != nil {
				t.Errorf("token: %v", err)
			}
		}
		*got = append(*got, string(token))
		expected := "ticket for 127.0.0.1"
		if legs > 0 {
			expected = fmt.Sprintf("answer to %d", legs)
		}
		if string(token) == expected {
			_, _ = w.Write(body)
			return
		}
		leg := 0
		if string(token) == "ticket for 127.0.0.1" {
			leg = 1
		} else if _, err := fmt.Sscanf(string(token), "answer to %d", &leg); err == nil {
			leg++
		}
		reply := offer
		if leg > 0 {
			reply += " " + base64.StdEncoding.EncodeToString(fmt.Append(nil, leg))
		}
		w.Header().Add("WWW-Authenticate", reply)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

func allowed(*http.Request) bool { return true }

// fakeLogin answers the token of a server with "answer to" that token.
type fakeLogin struct {
	first  string
	closed *int
}

func (f fakeLogin) Next(challenge []byte) ([]byte, error) {
	if challenge == nil {
		return []byte(f.first), nil
	}
	return []byte("answer to " + string(challenge)), nil
}

func (f fakeLogin) Close() { *f.closed++ }

// logins counts those that were begun and closed.
type logins struct {
	first         string // the first token; empty: a ticket for the host
	begun, closed int
	bindings      []string
}

func (l *logins) begin(host string, binding []byte) (Login, error) {
	l.begun++
	l.bindings = append(l.bindings, string(binding))
	first := l.first
	if first == "" {
		first = "ticket for " + host
	}
	return fakeLogin{first, &l.closed}, nil
}

// TestTransport answers the challenge once, and sends tokens unasked afterwards.
func TestTransport(t *testing.T) {
	t.Parallel()
	const ticket, answer1, answer2 = "ticket for 127.0.0.1", "answer to 1", "answer to 2"
	for _, c := range []struct {
		legs int
		want []string
	}{
		{0, []string{"", ticket, ticket, ticket}},
		{1, []string{"", ticket, answer1, ticket, answer1, ticket, answer1}},
		{2, []string{"", ticket, answer1, answer2, ticket, answer1, answer2, ticket, answer1, answer2}},
	} {
		offer := "Negotiate"
		if c.legs == 0 {
			offer = "Basic realm=x, negotiate"
		}
		url, got := server(t, offer, c.legs)
		var l logins
		client := &http.Client{Transport: &Transport{Base: http.DefaultTransport, Allowed: allowed, Begin: l.begin}}
		for range 3 {
			resp, err := client.Post(url, "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || string(body) != "body" {
				t.Errorf("%d more tokens: status %d, body %q, error %v; want 200 and the body that was sent", c.legs, resp.StatusCode, body, err)
			}
		}
		if !slices.Equal(*got, c.want) {
			t.Errorf("%d more tokens: the server got %q, want %q", c.legs, *got, c.want)
		}
		if l.begun != 3 || l.closed != 3 {
			t.Errorf("%d more tokens: %d logins were begun and %d closed, want 3", c.legs, l.begun, l.closed)
		}
	}
}

// TestEndless stops after some tokens of a server that always asks for another.
func TestEndless(t *testing.T) {
	t.Parallel()
	url, got := server(t, "Negotiate", 1000)
	var l logins
	client := &http.Client{Transport: &Transport{Base: http.DefaultTransport, Allowed: allowed, Begin: l.begin}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || len(*got) != 1+maxTokens || l.closed != 1 {
		t.Errorf("status %d after %d requests, %d logins closed; want 401 after %d, 1 login", resp.StatusCode, len(*got), l.closed, 1+maxTokens)
	}
}

// TestNoTicket sends a ticket only where it is allowed and asked for.
func TestNoTicket(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, offer, authorization string
		allowed                    bool
		first                      string
		body                       io.Reader
		tokens                     []string // what the server got
	}{
		{"another host", "Negotiate", "", false, "", nil, []string{""}},
		{"another scheme", "Basic realm=Negotiate", "", true, "", nil, []string{""}},
		{"an Authorization of its own", "Negotiate", "Bearer x", true, "", nil, []string{""}},
		{"a token that is not base64", "Negotiate !", "", true, "", nil, []string{""}},
		{"a body that cannot be sent again", "Negotiate", "", true, "", io.MultiReader(strings.NewReader("x")), []string{""}},
		{"a wrong ticket", "Negotiate", "", true, "old", nil, []string{"", "old"}},
	} {
		url, got := server(t, c.offer, 0)
		l := logins{first: c.first}
		client := &http.Client{Transport: &Transport{Base: http.DefaultTransport, Allowed: func(*http.Request) bool { return c.allowed }, Begin: l.begin}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, c.body)
		if err != nil {
			t.Fatal(err)
		}
		if c.authorization != "" {
			req.Header.Set("Authorization", c.authorization)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: error %v, want the status 401", c.name, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || !slices.Equal(*got, c.tokens) {
			t.Errorf("%s: status %d, tokens %q, want 401 and %q", c.name, resp.StatusCode, *got, c.tokens)
		}
	}
}

// TestNTLM sends no NTLM token.
func TestNTLM(t *testing.T) {
	t.Parallel()
	url, got := server(t, "Negotiate", 0)
	l := logins{first: "NTLMSSP\x00\x01"}
	client := &http.Client{Transport: &Transport{Base: http.DefaultTransport, Allowed: allowed, Begin: func(host string, binding []byte) (Login, error) {
		inner, err := l.begin(host, binding)
		return kerberosOnly{inner}, err
	}}}
	if resp, err := client.Get(url); !errors.Is(err, ErrNTLM) || len(*got) != 1 {
		t.Errorf("response %v, error %v after %d requests; want %v after 1", resp, err, len(*got), ErrNTLM)
	}
}

// TestBegin asks the system for a ticket. A login without Kerberos has none.
func TestBegin(t *testing.T) {
	t.Parallel()
	l, err := Begin("127.0.0.1", []byte("tls-server-end-point:"))
	if runtime.GOOS != "windows" {
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("error %v, want %v", err, ErrUnsupported)
		}
		return
	}
	if err != nil {
		if !strings.Contains(err.Error(), "SEC_E_") {
			t.Errorf("error %v, want a login or a reason", err)
		}
		t.Skip(err)
	}
	defer l.Close()
	token, err := l.Next(nil)
	t.Logf("%d bytes, error %v", len(token), err)
	if err == nil && len(token) == 0 {
		t.Error("an empty token and no error")
	}
}

// TestBinding binds tokens to the certificate that the server shows, also after
// the server got a new one.
func TestBinding(t *testing.T) {
	t.Parallel()
	var certs [2]tls.Certificate
	var want [2]string
	for i := range certs {
		certs[i] = certificate(t)
		sum := sha256.Sum256(certs[i].Certificate[0])
		want[i] = "tls-server-end-point:" + string(sum[:])
	}
	current := 0 // the server's certificate; its handler accepts tokens bound to it
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Negotiate "+base64.StdEncoding.EncodeToString([]byte("ticket for 127.0.0.1 "+want[current])) {
			return
		}
		w.Header().Set("WWW-Authenticate", "Negotiate")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: certs[current : current+1]}, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	base := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	var l logins
	client := &http.Client{Transport: &Transport{Base: base, Allowed: allowed, Begin: func(host string, binding []byte) (Login, error) {
		inner, err := l.begin(host, binding)
		return fakeLogin{inner.(fakeLogin).first + " " + string(binding), &l.closed}, err
	}}}
	get := func(what string) {
		t.Helper()
		resp, err := client.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, want 200", what, resp.StatusCode)
		}
	}
	get("the first request")
	get("the second request")
	current = 1
	base.CloseIdleConnections()
	get("the first request with a new certificate")
	get("the second request with a new certificate")
	// The token for the old certificate is refused once.
	if w := []string{want[0], want[0], want[0], want[1], want[1]}; !slices.Equal(l.bindings, w) {
		t.Errorf("logins with the bindings %q, want %q", l.bindings, w)
	}
}

// certificate makes a certificate for 127.0.0.1.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestApplicationData compares the structure of a channel binding with the layout
// of SEC_CHANNEL_BINDINGS in sspi.h.
func TestApplicationData(t *testing.T) {
	t.Parallel()
	want := "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + // initiator: type, length, offset
		"\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + // acceptor
		"\x04\x00\x00\x00" + "\x20\x00\x00\x00" + "data"
	if got := applicationData([]byte("data")); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
