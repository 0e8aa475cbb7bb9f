package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// Config is the configuration file. The tags are its manual: docs/config.md and
// `symdepot config print` are made of them. Tag default is what holds without the
// key; at the top it is applied, in lists it is only told.
type Config struct {
	Depot        string          `yaml:"depot" help:"Folder of the depot. Empty: the platform's folder for data." example:"/var/lib/symdepot"`
	Listen       string          `yaml:"listen" default:"127.0.0.1:8080" help:"Address and port to answer on; port 0 picks a free one." example:"0.0.0.0:8080"`
	Public       bool            `yaml:"public" default:"false" help:"Allow an address that other machines reach, where everybody may read everything. It is not needed where auth says who may." example:"true"`
	Hosts        []string        `yaml:"hosts" help:"Host names of this server; requests for other names get 404. On loopback addresses localhost needs no entry." example:"[symbols.example.com]"`
	Origins      []string        `yaml:"origins" help:"Origins of web pages whose scripts may read symbol files in a browser; * allows all." example:"[https://profiler.firefox.com]"`
	Proxies      []string        `yaml:"proxies" help:"Addresses or networks of reverse proxies, which may open any number of connections." example:"[10.0.0.5, 10.1.0.0/16]"`
	Prefixes     []string        `yaml:"prefixes" help:"Other path prefixes under which everything is answered." example:"[corp/symbols]"`
	TwoTier      bool            `yaml:"two_tier" default:"false" help:"Answer index2.txt, so that Microsoft's clients ask with two-tier paths." example:"true"`
	MakeCabinets bool            `yaml:"make_cabinets" default:"false" help:"Make the cabinet (foo.pd_) of a PE, PDB or DBG file after the first request for it, in the background." example:"true"`
	FilePath     string          `yaml:"file_path" default:"name" enum:"name,full,none" help:"What X-DEBUGINFOD-FILE tells of where a file came from: its name, the full path as added, or nothing." example:"full"`
	Stores       []storeEntry    `yaml:"stores" help:"Trees of symbol files that are answered from as they are, after the depot. An item may also be one text: DIR[,layout=L]."`
	PointerRoots []pointerEntry  `yaml:"pointer_roots" help:"Folders into which the pointers of stores are followed. An item may also be one text: [PREFIX=]DIR."`
	AdminFiles   bool            `yaml:"admin_files" default:"false" help:"Answer a store's 000Admin and refs.ptr too, with source paths cut down to names." example:"true"`
	Log          logConfig       `yaml:"log" help:"What is logged, and how."`
	TLS          tlsConfig       `yaml:"tls" help:"How the listener proves itself."`
	Auth         authConfig      `yaml:"auth" help:"Who may read and write what; docs/auth.md has examples. Tokens are made with symdepot token new."`
	NoEgress     bool            `yaml:"no_egress" default:"false" help:"Connect nowhere, whatever else is configured." example:"true"`
	AllowNets    []string        `yaml:"allow_networks" help:"Networks that are not public and that redirects of upstreams may lead to all the same." example:"[10.20.0.0/16]"`
	AllowHosts   []string        `yaml:"allow_hosts" help:"Hosts that redirects of upstreams may lead to where an HTTP proxy resolves names; *.domain means all hosts below a domain. Other hosts must resolve to public addresses on this machine." example:"[\"*.blob.core.windows.net\"]"`
	FromEnv      bool            `yaml:"from_env" default:"false" help:"Ask the servers of _NT_SYMBOL_PATH and DEBUGINFOD_URLS too, but never this one." example:"true"`
	Upstreams    []upstreamEntry `yaml:"upstreams" help:"Who is asked for what neither the depot nor the stores have. An item may also be one text, as for --upstream: PRESET or URL[,layout=L][,rank=N]."`
	Fetch        fetchConfig     `yaml:"fetch" help:"How long upstreams are waited for."`
	Misses       missConfig      `yaml:"misses" help:"How long it is remembered that an upstream gave no file, by the reason. 0 is not at all."`
	Transcoding  transcoding     `yaml:"transcoding" help:"Programs of yours that make SymCache files for Windows Performance Analyzer, on this machine. Workers elsewhere need none of this: symdepot work."`
	SymCache     symCacheConfig  `yaml:"symcache" help:"Files for Windows Performance Analyzer that stand in folders, and how its requests are answered."`
	Cache        cacheConfig     `yaml:"cache" help:"When files that came from upstreams are let go of. What was added is never touched."`

	file   string // empty: none was read
	getenv func(string) string
}

