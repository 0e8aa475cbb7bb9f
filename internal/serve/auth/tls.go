package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// TLSConfig configures the TLS of a listener: certificates from files or by ACME,
// and client certificates.
type TLSConfig struct {
	// Cert and Key are PEM files: the certificate, followed by its chain, and
	// its key. They are reloaded when they change.
	Cert, Key string
	// ACME obtains certificates automatically; Cert and Key must be empty.
	ACME *ACMEConfig
	// ClientCA is a PEM file of the authorities for client certificates. It is
	// reloaded when it changes.
	ClientCA string
	// RequireClientCert fails the handshake of clients without a certificate.
	RequireClientCert bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// LetsEncrypt is the directory URL of Let's Encrypt, the default authority.
const LetsEncrypt = autocert.DefaultACMEDirectory

// ACMEConfig configures certificates from an ACME authority (RFC 8555). They are
// renewed when a third of their lifetime is left.
type ACMEConfig struct {
	// Domains are the names to get certificates for. The handshake of clients
	// that ask for a different name fails.
	Domains []string
	// Dir stores the account and the certificates. No other server may use it.
	Dir string
	// Email, if not empty, is the contact address for the authority.
	Email string
	// Directory is the URL of the authority; empty is Let's Encrypt.
	Directory string
	// AcceptTerms: the operator agrees to the authority's terms. It is
	// required.
	AcceptTerms bool
	// Client makes the requests to the authority; nil is http.DefaultClient.
	Client *http.Client
}

// TLS is the TLS configuration of a listener, kept up to date. The caller must
// close it.
type TLS struct {
	cfg    TLSConfig
	log    *slog.Logger
	ends   *endpoints // records every certificate that is used; may be nil
	pair   *reloaded[tls.Certificate]
	cas    *reloaded[x509.CertPool]
	acme   *autocert.Manager
	base   *tls.Config
	stop   chan struct{}
	done   sync.WaitGroup
	closed sync.Once
}

// NewTLS reads the files; errors name them. The gate decides whether client
// certificates are requested and whether HTTP/2 is offered; without a gate, client
// certificates are requested if ClientCA is set.
func NewTLS(cfg TLSConfig, g *Gate, log *slog.Logger) (*TLS, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &TLS{cfg: cfg, log: log, stop: make(chan struct{})}
	if g != nil {
		t.ends = &g.ends
	}
	var err error
	switch {
	case cfg.ACME != nil && (cfg.Cert != "" || cfg.Key != ""):
		return nil, errors.New("cert and acme exclude each other; remove one")
	case cfg.ACME != nil:
		if t.acme, err = newACME(cfg.ACME); err != nil {
			return nil, err
		}
	case cfg.Cert == "" || cfg.Key == "":
		return nil, errors.New("TLS needs a certificate and its key")
	default:
		if t.pair, err = newReloaded(log, []string{cfg.Cert, cfg.Key}, t.readPair); err != nil {
			return nil, err
		}
	}
	if cfg.ClientCA != "" {
		t.cas, err = newReloaded(log, []string{cfg.ClientCA}, func(b [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(b[0]) {
				return nil, fmt.Errorf("%s: contains no certificate", cfg.ClientCA)
			}
			return pool, nil
		})
		if err != nil {
			return nil, err
		}
	}
	t.base = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if g == nil || g.HTTP2() {
		t.base.NextProtos = []string{"h2", "http/1.1"}
	}
	if t.base.ClientAuth, err = clientAuth(&cfg, g); err != nil {
		return nil, err
	}
	if t.base.ClientAuth != tls.NoClientCert {
		// A resumed session would restore the verification by an authority that
		// may have been removed since.
		t.base.SessionTicketsDisabled = true
	}
	t.base.GetCertificate = t.certificate
	if t.acme != nil {
		t.base.NextProtos = append(t.base.NextProtos, acme.ALPNProto)
	}
	t.done.Go(func() { every(pollEvery, t.stop, t.Reload) })
	return t, nil
}

func clientAuth(cfg *TLSConfig, g *Gate) (tls.ClientAuthType, error) {
	var rules certRules
	if g != nil {
		rules = g.rules
	}
	for i, r := range rules {
		if cfg.ClientCA == "" && r.SHA256 == "" {
			return 0, fmt.Errorf("certificate rule %d needs tls.client_ca; only sha256 rules work without", i+1)
		}
	}
	switch {
	case cfg.RequireClientCert && cfg.ClientCA != "":
		return tls.RequireAndVerifyClientCert, nil
	case cfg.RequireClientCert && len(rules) > 0:
		return tls.RequireAnyClientCert, nil
	case cfg.RequireClientCert:
		return 0, errors.New("require_client_cert needs client_ca or a certificate rule")
	case g != nil:
		return g.ClientAuth(cfg.ClientCA != ""), nil
	case cfg.ClientCA != "":
		return tls.VerifyClientCertIfGiven, nil
	}
	return tls.NoClientCert, nil
}

// Expires returns the end of the certificate; the zero time for one that is renewed by
// itself.
func (t *TLS) Expires() time.Time {
	if t.pair == nil {
		return time.Time{}
	}
	return t.pair.get().Leaf.NotAfter
}

// Covers returns an error if the certificate is not for a host. One that is obtained
// by itself covers all.
func (t *TLS) Covers(host string) error {
	if t.pair == nil {
		return nil
	}
	return t.pair.get().Leaf.VerifyHostname(host)
}

func (t *TLS) readPair(b [][]byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(b[0], b[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", t.cfg.Cert, t.cfg.Key, err)
	}
	if left := c.Leaf.NotAfter.Sub(t.cfg.Now()); left < 0 {
		t.log.Error("the certificate has expired", "file", t.cfg.Cert, "end", c.Leaf.NotAfter)
	} else if left < 7*24*time.Hour {
		t.log.Warn("the certificate expires soon", "file", t.cfg.Cert, "end", c.Leaf.NotAfter)
	}
	return &c, nil
}

// Config returns the configuration for a listener.
func (t *TLS) Config() *tls.Config {
	c := t.base.Clone()
	if t.cas != nil {
		c.ClientCAs = t.cas.get()
	}
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		switch {
		case t.acme != nil && slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}):
			// The ACME authority validates the name without a client certificate.
			now := t.base.Clone()
			now.ClientAuth = tls.NoClientCert
			return now, nil
		case t.cas != nil:
			t.cas.pollQuickly(t.cfg.Now())
			now := t.base.Clone()
			now.ClientCAs = t.cas.get()
			return now, nil
		}
		return nil, nil
	}
	return c
}

