package config

import (
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/address"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/upstream"
)

// Config is the configuration file. docs/config.md and `symdepot config print`
// are generated from its tags.
//
//   - yaml is the name of the key.
//   - default is the value without the key. It is applied at the top level and in nested maps. In lists it documents the default of the package that uses the value.
//   - enum lists the permitted values of a text.
//   - secret marks values that must never be printed.
//   - private marks names of people and command lines, which are left out of what leaves the machine.
type Config struct {
	Depot        Depot         `yaml:"depot" help:"The depot of all commands without --depot. A single text is its folder."`
	Listen       string        `yaml:"listen" default:"127.0.0.1:8080" help:"Address and port of the server; port 0 picks a free port." example:"0.0.0.0:8080"`
	BaseURL      string        `yaml:"base_url" help:"URL of this server as browsers know it, if a proxy in front has the certificate or another name: forms of its pages are accepted, and cookies are for TLS if it begins with https." example:"https://symbols.example.com"`
	Public       bool          `yaml:"public" default:"false" help:"Permit an address that other machines can reach although everything can be read without credentials. Not needed if auth restricts reading." example:"true"`
	Hosts        []string      `yaml:"hosts" help:"Host names of this server; requests for other names get 404. On loopback addresses localhost needs no entry." example:"[symbols.example.com]"`
	Origins      []string      `yaml:"origins" help:"Origins of web pages whose scripts may read symbol files in a browser; * allows all. Empty: none." example:"['https://profiler.firefox.com']"`
	Proxies      []string      `yaml:"proxies" help:"Addresses or networks of reverse proxies. They may open any number of connections, and their X-Forwarded-For names the client." example:"[10.0.0.5, 10.1.0.0/16]"`
	Prefixes     []string      `yaml:"prefixes" help:"Path prefixes that the server strips from request paths." example:"[corp/symbols]"`
	MakeCabinets bool          `yaml:"make_cabinets" default:"false" help:"Make the cabinet (foo.pd_) of an added or cached PE, PDB or DBG file in the background, after the first request for it. Files in stores are not compressed." example:"true"`
	Stores       []Store       `yaml:"stores" help:"Folders of symbol files that the server reads in place, after the depot. An item may also be one text: DIR[,layout=L]."`
	Watch        []Watch       `yaml:"watch" help:"Folders of builds and packages that are indexed where they are, and answered in all layouts after what was added. Nothing is copied. An item may also be one text: DIR[=PRODUCT[/VERSION]]."`
	Rescan       term.Duration `yaml:"rescan" default:"5m" help:"How often watched folders are scanned for changes that the system has not reported." example:"1h"`
	PointerRoots []string      `yaml:"pointer_roots" help:"Folders to which the pointers of stores (file.ptr, refs.ptr) may lead. With PREFIX=DIR, pointers that start with PREFIX are mapped to DIR; with DIR alone, pointers may lead to files below DIR." example:"['\\\\server\\builds=/mnt/builds']"`
	AdminFiles   string        `yaml:"admin_files" default:"false" help:"true: serve 000Admin and refs.ptr of stores too, and refs.ptr of added files, with source paths reduced to file names; without stores, the transactions of the depot as 000Admin (lastid.txt and NNNNNNNNNN), for clients that read it as an index (Symbolicator's has_index). A UNC path: also answer file.ptr of an added file, with its path NAME\\KEY\\NAME below that, for clients that open files on a share, such as Microsoft's SymCache sample server. Keep the files there with symdepot export." example:"//server/symbols"`
	Log          Log           `yaml:"log" help:"What is logged, and in which format."`
	Traces       Traces        `yaml:"traces" help:"OpenTelemetry traces of requests, lookups, downloads and jobs. Off unless there is an endpoint; docs/tracing.md."`
	TLS          TLS           `yaml:"tls" help:"TLS of the listener."`
	Auth         Auth          `yaml:"auth" help:"Who may read and write what; docs/auth.md has examples. Create tokens with symdepot token new."`
	Push         Push          `yaml:"push" help:"Limits of pushes and of the uploads of other tools."`
	Sources      SourceLinks   `yaml:"sources" help:"Links to source files in PDBs that are added or pushed. symdepot runs no command of a link and requests no address; debuggers do. docs/sources.md has the rules."`
	NoEgress     bool          `yaml:"no_egress" default:"false" help:"Make no outbound connections, whatever else is configured." example:"true"`
	AllowNets    []string      `yaml:"allow_networks" help:"Private networks to which redirects of upstreams may lead." example:"[10.20.0.0/16]"`
	AllowHosts   []string      `yaml:"allow_hosts" help:"Hosts to which redirects of upstreams may lead if an HTTP proxy resolves names; *.domain means all hosts below a domain. Other hosts must resolve to public addresses on this machine." example:"[\"*.blob.core.windows.net\"]"`
	Upstreams    []Upstream    `yaml:"upstreams" help:"Remote servers, buckets and folders from which missing files are downloaded. An item may also be one text, as for --upstream: PRESET or URL[,layout=L][,rank=N]."`
	Misses       Misses        `yaml:"misses" help:"How long the negative cache remembers that an upstream has no file. 0: not at all."`
	Transcoding  Transcoding   `yaml:"transcoding" help:"Programs on this machine that make SymCache files for Windows Performance Analyzer. Workers on other machines do not need them: symdepot work --help."`
	SymCache     SymCache      `yaml:"symcache" help:"Folders of SymCache files for Windows Performance Analyzer, and how its requests are answered."`
	Symbols      Symbols       `yaml:"symbols" help:"Breakpad symbol files (.sym) and GSYM files that the server makes of PDBs, ELF files and Mach-O images, and symbolication."`
	Cache        Cache         `yaml:"cache" help:"When cached files are evicted. Added files are never evicted."`
	Cold         Cold          `yaml:"cold" help:"Added files that nobody uses, kept in a few per cent of their size."`

	// FilePath is what X-DEBUGINFOD-FILE says about the origin of a file: its name, the full
	// path as added (full), or nothing (none). FromEnv uses the servers of _NT_SYMBOL_PATH and
	// DEBUGINFOD_URLS as upstreams too, except this server. TwoTier serves index2.txt, so that
	// Microsoft's clients use two-tier paths. Flags set them.
	FilePath string
	FromEnv  bool
	TwoTier  bool

	file     string   // empty: no file was read
	sum      [32]byte // of the file
	warnings []string
	lenient  bool // set by LoadForCheck
	getenv   func(string) string
}