type logConfig struct {
	Format   string `yaml:"format" default:"auto" enum:"auto,text,json" help:"Format of the log; auto is text on a terminal and json elsewhere." example:"json"`
	Requests bool   `yaml:"requests" default:"true" help:"Log every request, not only what goes wrong." example:"false"`
}

type storeEntry struct {
	Dir    string `yaml:"dir" help:"The folder." example:"/srv/symbols"`
	Layout string `yaml:"layout" default:"auto" help:"How it is arranged; auto finds it out." example:"unified"`
}

func (s *storeEntry) fromText(text string) error {
	var err error
	if s.Dir, s.Layout, err = storeFlagValue(text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "--store "+text+": "))
	}
	return nil
}

type pointerEntry struct {
	Prefix string `yaml:"prefix" help:"What pointers into this folder begin with. Empty: pointers that name the folder itself." example:"\\\\server\\builds"`
	Dir    string `yaml:"dir" help:"The folder." example:"/mnt/builds"`
}

func (p *pointerEntry) fromText(text string) error {
	p.Dir = text
	if prefix, dir, ok := strings.Cut(text, "="); ok {
		p.Prefix, p.Dir = prefix, dir
	}
	return nil
}

type fetchConfig struct {
	NextRank  span `yaml:"next_rank" default:"300ms" help:"How long the upstreams of one rank are waited for before the next rank is asked too." example:"1s"`
	FirstByte span `yaml:"first_byte" default:"3s" help:"How long an upstream may take to come to the first bytes, at less than min_rate." example:"10s"`
	Stall     span `yaml:"stall" default:"10s" help:"How long a transfer may stay below min_rate." example:"30s"`
	MinRate   size `yaml:"min_rate" default:"16KiB" help:"The slowest transfer that is waited for, per second." example:"4KiB"`
	MaxBytes  size `yaml:"max_bytes" default:"16GiB" help:"The most that a fetched file may have." example:"4GiB"`
	AtOnce    int  `yaml:"at_once" default:"64" help:"How many files may be fetched at once." example:"16"`
}

type missConfig struct {
	Absent    span `yaml:"absent" default:"1h" help:"The upstream says that it has no such file." example:"10m"`
	Forbidden span `yaml:"forbidden" default:"24h" help:"The upstream says that we may not have it." example:"1h"`
	Timeout   span `yaml:"timeout" default:"1m" help:"No answer came in time." example:"10s"`
	Broken    span `yaml:"broken" default:"10m" help:"The answer was none: an error of the server, a wrong or damaged file." example:"1m"`
	TooLarge  span `yaml:"too_large" default:"24h" help:"The file is larger than allowed." example:"7d"`
}

type transcoding struct {
	Programs []programEntry `yaml:"programs" help:"The programs, of one or several major versions. An item is one text, as for --transcoder: NAME[,OPTION...]=COMMAND."`
	Jobs     int            `yaml:"jobs" default:"0" help:"How many may run at once; 0: half of the processors." example:"2"`
	Scratch  string         `yaml:"scratch" help:"Folder to work in; keep its path short. Empty: .scratch in the depot." example:"/var/tmp/sd"`
	Upgrades bool           `yaml:"upgrades" default:"true" help:"Make files anew, in the background, that a newer version of a program would make better." example:"false"`
}

type programEntry struct {
	Name    string `yaml:"name" help:"What messages and records call it." example:"wpt"`
	Command string `yaml:"command" help:"The program and its arguments, as in --transcoder; {pdb} is the PDB." example:"symcachegen.exe -pdb {pdb}"`

	text string // as for --transcoder
}

func (p *programEntry) fromText(text string) error {
	p.text = text
	_, err := parseTranscoder(text)
	return err
}

// program reads the entry.
func (p *programEntry) program() (transcode.Program, error) {
	if p.text == "" {
		p.text = p.Name + "=" + p.Command
	}
	return parseTranscoder(p.text)
}

type cacheConfig struct {
	MaxBytes  size            `yaml:"max_bytes" default:"0" help:"The most that all fetched files may have together; 0: no limit." example:"200GiB"`
	MaxUnused span            `yaml:"max_unused" default:"0s" help:"How long a fetched file is kept that nobody asks for; 0: for ever." example:"90d"`
	PerSource map[string]size `yaml:"per_source" help:"The most that the files of one upstream may have, by its name." example:"{microsoft: 100GiB}"`
}

