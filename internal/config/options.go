package config

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/glob"
	"github.com/symdepot/symdepot/internal/server"
	"github.com/symdepot/symdepot/internal/srclink"
	"github.com/symdepot/symdepot/internal/stage"
	"github.com/symdepot/symdepot/internal/symbolicate"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/internal/tree"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

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

// Limits returns the limits of downloads.
func (c *Config) Limits() depot.Limits {
	f := c.Fetch
	return depot.Limits{NextRank: time.Duration(f.NextRank), FirstByte: time.Duration(f.FirstByte), Stall: time.Duration(f.Stall),
		MaxBytes: int64(f.MaxBytes), Fetches: f.AtOnce}
}

// Lifetimes returns the lifetimes of the negative cache.
func (c *Config) Lifetimes() depot.Lifetimes {
	of := func(d time.Duration) time.Duration {
		if d <= 0 {
			return -1
		}
		return d
	}
	return depot.Lifetimes{NotFound: of(time.Duration(c.Misses.Absent)), Forbidden: of(time.Duration(c.Misses.Forbidden))}
}

// PushLimits returns the limits of pushes.
func (c *Config) PushLimits() stage.Limits {
	p := c.Push
	l := stage.Limits{
		MaxFile: int64(p.MaxFile), MaxFiles: int64(p.MaxFiles), MaxBytes: int64(p.MaxBytes),
		Open: p.MaxOpen, Staged: int64(p.MaxStaged), Free: int64(p.MinFree),
		Idle: time.Duration(p.Idle), Longest: time.Duration(p.Longest), Quiet: time.Duration(p.Collect), DenyOther: p.DenyOther,
	}
	for product, n := range p.Quotas {
		if l.Quotas == nil {
			l.Quotas = map[string]int64{}
		}
		l.Quotas[product] = int64(n)
	}
	return l
}

// LinkRules returns the rules for links to source files.
func (c *Config) LinkRules() srclink.Rules {
	r := srclink.Rules{Hosts: c.Sources.LinkHosts, Products: map[string]srclink.Rule{}}
	for product, rule := range c.Sources.Srcsrv {
		if product == "*" {
			r.Default = srclink.Rule(rule)
		} else {
			r.Products[product] = srclink.Rule(rule)
		}
	}
	return r
}

// check refuses rules and hosts that are not known.
func (s *SourceLinks) check(fail func(key, format string, args ...any)) {
	for product, rule := range s.Srcsrv {
		if !slices.Contains([]srclink.Rule{srclink.Keep, srclink.Flag, srclink.Refuse}, srclink.Rule(rule)) {
			fail("sources.srcsrv."+product, "keep, flag or refuse-commands is expected, not %q", rule)
		}
	}
	for key, hosts := range map[string][]string{"link_hosts": s.LinkHosts, "relay": s.Relay} {
		for i, h := range hosts {
			if !glob.IsHost(h) {
				fail(fmt.Sprintf("sources.%s[%d]", key, i), "a host is expected, such as github.com or *.example.com, not %q", h)
			}
		}
	}
}

// SourceRelay returns what fetches source files from other servers; nil if nothing is
// fetched.
func (c *Config) SourceRelay() depot.RelayFunc {
	hosts := c.Sources.Relay
	if len(hosts) == 0 || c.NoEgress {
		return nil
	}
	own := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return strings.HasPrefix(h, "*.") })
	return upstream.NewRelay(c.Dialer(), own, func(url string) error {
		if fault := srclink.PlaceOf(url).Fault(hosts); fault != "" {
			return fmt.Errorf("%s %s", url, fault)
		}
		return nil
	}).Fetch
}

// check refuses limits that would refuse every push.
func (p *Push) check(fail func(key, format string, args ...any)) {
	for key, n := range map[string]int64{"max_file": int64(p.MaxFile), "max_files": int64(p.MaxFiles), "max_bytes": int64(p.MaxBytes), "max_open": int64(p.MaxOpen)} {
		if n < 1 {
			fail("push."+key, "at least 1 is expected, not %d", n)
		}
	}
	for key, d := range map[string]term.Duration{"idle": p.Idle, "longest": p.Longest, "collect": p.Collect} {
		if time.Duration(d) < time.Second {
			fail("push."+key, "at least a second is expected, not %v", time.Duration(d))
		}
	}
	if p.Idle > p.Longest {
		fail("push.idle", "%v is longer than push.longest (%v)", time.Duration(p.Idle), time.Duration(p.Longest))
	}
}

// ScrubRate returns the rate of the background check of stored bytes, in bytes per second;
// negative switches it off.
func (c *Config) ScrubRate() int64 {
	if c.Depot.ScrubRate == 0 {
		return -1
	}
	return int64(c.Depot.ScrubRate)
}

// CacheLimits returns the limits of the cached files.
func (c *Config) CacheLimits() depot.CacheLimits {
	l := depot.CacheLimits{MaxBytes: int64(c.Cache.MaxBytes), MaxUnused: time.Duration(c.Cache.MaxUnused)}
	for name, n := range c.Cache.PerUpstream {
		if l.PerUpstream == nil {
			l.PerUpstream = map[string]int64{}
		}
		l.PerUpstream[name] = int64(n)
	}
	return l
}