// Depot locates the depot.
type Depot struct {
	Dir         string        `yaml:"dir" help:"Folder of the depot, or postgres://USER@HOST/DATABASE for a depot of several machines; the password comes from PGPASSWORD or the password file. Empty: the platform's data folder." example:"/var/lib/symdepot"`
	Blobs       string        `yaml:"blobs" help:"Bucket that keeps the contents: s3://BUCKET/PREFIX, gs:// or az://; endpoint and credentials from the usual variables, such as AWS_ENDPOINT_URL and AWS_ACCESS_KEY_ID. Empty: the folder of the depot." example:"s3://symbols/depot"`
	Local       string        `yaml:"local" help:"Folder of this machine for temporary files and for recently used contents of a bucket. Empty: the depot's folder, or the platform's cache folder for a depot in PostgreSQL." example:"/var/cache/symdepot"`
	LocalSize   term.ByteSize `yaml:"local_size" default:"50GiB" help:"Most bytes of recently used contents of a bucket on this machine." example:"200GiB"`
	Group       string        `yaml:"group" help:"A new depot is readable and writable by this group too (modes 0770 and 0660). Empty: by its owner alone. Existing depots keep their modes." example:"symbols"`
	ScrubRate   term.ByteSize `yaml:"scrub_rate" default:"8MiB" help:"How much a server reads per second to check all stored files for damage, once a week; 0: it does not check." example:"32MiB"`
	Replicas    []string      `yaml:"replicas" help:"Standbys of the database of the depot that answer lookups, as URLs. An answer counts only if the standby has all that this server knows; otherwise the primary is asked." example:"['postgres://symdepot@db2.example.com/symdepot']"`
	PeerListen  string        `yaml:"peer_listen" help:"Address and port for the other servers of a depot in PostgreSQL, so that one of them downloads a missing file for all. Only servers of the same depot are answered, over TLS. Empty: each server downloads for its own clients." example:"10.0.0.1:8081"`
	PeerAddress string        `yaml:"peer_address" help:"Address and port at which the other servers reach this one. Empty: peer_listen." example:"node1.internal:8081"`
}