// upstreamEntry is one source. What it leaves out, the preset says, or the
// default of its kind.
type upstreamEntry struct {
	Name     string   `yaml:"name" help:"What logs, metrics and other keys call it. Default: the preset's name, or the address without its scheme." example:"corp"`
	Preset   string   `yaml:"preset" help:"A well-known server, by its name in the list of presets. Other keys change what it says." example:"microsoft"`
	URL      string   `yaml:"url" help:"Address of the server (http, https) or bucket (s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX)." example:"https://symbols.example.com/download/symbols"`
	Folder   string   `yaml:"folder" help:"A folder of this machine, fetched from instead of answered from: a slow disk, or one that comes and goes." example:"/mnt/archive"`
	Layout   string   `yaml:"layout" default:"auto" help:"How it is arranged: auto, symstore, symstore_index2, ssqp, breakpad, unified, gdb, lldb, debuginfod, slashsymbols, native, symcache (servers), flat (folders). auto asks as the client asked." example:"ssqp"`
	Casing   string   `yaml:"casing" default:"default" enum:"default,uppercase,lowercase" help:"Case of the letters in paths; default is that of the layout." example:"lowercase"`
	TwoTier  string   `yaml:"two_tier" default:"auto" enum:"auto,yes,no" help:"Whether paths have two tiers; auto asks for index2.txt." example:"no"`
	Rank     *int     `yaml:"rank" default:"0" help:"Lower ranks are asked first, those of one rank at once." example:"1"`
	Product  string   `yaml:"product" help:"Product through which its files are seen. Empty: like what was added without one." example:"windows"`
	Kinds    []string `yaml:"kinds" help:"Kinds of files it is asked for: pe, pdb, pdb2, portablepdb, msfz, dbg, elf, macho, wasm, breakpad, sourcebundle, symcache, r2rmap, bcsymbolmap, uuidmap, sha1, jsmap, il2cpp, proguard. Empty: all." example:"[pdb, pe]"`
	Names    []string `yaml:"names" help:"Patterns of the names it is asked for; * stands for anything, ? for one character, case does not count. Empty: all." example:"['app*', '*.node']"`
	IDs      []string `yaml:"ids" help:"Patterns of the ids it is asked for, likewise; hyphens do not count." example:"['3249d99d*']"`
	NeverAsk []string `yaml:"never_ask" help:"Patterns of names and ids that it must not hear of, such as those of unannounced products." example:"['oursecret*']"`

	Executables      *bool `yaml:"executables" default:"true" help:"Whether executables may come from it: debuggers load and trust some of them." example:"false"`
	RequiresChecksum *bool `yaml:"requires_checksum" default:"false" help:"Leave it out where the client sends no SymbolChecksum." example:"true"`
	Forbidden403     *bool `yaml:"forbidden_is_absent" default:"false" help:"A 403 means that there is no such file: so say buckets that may be read and not listed." example:"true"`
	Compressed       *bool `yaml:"compressed" default:"true" help:"Ask for foo.pd_ where foo.pdb is not there." example:"false"`
	Pointers         *bool `yaml:"pointers" default:"true" help:"Ask for file.ptr where neither is there, and follow it to http addresses." example:"false"`

	UserAgent    string            `yaml:"user_agent" help:"Default: what servers of its kind expect." example:"curl/8.0"`
	Headers      map[string]string `yaml:"headers" secret:"true" help:"Headers for every request to this server, never sent to where it redirects." example:"{X-Team: tools}"`
	HeadersFile  string            `yaml:"headers_file" help:"A file of such headers, one \"Name: value\" per line, read again when it changes." example:"/etc/symdepot/headers"`
	User         string            `yaml:"user" help:"For Basic authentication." example:"reader"`
	Password     string            `yaml:"password" secret:"true" help:"Likewise; with an empty user it may be a token." example:"secret"`
	PasswordFile string            `yaml:"password_file" help:"A file that holds it." example:"/run/secrets/password"`
	Token        string            `yaml:"token" secret:"true" help:"Bearer token, also for gs:// and az://." example:"secret"`
	TokenFile    string            `yaml:"token_file" help:"A file that holds it." example:"/run/secrets/token"`

	Concurrency int           `yaml:"concurrency" default:"16" help:"How many requests may be under way there at once." example:"4"`
	MaxBytes    size          `yaml:"max_bytes" default:"16GiB" help:"The most that a file may have." example:"2GiB"`
	Timeouts    timeoutConfig `yaml:"timeouts" help:"How long single steps may take. See fetch for how long clients wait."`
	Breaker     breakerConfig `yaml:"breaker" help:"When it is left alone because it fails, and for how long."`
	Bucket      bucketConfig  `yaml:"bucket" help:"For s3://, gs:// and az://. What is empty comes from the surroundings, as for the makers' own tools."`

	text string // the item was one text
	line int
}

