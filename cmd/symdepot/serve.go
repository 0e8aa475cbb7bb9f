package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/daemon"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/intake"
	"github.com/symdepot/symdepot/internal/server"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/internal/web"
	"github.com/symdepot/symdepot/symstore"
)

type serveCmd struct {
	txFlags
	upstreamFlags
	symCacheFlags
	Add          []string      `help:"First add this file, folder or archive to the depot; repeatable." placeholder:"PATH" sep:"none"`
	Listen       string        `help:"Address and port; port 0 picks a free port. Default: 127.0.0.1:8080." placeholder:"ADDR:PORT"`
	Public       bool          `help:"Allow an address that other machines can reach although everybody may read everything."`
	Auth         bool          `help:"Ask every client for credentials: tokens (symdepot token new), and what the configuration sets under auth."`
	TLSCert      string        `help:"Serve HTTPS with this certificate; it is read again when it changes." placeholder:"FILE"`
	TLSKey       string        `help:"Private key of the certificate." placeholder:"FILE"`
	ClientCA     string        `help:"Authorities that issue client certificates." placeholder:"FILE"`
	AuditFile    string        `help:"Log every download that needed credentials to this file." placeholder:"FILE"`
	Host         []string      `help:"Another host name under which clients reach this server; repeatable." placeholder:"NAME"`
	Prefix       []string      `help:"Strip this prefix from request paths; repeatable." placeholder:"PATH"`
	TwoTier      bool          `help:"Serve index2.txt, so that Microsoft's clients use two-tier paths."`
	MakeCabinets bool          `help:"Make the cabinet (foo.pd_) of an added or cached PE, PDB or DBG file in the background, after the first request for it."`
	MakeSym      string        `help:"Make Breakpad symbol files (.sym) of files that are held (default), of files at upstreams too, or not at all." enum:",off,held,upstreams" default:"" placeholder:"off|held|upstreams"`
	Store        []string      `help:"Serve the symbol files of this folder in place, after the depot; its layout is detected, or named; repeatable." placeholder:"DIR[,layout=L]" sep:"none"`
	Watch        []string      `help:"Index the builds and packages of this folder where they are, and serve them after what was added; repeatable." placeholder:"DIR[=PRODUCT[/VERSION]]" sep:"none"`
	Rescan       term.Duration `help:"How often watched folders are scanned for changes that the system has not reported. Default: 5m." placeholder:"TIME"`
	PointerRoot  []string      `help:"Follow the pointers of a store into this folder; with PREFIX=DIR, read pointers that start with PREFIX below DIR (//server/share=/mnt/share); repeatable." placeholder:"[PREFIX=]DIR" sep:"none"`
	AdminFiles   adminFiles    `help:"Serve 000Admin and refs.ptr of stores too, and refs.ptr of added files, with source paths reduced to file names; without stores, the transactions of the depot as 000Admin, for clients that read it as an index (Symbolicator's has_index). With =//SERVER/SHARE, also answer file.ptr, with the path of the file below that UNC path, for clients that open files on a share."`
	Transcoder   []string      `help:"Make SymCache files with this program, NAME=COMMAND; repeatable. See symdepot work --help." placeholder:"NAME=COMMAND" sep:"none"`
	FilePath     string        `help:"What X-DEBUGINFOD-FILE says about the origin of a file: name (default), full path as added, or none." enum:",name,full,none" default:"" placeholder:"name|full|none"`
	Log          string        `help:"Format of the log: text, json, or auto (text on a terminal)." enum:",auto,text,json" default:"" placeholder:"auto|text|json"`
	Quiet        bool          `help:"Log failures only, not every request." short:"q"`
}

// symCacheFlags are the flags for Windows Performance Analyzer.
type symCacheFlags struct {
	SymcacheDir      []string       `name:"symcache-dir" help:"Serve the SymCache files of this folder in place; repeatable." placeholder:"DIR" sep:"none"`
	SymcacheStore    string         `name:"symcache-store" help:"Serve the SymCache files of this folder, and write there every SymCache file that is made or downloaded." placeholder:"DIR"`
	SymcacheWait     *term.Duration `name:"symcache-wait" help:"Hold requests for SymCache files at most this long while the files are made; 0: as long as that lasts (the default)." placeholder:"TIME"`
	SymcacheAge      string         `name:"symcache-age" help:"Read the age in such requests as decimal (default), or also as hex." enum:",decimal,auto" default:"" placeholder:"decimal|auto"`
	SymcacheRedirect bool           `name:"symcache-redirect" help:"Answer such requests with a 302 redirect to a signed address."`
}