func (d *Depot) fromText(text string) error {
	d.Dir = text
	return nil
}

// Log configures the log.
type Log struct {
	Format   string `yaml:"format" default:"auto" enum:"auto,text,json" help:"Format of the log; auto is text on a terminal and JSON elsewhere." example:"json"`
	Requests bool   `yaml:"requests" default:"true" help:"Log every request, not only failures." example:"false"`
}

// Traces configures where traces are sent.
type Traces struct {
	Endpoint string   `yaml:"endpoint" help:"URL of an OpenTelemetry collector that takes OTLP over HTTP; /v1/traces is added if it has no path. Empty: OTEL_EXPORTER_OTLP_ENDPOINT of the environment, or no traces." example:"http://collector.example.com:4318"`
	Trust    []string `yaml:"trust" help:"Hosts, *.domains and networks of ours: traces go on at upstreams there, and requests of clients there continue the client's trace. Empty: none." example:"['*.corp.example.com', 10.0.0.0/8]"`
}

// Store is a folder of symbol files that is served in place.
type Store struct {
	Dir    string `yaml:"dir" help:"The folder." example:"/srv/symbols"`
	Layout string `yaml:"layout" default:"auto" help:"Its layout; auto detects it." example:"unified"`
}

func (s *Store) fromText(text string) error {
	var err error
	s.Dir, s.Layout, err = splitStore(text)
	return err
}

// Watch is a folder that is indexed in place.
type Watch struct {
	Dir     string `yaml:"dir" help:"The folder, or the prefix of a bucket (s3://BUCKET/PREFIX)." example:"/srv/builds"`
	Product string `yaml:"product" help:"Who may read the product sees the folder; empty: only who may read everything." example:"Game"`
	Version string `yaml:"version" help:"Version of the product, for lists." example:"1.2.3"`

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
	MaxFile   term.ByteSize            `yaml:"max_file" default:"16GiB" help:"Size limit of a pushed file." example:"4GiB"`
	MaxOpen   int                      `yaml:"max_open" default:"32" help:"Most unfinished pushes of one principal. Protocols that send each file alone have 32 times as many." example:"100"`
	MaxStaged term.ByteSize            `yaml:"max_staged" default:"0" help:"Size limit of all unfinished pushes together; 0: a tenth of the disk, at most 64 GiB." example:"200GiB"`
	MinFree   term.ByteSize            `yaml:"min_free" default:"0" help:"Free space of the disk below which pushes are refused; 0: a twentieth of the disk, at most 10 GiB. Reading is not affected." example:"50GiB"`
	Collect   term.Duration            `yaml:"collect" default:"5m" help:"When the transaction of a protocol that sends each file alone ends: that long after its last file." example:"15m"`
	Quotas    map[string]term.ByteSize `yaml:"quotas" help:"Size limit of the contents of a product, by its name, each content counted once. A push beyond it is refused; nothing is removed." example:"{Game: 500GiB}"`
	DenyOther bool                     `yaml:"deny_other" default:"false" help:"Refuse a PE, PDB or Breakpad file if the product has other bytes with the same id. Otherwise both are kept, and the answer counts them." example:"true"`
}