func (u *upstreamEntry) fromText(text string) error {
	u.text = text
	_, err := upstream.ParseUpstream(text)
	return err
}

func (u *upstreamEntry) setLine(line int) { u.line = line }

type timeoutConfig struct {
	Connect span `yaml:"connect" default:"5s" help:"To connect." example:"2s"`
	Header  span `yaml:"header" default:"10s" help:"From there to the first bytes of the file." example:"30s"`
	Idle    span `yaml:"idle" default:"30s" help:"Between two pieces of a file." example:"1m"`
}

type breakerConfig struct {
	Failures int  `yaml:"failures" default:"5" help:"Failures in a row." example:"10"`
	Timeouts int  `yaml:"timeouts" default:"3" help:"Timeouts in a row." example:"5"`
	Pause    span `yaml:"pause" default:"10s" help:"The first pause; each further one is twice as long." example:"30s"`
	MaxPause span `yaml:"max_pause" default:"5m" help:"The longest pause." example:"1h"`
}

type bucketConfig struct {
	Auth            string `yaml:"auth" help:"Where credentials come from. S3: keys, env, web-identity, file, role, anonymous. Google: token, service-account, metadata, anonymous. Azure: key, sas, token, workload-identity, managed-identity, anonymous. Empty: the first that has something to offer." example:"anonymous"`
	Endpoint        string `yaml:"endpoint" help:"Address of a store other than the maker's own." example:"https://minio.example.com:9000"`
	Region          string `yaml:"region" help:"S3: where the bucket is." example:"eu-central-1"`
	Style           string `yaml:"style" help:"S3: path, or virtual for the bucket as a part of the host. Empty: virtual at Amazon, path elsewhere." example:"path"`
	AccessKey       string `yaml:"access_key" help:"S3." example:"AKIAEXAMPLE"`
	SecretKey       string `yaml:"secret_key" secret:"true" help:"S3." example:"secret"`
	SecretKeyFile   string `yaml:"secret_key_file" help:"S3: a file that holds it." example:"/run/secrets/s3"`
	SessionToken    string `yaml:"session_token" secret:"true" help:"S3: of temporary credentials." example:"secret"`
	Profile         string `yaml:"profile" help:"S3: of the credentials file." example:"symbols"`
	CredentialsFile string `yaml:"credentials_file" help:"S3: a file of profiles. Google: the key of a service account." example:"/etc/symdepot/key.json"`
	RoleARN         string `yaml:"role_arn" help:"S3: for web-identity." example:"arn:aws:iam::123456789012:role/symbols"`
	IdentityFile    string `yaml:"identity_token_file" help:"S3 and Azure: the file with the token for web-identity and workload-identity." example:"/run/secrets/identity"`
	AccountKey      string `yaml:"account_key" secret:"true" help:"Azure." example:"c2VjcmV0"`
	AccountKeyFile  string `yaml:"account_key_file" help:"Azure: a file that holds it." example:"/run/secrets/azure"`
	SAS             string `yaml:"sas" secret:"true" help:"Azure: a shared access signature." example:"sv=2021-12-02&sig=secret"`
	SASFile         string `yaml:"sas_file" help:"Azure: a file that holds it." example:"/run/secrets/sas"`
	TenantID        string `yaml:"tenant_id" help:"Azure: for workload-identity." example:"00000000-0000-0000-0000-000000000000"`
	ClientID        string `yaml:"client_id" help:"Azure: for workload-identity and managed-identity." example:"00000000-0000-0000-0000-000000000000"`
}

// defaultConfig is what holds without a file.
func defaultConfig() *Config {
	c := &Config{getenv: os.Getenv}
	eachScalar(reflect.ValueOf(c).Elem(), "", func(path string, v reflect.Value, f reflect.StructField) {
		if d := f.Tag.Get("default"); d != "" {
			// The test of the tags sees to it that they can be read.
			_ = setScalar(v, d, f)
		}
	})
	return c
}

// maxConfig is the largest file that is read.
const maxConfig = 1 << 20