// Help is the long help text.
func (serveCmd) Help() string {
	return `One base URL serves Microsoft's debuggers, dotnet-symbol, gdb, lldb, perf, Breakpad and Sentry; the settings for each
are printed on start. Needs no configuration. Ctrl-C lets running answers finish for up to 30 s; a second
Ctrl-C ends at once.

  symdepot serve --add build/
  symdepot serve --listen 127.0.0.1:0
  symdepot serve --store /srv/symbols --pointer-root '\\server\builds=/mnt/builds'
  symdepot serve --store /srv/new,layout=unified
  symdepot serve --watch /srv/builds=Game --watch /srv/rpms
  symdepot serve --upstream microsoft --upstream https://symbols.example.com,layout=ssqp
  symdepot serve --listen 0.0.0.0:8080 --public --host symbols.example.com
  symdepot serve --listen 0.0.0.0:443 --auth --tls-cert tls.crt --tls-key tls.key
  symdepot serve --config config.yaml         every key: symdepot config print

Flags override SYMDEPOT_* of the environment, which override the file. Flags that are lists add to the lists of the file.

Exit codes: 0 stopped, 2 wrong command line, 3 could not start, 4 depot damaged or newer.`
}

// Run serves until it is interrupted.
func (c serveCmd) Run(a *app) error {
	conf, err := c.load(a)
	if err != nil {
		return err
	}
	if err := c.apply(conf); err != nil {
		return err
	}
	specs, err := conf.Specs()
	if err != nil {
		return err
	}
	return serve(a, conf, specs, c.Add, c.txFlags)
}

// apply overrides the configuration with the flags.
func (c serveCmd) apply(conf *config.Config) error {
	for _, v := range []struct {
		to   *string
		flag string
	}{{&conf.Listen, c.Listen}, {&conf.FilePath, c.FilePath}, {&conf.Log.Format, c.Log},
		{&conf.TLS.Cert, c.TLSCert}, {&conf.TLS.Key, c.TLSKey}, {&conf.TLS.ClientCA, c.ClientCA}, {&conf.Auth.Audit.File, c.AuditFile},
		{&conf.AdminFiles, string(c.AdminFiles)}, {&conf.SymCache.Store, c.SymcacheStore}, {&conf.SymCache.AgeRadix, c.SymcacheAge}, {&conf.Symbols.Make, c.MakeSym}} {
		if v.flag != "" {
			*v.to = v.flag
		}
	}
	for _, v := range []struct {
		to   *bool
		flag bool
	}{{&conf.Public, c.Public}, {&conf.Auth.Demand, c.Auth}, {&conf.TwoTier, c.TwoTier}, {&conf.MakeCabinets, c.MakeCabinets}, {&conf.SymCache.Redirect, c.SymcacheRedirect}} {
		*v.to = *v.to || v.flag
	}
	if err := conf.CheckAuth(); err != nil {
		return term.UsageError(err.Error())
	}
	if _, err := conf.Records(); err != nil {
		return term.UsageError("--admin-files: " + err.Error())
	}
	conf.Log.Requests = conf.Log.Requests && !c.Quiet
	if c.SymcacheWait != nil {
		conf.SymCache.Wait = *c.SymcacheWait
	}
	for _, v := range []struct {
		to   *[]string
		flag []string
	}{{&conf.Hosts, c.Host}, {&conf.Prefixes, c.Prefix}, {&conf.PointerRoots, c.PointerRoot}, {&conf.SymCache.Folders, c.SymcacheDir}, {&conf.Transcoding.Programs, c.Transcoder}} {
		*v.to = append(*v.to, v.flag...)
	}
	if _, err := conf.Programs(); err != nil {
		return term.UsageError("--transcoder " + err.Error())
	}
	for _, v := range c.Store {
		if err := conf.AddStore(v); err != nil {
			return term.UsageError("--store " + v + ": " + err.Error())
		}
	}
	for _, v := range c.Watch {
		if err := conf.AddWatch(v); err != nil {
			return term.UsageError("--watch " + v + ": " + err.Error())
		}
	}
	conf.Rescan = cmp.Or(c.Rescan, conf.Rescan)
	if _, err := net.ResolveTCPAddr("tcp", conf.Listen); err != nil && c.Listen != "" {
		return term.UsageError("--listen: " + err.Error())
	}
	return nil
}

