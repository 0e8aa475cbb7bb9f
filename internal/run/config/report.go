package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// report is the effective configuration, without secrets.
type report struct {
	General   general    `yaml:"general" json:"general"`
	Access    access     `yaml:"access" json:"access"`
	Upstreams []resolved `yaml:"upstreams" json:"upstreams"`
	Warnings  []string   `yaml:"-" json:"warnings"`
}

type general struct {
	File       string          `yaml:"file" json:"file"`
	Depot      string          `yaml:"depot" json:"depot"`
	DepotGroup string          `yaml:"depot_group,omitempty" json:"depot_group,omitempty"`
	Listen     string          `yaml:"listen" json:"listen"`
	Public     bool            `yaml:"public" json:"public"`
	TLS        string          `yaml:"tls" json:"tls"`
	Hosts      []string        `yaml:"hosts,flow,omitempty" json:"hosts,omitempty"`
	Origins    []string        `yaml:"origins,flow,omitempty" json:"origins,omitempty"`
	NoEgress   bool            `yaml:"no_egress" json:"no_egress"`
	FromEnv    bool            `yaml:"from_env" json:"from_env"`
	Stores     []resolvedStore `yaml:"stores,omitempty" json:"stores,omitempty"`
	Watch      []watched       `yaml:"watch,omitempty" json:"watch,omitempty"`
	Cold       string          `yaml:"cold" json:"cold"`
}

type watched struct {
	Dir     string `yaml:"dir" json:"dir"`
	Product string `yaml:"product,omitempty" json:"product,omitempty"`
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
}

type resolvedStore struct {
	Dir    string `yaml:"dir" json:"dir"`
	Layout string `yaml:"layout" json:"layout"`
}

// access describes who may read and write.
type access struct {
	Anonymous string          `yaml:"anonymous" json:"anonymous"`
	Methods   []string        `yaml:"methods" json:"methods"`
	Admitted  string          `yaml:"admitted,omitempty" json:"admitted,omitempty"`
	Grants    []resolvedGrant `yaml:"grants,omitempty" json:"grants,omitempty"`
	Tokens    string          `yaml:"tokens" json:"tokens"`
	Audit     string          `yaml:"audit" json:"audit"`
}

type resolvedGrant struct {
	Who    []string `yaml:"who,flow" json:"who"`
	Reads  string   `yaml:"reads" json:"reads"`
	Public string   `yaml:"public,omitempty" json:"public,omitempty"`
	Writes string   `yaml:"writes" json:"writes"`
}

// resolved is an upstream with its effective values.
type resolved struct {
	Name        string   `yaml:"name" json:"name"`
	Preset      string   `yaml:"preset,omitempty" json:"preset,omitempty"`
	Type        string   `yaml:"type" json:"type"`
	Address     string   `yaml:"address" json:"address"`
	Rank        int      `yaml:"rank" json:"rank"`
	Layout      string   `yaml:"layout" json:"layout"`
	Casing      string   `yaml:"casing" json:"casing"`
	TwoTier     string   `yaml:"two_tier" json:"two_tier"`
	Kinds       []string `yaml:"kinds,flow,omitempty" json:"kinds,omitempty"`
	Names       []string `yaml:"names,flow,omitempty" json:"names,omitempty"`
	NeverAsk    []string `yaml:"never_ask,flow,omitempty" json:"never_ask,omitempty"`
	Executables bool     `yaml:"executables" json:"executables"`
	Checksum    bool     `yaml:"requires_checksum,omitempty" json:"requires_checksum,omitempty"`
	Forbidden   bool     `yaml:"forbidden_is_absent,omitempty" json:"forbidden_is_absent,omitempty"`
	HasIndex    bool     `yaml:"has_index,omitempty" json:"has_index,omitempty"`
	Forms       string   `yaml:"forms,omitempty" json:"forms,omitempty"`
	Compressed  bool     `yaml:"compressed" json:"compressed"`
	Pointers    bool     `yaml:"pointers" json:"pointers"`
	UserAgent   string   `yaml:"user_agent,omitempty" json:"user_agent,omitempty"`
	Headers     []string `yaml:"headers,flow,omitempty" json:"headers,omitempty"` // names only
	Credentials string   `yaml:"credentials" json:"credentials"`
	Concurrency int      `yaml:"concurrency" json:"concurrency"`
	Timeout     string   `yaml:"timeout" json:"timeout"`
}