// SymCacheFolders returns the SymCache folders of the depot.
func (c *Config) SymCacheFolders() depot.SymCacheOptions {
	s := c.SymCache
	return depot.SymCacheOptions{Folders: s.Folders, Store: s.Store, StoreBytes: int64(s.StoreBytes), StoreUnused: time.Duration(s.StoreUnused)}
}

// SymCacheServer returns the options for answering SymCache requests.
func (c *Config) SymCacheServer() server.SymCacheConfig {
	s := c.SymCache
	return server.SymCacheConfig{Wait: time.Duration(s.Wait), HexAge: s.AgeRadix == "auto", Redirect: s.Redirect}
}

// MakeSymbols returns how symbol files are made.
func (c *Config) MakeSymbols() depot.SymbolsOptions {
	return depot.SymbolsOptions{Make: symbolicate.Making(c.Symbols.Make), InProcess: int64(c.Symbols.InProcess)}
}

// SymbolsServer returns the options for answering requests for symbol files that are made.
func (c *Config) SymbolsServer() server.SymbolsConfig {
	return server.SymbolsConfig{Wait: time.Duration(c.Symbols.Wait)}
}

// Programs returns the transcoders of this machine.
func (c *Config) Programs() ([]transcode.Program, error) {
	var list []transcode.Program
	for _, text := range c.Transcoding.Programs {
		p, err := ParseProgram(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// OpenTranscoders tests the transcoders. A transcoder that fails is logged and
// not used until it works. scratch is the working folder unless the
// configuration sets one. The caller must call the returned function at the end.
func (c *Config) OpenTranscoders(ctx context.Context, scratch string, log *slog.Logger) (depot.TranscodeOptions, func(), error) {
	t := c.Transcoding
	opt := depot.TranscodeOptions{Slots: t.Jobs, NoUpgrades: !t.Upgrades, DropPDBs: !c.SymCache.KeepPDB}
	programs, err := c.Programs()
	if err != nil || len(programs) == 0 {
		return opt, func() {}, err
	}
	room, err := transcode.OpenWorkspace(cmp.Or(t.Scratch, scratch))
	if err != nil {
		return opt, nil, err
	}
	opt.Transcoders = transcode.NewTranscoders(room, log, programs...)
	if err := opt.Transcoders.Probe(ctx); err != nil {
		log.Error("cannot use a transcoder", "error", err)
	}
	return opt, func() { _ = room.Close() }, nil
}

// TestTranscoders runs every transcoder once on a small PDB, in a scratch folder that is
// removed at the end. Those that have not ended with ctx are not tested.
func (c *Config) TestTranscoders(ctx context.Context) ([]transcode.Status, error) {
	programs, err := c.Programs()
	if err != nil || len(programs) == 0 {
		return nil, err
	}
	room, err := transcode.OpenWorkspace(cmp.Or(c.Transcoding.Scratch, transcode.DefaultRoot()))
	if err != nil {
		return nil, err
	}
	ts := transcode.NewTranscoders(room, nil, programs...)
	_ = ts.Probe(ctx) // its errors are in the states
	return ts.Status(), room.Close()
}

// PointerFolders returns the pointer roots with absolute folders.
func (c *Config) PointerFolders() ([]symstore.PointerRoot, error) {
	return PointerFolders(c.PointerRoots)
}

// PointerFolders parses pointer roots, [PREFIX=]DIR each, and makes their
// folders absolute.
func PointerFolders(texts []string) ([]symstore.PointerRoot, error) {
	var list []symstore.PointerRoot
	for _, text := range texts {
		prefix, dir := splitPointerRoot(text)
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		list = append(list, symstore.PointerRoot{Prefix: prefix, Dir: abs})
	}
	return list, nil
}

// OpenStores opens the folders that are served in place. The caller closes them,
// even after an error.
func (c *Config) OpenStores(ctx context.Context) ([]*tree.Folder, error) {
	roots, err := c.PointerFolders()
	if err != nil {
		return nil, err
	}
	records, err := c.Records()
	if err != nil {
		return nil, fmt.Errorf("admin_files: %w", err)
	}
	if err := CheckPointerFolders(roots); err != nil {
		return nil, err
	}
	var list []*tree.Folder
	for _, s := range c.Stores {
		if info, err := os.Stat(s.Dir); err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		} else if !info.IsDir() {
			return list, fmt.Errorf("--store %s: not a folder", s.Dir)
		}
		lay, err := layout.ParseFolder(s.Layout)
		if err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		}
		f, err := tree.Open(ctx, s.Dir, tree.Options{Layout: lay, PointerRoots: roots, AdminFiles: records.Refs})
		if err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// CheckPointerFolders returns an error if the folder of a pointer root does not
// exist.
func CheckPointerFolders(roots []symstore.PointerRoot) error {
	for _, r := range roots {
		info, err := os.Stat(r.Dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", r.Dir)
		}
		if err != nil {
			return fmt.Errorf("--pointer-root: %w", err)
		}
	}
	return nil
}
