package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/server"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/symcache"
)

// symCacheConfig says how Windows Performance Analyzer and its relatives are
// answered.
type symCacheConfig struct {
	Folders     []string `yaml:"folders" help:"SymCache folders that other programs fill, such as C:\\SymCache of a colleague. Files are served from where they are; nothing is written there." example:"[/srv/SymCache]"`
	Store       string   `yaml:"store" help:"A SymCache folder that is served likewise, and into which everything goes that is made or fetched, so that clients can also read it over SMB." example:"/srv/SymCacheStore"`
	StoreBytes  size     `yaml:"store_bytes" default:"0" help:"The most that all files of the store may have together; 0: no limit. What was not used for longest goes first, and only what the depot has too or can make again." example:"200GiB"`
	StoreUnused span     `yaml:"store_unused" default:"0s" help:"How long a file stays in the store that nobody asks for, likewise; 0: for ever." example:"90d"`
	Wait        span     `yaml:"wait" default:"2m" help:"How long a request is held while its file is made, for clients that do not come again." example:"30s"`
	AgeRadix    string   `yaml:"age_radix" default:"decimal" enum:"decimal,auto" help:"How the age in a request is read. auto looks for it as hex too, among the files that are there, if none is of its decimal age." example:"auto"`
	Redirect    bool     `yaml:"redirect" default:"false" help:"Answer with 302 to an address of this server that is good for that file and for five minutes, instead of with the file." example:"true"`
}

// symCacheFlags are the flags of serve for the same.
type symCacheFlags struct {
	SymcacheDir      []string      `name:"symcache-dir" help:"Serve the SymCache files of this folder as it is, while other programs fill it; repeatable." placeholder:"DIR" sep:"none"`
	SymcacheStore    string        `name:"symcache-store" help:"The same, and write there what is made or fetched, so that clients can read it over SMB too." placeholder:"DIR"`
	SymcacheWait     time.Duration `name:"symcache-wait" help:"Hold requests for SymCache files so long while they are made. Default: 2m." placeholder:"TIME"`
	SymcacheAge      string        `name:"symcache-age" help:"Read the age in such requests as decimal (default), or also as hex." enum:",decimal,auto" default:"" placeholder:"decimal|auto"`
	SymcacheRedirect bool          `name:"symcache-redirect" help:"Answer such requests with 302 to a signed address."`
}

// into puts the flags over what the configuration says.
func (f symCacheFlags) into(conf *Config) {
	c := &conf.SymCache
	c.Folders = append(c.Folders, f.SymcacheDir...)
	if f.SymcacheStore != "" {
		c.Store = f.SymcacheStore
	}
	if f.SymcacheWait > 0 {
		c.Wait = span(f.SymcacheWait)
	}
	if f.SymcacheAge != "" {
		c.AgeRadix = f.SymcacheAge
	}
	c.Redirect = c.Redirect || f.SymcacheRedirect
}

// check finds folders that are given twice.
func (c symCacheConfig) check() error {
	if c.Store != "" && slices.Contains(c.Folders, c.Store) {
		return errors.New("the store is also among the folders, which are not written to")
	}
	return nil
}

func (c symCacheConfig) depot() depot.SymCacheOptions {
	return depot.SymCacheOptions{Folders: c.Folders, Store: c.Store, StoreBytes: int64(c.StoreBytes), StoreUnused: time.Duration(c.StoreUnused)}
}

func (c symCacheConfig) server() server.SymCacheConfig {
	return server.SymCacheConfig{Wait: time.Duration(c.Wait), HexAge: c.AgeRadix == "auto", Redirect: c.Redirect}
}

type configSymCacheSampleCmd struct {
	File string `arg:"" help:"The sample's appsettings.json."`
}

// Help is the long help text.
func (configSymCacheSampleCmd) Help() string {
	return `Prints a configuration that does what Microsoft's sample SymCache server did with its settings: SymCacheDirectory
becomes symcache.store, SymbolServer an upstream, TranscoderPath a transcoder, and TranscoderVersion the version that it
must turn out to make. Nothing is changed.

  symdepot config from-symcache-sample C:\inetpub\SymCacheServer\appsettings.json > symdepot.yaml
  symdepot config check symdepot.yaml

Exit codes: 0 printed, 1 there are no such settings, 3 the file cannot be read.`
}