// loadConfig reads the configuration: the defaults, then the file unless path is
// empty, then SYMDEPOT_* of the environment. All that is wrong is told at once;
// then errors.As finds a *configError.
func loadConfig(path string, getenv func(string) string) (*Config, error) {
	c := defaultConfig()
	c.file, c.getenv = path, getenv
	var faults []error
	if path != "" {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("the configuration: %w", err)
		}
		if info.Size() > maxConfig {
			return nil, &configError{file: path, what: fmt.Sprintf("the file has %d bytes, more than a configuration can have", info.Size())}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("the configuration: %w", err)
		}
		faults = append(faults, decodeConfig(path, bytes.NewReader(text), c))
	}
	faults = append(faults, c.environment())
	if err := errors.Join(faults...); err != nil {
		return nil, err // what is left out would be told as missing
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// environment applies SYMDEPOT_*.
func (c *Config) environment() error {
	var errs []error
	eachScalar(reflect.ValueOf(c).Elem(), "", func(path string, v reflect.Value, f reflect.StructField) {
		name := envName(path)
		text := c.getenv(name)
		if text == "" {
			return
		}
		if err := setScalar(v, text, f); err != nil {
			errs = append(errs, &configError{file: "environment", key: name, what: fmt.Sprintf("%v, not %q", err, text)})
		}
	})
	for text := range strings.FieldsSeq(c.getenv("SYMDEPOT_UPSTREAMS")) {
		var u upstreamEntry
		if err := u.fromText(text); err != nil {
			errs = append(errs, &configError{file: "environment", key: "SYMDEPOT_UPSTREAMS", what: err.Error()})
			continue
		}
		c.Upstreams = append(c.Upstreams, u)
	}
	return errors.Join(errs...)
}

// fault is an error of a key.
func (c *Config) fault(line int, key, format string, args ...any) error {
	file := c.file
	if file == "" {
		file = "configuration"
	}
	return &configError{file, line, key, fmt.Sprintf(format, args...)}
}

// check finds what the types do not say.
func (c *Config) check() error {
	var errs []error
	for i, s := range c.Stores {
		at := fmt.Sprintf("stores[%d]", i)
		if s.Dir == "" {
			errs = append(errs, c.fault(0, at+".dir", "a folder is expected"))
		}
		if _, err := layout.ParseFolder(s.Layout); err != nil {
			errs = append(errs, c.fault(0, at+".layout", "%v", err))
		}
	}
	for i, p := range c.PointerRoots {
		if p.Dir == "" {
			errs = append(errs, c.fault(0, fmt.Sprintf("pointer_roots[%d].dir", i), "a folder is expected"))
		}
	}
	for i := range c.Transcoding.Programs {
		if _, err := c.Transcoding.Programs[i].program(); err != nil {
			errs = append(errs, c.fault(0, fmt.Sprintf("transcoding.programs[%d]", i), "%v", err))
		}
	}
	if err := c.SymCache.check(); err != nil {
		errs = append(errs, c.fault(0, "symcache.store", "%v", err))
	}
	if _, err := c.allowed(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.checkAllowHosts(), c.checkAuth())
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		errs = append(errs, c.fault(0, "listen", "an address and a port are expected, such as 127.0.0.1:8080, not %q", c.Listen))
	}
	specs, err := c.specs()
	errs = append(errs, err)
	if err == nil {
		for name := range c.Cache.PerSource {
			if !slices.ContainsFunc(specs, func(s upstream.Spec) bool { return s.Name == name }) {
				errs = append(errs, c.fault(0, "cache.per_source."+name, "no upstream is called so"))
			}
		}
	}
	return errors.Join(errs...)
}

// allowed reads allow_networks.
func (c *Config) allowed() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for i, s := range c.AllowNets {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); aerr == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil {
			return nil, c.fault(0, fmt.Sprintf("allow_networks[%d]", i), "a network is expected, such as 10.20.0.0/16, not %q", s)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// dialer is the way out that the configuration allows.
func (c *Config) dialer() *upstream.Dialer {
	nets, _ := c.allowed() // checked when it was read
	return upstream.NewDialer(upstream.DialerOptions{NoEgress: c.NoEgress, AllowCIDRs: nets, AllowHosts: c.AllowHosts})
}

// checkAllowHosts checks allow_hosts.
func (c *Config) checkAllowHosts() error {
	var errs []error
	for i, h := range c.AllowHosts {
		if name := strings.TrimPrefix(h, "*."); name == "" || strings.ContainsAny(name, "*/:@ ") {
			errs = append(errs, c.fault(0, fmt.Sprintf("allow_hosts[%d]", i), "a host is expected, such as files.example.com or *.example.com, not %q", h))
		}
	}
	return errors.Join(errs...)
}

// self are the addresses of this server, which must not ask itself.
func (c *Config) self() []string {
	list := []string{c.Listen}
	_, port, err := net.SplitHostPort(c.Listen)
	for _, h := range c.Hosts {
		list = append(list, h+":80", h+":443")
		if err == nil {
			list = append(list, net.JoinHostPort(h, port))
		}
	}
	return list
}

// specs are the sources, as configured and then as the environment names them.
func (c *Config) specs() ([]upstream.Spec, error) {
	var list []upstream.Spec
	var errs []error
	names := map[string]bool{}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		s, key, err := u.spec(c.getenv)
		if err != nil {
			at := fmt.Sprintf("upstreams[%d]", i)
			errs = append(errs, c.fault(u.line, strings.TrimSuffix(at+"."+key, "."), "%v", err))
			continue
		}
		if names[s.Name] {
			errs = append(errs, c.fault(u.line, fmt.Sprintf("upstreams[%d].name", i), "two upstreams are called %s; name one of them otherwise", s.Name))
		}
		names[s.Name] = true
		s.PointerRoots, _ = c.pointerRoots()
		list = append(list, s)
	}
	if c.FromEnv {
		more, _ := upstream.FromEnv(c.getenv, c.self())
		for _, s := range more {
			if !names[s.Name] { // what is configured counts
				list = append(list, s)
			}
		}
	}
	return list, errors.Join(errs...)
}