// serve answers requests as a configuration says until it is interrupted.
func serve(a *app, conf *config.Config, specs []upstream.Spec, add []string, info txFlags) error {
	defer daemon.EndAtSecond(a.ctx)()
	reloads := daemon.Reloads()
	// The heap of a file server is small: collect it early rather than let it
	// grow with the load, but not for every few MiB.
	debug.SetGCPercent(50)
	spareCollections(8<<20, 50)
	logs := server.NewLogWriter(a.stderr)
	defer logs.Close()
	log := newLogger(conf.Log.Format, a.stderr, logs)
	for _, w := range conf.Warnings(specs) {
		log.Warn(w)
	}
	stores, err := conf.OpenStores(a.ctx)
	defer func() {
		for _, s := range stores {
			_ = s.Close()
		}
	}()
	if err != nil {
		return err
	}
	dir, err := a.dir()
	if err != nil {
		return err
	}
	shared := ""
	if index.IsURL(dir) {
		shared = dir + "\n" + cmp.Or(a.blobs, conf.Depot.Blobs)
	}
	recorded, err := conf.Records()
	if err != nil {
		return err
	}
	recorded.Index = recorded.Refs && len(stores) == 0
	tracer, err := conf.OpenTracer(programVersion(), log)
	if err != nil {
		return err
	}
	defer tracer.Close()
	sources, err := conf.Open(a.ctx, specs, shared, tracer)
	if err != nil {
		return err
	}
	defer sources.Close()
	transcode, endTranscode, err := conf.OpenTranscoders(a.ctx, filepath.Join(dir, ".scratch"), log)
	if err != nil {
		return err
	}
	defer endTranscode()
	nodes, err := conf.Depot.ListenForPeers(a.ctx)
	if err != nil {
		return err
	}
	d, err := a.open(depot.Options{
		Probe: true, Tracer: tracer, Nodes: nodes, Transcode: transcode, SymCache: conf.SymCacheFolders(), Symbols: conf.MakeSymbols(), Log: log, MakeCabinets: conf.MakeCabinets, Records: recorded, Sources: stores,
		Upstreams: sources.List, Limits: conf.Limits(), Lifetimes: conf.Lifetimes(), Cache: conf.CacheLimits(), ScrubRate: conf.ScrubRate(),
		Stages: conf.PushLimits(), Links: conf.LinkRules(), Cold: conf.ColdOptions(),
	})
	if err != nil {
		if nodes.Listener != nil {
			_ = nodes.Listener.Close()
		}
		return err
	}
	defer d.Close()
	return running{conf: conf, log: log, tracer: tracer, sources: sources, reloads: reloads}.run(a, d, add, info)
}

// newWeb returns what the API and the pages below /-/ do.
func newWeb(d *depot.Depot, uploads *intake.Handler, g *guard, log *slog.Logger, conf *config.Config) *web.Acts {
	sc := conf.SymCacheServer()
	c := web.Config{
		Tokens: tokenAPI{g.gate, tokenStore{d}}, SignIns: g.gate, Audit: g.audit, Forms: uploads, Scratch: d.Stages().UploadDir(),
		Tracing: web.Tracing{Prefixes: conf.Prefixes, HexAge: sc.HexAge, Redirect: sc.Redirect, Gate: g.gate},
		Facts:   aboutServer(d, conf, g), Makes: d.Symbols.Makes(), Version: programVersion(), BaseURL: conf.BaseURL, Log: log,
	}
	c.Use(d)
	return web.New(c)
}

// printStart prints the server's address and the settings of each client.
func printStart(a *app, conf *config.Config, addr net.Addr, g *guard, log *slog.Logger) {
	if f := conf.File(); f != "" {
		fmt.Fprintf(a.stdout, "Configuration: %s\n", term.Printable(f))
	}
	base := server.BaseURL(addr)
	if g.tls != nil {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	_, open := g.gate.Open()
	fmt.Fprint(a.stdout, web.StartText(base, !open))
	if open {
		return
	}
	fmt.Fprint(a.stdout, "\n", web.AccessText(base), "\n")
	if tcp, ok := addr.(*net.TCPAddr); ok && g.tls == nil && !tcp.IP.IsLoopback() {
		log.Warn("credentials are sent over plain HTTP, which anybody on the network path can read; set a certificate (tls), or put a TLS proxy in front")
	}
}

// pointerRoots reads the values of --pointer-root.
func pointerRoots(flags []string) ([]symstore.PointerRoot, error) {
	roots, err := config.PointerFolders(flags)
	if err != nil {
		return nil, err
	}
	return roots, config.CheckPointerFolders(roots)
}
