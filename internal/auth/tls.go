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

// TLSConfig says how a listener proves itself, by files or by certificates
// that it gets on its own, and what it asks of clients.
type TLSConfig struct {
	// Cert and Key are PEM files: the certificate with those that lead to
	// its authority behind it, and its key. They are read again when they
	// change.
	Cert, Key string
	// ACME gets certificates by itself; with it, Cert and Key are empty.
	ACME *ACMEConfig
	// ClientCA is a PEM file of the authorities whose client certificates
	// count; it too is read again.
	ClientCA string
	// RequireClientCert ends the handshake with clients that have none.
	RequireClientCert bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// LetsEncrypt is the directory URL of the authority that is asked by default.
const LetsEncrypt = autocert.DefaultACMEDirectory

// ACMEConfig says how certificates are got from an authority that speaks ACME.
// They are renewed when a third of their lifetime is left.
type ACMEConfig struct {
	// Domains are the names to get certificates for. Clients that ask for
	// another are turned away.
	Domains []string
	// Dir keeps account and certificates; it must be this server's alone.
	Dir string
	// Email, if not empty, is where the authority writes to.
	Email string
	// Directory is the URL of the authority; empty is Let's Encrypt.
	Directory string
	// AcceptTerms says that the operator agrees to the authority's terms;
	// without, nothing is asked for.
	AcceptTerms bool
	// Client makes the requests to the authority; nil is http.DefaultClient.
	Client *http.Client
}

// TLS follows the files of a listener. It must be closed.
type TLS struct {
	cfg    TLSConfig
	log    *slog.Logger
	pair   *reloaded[tls.Certificate]
	cas    *reloaded[x509.CertPool]
	acme   *autocert.Manager
	base   *tls.Config
	stop   chan struct{}
	done   sync.WaitGroup
	closed sync.Once
}

// NewTLS reads the files; errors name them. g says whether certificates of
// clients are asked for and whether HTTP/2 is offered; nil asks for none unless
// ClientCA is given.
func NewTLS(cfg TLSConfig, g *Gate, log *slog.Logger) (*TLS, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &TLS{cfg: cfg, log: log, stop: make(chan struct{})}
	var err error
	switch {
	case cfg.ACME != nil && (cfg.Cert != "" || cfg.Key != ""):
		return nil, errors.New("certificates come from files or from an authority, not from both")
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
				return nil, fmt.Errorf("%s: holds no certificate", cfg.ClientCA)
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
		// A resumed session would bring back what an authority vouched for
		// that may be gone by now.
		t.base.SessionTicketsDisabled = true
	}
	t.base.GetCertificate = t.certificate
	if t.acme != nil {
		t.base.NextProtos = append(t.base.NextProtos, acme.ALPNProto)
	}
	t.done.Go(func() { every(pollEvery, t.stop, t.poll) })
	return t, nil
}

func clientAuth(cfg *TLSConfig, g *Gate) (tls.ClientAuthType, error) {
	var rules certRules
	if g != nil {
		rules = g.rules
	}
	for i, r := range rules {
		if cfg.ClientCA == "" && r.SHA256 == "" {
			return 0, fmt.Errorf("certificate rule %d needs the authorities of client certificates; only fingerprints do without", i+1)
		}
	}
	switch {
	case cfg.RequireClientCert && cfg.ClientCA != "":
		return tls.RequireAndVerifyClientCert, nil
	case cfg.RequireClientCert && len(rules) > 0:
		return tls.RequireAnyClientCert, nil
	case cfg.RequireClientCert:
		return 0, errors.New("client certificates are required, but there are no authorities to check them by")
	case g != nil:
		return g.ClientAuth(cfg.ClientCA != ""), nil
	case cfg.ClientCA != "":
		return tls.VerifyClientCertIfGiven, nil
	}
	return tls.NoClientCert, nil
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

// Config returns what a listener needs.
func (t *TLS) Config() *tls.Config {
	c := t.base.Clone()
	if t.cas != nil {
		c.ClientCAs = t.cas.get()
	}
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		switch {
		case t.acme != nil && slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}):
			// The authority, which makes sure of a name, has no certificate.
			now := t.base.Clone()
			now.ClientAuth = tls.NoClientCert
			return now, nil
		case t.cas != nil:
			t.cas.glance(t.cfg.Now())
			now := t.base.Clone()
			now.ClientCAs = t.cas.get()
			return now, nil
		}
		return nil, nil
	}
	return c
}

func (t *TLS) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if t.acme != nil {
		return t.acme.GetCertificate(hello)
	}
	t.pair.glance(t.cfg.Now())
	return t.pair.get(), nil
}

// poll looks for changed files.
func (t *TLS) poll() {
	if t.pair != nil {
		t.pair.poll()
	}
	if t.cas != nil {
		t.cas.poll()
	}
}

// Close ends what runs beside. The files are not followed any more.
func (t *TLS) Close() error {
	t.closed.Do(func() { close(t.stop) })
	t.done.Wait()
	return nil
}

// ChallengeHandler answers what an authority asks on port 80 when it makes
// sure of a name, and gives all else to h. Without ACME it is h. It is needed
// only if port 443 does not lead here.
func (t *TLS) ChallengeHandler(h http.Handler) http.Handler {
	if t.acme == nil {
		return h
	}
	return t.acme.HTTPHandler(h)
}

func newACME(c *ACMEConfig) (*autocert.Manager, error) {
	switch {
	case len(c.Domains) == 0:
		return nil, errors.New("ACME needs the names to get certificates for")
	case c.Dir == "":
		return nil, errors.New("ACME needs a folder to keep certificates in")
	case !c.AcceptTerms:
		return nil, errors.New("ACME needs your consent to the terms of the authority")
	}
	for _, d := range c.Domains {
		if !strings.Contains(strings.Trim(d, "."), ".") || strings.ContainsAny(d, "*/: ") {
			return nil, fmt.Errorf("%q is no name that a certificate could be got for; it needs a dot and no *", d)
		}
	}
	// Left alone, RenewBefore is a third of the lifetime, whatever that is.
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(c.Dir), Email: c.Email,
		HostPolicy: autocert.HostWhitelist(c.Domains...),
		Client:     &acme.Client{DirectoryURL: c.Directory, HTTPClient: c.Client, UserAgent: "symdepot"},
	}
	if c.Directory == "" {
		m.Client.DirectoryURL = LetsEncrypt
	}
	// A folder that cannot be written would only show when the first client
	// comes, and then use up what the authority allows in a week.
	if err := m.Cache.Put(context.Background(), "writable", []byte("\n")); err != nil {
		return nil, fmt.Errorf("the ACME folder cannot be written: %w", err)
	}
	return m, nil
}