// SourceLinks has the rules for links to source files.
type SourceLinks struct {
	Srcsrv    map[string]string `yaml:"srcsrv" help:"What happens to a PDB whose source server stream makes debuggers run a command, by product; * is for all others: keep it, flag it when it comes, or refuse-commands. Empty: all are kept." example:"{Game: refuse-commands, '*': flag}"`
	LinkHosts []string          `yaml:"link_hosts" help:"Hosts to which links may lead; *.domain means all hosts below a domain. Links to others, to files and to plain HTTP are flagged. Empty: all hosts." example:"[github.com, '*.example.com']"`
	Relay     []string          `yaml:"relay" help:"Hosts from which this server fetches source files that Source Link names and that it does not have, over HTTPS; *.domain means all hosts below a domain, at public addresses. Empty: none." example:"[raw.githubusercontent.com]"`
}

// Misses configures the negative cache.
type Misses struct {
	Absent    term.Duration `yaml:"absent" default:"1h" help:"The upstream answered that it has no such file." example:"10m"`
	Forbidden term.Duration `yaml:"forbidden" default:"24h" help:"The upstream rejected the request, for example with status 403." example:"1h"`
}

// Transcoding configures the transcoders of this machine.
type Transcoding struct {
	Programs []string `yaml:"programs" private:"true" help:"The programs, each as for --transcoder: NAME[,OPTION...]=COMMAND; {pdb} is the path of the PDB." example:"['wpt=symcachegen.exe -pdb {pdb}']"`
	Jobs     int      `yaml:"jobs" default:"0" help:"How many programs may run at the same time; 0: half of the processors." example:"2"`
	Scratch  string   `yaml:"scratch" help:"Working folder; keep its path short. Empty: .scratch in the depot." example:"/var/tmp/sd"`
	Upgrades bool     `yaml:"upgrades" default:"true" help:"Make SymCache files again, in the background, with a newer version of a program." example:"false"`
}

// SymCache configures the SymCache folders and the answers to Windows
// Performance Analyzer.
type SymCache struct {
	Folders     []string      `yaml:"folders" help:"SymCache folders that other programs fill, such as C:\\SymCache of a colleague. They are read in place and never written to." example:"[/srv/SymCache]"`
	Store       string        `yaml:"store" help:"A SymCache folder that is read too, and to which every made or downloaded SymCache file is written, so that clients can also read the folder over SMB." example:"/srv/SymCacheStore"`
	StoreBytes  term.ByteSize `yaml:"store_bytes" default:"0" help:"Size limit of the store; 0: none. The least recently used files are evicted first, but only files that the depot has too or can make again." example:"200GiB"`
	StoreUnused term.Duration `yaml:"store_unused" default:"0s" help:"How long an unused file stays in the store; 0: without limit." example:"90d"`
	Wait        term.Duration `yaml:"wait" default:"0s" help:"How long a request of a client that does not retry is held while its file is made; then it gets 404. 0: as long as the file is being made and the client stays. A proxy in front must wait as long." example:"55s"`
	KeepPDB     bool          `yaml:"keep_pdb" default:"true" help:"Keep the PDBs that were downloaded from upstreams. false: drop one as soon as its SymCache files are made, in the newest version of each major one that can be made, or cannot be made. For servers that only Windows Performance Analyzer uses. Added PDBs are never dropped." example:"false"`

	// HexAge reads the age in a request as hex too, among the files of the folders, if no file
	// has the decimal age. Redirect answers with a 302 redirect to a signed address of this
	// server, valid for five minutes, instead of with the file. Flags set them.
	HexAge   bool
	Redirect bool
}

// Symbols configures the making of symbol files and symbolication.
type Symbols struct {
	Make string        `yaml:"make" default:"held" enum:"off,held,upstreams" help:"Of which files they are made: of those in the depot and in stores, or of those at upstreams too, which downloads the debug file for every request for a .sym that no upstream has. off also switches the symbolication APIs off." example:"upstreams"`
	Wait term.Duration `yaml:"wait" default:"30s" help:"How long a request is held while its file is made; then the client gets 404 with Retry-After, and the file is made all the same." example:"2m"`
	// InProcess is in bytes.
	InProcess term.ByteSize `yaml:"in_process" default:"2GiB" help:"Size up to which the server itself reads the files of a module. Larger ones need a worker (symdepot work --symbols); without one, their symbol files are not found." example:"512MiB"`
}