// formsWord returns the value of the key forms.
func formsWord(public bool) string {
	if public {
		return upstream.FormsPublic
	}
	return ""
}

// Report prints the effective configuration without secrets. depotDir is the
// depot's folder. Warnings are written to warn, or into the JSON object.
func (c *Config) Report(out, warn io.Writer, asJSON bool, depotDir string) error {
	specs, err := c.Specs()
	if err != nil {
		return err
	}
	r := report{General: c.general(depotDir), Upstreams: make([]resolved, 0, len(specs)), Warnings: append([]string{}, c.Warnings(specs)...)}
	r.Warnings = append(r.Warnings, c.MissingStores()...)
	if r.Access, err = c.access(); err != nil {
		return err
	}
	for _, s := range specs {
		r.Upstreams = append(r.Upstreams, resolve(s))
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	for _, w := range r.Warnings {
		fmt.Fprintln(warn, "warning:", term.Printable(w))
	}
	if r.General.File == "" {
		r.General.File = "none: the defaults and the environment"
	}
	text, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// MissingStores says which stores are not folders.
func (c *Config) MissingStores() (warnings []string) {
	for _, s := range c.Stores {
		if !isDir(s.Dir) {
			warnings = append(warnings, "stores: "+s.Dir+" is not a folder; the server does not start without it")
		}
	}
	return warnings
}

func (c *Config) general(depotDir string) general {
	if abs, err := filepath.Abs(depotDir); err == nil && !address.IsDatabase(depotDir) {
		depotDir = abs
	}
	g := general{File: c.file, Depot: depotDir, DepotGroup: c.Depot.Group, Listen: c.Listen, Public: c.Public, TLS: c.TLS.words(),
		Hosts: c.Hosts, Origins: c.Origins, NoEgress: c.NoEgress, FromEnv: c.FromEnv}
	for _, s := range c.Stores {
		g.Stores = append(g.Stores, resolvedStore{s.Dir, cmp.Or(s.Layout, "auto")})
	}
	for _, w := range c.Watch {
		g.Watch = append(g.Watch, watched{w.Dir, w.Product, w.Version})
	}
	g.Cold = "off"
	if after := c.Cold.After; after > 0 {
		g.Cold = fmt.Sprintf("files that were not used for %s, %s a second, at most %s restored", after, c.Cold.Rate, c.Cold.Near)
	}
	return g
}

func (t *TLS) words() string {
	var words string
	switch {
	case !t.Enabled():
		return "off: plain HTTP"
	case len(t.ACME.Domains) > 0:
		words = "ACME certificate for " + strings.Join(t.ACME.Domains, ", ")
	default:
		words = "certificate " + t.Cert
	}
	switch {
	case t.RequireClientCert:
		words += "; client certificates required"
	case t.ClientCA != "":
		words += "; client certificates of " + t.ClientCA
	}
	return words
}

// access describes who may read and write which products.
func (c *Config) access() (access, error) {
	gate := c.Access()
	anonymous, err := gate.Anonymous()
	if err != nil {
		return access{}, err
	}
	a := access{Anonymous: "nothing: credentials are required", Methods: []string{"tokens (header, password or /t/TOKEN)"},
		Tokens: "have their own rights; see symdepot token list", Audit: "off"}
	if anonymous.Admitted {
		a.Anonymous = "reads " + products(anonymous.All, anonymous.Products)
		if anonymous.ReadsPublic() {
			a.Anonymous += ", and the public forms of " + products(anonymous.PublicAll, anonymous.Public)
		}
	}
	if gate.Users != "" {
		a.Methods = append(a.Methods, "passwords of "+gate.Users)
	}
	if gate.Keytab != "" {
		a.Methods = append(a.Methods, "Kerberos with "+gate.Keytab)
	}
	if len(gate.Certificates) > 0 {
		a.Methods = append(a.Methods, "client certificates")
	}
	if gate.SignIn != nil {
		a.Methods = append(a.Methods, "browsers at "+gate.SignIn.Issuer)
	}
	who := strings.Join(gate.Policy.Admit, ", ")
	switch {
	case len(a.Methods) == 1 && len(gate.Policy.Admit) == 0:
	case who == "" && len(gate.Policy.Grants) == 0:
		a.Admitted = "every authenticated principal, who reads all products"
	case len(gate.Policy.Grants) == 0:
		a.Admitted = who + ", who read all products"
	case who != "":
		a.Admitted = who + ", with the rights of their grants"
	}
	for _, g := range gate.Policy.Grants {
		rights := resolvedGrant{Who: g.Who, Reads: grantWords(g, g.Read), Writes: grantWords(g, g.Write)}
		if len(g.Public) > 0 {
			rights.Public = products(slices.Contains(g.Public, auth.AllProducts), g.Public)
		}
		a.Grants = append(a.Grants, rights)
	}
	if f := c.Auth.Audit.File; f != "" {
		a.Audit = f
	}
	return a, nil
}

func grantWords(g auth.Grant, list []string) string {
	return products(g.Admin || slices.Contains(list, auth.AllProducts), list)
}

// products returns a text for a list of products.
func products(all bool, list []string) string {
	switch {
	case all:
		return "all products"
	case len(list) == 0:
		return "nothing"
	}
	var words []string
	for _, p := range list {
		if p == "" {
			p = "files without a product"
		}
		words = append(words, p)
	}
	return strings.Join(words, ", ")
}

// defaultTimeout is that of package upstream, and of the tag of the key timeout.
const defaultTimeout = term.Duration(10 * time.Second)

func resolve(s upstream.Spec) resolved {
	g := s.Guard
	r := resolved{
		Name: s.Name, Preset: s.Preset, Type: s.Type, Address: s.Shown(), Rank: g.Rank, Executables: g.Executables, Checksum: g.RequiresChecksum,
		Forbidden: s.Forbidden403, HasIndex: s.HasIndex, Forms: formsWord(s.Guard.Public), Compressed: !s.NoCompressed, UserAgent: s.UserAgent,
		Pointers: !s.NoPointers && s.Type != upstream.TypeBucket,
		Names:    g.NamePatterns, NeverAsk: g.NeverAsk,
		Layout: cmp.Or(s.Layout, "auto"), Casing: cmp.Or(s.Casing, "default"), TwoTier: cmp.Or(s.TwoTier, "auto"),
		Timeout: cmp.Or(term.Duration(s.Timeouts.Header), defaultTimeout).String(), Credentials: credentialWords(s),
		Concurrency: cmp.Or(g.Concurrency, upstream.DefaultConcurrency),
	}
	for _, k := range g.Kinds {
		r.Kinds = append(r.Kinds, k.String())
	}
	for k := range s.Header {
		r.Headers = append(r.Headers, http.CanonicalHeaderKey(k))
	}
	slices.Sort(r.Headers)
	return r
}

// credentialWords returns the kind of credentials, without the credentials.
func credentialWords(s upstream.Spec) string {
	kind := ""
	switch c := s.Bucket.(type) {
	case *bucket.S3Config:
		kind = c.Auth
	case *bucket.GCSConfig:
		kind = c.Auth
	case *bucket.AzureConfig:
		kind = c.Auth
	}
	k := s.Credentials
	switch {
	case s.Bucket != nil && kind == "":
		return "from the keys of the bucket or the environment"
	case s.Bucket != nil:
		return kind
	case k.Token != "":
		return "bearer token"
	case k.User != "" || k.Password != "" || s.Type == upstream.TypeHTTP && strings.Contains(s.URL, "@"):
		return "basic"
	case k.Negotiate:
		return "ticket of the Windows user"
	case k.HeadersFile != "":
		return "headers of " + k.HeadersFile
	}
	return "none"
}

// Warnings lists probable mistakes: removed keys, credentials sent in clear
// text, missing folders.
func (c *Config) Warnings(specs []upstream.Spec) []string {
	list := append([]string(nil), c.warnings...)
	for _, s := range specs {
		k := s.Credentials
		secret := k.Token != "" || k.Password != "" || k.User != "" || k.HeadersFile != "" || k.Negotiate || strings.Contains(s.URL, "@")
		if secret && strings.HasPrefix(strings.ToLower(s.URL), "http://") {
			list = append(list, s.Name+": credentials are sent over plain HTTP, which anyone on the network path can read; use https")
		}
		if w := folderWarning(s); w != "" {
			list = append(list, w)
		}
	}
	return list
}

// folderWarning returns why an upstream that is a folder cannot be read now, or
// "".
func folderWarning(s upstream.Spec) string {
	if s.Type != upstream.TypeFolder {
		return ""
	}
	info, err := os.Stat(s.URL)
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v; it will be tried again later", s.Name, err)
	case !info.IsDir():
		return s.Name + ": " + s.URL + " is not a folder"
	}
	return ""
}
