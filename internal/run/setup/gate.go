package setup

import (
	"cmp"

	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// Gate returns the options for the authorization of requests.
func Gate(c *config.Config) auth.Config {
	cfg := c.Access()
	cfg.OIDCClient = Dialer(c).ClientFor
	return cfg
}

// TLSOptions returns the options of the listener's TLS, nil for plain HTTP.
func TLSOptions(c *config.Config) *auth.TLSConfig {
	t := &c.TLS
	if !t.Enabled() {
		return nil
	}
	cfg := &auth.TLSConfig{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, RequireClientCert: t.RequireClientCert}
	if a := t.ACME; len(a.Domains) > 0 {
		cfg.ACME = &auth.ACMEConfig{
			Client:  Dialer(c).ClientFor(cmp.Or(a.Directory, auth.LetsEncrypt)),
			Domains: a.Domains, Dir: a.Dir, Directory: a.Directory, AcceptTerms: a.AcceptTerms,
		}
	}
	return cfg
}

// AuditOptions returns the options of the audit log, nil without an audit log.
func AuditOptions(c *config.Config) *auth.AuditConfig {
	f := c.Auth.Audit
	if f.File == "" {
		return nil
	}
	return &auth.AuditConfig{File: f.File, MaxBytes: auditFileBytes, Keep: f.Keep}
}