// certificate returns the certificate for a handshake.
func (t *TLS) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c, err := t.choose(hello)
	if err == nil && t.ends != nil {
		t.ends.add(c)
	}
	return c, err
}

func (t *TLS) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if t.acme != nil {
		return t.acme.GetCertificate(hello)
	}
	t.pair.pollQuickly(t.cfg.Now())
	return t.pair.get(), nil
}

// Reload reads the certificates again if they changed. It happens by itself every
// half a minute.
func (t *TLS) Reload() {
	if t.pair != nil {
		t.pair.poll()
	}
	if t.cas != nil {
		t.cas.poll()
	}
}

// Close stops the reloading.
func (t *TLS) Close() error {
	t.closed.Do(func() { close(t.stop) })
	t.done.Wait()
	return nil
}

// ChallengeHandler answers the HTTP challenges of an ACME authority on port 80
// and passes other requests to h. Without ACME it returns h. It is needed only
// if port 443 of the domain does not reach this server.
func (t *TLS) ChallengeHandler(h http.Handler) http.Handler {
	if t.acme == nil {
		return h
	}
	return t.acme.HTTPHandler(h)
}

func newACME(c *ACMEConfig) (*autocert.Manager, error) {
	switch {
	case len(c.Domains) == 0:
		return nil, errors.New("acme needs domains")
	case c.Dir == "":
		return nil, errors.New("acme needs dir, a folder for account and certificates")
	case !c.AcceptTerms:
		return nil, errors.New("acme needs accept_terms: true, your consent to the authority's terms")
	}
	for _, d := range c.Domains {
		if !strings.Contains(strings.Trim(d, "."), ".") || strings.ContainsAny(d, "*/: ") {
			return nil, fmt.Errorf("cannot get a certificate for %q: a name needs a dot and no *", d)
		}
	}
	// If RenewBefore is zero, it is a third of the lifetime.
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(c.Dir), Email: c.Email,
		HostPolicy: autocert.HostWhitelist(c.Domains...),
		Client:     &acme.Client{DirectoryURL: c.Directory, HTTPClient: c.Client, UserAgent: "symdepot"},
	}
	if c.Directory == "" {
		m.Client.DirectoryURL = LetsEncrypt
	}
	// Test now whether the folder is writable. Otherwise the first client would
	// fail, after the request has counted against the authority's weekly limit.
	if err := m.Cache.Put(context.Background(), "writable", []byte("\n")); err != nil {
		return nil, fmt.Errorf("cannot write to the ACME folder: %w", err)
	}
	return m, nil
}
