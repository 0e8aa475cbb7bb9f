package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// The types of an upstream.
const (
	TypeHTTP   = "http"   // an HTTP server of any layout
	TypeBucket = "bucket" // a bucket of an object store: s3://, gs://, az://
	TypeFolder = "folder" // a folder of this machine
)

// Spec describes an upstream before it is opened. It comes from a preset, the
// command line, the configuration or an environment variable.
type Spec struct {
	Name   string
	Preset string // empty: none
	Type   string
	// URL is the address of the server or bucket, or the path of the folder.
	URL          string
	Layout       string
	Casing       string
	TwoTier      string
	UserAgent    string
	Header       http.Header
	Credentials  Credentials
	Forbidden403 bool
	NoCompressed bool
	NoPointers   bool
	HasIndex     bool
	Timeouts     Timeouts
	// Bucket is the parsed address with credentials if Type is TypeBucket.
	Bucket bucket.Config
	// PointerRoots apply to folders.
	PointerRoots []symstore.PointerRoot
	Guard        GuardOptions
}

var (
	microsoftKinds = []symfile.Kind{symfile.PE, symfile.PDB, symfile.PDB20, symfile.PortablePDB, symfile.MSFZ, symfile.DBG}
	browserKinds   = []symfile.Kind{symfile.PE, symfile.PDB, symfile.Breakpad}
)

// Presets are well-known public servers, which require no registration. A preset
// is used only if the operator names it.
var Presets = []Spec{
	// This server has neither cabinets nor pointers.
	{Preset: "microsoft", URL: "https://msdl.microsoft.com/download/symbols",
		Layout: "symstore", TwoTier: TwoTierNo, NoCompressed: true, NoPointers: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	// This server answers 403 to requests without a checksum.
	{Preset: "nuget", URL: "https://symbols.nuget.org/download/symbols", Layout: "ssqp",
		Guard: GuardOptions{Kinds: []symfile.Kind{symfile.PortablePDB}, RequiresChecksum: true}},
	{Preset: "mozilla", URL: "https://symbols.mozilla.org", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: browserKinds, Executables: true}},
	{Preset: "mozilla-try", URL: "https://symbols.mozilla.org/try", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: browserKinds, Executables: true, Rank: 1}},
	// This bucket may be read but not listed, so it answers 403 for missing
	// objects.
	{Preset: "chromium", URL: "https://chromium-browser-symsrv.commondatastorage.googleapis.com",
		Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Forbidden403: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	{Preset: "electron", URL: "https://symbols.electronjs.org", Layout: "native", TwoTier: TwoTierNo, NoPointers: true, Forbidden403: true,
		Guard: GuardOptions{Kinds: []symfile.Kind{symfile.PDB, symfile.Breakpad, symfile.SourceBundle},
			NamePatterns: []string{"*electron*", "*ffmpeg*", "*libegl*", "*libglesv2*", "*swiftshader*", "*vulkan*",
				"*chromedriver*", "*mksnapshot*"}}},
	{Preset: "unity", URL: "https://symbolserver.unity3d.com", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	{Preset: "nvidia", URL: "https://driver-symbols.nvidia.com",
		Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Forbidden403: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	{Preset: "amd", URL: "https://download.amd.com/dir/bin", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	// This server rejects unknown programs and clients with many concurrent
	// requests.
	{Preset: "intel", URL: "https://software.intel.com/sites/downloads/symbols",
		Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, UserAgent: "curl/7.72.0",
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true, Concurrency: 2}},
	{Preset: "citrix", URL: "https://ctxsym.citrix.com/symbols", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	// The federating server asks the distributions' servers, and is slower for
	// it.
	linux("debuginfod", "https://debuginfod.elfutils.org", 1),
	linux("debian", "https://debuginfod.debian.net", 0),
	linux("ubuntu", "https://debuginfod.ubuntu.com", 0),
	linux("fedora", "https://debuginfod.fedoraproject.org", 0),
	linux("centos", "https://debuginfod.centos.org", 0),
	linux("opensuse", "https://debuginfod.opensuse.org", 0),
	linux("archlinux", "https://debuginfod.archlinux.org", 0),
}

func linux(name, address string, rank int) Spec {
	return Spec{
		Preset: name, URL: address, Layout: "debuginfod",
		Guard: GuardOptions{Kinds: []symfile.Kind{symfile.ELF}, Executables: true, Rank: rank},
	}
}

// PresetByName returns a preset as an upstream with that name.
func PresetByName(name string) (Spec, error) {
	var known []string
	for _, p := range Presets {
		if strings.EqualFold(p.Preset, name) {
			p.Name, p.Type = p.Preset, TypeHTTP
			return p, nil
		}
		known = append(known, p.Preset)
	}
	return Spec{}, fmt.Errorf("unknown preset %q; known are %s", truncate.Text(name), strings.Join(known, ", "))
}

// PresetOf returns the preset of a server's URL.
func PresetOf(u *url.URL) (Spec, bool) {
	for _, p := range Presets {
		known, err := url.Parse(p.URL)
		if err == nil && strings.EqualFold(u.Host, known.Host) &&
			strings.EqualFold(strings.TrimRight(u.Path, "/"), known.Path) && u.RawQuery == "" && u.User == nil {
			p.Name, p.Type = p.Preset, TypeHTTP
			return p, true
		}
	}
	return Spec{}, false
}

// SpecOf describes the upstream at an address, which is a URL or a folder of this
// machine.
func SpecOf(address string) (Spec, error) {
	s := Spec{URL: address, Guard: GuardOptions{Executables: true}}
	scheme, _, ok := strings.Cut(address, "://")
	switch scheme = strings.ToLower(scheme); {
	case ok && (scheme == "http" || scheme == "https"):
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return s, errors.New("an http or https URL is expected, such as https://symbols.example.com/path")
		}
		s.Type, s.Name = TypeHTTP, u.Host+strings.TrimRight(maskPath(u.EscapedPath()), "/")
		s.Layout = layout.Auto.Name()
	case ok && (scheme == "s3" || scheme == "gs" || scheme == "az"):
		b, err := bucket.ParseURL(address)
		if err != nil {
			return s, err
		}
		s.Type, s.Bucket, s.Layout = TypeBucket, b, layout.Auto.Name()
		s.Name, _, _ = strings.Cut(address, "?")
	case ok && scheme == "file":
		dir, err := folderOf(address)
		if err != nil {
			return s, err
		}
		s.Type, s.URL, s.Name = TypeFolder, dir, dir
	case ok:
		return s, fmt.Errorf("no upstream supports %s://; supported are http, https, s3, gs, az, file and folders", truncate.Text(scheme))
	case IsPath(address):
		s.Type, s.Name = TypeFolder, address
	default:
		return s, errors.New("neither a URL nor a folder; a folder begins with /, ./ or ../, or a drive")
	}
	return s, nil
}

// folderOf returns the folder of a file:// URL.
func folderOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" && !strings.EqualFold(u.Host, "localhost") || u.Path == "" {
		return "", errors.New("a file:// URL of a folder of this machine is expected, such as file:///srv/symbols")
	}
	p := u.Path
	if len(p) > 2 && p[0] == '/' && IsDrive(p[1:]) {
		p = p[1:]
	}
	return filepath.FromSlash(p), nil
}

