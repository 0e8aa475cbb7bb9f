package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/oidc"
)

// policy returns the configured access policy.
func (a *Auth) policy() auth.PolicyConfig {
	p := auth.PolicyConfig{Demand: a.Demand, Anonymous: a.Anonymous, Public: a.Public, Admit: a.Admit, Groups: a.Groups}
	for _, g := range a.Grants {
		p.Grants = append(p.Grants, auth.Grant(g))
	}
	return p
}

// rule parses the key match.
func (r Certificate) rule() (auth.CertRule, error) {
	rule := auth.CertRule{Name: r.Name}
	kind, value, ok := strings.Cut(r.Match, ":")
	to := map[string]*string{"sha256": &rule.SHA256, "cn": &rule.CN, "dns": &rule.DNS, "email": &rule.Email, "uri": &rule.URI}[kind]
	if !ok || to == nil || value == "" {
		return rule, fmt.Errorf("sha256:, cn:, dns:, email: or uri: and a pattern are expected, not %q", r.Match)
	}
	*to = value
	return rule, nil
}

// Access returns who may read and write what, and by which credentials.
func (c *Config) Access() auth.Config {
	a, n := &c.Auth, &c.Auth.Negotiate
	cfg := auth.Config{
		Policy: a.policy(), Users: a.UsersFile, Basic: a.Basic,
		Keytab: n.Keytab, KeytabPrincipal: n.Principal, TicketGroups: n.Groups, PerConnection: n.PerConnection,
		Realms: n.Realms, RequireChannelBinding: n.ChannelBinding,
	}
	for _, r := range a.Certificates {
		if rule, err := r.rule(); err == nil { // CheckAuth reports the others
			cfg.Certificates = append(cfg.Certificates, rule)
		}
	}
	for i := range a.OIDC {
		cfg.OIDC = append(cfg.OIDC, a.OIDC[i].rule())
	}
	cfg.SignIn, _, _ = c.signIn() // CheckAuth reports the error
	return cfg
}

// signIn returns the configuration of the OpenID provider at which people sign in; nil:
// none. An error is returned with its key.
func (c *Config) signIn() (*oidc.LoginConfig, string, error) {
	const at = "auth.sign_in"
	s := &c.Auth.SignIn
	if s.Issuer == "" {
		if s.ClientID != "" || s.ClientSecretFile != "" {
			return nil, at + ".issuer", errors.New("the URL of the provider is expected")
		}
		return nil, "", nil
	}
	value, key, err := (secret{key: "client_secret", file: s.ClientSecretFile}).read(c.getenv, at+".")
	if c.lenient && errors.Is(err, fs.ErrNotExist) {
		c.warn(fmt.Sprintf("%s.%s: %v; the server does not start without this file", at, key, err))
		value, err = missingSecret, nil
	}
	if err != nil {
		return nil, at + "." + key, err
	}
	l := &oidc.LoginConfig{
		Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: value, Scopes: s.Scopes, Name: s.NameClaim,
		Groups: s.GroupsClaim,
	}
	if err := l.Check(); err != nil {
		return nil, at, err
	}
	return l, "", nil
}

// checkBaseURL checks the key base_url.
func (c *Config) checkBaseURL() error {
	if c.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || strings.HasSuffix(u.Path, "/") {
		return c.fault(0, "base_url", "a URL without a final slash is expected, such as https://symbols.example.com, not %q", c.BaseURL)
	}
	return nil
}

func (r *OIDC) rule() oidc.Rule {
	return oidc.Rule{Issuer: r.Issuer, Audience: r.Audience, KeysFile: r.JWKSFile, Match: r.Match, Write: r.Write, Read: r.Read,
		Public: r.Public, Name: r.Name, Product: r.Product, Branch: r.Branch, Class: r.Class}
}

// CheckAuth checks the keys auth and tls without opening files.
func (c *Config) CheckAuth() error {
	var errs []error
	if _, err := auth.NewPolicy(c.Auth.policy()); err != nil {
		errs = append(errs, c.fault(0, "auth", "%v", err))
	}
	for i, r := range c.Auth.Certificates {
		if _, err := r.rule(); err != nil {
			errs = append(errs, c.fault(0, fmt.Sprintf("auth.certificates[%d].match", i), "%v", err))
		}
	}
	for i := range c.Auth.OIDC {
		rule := c.Auth.OIDC[i].rule()
		if err := rule.Check(); err != nil {
			errs = append(errs, c.fault(0, fmt.Sprintf("auth.oidc[%d]", i), "%v", err))
		}
	}
	if _, key, err := c.signIn(); err != nil {
		errs = append(errs, c.fault(0, key, "%v", err))
	}
	errs = append(errs, c.checkBaseURL())
	t := &c.TLS
	acme := len(t.ACME.Domains) > 0
	switch {
	case acme && (t.Cert != "" || t.Key != ""):
		errs = append(errs, c.fault(0, "tls", "cert and key exclude acme; remove either"))
	case t.Enabled() && !acme && (t.Cert == "" || t.Key == ""):
		errs = append(errs, c.fault(0, "tls", "cert and key must both be set"))
	case !t.Enabled() && (t.ClientCA != "" || t.RequireClientCert):
		errs = append(errs, c.fault(0, "tls", "client certificates need TLS: set cert and key, or acme"))
	}
	return errors.Join(errs...)
}

// Enabled reports whether the listener uses TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || t.Key != "" || len(t.ACME.Domains) > 0 }