// Cache configures the eviction of cached files.
type Cache struct {
	MaxBytes    term.ByteSize            `yaml:"max_bytes" default:"0" help:"Size limit of all cached files together; 0: evict when less than 5 % of the disk, or 2 GiB if that is less, is free." example:"200GiB"`
	MaxUnused   term.Duration            `yaml:"max_unused" default:"0s" help:"How long an unused cached file is kept; 0: without limit." example:"90d"`
	PerUpstream map[string]term.ByteSize `yaml:"per_upstream" help:"Size limit of the files of one upstream, by its name." example:"{microsoft: 100GiB}"`
}

// Cold configures the files that are kept as differences from similar ones.
type Cold struct {
	After term.Duration `yaml:"after" default:"0s" help:"How long a file must not have been added or read before a server keeps it as differences from a similar one (docs/cold.md); 0: none becomes cold." example:"14d"`
	Rate  term.ByteSize `yaml:"rate" default:"32MiB" help:"How much a server reads per second for that; 0: without limit." example:"100MiB"`
	Near  term.ByteSize `yaml:"near" default:"8GiB" help:"Size limit of the restored files that each machine keeps, so that the next reads are as fast as those of other files." example:"50GiB"`
}

// Upstream is one remote server, bucket or folder. Keys that are not set have
// the preset's value, or the default of the type of upstream.
type Upstream struct {
	Name     string   `yaml:"name" help:"Name in logs, metrics and other keys. Default: the preset's name, or the address without its scheme." example:"corp"`
	Preset   string   `yaml:"preset" help:"A well-known server; see the list of presets. Other keys override the preset's values." example:"microsoft"`
	URL      string   `yaml:"url" help:"Address of the server (http, https) or bucket: s3://BUCKET/PREFIX?region=R&endpoint=URL&style=path|virtual&auth=A, gs://BUCKET/PREFIX or az://ACCOUNT/CONTAINER/PREFIX, with endpoint and auth. auth says where credentials come from; S3: keys, env, web-identity, file, role, anonymous; Google: token, service-account, metadata, anonymous; Azure: key, sas, token, workload-identity, managed-identity, anonymous. What is not said is taken from the environment, as the vendors' own tools do (AWS_PROFILE, AWS_ROLE_ARN, AZURE_CLIENT_ID and so on)." example:"https://symbols.example.com/download/symbols"`
	Folder   string   `yaml:"folder" help:"A folder of this machine from which files are copied into the cache, instead of being served in place: a slow disk, or one that is not always mounted." example:"/mnt/archive"`
	Layout   string   `yaml:"layout" default:"auto" help:"Layout: {layouts}. auto uses the layout of the client's request." example:"ssqp"`
	Rank     *int     `yaml:"rank" default:"0" help:"Lower ranks are asked first; upstreams of one rank are asked at the same time." example:"1"`
	Product  string   `yaml:"product" help:"Product of the downloaded files. Empty: none, as for files that were added without a product." example:"windows"`
	Kinds    []string `yaml:"kinds" help:"Only these kinds of files are requested: pe, pdb, pdb2, portablepdb, msfz, dbg, elf, macho, wasm, breakpad, sourcebundle, symcache, r2rmap, bcsymbolmap, uuidmap, sha1, jsmap, il2cpp, proguard. Empty: all." example:"[pdb, pe]"`
	Names    []string `yaml:"names" help:"Only file names that match one of these patterns are requested; * matches any text, ? one character, case is ignored. Empty: all." example:"['app*', '*.node']"`
	NeverAsk []string `yaml:"never_ask" help:"Patterns of file names and ids that are never sent to this upstream, such as those of unannounced products." example:"['oursecret*']"`

	Executables  *bool `yaml:"executables" default:"true" help:"Whether executables may be downloaded: debuggers load and trust some of them." example:"false"`
	Forbidden403 *bool `yaml:"forbidden_is_absent" default:"false" help:"Treat status 403 as not found: buckets that can be read but not listed answer 403 for missing files." example:"true"`

	HasIndex *bool `yaml:"has_index" default:"false" help:"Read the records of a symbol store (000Admin), and send no requests for what they do not list. For layout symstore and symstore_index2." example:"true"`

	Headers      map[string]string `yaml:"headers" secret:"true" help:"Header fields of every request to this upstream, including User-Agent; they are not sent to redirect targets." example:"{X-Team: tools}"`
	HeadersFile  string            `yaml:"headers_file" help:"A file of such header fields, one \"Name: value\" per line, read again when it changes." example:"/etc/symdepot/headers"`
	User         string            `yaml:"user" private:"true" help:"User of Basic authentication. S3: the access key." example:"reader"`
	PasswordFile string            `yaml:"password_file" help:"A file that holds its password; with an empty user it may be a personal access token. S3: the secret key. Azure: the account key. Or the variable SYMDEPOT_UPSTREAM_NAME_PASSWORD." example:"/run/secrets/password"`
	TokenFile    string            `yaml:"token_file" help:"A file that holds the bearer token, also for gs:// and az://. S3: the session token of temporary keys. Azure with ?auth=sas: the shared access signature. Or the variable SYMDEPOT_UPSTREAM_NAME_TOKEN." example:"/run/secrets/token"`
	Negotiate    *bool             `yaml:"negotiate" default:"false" help:"On Windows, log in to this server with the Kerberos ticket of the user that symdepot runs as." example:"true"`

	Timeout term.Duration `yaml:"timeout" default:"10s" help:"Time limit from the connection to the first bytes of the file." example:"30s"`

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
	Cert              string `yaml:"cert" help:"PEM file of the certificate chain, read again when it changes. Empty, without acme: plain HTTP." example:"/etc/symdepot/tls.crt"`
	Key               string `yaml:"key" help:"PEM file of its private key." example:"/etc/symdepot/tls.key"`
	ClientCA          string `yaml:"client_ca" help:"PEM file of the authorities that issue client certificates." example:"/etc/symdepot/clients.crt"`
	RequireClientCert bool   `yaml:"require_client_cert" default:"false" help:"Reject connections without a client certificate." example:"true"`
	ACME              ACME   `yaml:"acme" help:"Certificates obtained automatically from Let's Encrypt or another ACME authority. Port 443 of the domains must lead to this server."`
}

