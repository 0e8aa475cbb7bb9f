package server

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/web/api"
	"github.com/symdepot/symdepot/internal/serve/web/pages"
)

// Config says how to serve. The zero value serves on loopback with the
// limits named below.
type Config struct {
	// Depot answers the requests. It is required, and so is nothing else.
	Depot *depot.Depot
	// API answers the requests below /-/api; nil: with 404.
	API *api.API
	// Pages answers browsers; nil: there are no pages.
	Pages *pages.Pages
	// Uploads answers the requests of uploaders that were written for other
	// servers; nil: they are refused.
	Uploads *intake.Handler
	// Gate authorizes requests; nil: everybody reads everything. The caller
	// closes it.
	Gate *auth.Gate
	// OnlyPublic gives all callers nothing but the public forms of what they may read, and
	// takes all other rights from them.
	OnlyPublic bool
	// Audit records downloads that needed credentials; nil: nothing is
	// recorded. The caller closes it.
	Audit *auth.Audit
	// Tracer records requests; nil records nothing.
	Tracer *span.Tracer
	// TLS configures the listener; nil: it does not speak TLS.
	TLS *tls.Config
	// Public allows a listener on an address that other machines reach. So does a
	// Gate that restricts reading.
	Public bool
	// Hosts are the host names, without ports, that the Host header may hold
	// besides IP addresses and localhost. Requests with other names get 404,
	// so that no web page can read symbols by pointing a name of its own at
	// this server. On a loopback address that holds even if Hosts is empty; on
	// other addresses an empty list allows all names.
	Hosts []string
	// Origins are the origins, such as "https://profiler.firefox.com", whose
	// scripts may read symbol files in a browser; "*" allows all. Requests that
	// browsers send for pages of other sites are refused otherwise.
	Origins []string
	// Prefixes are further path prefixes, such as "corp/symbols", under
	// which everything is answered too.
	Prefixes []string
	// TwoTier answers index2.txt with 200, which makes Microsoft's clients
	// request two-tier paths. Those are answered in any case.
	TwoTier bool
	// Paths says how much of a file's origin X-DEBUGINFOD-FILE,
	// X-DEBUGINFOD-ARCHIVE and /metadata report: PathsName (also when empty),
	// PathsFull or PathsNone.
	Paths string

	// MaxConns is how many requests may be under way at once, downloads
	// included; zero is 4096. Further ones wait. Twice as many connections are
	// accepted. When there are more, the longest idle one is closed; without
	// an idle one, further connections wait.
	MaxConns int
	// ProxyNetworks are the networks of reverse proxies. In their requests, the
	// last entry of X-Forwarded-For that is no such proxy names the client, by
	// which wrong passwords, downloads and jobs are counted. The connections of any
	// other client are limited to an eighth of all connections, but at least
	// 64; when a client has more, its longest idle one is closed.
	ProxyNetworks []netip.Prefix
	// MaxInFlight is how many lookups in the depot may run at once; zero is
	// 256. Further ones wait.
	MaxInFlight int
	// Wait is how long a request waits for these limits before it is answered
	// with 503; zero is 20 seconds.
	Wait time.Duration
	// HeaderTimeout is how long a client may take to send a request's
	// header; zero is 10 seconds.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may stay open between requests;
	// zero is 2 minutes.
	IdleTimeout time.Duration
	// WriteTimeout is how long an answer may take to begin or, if it is a
	// short one, to be sent; zero is one minute. Long ones go on as long as
	// MinRate is kept.
	WriteTimeout time.Duration
	// MinRate is the slowest download that is not cut off, in bytes per second,
	// measured over each mebibyte; zero is 8 KiB.
	MinRate int64
	// ShutdownGrace is how long running answers may go on after Serve's context
	// ends; zero is 30 seconds.
	ShutdownGrace time.Duration
	// HotBytes is how much memory holds small files that are requested again
	// and again; zero is 32 MiB, negative none.
	HotBytes int64

	// SymCache configures the SymCache protocol.
	SymCache SymCacheConfig

	// Symbols configures the making of symbol files and the symbolication APIs.
	Symbols SymbolsConfig

	// WorkerToken authorizes workers at the job API; empty: no such token.
	WorkerToken string

	// ID distinguishes this server from others that a request passes; empty:
	// none.
	ID string
	// Version is shown in metrics and on the page.
	Version string
	// Log receives failures; nil discards them.
	Log *slog.Logger
	// AccessLog adds one record per request, at level Info. NewLogWriter
	// makes that cheap.
	AccessLog bool
}

// The values of Config.Paths. The full path of a file on the machine that ran
// add may reveal more than strangers should know; its path inside a package is
// the same on every machine that has the package.
const (
	PathsName = "name" // the base name, but the full path inside an archive; archives by their base name
	PathsFull = "full" // full paths, as they were added
	PathsNone = "none" // nothing
)

// withDefaults fills in what zero stands for.
func (c Config) withDefaults() Config {
	setInt(&c.MaxConns, 4096)
	setInt(&c.MaxInFlight, 256)
	setInt(&c.Wait, 20*time.Second)
	setInt(&c.HeaderTimeout, 10*time.Second)
	setInt(&c.IdleTimeout, 2*time.Minute)
	setInt(&c.WriteTimeout, time.Minute)
	setInt(&c.MinRate, 8<<10)
	setInt(&c.ShutdownGrace, 30*time.Second)
	setInt(&c.HotBytes, 32<<20)
	setInt(&c.Symbols.Wait, defaultSymbolsWait)
	prefixes := make([]string, 0, len(c.Prefixes))
	for _, p := range c.Prefixes {
		if p = strings.Trim(p, "/"); p != "" {
			prefixes = append(prefixes, p)
		}
	}
	c.Prefixes = prefixes
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OnlyPublic {
		// Workers get whole files, and uploaders have ways of their own to send a token.
		c.WorkerToken, c.Uploads = "", nil
	}
	if c.Uploads == nil {
		c.Uploads = intake.None()
	}
	if c.Gate == nil {
		c.Gate = auth.Everybody()
	}
	if c.Audit == nil {
		c.Audit = auth.NoAudit()
	}
	if c.API == nil {
		c.API = api.Off(c.Log)
	}
	return c
}

func setInt[T ~int | ~int64](v *T, zero T) {
	if *v == 0 {
		*v = zero
	}
}

// SymCacheConfig configures the SymCache protocol.
type SymCacheConfig struct {
	// Wait is how long a request may be held while its file is made, if the
	// client does not retry by itself; zero is as long as the work lasts and the
	// client stays.
	Wait time.Duration
	// HexAge also reads the age of a request as hex, if there is no SymCache
	// file for the decimal age.
	HexAge bool
	// Redirect answers with 302 to a signed URL of this server, valid for this
	// file and some minutes, instead of with the file.
	Redirect bool
}

// SymbolsConfig configures the making of symbol files and the symbolication APIs.
type SymbolsConfig struct {
	// Wait is how long a request may be held while its file is made; zero is 30
	// seconds.
	Wait time.Duration
}

const (
	defaultSymbolsWait = 30 * time.Second
	// protocolSymbolicate is the symbolication APIs, as metrics and the access log
	// call them.
	protocolSymbolicate = "symbolicate"
)
