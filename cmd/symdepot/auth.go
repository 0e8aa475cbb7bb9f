package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
)

// authConfig says who may read and write what.
type authConfig struct {
	Demand       bool                `yaml:"demand" default:"false" help:"Ask everybody for credentials. It goes without saying where admit, grants, users_file, certificates or negotiate.keytab are given and anonymous is not." example:"true"`
	Anonymous    []string            `yaml:"anonymous" help:"Products that can be read without credentials; \"*\" is all, \"\" is what has no product. Without this key and without the others: all." example:"[public]"`
	Admit        []string            `yaml:"admit" help:"Patterns of those who are let in, besides those whom grants name; empty without grants: everybody who has proved some identity." example:"['*@CORP.EXAMPLE']"`
	Groups       map[string][]string `yaml:"groups" help:"Lists of patterns by name, for group:NAME in admit and in grants." example:"{tools: ['alice@CORP.EXAMPLE', 'basic:bob']}"`
	Grants       []grantEntry        `yaml:"grants" help:"Rights; they add up. Without any, those who are admitted read everything. Tokens have their rights in themselves."`
	UsersFile    string              `yaml:"users_file" help:"File with a line user:hash for each user, as htpasswd -B writes them, read again when it changes. Empty: no passwords are taken, but tokens in their place." example:"/etc/symdepot/users"`
	Basic        bool                `yaml:"basic" default:"false" help:"Ask for Basic credentials too where negotiate.keytab is set. Without that, or with a users_file, they are asked for in any case." example:"true"`
	Realm        string              `yaml:"realm" default:"symdepot" help:"What browsers show when they ask for a password." example:"Symbols of Corp"`
	Negotiate    negotiateConfig     `yaml:"negotiate" help:"Kerberos, as Windows clients log in by themselves."`
	Certificates []certEntry         `yaml:"certificates" help:"Rules that give client certificates names; the first that fits counts. In patterns * stands for any characters but @."`
	Audit        auditConfig         `yaml:"audit" help:"Records of who read what is not for everybody."`
}

type grantEntry struct {
	Who   []string `yaml:"who" help:"Patterns of names, in which * stands for any characters but @; * alone is everybody who has proved some identity. In front may stand kerberos:, basic: or cert:. group:NAME is a group of this file, sid:S-1-… one of Windows." example:"['group:tools']"`
	Read  []string `yaml:"read" help:"Products; \"*\" is all, \"\" is what has no product." example:"[app, driver]"`
	Write []string `yaml:"write" help:"Likewise. Workers need \"*\"." example:"[app]"`
	Admin bool     `yaml:"admin" default:"false" help:"Everything." example:"true"`
}

type negotiateConfig struct {
	Keytab         string   `yaml:"keytab" help:"File of Kerberos keys, read again when it changes. Empty: no tickets are taken." example:"/etc/symdepot/http.keytab"`
	Principal      string   `yaml:"principal" help:"Principal whose keys are used whatever a ticket names, as where a service account holds the HTTP names. Empty: the HTTP principal that the ticket names." example:"svc-symdepot@CORP.EXAMPLE"`
	MaxClockSkew   span     `yaml:"max_clock_skew" default:"5m" help:"How far clocks may differ." example:"1m"`
	Groups         bool     `yaml:"groups" default:"false" help:"Read the Windows groups of tickets, for sid: in patterns." example:"true"`
	Realms         []string `yaml:"realms" help:"Patterns of client realms that are accepted besides the service's own, and no others. Empty: other realms whose path the KDC has checked, which Windows KDCs do not." example:"['*.CORP.EXAMPLE']"`
	ChannelBinding bool     `yaml:"channel_binding" default:"false" help:"Refuse tickets that are not bound to this server's TLS certificate. Without it, a binding is compared if the client sends one." example:"true"`
	PerConnection  bool     `yaml:"per_connection" default:"false" help:"Let a ticket count for the further requests of its connection, as some Windows clients expect. Never behind a proxy." example:"true"`
}

type certEntry struct {
	SHA256 string `yaml:"sha256" help:"Fingerprint of the certificate, in hex; it needs no authority." example:"0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"`
	CN     string `yaml:"cn" help:"Common name; this and the others count for certificates of tls.client_ca." example:"build-*"`
	DNS    string `yaml:"dns" help:"DNS name." example:"*.build.corp.example"`
	Email  string `yaml:"email" help:"Mail address." example:"*@corp.example"`
	URI    string `yaml:"uri" help:"URI." example:"spiffe://corp.example/*"`
	Name   string `yaml:"name" help:"The name it gives. Empty: what the condition matched." example:"build"`
}

type auditConfig struct {
	File     string `yaml:"file" help:"File that gets a JSON object per file read; older ones stand beside it with a time in their names. Empty: no records." example:"/var/log/symdepot/audit.jsonl"`
	MaxBytes size   `yaml:"max_bytes" default:"64MiB" help:"Size at which a new file is begun." example:"1GiB"`
	MaxAge   span   `yaml:"max_age" default:"24h" help:"Age at which a new file is begun." example:"7d"`
	Keep     int    `yaml:"keep" default:"90" help:"How many older files are kept; -1: all." example:"365"`
}