// ACME configures certificates that are obtained automatically.
type ACME struct {
	Domains     []string `yaml:"domains" help:"Domain names of the certificates." example:"[symbols.example.com]"`
	Dir         string   `yaml:"dir" help:"Folder for the account and the certificates, used by this server alone." example:"/var/lib/symdepot/acme"`
	Directory   string   `yaml:"directory" help:"Directory URL of the authority. Empty: Let's Encrypt." example:"https://acme.example.com/directory"`
	AcceptTerms bool     `yaml:"accept_terms" default:"false" help:"You accept the authority's terms of service; without it no certificate is requested." example:"true"`
}

// Auth configures who may read and write which products.
type Auth struct {
	Demand       bool                `yaml:"demand" default:"false" help:"Require credentials from all clients. Implied if admit, grants, users_file, certificates, negotiate.keytab or sign_in.issuer are set and anonymous is not." example:"true"`
	Anonymous    []string            `yaml:"anonymous" help:"Products that can be read without credentials; \"*\" means all, \"\" files without a product. Default without any other key of auth: all." example:"[public]"`
	Admit        []string            `yaml:"admit" private:"true" help:"Patterns of principals that are admitted in addition to those named in grants. Empty, without grants: every authenticated principal." example:"['*@CORP.EXAMPLE']"`
	Groups       map[string][]string `yaml:"groups" private:"true" help:"Lists of patterns by name, for group:NAME in admit and grants." example:"{tools: ['alice@CORP.EXAMPLE', 'basic:bob']}"`
	Grants       []Grant             `yaml:"grants" help:"Rights; they add up. Without grants, every admitted principal may read everything. Tokens carry their own rights."`
	UsersFile    string              `yaml:"users_file" help:"File with one user:hash per line, as htpasswd -B writes it, read again when it changes. Empty: no user passwords; tokens are accepted as passwords." example:"/etc/symdepot/users"`
	Basic        bool                `yaml:"basic" default:"false" help:"Offer Basic authentication in addition to Kerberos if negotiate.keytab is set. Without a keytab, or with a users_file, it is always offered." example:"true"`
	Negotiate    Negotiate           `yaml:"negotiate" help:"Kerberos, the single sign-on of Windows clients."`
	Certificates []Certificate       `yaml:"certificates" help:"Rules that map client certificates to principal names; the first match counts. In patterns * matches any text without @."`
	OIDC         []OIDC              `yaml:"oidc" help:"Rules for CI jobs: a job exchanges its id token (OpenID Connect) for a token of this server that is valid for an hour. The first rule that matches counts."`
	SignIn       SignIn              `yaml:"sign_in" help:"OpenID provider at which people sign in to the pages with their browsers. Passwords, tokens and Kerberos tickets need no key of this section."`
	Audit        Audit               `yaml:"audit" help:"Log of every download that needed credentials."`
}

