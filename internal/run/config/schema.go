package config

import (
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// Config is the configuration file. docs/config.md and `symdepot config print`
// are generated from its tags and from help.txt.
//
//   - yaml is the name of the key; help.txt says what it means.
//   - default is the value without the key. It is applied at the top level and in nested
//     maps. In lists it documents the default of the package that uses the value.
//   - enum lists the permitted values of a text.
//   - secret marks values that must never be printed.
//   - private marks names of people and command lines, which are left out of what leaves the machine.
type Config struct {
	Depot        Depot         `yaml:"depot"`
	Listen       string        `yaml:"listen" default:"127.0.0.1:8080" example:"0.0.0.0:8080"`
	BaseURL      string        `yaml:"base_url" example:"https://symbols.example.com"`
	Public       bool          `yaml:"public" default:"false" example:"true"`
	Hosts        []string      `yaml:"hosts" example:"[symbols.example.com]"`
	Origins      []string      `yaml:"origins" example:"['https://profiler.firefox.com']"`
	Proxies      []string      `yaml:"proxies" example:"[10.0.0.5, 10.1.0.0/16]"`
	Prefixes     []string      `yaml:"prefixes" example:"[corp/symbols]"`
	MakeCabinets bool          `yaml:"make_cabinets" default:"false" example:"true"`
	Stores       []Store       `yaml:"stores"`
	Watch        []Watch       `yaml:"watch"`
	Rescan       term.Duration `yaml:"rescan" default:"5m" example:"1h"`
	PointerRoots []string      `yaml:"pointer_roots" example:"['\\\\server\\builds=/mnt/builds']"`
	AdminFiles   string        `yaml:"admin_files" default:"false" example:"//server/symbols"`
	Log          Log           `yaml:"log"`
	Traces       Traces        `yaml:"traces"`
	TLS          TLS           `yaml:"tls"`
	Auth         Auth          `yaml:"auth"`
	Push         Push          `yaml:"push"`
	Sources      SourceLinks   `yaml:"sources"`
	NoEgress     bool          `yaml:"no_egress" default:"false" example:"true"`
	AllowNets    []string      `yaml:"allow_networks" example:"[10.20.0.0/16]"`
	AllowHosts   []string      `yaml:"allow_hosts" example:"[\"*.blob.core.windows.net\"]"`
	Upstreams    []Upstream    `yaml:"upstreams"`
	Misses       Misses        `yaml:"misses"`
	Transcoding  Transcoding   `yaml:"transcoding"`
	SymCache     SymCache      `yaml:"symcache"`
	Symbols      Symbols       `yaml:"symbols"`
	Cache        Cache         `yaml:"cache"`
	Cold         Cold          `yaml:"cold"`
	Crashes      Crashes       `yaml:"crashes"`
	Webhooks     []Webhook     `yaml:"webhooks"`

	// Audience is public if all callers get nothing but public forms of files; empty: what Auth
	// says. FilePath is what X-DEBUGINFOD-FILE says about the origin of a file: its name, the full
	// path as added (full), or nothing (none). FromEnv uses the servers of _NT_SYMBOL_PATH and
	// DEBUGINFOD_URLS as upstreams too, except this server. TwoTier serves index2.txt, so that
	// Microsoft's clients use two-tier paths. Flags set them.
	Audience string
	FilePath string
	FromEnv  bool
	TwoTier  bool

	file     string   // empty: no file was read
	sum      [32]byte // of what was read, without the keys that Reload takes
	demand   bool     // auth.demand as it was read: a flag may have set it since
	warnings []string
	lenient  bool // set by LoadForCheck
	getenv   func(string) string
}

// Depot locates the depot.
type Depot struct {
	Dir         string        `yaml:"dir" example:"/var/lib/symdepot"`
	Blobs       string        `yaml:"blobs" example:"s3://symbols/depot"`
	Local       string        `yaml:"local" example:"/var/cache/symdepot"`
	LocalSize   term.ByteSize `yaml:"local_size" default:"50GiB" example:"200GiB"`
	Group       string        `yaml:"group" example:"symbols"`
	ScrubRate   term.ByteSize `yaml:"scrub_rate" default:"8MiB" example:"32MiB"`
	Replicas    []string      `yaml:"replicas" example:"['postgres://symdepot@db2.example.com/symdepot']"`
	PeerListen  string        `yaml:"peer_listen" example:"10.0.0.1:8081"`
	PeerAddress string        `yaml:"peer_address" example:"node1.internal:8081"`
}

func (d *Depot) fromText(text string) error {
	d.Dir = text
	return nil
}

// Log configures the log.
type Log struct {
	Format   string `yaml:"format" default:"auto" enum:"auto,text,json" example:"json"`
	Requests bool   `yaml:"requests" default:"true" example:"false"`
}

// Traces configures where traces are sent.
type Traces struct {
	Endpoint string   `yaml:"endpoint" example:"http://collector.example.com:4318"`
	Trust    []string `yaml:"trust" example:"['*.corp.example.com', 10.0.0.0/8]"`
}

// Store is a folder of symbol files that is served in place.
type Store struct {
	Dir    string `yaml:"dir" example:"/srv/symbols"`
	Layout string `yaml:"layout" default:"auto" example:"unified"`
	Forms  string `yaml:"forms" enum:"public" example:"public"`
}

func (s *Store) fromText(text string) error {
	var err error
	s.Dir, s.Layout, err = splitStore(text)
	return err
}

// Watch is a folder that is indexed in place.
type Watch struct {
	Dir     string `yaml:"dir" example:"/srv/builds"`
	Product string `yaml:"product" example:"Game"`
	Version string `yaml:"version" example:"1.2.3"`

	// Typed means that a person has just named the folder on the command line, so that it
	// must exist.
	Typed bool
}

func (w *Watch) fromText(text string) error {
	w.Dir = text
	if dir, labels, ok := cutLast(text, "="); ok && !isDir(text) && !isParameter(dir) {
		w.Dir = dir
		w.Product, w.Version, _ = strings.Cut(labels, "/")
	}
	if w.Dir == "" || w.Product == "" && w.Version != "" {
		return errors.New("a folder is expected: DIR[=PRODUCT[/VERSION]]")
	}
	return nil
}

// isParameter reports whether a text is a bucket with the name of a parameter, such as
// s3://BUCKET/PREFIX?endpoint, whose value follows.
func isParameter(text string) bool {
	_, query, ok := strings.Cut(text, "?")
	if !ok || !address.IsBucket(text) {
		return false
	}
	return !strings.Contains(query[strings.LastIndexByte(query, '&')+1:], "=")
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// Push configures the limits of pushes.
type Push struct {
	MaxFile   term.ByteSize            `yaml:"max_file" default:"16GiB" example:"4GiB"`
	MaxOpen   int                      `yaml:"max_open" default:"32" example:"100"`
	MaxStaged term.ByteSize            `yaml:"max_staged" default:"0" example:"200GiB"`
	MinFree   term.ByteSize            `yaml:"min_free" default:"0" example:"50GiB"`
	Collect   term.Duration            `yaml:"collect" default:"5m" example:"15m"`
	Quotas    map[string]term.ByteSize `yaml:"quotas" example:"{Game: 500GiB}"`
	DenyOther bool                     `yaml:"deny_other" default:"false" example:"true"`
}

// SourceLinks has the rules for links to source files.
type SourceLinks struct {
	Srcsrv    map[string]string `yaml:"srcsrv" example:"{Game: refuse-commands, '*': flag}"`
	LinkHosts []string          `yaml:"link_hosts" example:"[github.com, '*.example.com']"`
	Relay     []string          `yaml:"relay" example:"[raw.githubusercontent.com]"`
}

// Misses configures the negative cache.
type Misses struct {
	Absent    term.Duration `yaml:"absent" default:"1h" example:"10m"`
	Forbidden term.Duration `yaml:"forbidden" default:"24h" example:"1h"`
}

// Transcoding configures the transcoders of this machine.
type Transcoding struct {
	Programs []string `yaml:"programs" private:"true" example:"['wpt=symcachegen.exe -pdb {pdb}']"`
	Jobs     int      `yaml:"jobs" default:"0" example:"2"`
	Scratch  string   `yaml:"scratch" example:"/var/tmp/sd"`
	Upgrades bool     `yaml:"upgrades" default:"true" example:"false"`
}

// SymCache configures the SymCache folders and the answers to Windows
// Performance Analyzer.
type SymCache struct {
	Folders     []string      `yaml:"folders" example:"[/srv/SymCache]"`
	Store       string        `yaml:"store" example:"/srv/SymCacheStore"`
	StoreBytes  term.ByteSize `yaml:"store_bytes" default:"0" example:"200GiB"`
	StoreUnused term.Duration `yaml:"store_unused" default:"0s" example:"90d"`
	Wait        term.Duration `yaml:"wait" default:"0s" example:"55s"`
	KeepPDB     bool          `yaml:"keep_pdb" default:"true" example:"false"`

	// HexAge reads the age in a request as hex too, among the files of the folders, if no file
	// has the decimal age. Redirect answers with a 302 redirect to a signed address of this
	// server, valid for five minutes, instead of with the file. Flags set them.
	HexAge   bool
	Redirect bool
}

// Symbols configures the making of symbol files and symbolication.
type Symbols struct {
	Make string        `yaml:"make" default:"held" enum:"off,held,upstreams" example:"upstreams"`
	Wait term.Duration `yaml:"wait" default:"30s" example:"2m"`
	// InProcess is in bytes.
	InProcess term.ByteSize `yaml:"in_process" default:"2GiB" example:"512MiB"`
}

// Cache configures the eviction of cached files.
type Cache struct {
	MaxBytes    term.ByteSize            `yaml:"max_bytes" default:"0" example:"200GiB"`
	MaxUnused   term.Duration            `yaml:"max_unused" default:"0s" example:"90d"`
	PerUpstream map[string]term.ByteSize `yaml:"per_upstream" example:"{microsoft: 100GiB}"`
}

// Cold configures the files that are kept as differences from similar ones.
type Cold struct {
	After term.Duration `yaml:"after" default:"0s" example:"14d"`
	Rate  term.ByteSize `yaml:"rate" default:"32MiB" example:"100MiB"`
	Near  term.ByteSize `yaml:"near" default:"8GiB" example:"50GiB"`
}

// Upstream is one remote server, bucket or folder. Keys that are not set have
// the preset's value, or the default of the type of upstream.
type Upstream struct {
	Name     string   `yaml:"name" example:"corp"`
	Preset   string   `yaml:"preset" example:"microsoft"`
	URL      string   `yaml:"url" example:"https://symbols.example.com/download/symbols"`
	Folder   string   `yaml:"folder" example:"/mnt/archive"`
	Layout   string   `yaml:"layout" default:"auto" example:"ssqp"`
	Rank     *int     `yaml:"rank" default:"0" example:"1"`
	Product  string   `yaml:"product" example:"windows"`
	Kinds    []string `yaml:"kinds" example:"[pdb, pe]"`
	Names    []string `yaml:"names" example:"['app*', '*.node']"`
	NeverAsk []string `yaml:"never_ask" example:"['oursecret*']"`

	Executables  *bool `yaml:"executables" default:"true" example:"false"`
	Forbidden403 *bool `yaml:"forbidden_is_absent" default:"false" example:"true"`

	HasIndex *bool `yaml:"has_index" default:"false" example:"true"`

	Forms string `yaml:"forms" enum:"public" example:"public"`

	Headers      map[string]string `yaml:"headers" secret:"true" example:"{X-Team: tools}"`
	HeadersFile  string            `yaml:"headers_file" example:"/etc/symdepot/headers"`
	User         string            `yaml:"user" private:"true" example:"reader"`
	PasswordFile string            `yaml:"password_file" example:"/run/secrets/password"`
	TokenFile    string            `yaml:"token_file" example:"/run/secrets/token"`
	Negotiate    *bool             `yaml:"negotiate" default:"false" example:"true"`

	Timeout term.Duration `yaml:"timeout" default:"10s" example:"30s"`

	text string // not empty: the item is this text
	line int    // first line of the item
}

func (u *Upstream) fromText(text string) error {
	u.text = text
	_, err := upstream.ParseUpstream(text)
	return err
}

func (u *Upstream) setLine(line int) { u.line = line }

// TLS configures the TLS of the listener.
type TLS struct {
	Cert              string `yaml:"cert" example:"/etc/symdepot/tls.crt"`
	Key               string `yaml:"key" example:"/etc/symdepot/tls.key"`
	ClientCA          string `yaml:"client_ca" example:"/etc/symdepot/clients.crt"`
	RequireClientCert bool   `yaml:"require_client_cert" default:"false" example:"true"`
	ACME              ACME   `yaml:"acme"`
}

// ACME configures certificates that are obtained automatically.
type ACME struct {
	Domains     []string `yaml:"domains" example:"[symbols.example.com]"`
	Dir         string   `yaml:"dir" example:"/var/lib/symdepot/acme"`
	Directory   string   `yaml:"directory" example:"https://acme.example.com/directory"`
	AcceptTerms bool     `yaml:"accept_terms" default:"false" example:"true"`
}

// Auth configures who may read and write which products.
type Auth struct {
	Demand       bool                `yaml:"demand" default:"false" example:"true"`
	Anonymous    []string            `yaml:"anonymous" example:"[public]"`
	Public       []string            `yaml:"public" example:"[engine]"`
	Admit        []string            `yaml:"admit" private:"true" example:"['*@CORP.EXAMPLE']"`
	Groups       map[string][]string `yaml:"groups" private:"true" example:"{tools: ['alice@CORP.EXAMPLE', 'basic:bob']}"`
	Grants       []Grant             `yaml:"grants"`
	UsersFile    string              `yaml:"users_file" example:"/etc/symdepot/users"`
	Basic        bool                `yaml:"basic" default:"false" example:"true"`
	Negotiate    Negotiate           `yaml:"negotiate"`
	Certificates []Certificate       `yaml:"certificates"`
	OIDC         []OIDC              `yaml:"oidc"`
	SignIn       SignIn              `yaml:"sign_in"`
	Audit        Audit               `yaml:"audit"`
}

// Grant gives rights to principals.
type Grant struct {
	Who    []string `yaml:"who" private:"true" example:"['group:tools']"`
	Read   []string `yaml:"read" example:"[app, driver]"`
	Public []string `yaml:"public" example:"[engine]"`
	Write  []string `yaml:"write" example:"[app]"`
	Admin  bool     `yaml:"admin" default:"false" example:"true"`
}

// Negotiate configures Kerberos.
type Negotiate struct {
	Keytab         string   `yaml:"keytab" example:"/etc/symdepot/http.keytab"`
	Principal      string   `yaml:"principal" private:"true" example:"svc-symdepot@CORP.EXAMPLE"`
	Groups         bool     `yaml:"groups" default:"false" example:"true"`
	Realms         []string `yaml:"realms" example:"['*.CORP.EXAMPLE']"`
	ChannelBinding bool     `yaml:"channel_binding" default:"false" example:"true"`
	PerConnection  bool     `yaml:"per_connection" default:"false" example:"true"`
}

// Certificate maps client certificates to a principal name.
type Certificate struct {
	Match string `yaml:"match" private:"true" example:"dns:*.build.corp.example"`
	Name  string `yaml:"name" private:"true" example:"build"`
}

// OIDC is a rule for the id tokens of CI jobs.
type OIDC struct {
	Issuer   string            `yaml:"issuer" example:"https://token.actions.githubusercontent.com"`
	Audience string            `yaml:"audience" example:"https://symbols.example.com"`
	JWKSFile string            `yaml:"jwks_file" example:"/etc/symdepot/gitlab.jwks"`
	Match    map[string]string `yaml:"match" private:"true" example:"{repository_owner_id: '9919', ref: 'refs/heads/*'}"`
	Write    []string          `yaml:"write" example:"[Game]"`
	Read     bool              `yaml:"read" default:"false" example:"true"`
	Public   []string          `yaml:"public" example:"[engine]"`
	Name     string            `yaml:"name" example:"ci/{repository}"`
	Product  string            `yaml:"product" example:"Game"`
	Branch   string            `yaml:"branch" example:"{ref}"`
	Class    string            `yaml:"class" example:"nightly"`
}

// SignIn configures the OpenID provider at which people sign in.
type SignIn struct {
	Issuer           string   `yaml:"issuer" example:"https://login.example.com/realms/corp"`
	ClientID         string   `yaml:"client_id" example:"symdepot"`
	ClientSecretFile string   `yaml:"client_secret_file" example:"/run/secrets/oidc"`
	Scopes           []string `yaml:"scopes" example:"[email, groups]"`
	NameClaim        string   `yaml:"name_claim" default:"email" example:"preferred_username"`
	GroupsClaim      string   `yaml:"groups_claim" example:"groups"`
}

// Crashes says for how long crash dumps are kept.
type Crashes struct {
	Keep term.Duration `yaml:"keep" default:"0s" example:"30d"`
}

// Webhook is told of files that crashes lacked when a build brings them.
type Webhook struct {
	URL        string `yaml:"url" private:"true" example:"https://crashes.example.com/hooks/symbols"`
	SecretFile string `yaml:"secret_file" example:"/run/secrets/webhook"`
}

// Audit configures the audit log.
type Audit struct {
	File string `yaml:"file" example:"/var/log/symdepot/audit.jsonl"`
	Keep int    `yaml:"keep" default:"90" example:"365"`
}

var errFolder = errors.New("a folder is expected")

// splitPointerRoot splits [PREFIX=]DIR.
func splitPointerRoot(text string) (prefix, dir string) {
	if prefix, dir, ok := strings.Cut(text, "="); ok {
		return prefix, dir
	}
	return "", text
}