// tlsConfig says how the listener speaks TLS.
type tlsConfig struct {
	Cert              string     `yaml:"cert" help:"PEM file of the certificate, with those that lead to its authority behind it, read again when it changes. Empty, without acme: plain HTTP." example:"/etc/symdepot/tls.crt"`
	Key               string     `yaml:"key" help:"PEM file of its key." example:"/etc/symdepot/tls.key"`
	ClientCA          string     `yaml:"client_ca" help:"PEM file of the authorities whose client certificates count." example:"/etc/symdepot/clients.crt"`
	RequireClientCert bool       `yaml:"require_client_cert" default:"false" help:"Break connections off that come without one." example:"true"`
	ACME              acmeConfig `yaml:"acme" help:"Certificates that come by themselves, from Let's Encrypt or another authority that speaks ACME. Port 443 of the names must lead here."`
}

type acmeConfig struct {
	Domains     []string `yaml:"domains" help:"Names to get certificates for." example:"[symbols.example.com]"`
	Dir         string   `yaml:"dir" help:"Folder for account and certificates, this server's alone." example:"/var/lib/symdepot/acme"`
	Email       string   `yaml:"email" help:"Where the authority writes to." example:"admin@example.com"`
	Directory   string   `yaml:"directory" help:"URL of the authority. Empty: Let's Encrypt." example:"https://acme.example.com/directory"`
	AcceptTerms bool     `yaml:"accept_terms" default:"false" help:"You agree to the authority's terms; nothing is asked for without." example:"true"`
}

// policy is who may do what, as the gate takes it.
func (c *authConfig) policy() auth.PolicyConfig {
	p := auth.PolicyConfig{Demand: c.Demand, Anonymous: c.Anonymous, Admit: c.Admit, Groups: c.Groups}
	for _, g := range c.Grants {
		p.Grants = append(p.Grants, auth.Grant(g))
	}
	return p
}

// checkAuth finds what is wrong with auth and tls before any file is opened.
func (c *Config) checkAuth() error {
	var errs []error
	if _, err := auth.NewPolicy(c.Auth.policy()); err != nil {
		errs = append(errs, c.fault(0, "auth", "%v", err))
	}
	if t := &c.TLS; t.on() {
		switch acme := len(t.ACME.Domains) > 0; {
		case acme && (t.Cert != "" || t.Key != ""):
			errs = append(errs, c.fault(0, "tls", "certificates come from files or by acme, not both"))
		case !acme && (t.Cert == "" || t.Key == ""):
			errs = append(errs, c.fault(0, "tls", "cert and key go together"))
		}
	} else if t.ClientCA != "" || t.RequireClientCert {
		errs = append(errs, c.fault(0, "tls", "client certificates need a certificate of the server: cert and key, or acme"))
	}
	return errors.Join(errs...)
}

// on reports whether the listener speaks TLS.
func (t *tlsConfig) on() bool { return t.Cert != "" || t.Key != "" || len(t.ACME.Domains) > 0 }

// guard is what decides over the requests to a server.
type guard struct {
	gate  *auth.Gate
	tls   *auth.TLS   // nil: plain HTTP
	audit *auth.Audit // nil: no records
}

// guard opens what auth and tls name. Tokens are the depot's.
func (c *Config) guard(d *depot.Depot, log *slog.Logger) (*guard, error) {
	a, n := &c.Auth, &c.Auth.Negotiate
	cfg := auth.Config{
		Policy: a.policy(), Users: a.UsersFile, Basic: a.Basic, Realm: a.Realm,
		Keytab: n.Keytab, KeytabPrincipal: n.Principal, MaxClockSkew: time.Duration(n.MaxClockSkew), TicketGroups: n.Groups, PerConnection: n.PerConnection,
		Realms: n.Realms, RequireChannelBinding: n.ChannelBinding,
	}
	for _, r := range a.Certificates {
		cfg.Certificates = append(cfg.Certificates, auth.CertRule(r))
	}
	g := &guard{}
	var err error
	if g.gate, err = auth.New(cfg, tokenStore{d}, log); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	if t := &c.TLS; t.on() {
		cfg := auth.TLSConfig{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA, RequireClientCert: t.RequireClientCert}
		if len(t.ACME.Domains) > 0 {
			m := auth.ACMEConfig{
				Client: c.dialer().ClientFor(cmp.Or(t.ACME.Directory, auth.LetsEncrypt)), Domains: t.ACME.Domains, Dir: t.ACME.Dir, Email: t.ACME.Email, Directory: t.ACME.Directory, AcceptTerms: t.ACME.AcceptTerms,
			}
			cfg.ACME = &m
		}
		if g.tls, err = auth.NewTLS(cfg, g.gate, log); err != nil {
			return nil, errors.Join(fmt.Errorf("tls: %w", err), g.Close())
		}
	}
	if f := &a.Audit; f.File != "" {
		g.audit, err = auth.OpenAudit(auth.AuditConfig{File: f.File, MaxBytes: int64(f.MaxBytes), MaxAge: time.Duration(f.MaxAge), Keep: f.Keep}, log)
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Close writes what is not written yet.
func (g *guard) Close() error {
	var errs []error
	if g.audit != nil {
		errs = append(errs, g.audit.Close())
	}
	if g.tls != nil {
		errs = append(errs, g.tls.Close())
	}
	return errors.Join(append(errs, g.gate.Close())...)
}

// tokenStore is a depot as the gate asks it for tokens.
type tokenStore struct{ d *depot.Depot }

// TokenByHash implements auth.Store.
func (s tokenStore) TokenByHash(ctx context.Context, hash [32]byte) (auth.TokenRow, error) {
	row, err := s.d.TokenByHash(ctx, hash)
	return auth.TokenRow(row), err
}

// TouchToken implements auth.Store.
func (s tokenStore) TouchToken(ctx context.Context, used map[string]time.Time) error {
	return s.d.TouchToken(ctx, used)
}