// Grant gives rights to principals.
type Grant struct {
	Who   []string `yaml:"who" private:"true" help:"Patterns of principal names, in which * matches any text without @; * alone is every authenticated principal. A prefix kerberos:, basic: or cert: restricts the method. oidc:NAME matches people who signed in at the provider of auth.sign_in, whom no other pattern but * matches. group:NAME is a group of this file, sid:S-1-... a Windows group, oidc-group:NAME a group of that provider." example:"['group:tools']"`
	Read  []string `yaml:"read" help:"Products; \"*\" means all, \"\" files without a product." example:"[app, driver]"`
	Write []string `yaml:"write" help:"Products to which files may be added, in the same syntax. Workers need \"*\"." example:"[app]"`
	Admin bool     `yaml:"admin" default:"false" help:"All rights." example:"true"`
}

// Negotiate configures Kerberos.
type Negotiate struct {
	Keytab         string   `yaml:"keytab" help:"Keytab file, read again when it changes. Empty: Kerberos is off." example:"/etc/symdepot/http.keytab"`
	Principal      string   `yaml:"principal" private:"true" help:"Principal whose keys are used whatever a ticket names, for service accounts that own the HTTP names. Empty: the HTTP principal that the ticket names." example:"svc-symdepot@CORP.EXAMPLE"`
	Groups         bool     `yaml:"groups" default:"false" help:"Read the Windows groups of tickets, for sid: in patterns." example:"true"`
	Realms         []string `yaml:"realms" help:"Patterns of the client realms that are accepted in addition to the service's own. Empty: other realms are accepted if the KDC has checked the transited realms, which Windows KDCs do not do." example:"['*.CORP.EXAMPLE']"`
	ChannelBinding bool     `yaml:"channel_binding" default:"false" help:"Reject tickets that are not bound to this server's TLS certificate. Without it, a binding is checked if the client sends one." example:"true"`
	PerConnection  bool     `yaml:"per_connection" default:"false" help:"Accept later requests on a connection without a new ticket, as some Windows clients expect. Never use it behind a proxy." example:"true"`
}

// Certificate maps client certificates to a principal name.
type Certificate struct {
	Match string `yaml:"match" private:"true" help:"sha256:HEX is the fingerprint of one certificate, which needs no authority. cn:, dns:, email: and uri: compare that name of a certificate issued by an authority of tls.client_ca with a pattern." example:"dns:*.build.corp.example"`
	Name  string `yaml:"name" private:"true" help:"Principal name. Empty: the text that matched." example:"build"`
}

