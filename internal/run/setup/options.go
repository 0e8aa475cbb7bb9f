package setup

import (
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/depot/storerecords"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/run/config"
)

// The limits of downloads.
const (
	// nextRank is how long the upstreams of one rank have until the next rank is asked too.
	nextRank = 300 * time.Millisecond
	// firstByte is how long a client waits for the first bytes of a slow upstream.
	firstByte = 3 * time.Second
	// stall is how long a download may stay below 16 KiB per second.
	stall = 10 * time.Second
	// maxDownload is the size limit of a downloaded file, in bytes.
	maxDownload = 16 << 30
	// downloads is how many downloads may run at the same time.
	downloads = 64
)

// The limits of pushes.
const (
	maxPushFiles = 1_000_000
	// maxPushBytes is the size limit of all files of one push together, in bytes.
	maxPushBytes = 256 << 30
	// An unfinished push expires pushIdle after its last request, and pushLongest after it
	// was begun in any case.
	pushIdle    = 24 * time.Hour
	pushLongest = 7 * 24 * time.Hour
)

// auditFileBytes is the size at which the audit log starts a new file.
const auditFileBytes = 64 << 20

// Limits returns the limits of downloads.
func Limits() depot.Limits {
	return depot.Limits{NextRank: nextRank, FirstByte: firstByte, Stall: stall, MaxBytes: maxDownload, Fetches: downloads}
}

// Lifetimes returns the lifetimes of the negative cache.
func Lifetimes(c *config.Config) depot.Lifetimes {
	of := func(d time.Duration) time.Duration {
		if d <= 0 {
			return -1
		}
		return d
	}
	return depot.Lifetimes{NotFound: of(time.Duration(c.Misses.Absent)), Forbidden: of(time.Duration(c.Misses.Forbidden))}
}

// PushLimits returns the limits of pushes.
func PushLimits(c *config.Config) stage.Limits {
	p := c.Push
	l := stage.Limits{
		MaxFile: int64(p.MaxFile), MaxFiles: maxPushFiles, MaxBytes: maxPushBytes,
		Open: p.MaxOpen, Staged: int64(p.MaxStaged), Free: int64(p.MinFree),
		Idle: pushIdle, Longest: pushLongest, Quiet: time.Duration(p.Collect), DenyOther: p.DenyOther,
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
func LinkRules(c *config.Config) srclink.Rules {
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

// ScrubRate returns the rate of the background check of stored bytes, in bytes per second;
// negative switches it off.
func ScrubRate(c *config.Config) int64 {
	if c.Depot.ScrubRate == 0 {
		return -1
	}
	return int64(c.Depot.ScrubRate)
}

// CacheLimits returns the limits of the cached files.
func CacheLimits(c *config.Config) cache.Limits {
	l := cache.Limits{MaxBytes: int64(c.Cache.MaxBytes), MaxUnused: time.Duration(c.Cache.MaxUnused)}
	for name, n := range c.Cache.PerUpstream {
		if l.PerUpstream == nil {
			l.PerUpstream = map[string]int64{}
		}
		l.PerUpstream[name] = int64(n)
	}
	return l
}

// SymCacheFolders returns the SymCache folders of the depot.
func SymCacheFolders(c *config.Config) depot.SymCacheOptions {
	s := c.SymCache
	return depot.SymCacheOptions{
		Folders: s.Folders, Store: s.Store, StoreBytes: int64(s.StoreBytes), StoreUnused: time.Duration(s.StoreUnused),
	}
}

// MakeSymbols returns how symbol files are made.
func MakeSymbols(c *config.Config) depot.SymbolsOptions {
	return depot.SymbolsOptions{Make: symbolicate.Making(c.Symbols.Make), InProcess: int64(c.Symbols.InProcess)}
}

// ColdOptions returns how a server makes files cold.
func ColdOptions(c *config.Config) coldstore.ColdOptions {
	o := coldstore.ColdOptions{After: time.Duration(c.Cold.After), Rate: int64(c.Cold.Rate), Near: int64(c.Cold.Near)}
	if o.Rate == 0 {
		o.Rate = -1
	}
	return o
}

// Records returns which records of a symbol store are answered about files of the
// depot. Refs is also true if those of stores are served.
func Records(c *config.Config) (storerecords.Options, error) {
	refs, share, err := c.Records()
	return storerecords.Options{Refs: refs, Share: share}, err
}

// DepotOptions returns the options of the depot of a server, without the parts that must be
// opened and the limits of downloads.
func DepotOptions(c *config.Config) depot.Options {
	return depot.Options{
		MakeCabinets: c.MakeCabinets, SymCache: SymCacheFolders(c), Symbols: MakeSymbols(c),
		Lifetimes: Lifetimes(c), Cache: CacheLimits(c), ScrubRate: ScrubRate(c),
		Stages: PushLimits(c), Links: LinkRules(c), Cold: ColdOptions(c), Webhooks: Webhooks(c),
		KeepDumps: time.Duration(c.Crashes.Keep),
	}
}

// Webhooks returns the receivers of webhooks. Redirects are not followed: they could lead to addresses
// that the configuration does not name.
func Webhooks(c *config.Config) (list []arrivals.Hook) {
	receivers, _, _ := c.Receivers() // Load reports errors
	for _, r := range receivers {
		client := Dialer(c).ClientFor(r.URL)
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		list = append(list, arrivals.Hook{URL: r.URL, Secret: r.Secret, Client: client})
	}
	return list
}
