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

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// The types of a source.
const (
	TypeHTTP   = "http"   // a server of any layout
	TypeBucket = "bucket" // of an object store: s3://, gs://, az://
	TypeFolder = "folder" // of this machine
)

// Spec describes a source before it is opened, whoever describes it: a preset,
// the command line, the configuration or an environment variable.
type Spec struct {
	Name   string
	Preset string // empty: none
	Type   string
	// URL is the server's or the bucket's address, or the folder's path.
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
	Timeouts     Timeouts
	// Bucket is the address read, with credentials, if Type is TypeBucket.
	Bucket bucket.Config
	// PointerRoots are for folders.
	PointerRoots []symstore.PointerRoot
	Guard        GuardOptions
}

var (
	microsoftKinds = []symfile.Kind{symfile.PE, symfile.PDB, symfile.PDB20, symfile.PortablePDB, symfile.MSFZ, symfile.DBG}
	browserKinds   = []symfile.Kind{symfile.PE, symfile.PDB, symfile.Breakpad}
)

// Presets are well-known servers. Those who run them ask nobody to register;
// each is asked only if an operator names it.
var Presets = []Spec{
	// No cabinets and no pointers are there any more.
	{Preset: "microsoft", URL: "https://msdl.microsoft.com/download/symbols", Layout: "symstore", TwoTier: TwoTierNo, NoCompressed: true, NoPointers: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	// It answers 403 to whoever sends no checksum.
	{Preset: "nuget", URL: "https://symbols.nuget.org/download/symbols", Layout: "ssqp",
		Guard: GuardOptions{Kinds: []symfile.Kind{symfile.PortablePDB}, RequiresChecksum: true}},
	{Preset: "mozilla", URL: "https://symbols.mozilla.org", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: browserKinds, Executables: true}},
	{Preset: "mozilla-try", URL: "https://symbols.mozilla.org/try", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true,
		Guard: GuardOptions{Kinds: browserKinds, Executables: true, Rank: 1}},
	// A bucket that may be read and not listed says 403 of what is not there.
	{Preset: "chromium", URL: "https://chromium-browser-symsrv.commondatastorage.googleapis.com", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Forbidden403: true,
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	{Preset: "electron", URL: "https://symbols.electronjs.org", Layout: "native", TwoTier: TwoTierNo, NoPointers: true, Forbidden403: true,
		Guard: GuardOptions{Kinds: []symfile.Kind{symfile.PDB, symfile.Breakpad, symfile.SourceBundle},
			NamePatterns: []string{"*electron*", "*ffmpeg*", "*libegl*", "*libglesv2*", "*swiftshader*", "*vulkan*", "*chromedriver*", "*mksnapshot*"}}},
	{Preset: "unity", URL: "https://symbolserver.unity3d.com", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	{Preset: "nvidia", URL: "https://driver-symbols.nvidia.com", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Forbidden403: true, Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	{Preset: "amd", URL: "https://download.amd.com/dir/bin", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	// It turns unknown programs away, and those who ask for much at once.
	{Preset: "intel", URL: "https://software.intel.com/sites/downloads/symbols", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, UserAgent: "curl/7.72.0",
		Guard: GuardOptions{Kinds: microsoftKinds, Executables: true, Concurrency: 2}},
	{Preset: "citrix", URL: "https://ctxsym.citrix.com/symbols", Layout: "symstore", TwoTier: TwoTierNo, NoPointers: true, Guard: GuardOptions{Kinds: microsoftKinds, Executables: true}},
	// The federation asks the distributions by itself, and is slower for it.
	linux("debuginfod", "https://debuginfod.elfutils.org", 1),
	linux("debian", "https://debuginfod.debian.net", 0),
	linux("ubuntu", "https://debuginfod.ubuntu.com", 0),
	linux("fedora", "https://debuginfod.fedoraproject.org", 0),
	linux("centos", "https://debuginfod.centos.org", 0),
	linux("opensuse", "https://debuginfod.opensuse.org", 0),
	linux("archlinux", "https://debuginfod.archlinux.org", 0),
}

func linux(name, address string, rank int) Spec {
	return Spec{Preset: name, URL: address, Layout: "debuginfod", Guard: GuardOptions{Kinds: []symfile.Kind{symfile.ELF}, Executables: true, Rank: rank}}
}

// PresetByName returns a preset as a source of that name.
func PresetByName(name string) (Spec, error) {
	var known []string
	for _, p := range Presets {
		if strings.EqualFold(p.Preset, name) {
			p.Name, p.Type = p.Preset, TypeHTTP
			return p, nil
		}
		known = append(known, p.Preset)
	}
	return Spec{}, fmt.Errorf("no preset %q; known are %s", clip(name), strings.Join(known, ", "))
}

// PresetOf returns the preset that a server's address is that of.
func PresetOf(u *url.URL) (Spec, bool) {
	for _, p := range Presets {
		known, err := url.Parse(p.URL)
		if err == nil && strings.EqualFold(u.Host, known.Host) && strings.EqualFold(strings.TrimRight(u.Path, "/"), known.Path) && u.RawQuery == "" && u.User == nil {
			p.Name, p.Type = p.Preset, TypeHTTP
			return p, true
		}
	}
	return Spec{}, false
}

// SpecOf describes a source that is known by its address only: a URL or a folder
// of this machine.
func SpecOf(address string) (Spec, error) {
	s := Spec{URL: address, Guard: GuardOptions{Executables: true}}
	scheme, _, ok := strings.Cut(address, "://")
	switch scheme = strings.ToLower(scheme); {
	case ok && (scheme == "http" || scheme == "https"):
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return s, errors.New("an http or https address is expected, such as https://symbols.example.com/path")
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
		return s, fmt.Errorf("no upstream supports %s://; supported are http, https, s3, gs, az, file and folders", clip(scheme))
	case IsPath(address):
		s.Type, s.Name = TypeFolder, address
	default:
		return s, errors.New("neither a URL nor a folder; a folder begins with /, ./ or ../, or a drive")
	}
	return s, nil
}

// folderOf is the folder of a file:// address.
func folderOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" && !strings.EqualFold(u.Host, "localhost") || u.Path == "" {
		return "", errors.New("the file:// address of a folder of this machine is expected, such as file:///srv/symbols")
	}
	p := u.Path
	if len(p) > 2 && p[0] == '/' && IsDrive(p[1:]) {
		p = p[1:]
	}
	return filepath.FromSlash(p), nil
}

// IsDrive reports whether s begins with the letter of a drive of Windows.
func IsDrive(s string) bool {
	return len(s) >= 2 && s[1] == ':' && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
}

// IsPath reports whether s is written like a folder's path.
func IsPath(s string) bool {
	for _, p := range []string{"/", "./", "../", `\`, `.\`, `..\`} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return s == "." || s == ".." || IsDrive(s)
}

// ParseUpstream reads PRESET or URL, with options behind commas: layout, casing,
// two_tier, rank, name and executables.
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
		err = fmt.Errorf("%q is no preset, and an address begins with https:// (or http://, s3://, gs://, az://)", clip(address))
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
			return fmt.Errorf("rank=%s: a whole number is expected", clip(value))
		}
		s.Guard.Rank = n
	case "name":
		if value == "" {
			return errors.New("name= is empty")
		}
		s.Name = value
	case "executables":
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("executables=%s: true or false is expected", clip(value))
		}
		s.Guard.Executables = yes
	default:
		return fmt.Errorf("no option %q; there are layout, casing, two_tier, rank, name and executables", clip(key))
	}
	return nil
}

// Shown is the address without what may be secret.
func (s *Spec) Shown() string {
	if s.Type == TypeFolder {
		return s.URL
	}
	return MaskAddresses(s.URL)
}

// Check finds what is wrong with a description, without a connection.
func (s *Spec) Check() error {
	if s.Name == "" {
		return errors.New("a source needs a name")
	}
	if s.Type == TypeFolder {
		if _, err := s.FolderLayout(); err != nil {
			return err
		}
		return nil
	}
	src, err := s.source(OpenOptions{Dialer: NewDialer(DialerOptions{NoEgress: true})})
	if err != nil {
		// Others say which source they talk of.
		if u := errors.Unwrap(err); u != nil && strings.HasPrefix(err.Error(), "source ") {
			return u
		}
		return err
	}
	return src.Close()
}

// OpenOptions are what all sources have in common.
type OpenOptions struct {
	Dialer   *Dialer
	ServerID string // what we are called in Via
	TempDir  string // empty: the system's folder
	// Folder opens a source of TypeFolder. Nil: such sources cannot be opened.
	Folder func(s *Spec) (fetch.Source, error)
}

// Open opens the source behind its guard. No connection is made.
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
			UserAgent: s.UserAgent, Forbidden403: s.Forbidden403, NoCompressed: s.NoCompressed, NoPointers: s.NoPointers, MaxBytes: s.Guard.MaxBytes,
			Timeouts: s.Timeouts, ServerID: opt.ServerID, TempDir: opt.TempDir,
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
			MaxBytes: s.Guard.MaxBytes, Timeouts: s.Timeouts, TempDir: opt.TempDir,
		})
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return st, nil
	case TypeFolder:
		if opt.Folder == nil {
			return nil, fmt.Errorf("source %s: folders cannot be opened here", s.Name)
		}
		return opt.Folder(s)
	}
	return nil, fmt.Errorf("no type %q of a source; known are %s, %s, %s", clip(s.Type), TypeHTTP, TypeBucket, TypeFolder)
}

// FolderLayout returns the layout of a folder, the zero value where it is to be
// detected.
func (s *Spec) FolderLayout() (layout.Layout, error) {
	l, err := layout.ParseFolder(s.Layout)
	if err != nil {
		return l, fmt.Errorf("folder %s: %w", s.URL, err)
	}
	return l, nil
}

// metadataHosts give credentials to programs on machines of a cloud. They are
// inside of it, and reached for credentials only.
var metadataHosts = []string{"169.254.169.254", "[fd00:ec2::254]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "metadata.google.internal"}

// OpenBucket opens a bucket. The hosts that the operator named may be anywhere.
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
		named(c.Endpoint)
		if len(hosts) > 0 {
			if host, port, err := net.SplitHostPort(hosts[0]); err == nil {
				hosts = append(hosts, net.JoinHostPort(c.Bucket+"."+host, port))
			}
		}
		c2 := *c
		c2.CredentialsVia = credentials(c.STSEndpoint, c.RoleEndpoint, os.Getenv("AWS_ENDPOINT_URL_STS"), os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
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
		return nil, errors.New("the address of a bucket is expected: s3://, gs:// or az://")
	}
	return cfg.Open(d.Transport(hosts...))
}