// IsDrive reports whether s begins with a Windows drive letter and a colon.
func IsDrive(s string) bool {
	return len(s) >= 2 && s[1] == ':' && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
}

// IsPath reports whether s has the form of a folder's path.
func IsPath(s string) bool {
	for _, p := range []string{"/", "./", "../", `\`, `.\`, `..\`} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return s == "." || s == ".." || IsDrive(s)
}

// ParseUpstream parses PRESET or URL, followed by comma-separated options:
// layout, casing, two_tier, rank, name, forms and executables.
func ParseUpstream(text string) (Spec, error) {
	address, options := text, [][2]string{}
	for {
		i := strings.LastIndexByte(address, ',')
		if i < 0 {
			break
		}
		key, value, ok := strings.Cut(address[i+1:], "=")
		if !ok || strings.ContainsAny(key, "/?&:") {
			break
		}
		options = append(options, [2]string{key, value})
		address = address[:i]
	}
	address = strings.TrimSpace(address)
	var s Spec
	var err error
	if strings.Contains(address, "://") || IsPath(address) {
		s, err = SpecOf(address)
	} else if s, err = PresetByName(address); err != nil && strings.ContainsAny(address, "./:") {
		err = fmt.Errorf("%q is not a preset; a URL begins with https:// (or http://, s3://, gs://, az://)", truncate.Text(address))
	}
	if err != nil {
		return s, err
	}
	slices.Reverse(options)
	for _, o := range options {
		if err := s.option(o[0], o[1]); err != nil {
			return s, err
		}
	}
	return s, s.Check()
}

func (s *Spec) option(key, value string) error {
	switch key {
	case "layout":
		s.Layout = value
	case "casing":
		s.Casing = value
	case "two_tier":
		s.TwoTier = value
	case "rank":
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("rank=%s: a whole number is expected", truncate.Text(value))
		}
		s.Guard.Rank = n
	case "name":
		if value == "" {
			return errors.New("name= is empty")
		}
		s.Name = value
	case "forms":
		if value != FormsPublic {
			return fmt.Errorf("forms=%s: %s is expected", truncate.Text(value), FormsPublic)
		}
		s.Guard.Public = true
	case "executables":
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("executables=%s: true or false is expected", truncate.Text(value))
		}
		s.Guard.Executables = yes
	default:
		return fmt.Errorf("unknown option %q; known are layout, casing, two_tier, rank, name, forms and executables", truncate.Text(key))
	}
	return nil
}

// Shown returns the address without possible secrets.
func (s *Spec) Shown() string {
	if s.Type == TypeFolder {
		return s.URL
	}
	return MaskAddresses(s.URL)
}

// Check validates a description without connecting.
func (s *Spec) Check() error {
	if s.Name == "" {
		return errors.New("an upstream needs a name")
	}
	if s.Type == TypeFolder {
		if _, err := s.FolderLayout(); err != nil {
			return err
		}
		return nil
	}
	src, err := s.source(OpenOptions{Dialer: NewDialer(DialerOptions{NoEgress: true})})
	if err != nil {
		// The caller adds the upstream's name.
		if n, ok := errors.AsType[*nameError](err); ok {
			return n.err
		}
		return err
	}
	return src.Close()
}

// OpenOptions are the options that all upstreams share.
type OpenOptions struct {
	Dialer   *Dialer
	ServerID string // id of this server in Via
	Tracer   *span.Tracer
	TempDir  string // empty: the system's folder
	// Folder opens an upstream of TypeFolder. Nil: such upstreams are an error.
	Folder func(s *Spec) (fetch.Source, error)
}

// Open opens the upstream behind its guard. It does not connect.
func (s *Spec) Open(_ context.Context, opt OpenOptions) (*Guarded, error) {
	src, err := s.source(opt)
	if err != nil {
		return nil, err
	}
	return Guard(src, s.Guard), nil
}

func (s *Spec) source(opt OpenOptions) (fetch.Source, error) {
	switch s.Type {
	case TypeHTTP:
		h, err := NewHTTP(HTTPConfig{
			Name: s.Name, URL: s.URL, Layout: s.Layout, Casing: s.Casing, TwoTier: s.TwoTier, Header: s.Header, Credentials: s.Credentials,
			UserAgent: s.UserAgent, Forbidden403: s.Forbidden403, NoCompressed: s.NoCompressed, NoPointers: s.NoPointers,
			HasIndex: s.HasIndex, MaxBytes: s.Guard.MaxBytes,
			Timeouts: s.Timeouts, ServerID: opt.ServerID, Tracer: opt.Tracer, TempDir: opt.TempDir,
		}, opt.Dialer)
		if err != nil {
			return nil, err
		}
		return h, nil
	case TypeBucket:
		b, err := OpenBucket(s.Bucket, opt.Dialer)
		if err != nil {
			return nil, err
		}
		st, err := NewStore(b, StoreConfig{
			Name: s.Name, Layout: s.Layout, Casing: s.Casing, TwoTier: s.TwoTier, Forbidden403: s.Forbidden403, NoCompressed: s.NoCompressed,
			HasIndex: s.HasIndex, MaxBytes: s.Guard.MaxBytes, Timeouts: s.Timeouts, TempDir: opt.TempDir,
		})
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return st, nil
	case TypeFolder:
		if opt.Folder == nil {
			return nil, &nameError{s.Name, errors.New("a folder cannot be used here")}
		}
		return opt.Folder(s)
	}
	return nil, fmt.Errorf("unknown type of upstream %q; known are %s, %s, %s", truncate.Text(s.Type), TypeHTTP, TypeBucket, TypeFolder)
}

// FolderLayout returns the layout of a folder; the zero value means that it must
// be detected.
func (s *Spec) FolderLayout() (layout.Layout, error) {
	l, err := layout.ParseFolder(s.Layout)
	if err != nil {
		return l, &OptionError{"layout", fmt.Errorf("folder %s: %w", s.URL, err)}
	}
	return l, nil
}

// metadataHosts are the hosts from which programs in a cloud get credentials.
// They have private addresses and are used only for credentials.
var metadataHosts = []string{
	"169.254.169.254", "[fd00:ec2::254]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]",
	"metadata.google.internal",
}

// OpenBucket opens a bucket. The hosts that the operator configured may have any
// address.
func OpenBucket(cfg bucket.Config, d *Dialer) (bucket.Bucket, error) {
	var hosts []string
	named := func(addresses ...string) {
		for _, a := range addresses {
			if u, err := url.Parse(a); err == nil && u.Host != "" {
				hosts = append(hosts, HostPort(u))
			}
		}
	}
	credentials := func(addresses ...string) http.RoundTripper {
		before := len(hosts)
		named(addresses...)
		t := d.Transport(append(slices.Clone(metadataHosts), hosts...)...)
		hosts = hosts[:before]
		return t
	}
	switch c := cfg.(type) {
	case *bucket.S3Config:
		named(c.Store())
		if len(hosts) > 0 {
			if host, port, err := net.SplitHostPort(hosts[0]); err == nil {
				hosts = append(hosts, net.JoinHostPort(c.Bucket+"."+host, port))
			}
		}
		c2 := *c
		c2.CredentialsVia = credentials(c.STSEndpoint, c.RoleEndpoint, os.Getenv("AWS_ENDPOINT_URL_STS"),
			os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
		cfg = &c2
	case *bucket.GCSConfig:
		named(c.Endpoint)
		c2 := *c
		c2.CredentialsVia = credentials(c.MetadataEndpoint, "http://"+os.Getenv("GCE_METADATA_HOST"))
		cfg = &c2
	case *bucket.AzureConfig:
		named(c.Endpoint)
		c2 := *c
		c2.CredentialsVia = credentials(c.MetadataEndpoint, c.Authority, os.Getenv("AZURE_AUTHORITY_HOST"))
		cfg = &c2
	case nil:
		return nil, errors.New("a bucket URL is expected: s3://, gs:// or az://")
	}
	return cfg.Open(d.Transport(hosts...))
}