// sources are opened sources.
type sources struct {
	id   string // what we are called where loops are looked for
	list []*upstream.Guarded
	far  []depot.Upstream // as the depot takes them
}

// open opens the sources that the configuration comes to. No connection is made.
func (c *Config) open(ctx context.Context, specs []upstream.Spec) (*sources, error) {
	s := &sources{id: "symdepot-" + strings.ToLower(rand.Text()[:12])}
	d := c.dialer()
	for _, spec := range specs {
		g, err := spec.Open(ctx, upstream.OpenOptions{Dialer: d, ServerID: s.id})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.list = append(s.list, g)
	}
	s.far = c.upstreams(s.list)
	return s, nil
}

// Close closes the sources; the depot is closed before.
func (s *sources) Close() error {
	var errs []error
	for _, g := range s.list {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// upstreams are the sources as the depot takes them.
func (c *Config) upstreams(list []*upstream.Guarded) []depot.Upstream {
	products := map[string]string{}
	for i := range c.Upstreams {
		if s, _, err := c.Upstreams[i].spec(c.getenv); err == nil {
			products[s.Name] = c.Upstreams[i].Product
		}
	}
	var out []depot.Upstream
	for _, g := range list {
		out = append(out, depot.Upstream{Source: g, Rank: g.Rank(), Product: products[g.Name()]})
	}
	return out
}

// warnings are what is probably not meant.
func (c *Config) warnings(specs []upstream.Spec) []string {
	var list []string
	for _, s := range specs {
		k := s.Credentials
		secret := k.Token != "" || k.Password != "" || k.User != "" || k.HeadersFile != "" || strings.Contains(s.URL, "@")
		if secret && strings.HasPrefix(strings.ToLower(s.URL), "http://") {
			list = append(list, s.Name+": credentials go over plain http, where anybody on the way can read them")
		}
		if s.Type == upstream.TypeFolder {
			if info, err := os.Stat(s.URL); err != nil {
				list = append(list, fmt.Sprintf("%s: %v; it is looked for again later", s.Name, err))
			} else if !info.IsDir() {
				list = append(list, s.Name+": "+s.URL+" is no folder")
			}
		}
	}
	for _, s := range c.Stores {
		if !isDir(s.Dir) {
			list = append(list, "stores: "+s.Dir+" is no folder")
		}
	}
	return list
}

// limits, lifetimes and cacheLimits are what the depot is told.
func (c *Config) limits() depot.Limits {
	f := c.Fetch
	return depot.Limits{NextRank: time.Duration(f.NextRank), FirstByte: time.Duration(f.FirstByte), Stall: time.Duration(f.Stall),
		MinRate: int64(f.MinRate), MaxBytes: int64(f.MaxBytes), Fetches: f.AtOnce}
}

func (c *Config) lifetimes() depot.Lifetimes {
	never := func(s span) time.Duration {
		if s <= 0 {
			return -1
		}
		return time.Duration(s)
	}
	m := c.Misses
	return depot.Lifetimes{Absent: never(m.Absent), Forbidden: never(m.Forbidden), Timeout: never(m.Timeout), Broken: never(m.Broken), TooLarge: never(m.TooLarge)}
}

func (c *Config) cacheLimits() depot.CacheLimits {
	l := depot.CacheLimits{MaxBytes: int64(c.Cache.MaxBytes), MaxUnused: time.Duration(c.Cache.MaxUnused)}
	for name, n := range c.Cache.PerSource {
		if l.PerSource == nil {
			l.PerSource = map[string]int64{}
		}
		l.PerSource[name] = int64(n)
	}
	return l
}

// pointerRoots are as --pointer-root gives them.
func (c *Config) pointerRoots() ([]symstore.PointerRoot, error) {
	var list []symstore.PointerRoot
	for _, p := range c.PointerRoots {
		abs, err := filepath.Abs(p.Dir)
		if err != nil {
			return nil, err
		}
		list = append(list, symstore.PointerRoot{Prefix: p.Prefix, Dir: abs})
	}
	return list, nil
}

// spec describes the source. An error comes with the key that it is about.
func (u *upstreamEntry) spec(getenv func(string) string) (s upstream.Spec, key string, err error) {
	switch {
	case u.text != "":
		if s, err = upstream.ParseUpstream(u.text); err != nil {
			return s, "", err
		}
	case u.Folder != "" && (u.URL != "" || u.Preset != ""):
		return s, "folder", errors.New("it goes with neither url nor preset")
	case u.Preset != "":
		if s, err = upstream.PresetByName(u.Preset); err != nil {
			return s, "preset", err
		}
		if u.URL != "" {
			if !strings.HasPrefix(u.URL, "http://") && !strings.HasPrefix(u.URL, "https://") {
				return s, "url", errors.New("with a preset, an http or https address is expected: where its copy is")
			}
			s.URL = u.URL
		}
	case u.URL != "":
		if s, err = upstream.SpecOf(u.URL); err != nil {
			return s, "url", err
		}
	case u.Folder != "":
		s = upstream.Spec{Type: upstream.TypeFolder, Name: u.Folder, URL: u.Folder}
		s.Guard.Executables = true
	default:
		return s, "", errors.New("one of preset, url and folder is expected")
	}
	if key, err = u.describe(&s); err != nil {
		return s, key, err
	}
	if key, err = u.credentials(&s, getenv); err != nil {
		return s, key, err
	}
	if err = s.Check(); err != nil {
		for _, k := range []string{"layout", "casing", "two_tier"} {
			if strings.Contains(err.Error(), "no "+k+" ") {
				return s, k, err
			}
		}
		return s, "", err
	}
	return s, "", nil
}

// describe applies what is no credential.
func (u *upstreamEntry) describe(s *upstream.Spec) (string, error) {
	for _, t := range []struct {
		to   *string
		from string
	}{{&s.Name, u.Name}, {&s.Layout, u.Layout}, {&s.Casing, u.Casing}, {&s.TwoTier, u.TwoTier}, {&s.UserAgent, u.UserAgent}} {
		if t.from != "" {
			*t.to = t.from
		}
	}
	g := &s.Guard
	if u.Rank != nil {
		g.Rank = *u.Rank
	}
	for _, t := range []struct {
		to   *bool
		from *bool
		not  bool
	}{
		{&g.Executables, u.Executables, false}, {&g.RequiresChecksum, u.RequiresChecksum, false}, {&s.Forbidden403, u.Forbidden403, false},
		{&s.NoCompressed, u.Compressed, true}, {&s.NoPointers, u.Pointers, true},
	} {
		if t.from != nil {
			*t.to = *t.from != t.not
		}
	}
	if len(u.Kinds) > 0 {
		g.Kinds = nil
		for _, w := range u.Kinds {
			k := symfile.ParseKind(w)
			if k == symfile.KindUnknown {
				return "kinds", fmt.Errorf("no kind %q; there are pe, pdb, pdb2, portablepdb, msfz, dbg, elf, macho, wasm, breakpad, sourcebundle, symcache, r2rmap, bcsymbolmap, uuidmap, sha1, jsmap, il2cpp, proguard", w)
			}
			g.Kinds = append(g.Kinds, k)
		}
	}
	if len(u.Names) > 0 {
		g.NamePatterns = u.Names
	}
	g.IDs = append(g.IDs, u.IDs...)
	g.NeverAsk = append(g.NeverAsk, u.NeverAsk...)
	if u.Concurrency < 0 {
		return "concurrency", errors.New("at least 1 is expected")
	}
	if u.Concurrency > 0 {
		g.Concurrency = u.Concurrency
	}
	if u.MaxBytes > 0 {
		g.MaxBytes = int64(u.MaxBytes)
	}
	s.Timeouts = upstream.Timeouts{Connect: time.Duration(u.Timeouts.Connect), Header: time.Duration(u.Timeouts.Header), Idle: time.Duration(u.Timeouts.Idle)}
	g.Breaker = upstream.BreakerOptions{Failures: u.Breaker.Failures, Timeouts: u.Breaker.Timeouts, Pause: time.Duration(u.Breaker.Pause), MaxPause: time.Duration(u.Breaker.MaxPause)}
	if len(u.Headers) > 0 {
		s.Header = http.Header{}
		for k, v := range u.Headers {
			if strings.ContainsAny(k, " :\r\n") || strings.ContainsAny(v, "\r\n") || k == "" {
				return "headers", fmt.Errorf("%q is no name of a header, or its value has several lines", k)
			}
			s.Header.Set(k, v)
		}
	}
	return "", nil
}

// secrets of an upstream, with where they may come from.
func (u *upstreamEntry) credentials(s *upstream.Spec, getenv func(string) string) (string, error) {
	prefix := "upstream_" + s.Name + "_"
	b := &u.Bucket
	got := map[string]string{"user": u.User}
	for _, k := range []struct{ key, value, file string }{
		{"user", u.User, ""}, {"password", u.Password, u.PasswordFile}, {"token", u.Token, u.TokenFile}, {"bucket.access_key", b.AccessKey, ""},
		{"bucket.secret_key", b.SecretKey, b.SecretKeyFile}, {"bucket.session_token", b.SessionToken, ""},
		{"bucket.account_key", b.AccountKey, b.AccountKeyFile}, {"bucket.sas", b.SAS, b.SASFile},
	} {
		name := envName(prefix + strings.TrimPrefix(k.key, "bucket."))
		if v := getenv(name); v != "" {
			got[k.key] = v
			continue
		}
		file, value := k.file, k.value
		if f := getenv(name + "_FILE"); f != "" {
			file, value = f, ""
		}
		if file != "" && value != "" {
			return k.key, fmt.Errorf("it stands there twice, as %s and as %s_file", k.key, k.key)
		}
		if file != "" {
			var err error
			if value, err = readSecret(file); err != nil {
				return k.key + "_file", err
			}
		}
		got[k.key] = value
	}
	s.Credentials = upstream.Credentials{User: got["user"], Password: got["password"], Token: got["token"], HeadersFile: u.HeadersFile}
	if s.Credentials.Token != "" && (got["user"] != "" || got["password"] != "") {
		return "token", errors.New("it goes with neither user nor password")
	}
	return u.bucketCredentials(s, got)
}

// maxSecret is the largest file that holds a secret.
const maxSecret = 64 << 10

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSecret) {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a small file")}
	}
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// bucketCredentials applies the keys below bucket.
func (u *upstreamEntry) bucketCredentials(s *upstream.Spec, got map[string]string) (string, error) {
	b := &u.Bucket
	set := func(to *string, from string) {
		if from != "" {
			*to = from
		}
	}
	known := []string{"auth", "endpoint"}
	switch c := s.Bucket.(type) {
	case *bucket.S3Config:
		known = append(known, "region", "style", "access_key", "secret_key", "secret_key_file", "session_token", "profile", "credentials_file", "role_arn", "identity_token_file")
		for to, from := range map[*string]string{&c.Auth: b.Auth, &c.Endpoint: b.Endpoint, &c.Region: b.Region, &c.Style: b.Style, &c.AccessKey: got["bucket.access_key"],
			&c.SecretKey: got["bucket.secret_key"], &c.SessionToken: got["bucket.session_token"], &c.Profile: b.Profile, &c.CredentialsFile: b.CredentialsFile,
			&c.RoleARN: b.RoleARN, &c.WebIdentityTokenFile: b.IdentityFile} {
			set(to, from)
		}
	case *bucket.GCSConfig:
		known = append(known, "credentials_file")
		for to, from := range map[*string]string{&c.Auth: b.Auth, &c.Endpoint: b.Endpoint, &c.CredentialsFile: b.CredentialsFile, &c.Token: got["token"]} {
			set(to, from)
		}
	case *bucket.AzureConfig:
		known = append(known, "account_key", "account_key_file", "sas", "sas_file", "tenant_id", "client_id", "identity_token_file")
		for to, from := range map[*string]string{&c.Auth: b.Auth, &c.Endpoint: b.Endpoint, &c.AccountKey: got["bucket.account_key"], &c.SAS: got["bucket.sas"],
			&c.Token: got["token"], &c.TenantID: b.TenantID, &c.ClientID: b.ClientID, &c.FederatedTokenFile: b.IdentityFile} {
			set(to, from)
		}
	default:
		known = nil
	}
	v := reflect.ValueOf(b).Elem()
	for f := range v.Type().Fields() {
		if name := yamlName(f); v.FieldByIndex(f.Index).String() != "" && !slices.Contains(known, name) {
			if known == nil {
				return "bucket." + name, errors.New("it is for the addresses of buckets: s3://, gs://, az://")
			}
			return "bucket." + name, fmt.Errorf("it is not for such a bucket; there are %s", strings.Join(known, ", "))
		}
	}
	return "", nil
}