// Run prints the configuration.
func (c configSymCacheSampleCmd) Run(a *app) error {
	info, err := os.Stat(c.File)
	if err != nil {
		return err
	}
	if info.Size() > maxConfig {
		return fmt.Errorf("%s has %d bytes, more than settings can have", c.File, info.Size())
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return err
	}
	s, err := readSampleSettings(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if s == (sampleSettings{}) {
		fmt.Fprintf(a.stderr, "symdepot: %s has none of SymCacheDirectory, SymbolServer, TranscoderPath and TranscoderVersion\n", c.File)
		return term.ErrNo
	}
	out, err := s.config()
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.stdout, out)
	return err
}

// sampleSettings are those of Microsoft's sample server.
type sampleSettings struct {
	directory, server, program, version string
}

// readSampleSettings reads appsettings.json, in which comments and further
// commas are allowed, letters may have any case, and the settings may stand
// in any section.
func readSampleSettings(text []byte) (sampleSettings, error) {
	var s sampleSettings
	var root yaml.Node
	// YAML takes JSON, with commas at the end, once the comments are gone.
	if err := yaml.Unmarshal(withoutComments([]byte(strings.TrimPrefix(string(text), "\ufeff"))), &root); err != nil {
		return s, err
	}
	var see func(n *yaml.Node)
	see = func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			for _, c := range n.Content {
				see(c)
			}
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			to := map[string]*string{"symcachedirectory": &s.directory, "symbolserver": &s.server, "transcoderpath": &s.program, "transcoderversion": &s.version}
			name := strings.ToLower(k.Value)
			if j := strings.LastIndexByte(name, ':'); j >= 0 { // Section:Key
				name = name[j+1:]
			}
			if t := to[name]; t != nil && v.Kind == yaml.ScalarNode {
				*t = strings.TrimSpace(v.Value)
				continue
			}
			see(v)
		}
	}
	see(&root)
	return s, nil
}

// withoutComments replaces // and /* */ outside of texts by blanks, and tabs.
func withoutComments(b []byte) []byte {
	out := slices.Clone(b)
	for i := 0; i < len(out); i++ {
		switch {
		case out[i] == '\t':
			out[i] = ' '
		case out[i] == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case out[i] == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			block := out[i+1] == '*'
			for ; i < len(out); i++ {
				if !block && (out[i] == '\n' || out[i] == '\r') {
					break
				}
				if block && i+1 < len(out) && out[i] == '*' && out[i+1] == '/' {
					out[i], out[i+1] = ' ', ' '
					i++
					break
				}
				if out[i] != '\n' && out[i] != '\r' {
					out[i] = ' '
				}
			}
		}
	}
	return out
}

// config is a configuration that does what the settings say.
func (s sampleSettings) config() (string, error) {
	var b strings.Builder
	b.WriteString("# Made of the settings of Microsoft's sample SymCache server. All keys: symdepot config print\n")
	quoted := func(v string) (string, error) {
		t, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Style: yaml.SingleQuotedStyle, Value: v})
		return strings.TrimSuffix(string(t), "\n"), err
	}
	line := func(format, v string) error {
		q, err := quoted(v)
		fmt.Fprintf(&b, format, q)
		return err
	}
	var errs []error
	if s.directory != "" {
		b.WriteString("symcache:\n  # What is there is served, notes of failures are not read, and results are written there as before.\n")
		errs = append(errs, line("  store: %s\n", s.directory))
	}
	if s.server != "" {
		b.WriteString("upstreams:\n")
		if strings.Contains(s.server, "://") {
			errs = append(errs, line("  - url: %s\n", s.server))
			b.WriteString("    layout: symstore\n")
		} else {
			errs = append(errs, line("  - folder: %s\n", s.server))
		}
	}
	if s.program == "" && s.version != "" {
		fmt.Fprintf(&b, "# TranscoderVersion %q says nothing without TranscoderPath.\n", s.version)
	}
	if s.program != "" {
		name := "sample"
		if s.version != "" {
			v, err := symcache.ParseVersion(s.version)
			if err != nil {
				return "", fmt.Errorf("TranscoderVersion: %w", err)
			}
			name += ",version=" + v.String()
		}
		if strings.Contains(s.program, `"`) {
			return "", fmt.Errorf("TranscoderPath: %q cannot be a path", s.program)
		}
		b.WriteString("transcoding:\n  programs:\n")
		if s.version != "" {
			b.WriteString("    # The version is found out by a try on start; another one than this is an error.\n")
		}
		errs = append(errs, line("    - %s\n", name+`="`+s.program+`" -pdb {pdb}`))
		if base := path.Base(strings.ReplaceAll(s.program, `\`, "/")); !strings.EqualFold(base, "symcachegen.exe") {
			fmt.Fprintf(&b, "    # %s is called as symcachegen.exe is.\n", term.Printable(base))
		}
	}
	return b.String(), errors.Join(errs...)
}