// OIDC is a rule for the id tokens of CI jobs.
type OIDC struct {
	Issuer   string            `yaml:"issuer" help:"Issuer of the id tokens: https://token.actions.githubusercontent.com for GitHub, https://HOST/_services/token for GitHub Enterprise Server, the URL of the instance for GitLab." example:"https://token.actions.githubusercontent.com"`
	Audience string            `yaml:"audience" help:"Audience of the id tokens, compared exactly. symdepot push asks for the URL of its server, without a final slash." example:"https://symbols.example.com"`
	JWKSFile string            `yaml:"jwks_file" help:"File of the issuer's keys (JWKS), for servers that cannot reach the issuer; it is read again when it has changed. Empty: the keys that the issuer's metadata name." example:"/etc/symdepot/gitlab.jwks"`
	Match    map[string]string `yaml:"match" private:"true" help:"A pattern for each claim, all of which must match; * matches any text without a slash. One of sub, repository_id, repository_owner_id, project_id and namespace_id is required, because names can come to belong to others." example:"{repository_owner_id: '9919', ref: 'refs/heads/*'}"`
	Write    []string          `yaml:"write" help:"Products that the job may add files to; \"*\" means all." example:"[Game]"`
	Read     bool              `yaml:"read" default:"false" help:"The job may also read these products, so that a push does not send what the server has." example:"true"`
	Name     string            `yaml:"name" help:"Principal name; {CLAIM} stands for the value of a claim. Empty: oidc:github:REPOSITORY@REF, oidc:gitlab:PROJECT@REF or oidc:SUBJECT." example:"ci/{repository}"`
	Product  string            `yaml:"product" help:"Product of uploads that name none; {CLAIM} as in name." example:"Game"`
	Branch   string            `yaml:"branch" help:"Branch of all uploads; {CLAIM} as in name. Empty: that of the upload." example:"{ref}"`
	Class    string            `yaml:"class" help:"Class of all uploads, by which retention rules choose; {CLAIM} as in name. Empty: that of the upload." example:"nightly"`
}

// SignIn configures the OpenID provider at which people sign in.
type SignIn struct {
	Issuer           string   `yaml:"issuer" help:"URL of the provider, below which its metadata are (/.well-known/openid-configuration). Empty: none. The redirect URI to register there is base_url with /-/login/oidc/callback." example:"https://login.example.com/realms/corp"`
	ClientID         string   `yaml:"client_id" help:"Id that the provider gave this server." example:"symdepot"`
	ClientSecretFile string   `yaml:"client_secret_file" help:"A file that holds the secret that the provider gave this server, or the variable SYMDEPOT_AUTH_SIGN_IN_CLIENT_SECRET; public clients have none." example:"/run/secrets/oidc"`
	Scopes           []string `yaml:"scopes" help:"Scopes to ask for besides openid. Empty: profile and email." example:"[email, groups]"`
	NameClaim        string   `yaml:"name_claim" default:"email" help:"Claim of the id token that is the principal name, for oidc:NAME in patterns. email counts only if the provider has verified it." example:"preferred_username"`
	GroupsClaim      string   `yaml:"groups_claim" help:"Claim of the id token with the groups, for oidc-group:NAME in patterns. Empty: none." example:"groups"`
}

// Audit configures the audit log.
type Audit struct {
	File string `yaml:"file" help:"File that receives one JSON object per download; older files stay in the same folder with a time in their names. Empty: no audit log." example:"/var/log/symdepot/audit.jsonl"`
	Keep int    `yaml:"keep" default:"90" help:"Number of older files that are kept; -1: all." example:"365"`
}

var errFolder = errors.New("a folder is expected")

// splitPointerRoot splits [PREFIX=]DIR.
func splitPointerRoot(text string) (prefix, dir string) {
	if prefix, dir, ok := strings.Cut(text, "="); ok {
		return prefix, dir
	}
	return "", text
}
