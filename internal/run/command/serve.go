package command

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/app"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/symstore"
)

type serveCmd struct {
	txFlags
	sourceFlags
	upstreamFlags
	symCacheFlags
	Add          []string      `help:"First add this file, folder or archive to the depot; repeatable." placeholder:"PATH" sep:"none"`
	Listen       string        `help:"Address and port; port 0 picks a free port. Default: 127.0.0.1:8080." placeholder:"ADDR:PORT"`
	Public       bool          `help:"Allow an address that other machines can reach although everybody may read everything."`
	Auth         bool          `help:"text:serve_auth"`
	Audience     string        `help:"text:serve_audience" enum:",public" default:"" placeholder:"public" more:""`
	TLSCert      string        `help:"Serve HTTPS with this certificate; it is read again when it changes." placeholder:"FILE"`
	TLSKey       string        `help:"Private key of the certificate." placeholder:"FILE"`
	ClientCA     string        `help:"Authorities that issue client certificates." placeholder:"FILE" more:""`
	AuditFile    string        `help:"Log every download that needed credentials to this file." placeholder:"FILE" more:""`
	Host         []string      `help:"Another host name under which clients reach this server; repeatable." placeholder:"NAME" more:""`
	Prefix       []string      `help:"Strip this prefix from request paths; repeatable." placeholder:"PATH" more:""`
	TwoTier      bool          `help:"Serve index2.txt, so that Microsoft's clients use two-tier paths." more:""`
	MakeCabinets bool          `help:"text:serve_make_cabinets" more:""`
	MakeSym      string        `help:"text:serve_make_sym" enum:",off,held,upstreams" default:"" placeholder:"off|held|upstreams" more:""`
	Store        []string      `help:"text:serve_store" placeholder:"DIR[,layout=L]" sep:"none"`
	Watch        []string      `help:"text:serve_watch" placeholder:"DIR[=PRODUCT[/VERSION]]" sep:"none"`
	Rescan       term.Duration `help:"text:serve_rescan" placeholder:"TIME" more:""`
	PointerRoot  []string      `help:"text:serve_pointer_root" placeholder:"[PREFIX=]DIR" sep:"none" more:""`
	AdminFiles   adminFiles    `help:"text:serve_admin_files" more:""`
	Transcoder   []string      `help:"text:serve_transcoder" placeholder:"NAME=COMMAND" sep:"none" more:""`
	FilePath     string        `help:"text:serve_file_path" enum:",name,full,none" default:"" placeholder:"name|full|none" more:""`
	Log          string        `help:"text:serve_log" enum:",auto,text,json" default:"" placeholder:"auto|text|json" more:""`
	Quiet        bool          `help:"Log failures only, not every request." short:"q"`
}

// symCacheFlags are the flags for Windows Performance Analyzer.
type symCacheFlags struct {
	SymcacheDir   []string       `name:"symcache-dir" help:"text:sym_cache_symcache_dir" placeholder:"DIR" sep:"none" more:""`
	SymcacheStore string         `name:"symcache-store" help:"text:sym_cache_symcache_store" placeholder:"DIR" more:""`
	SymcacheWait  *term.Duration `name:"symcache-wait" help:"text:sym_cache_symcache_wait" placeholder:"TIME" more:""`

	SymcacheAge string `name:"symcache-age" help:"text:symcache_age" enum:",decimal,auto" default:"" placeholder:"decimal|auto" more:""`

	SymcacheRedirect bool `name:"symcache-redirect" help:"Answer such requests with a 302 redirect to a signed address." more:""`
}

// Run serves until it is interrupted.
func (c serveCmd) Run(a *session) error {
	if len(c.Add) == 0 && c.txFlags != (txFlags{}) {
		return term.UsageError("--product, --version and --comment (-p, -v, -c) describe the files of --add, and there is no --add; " +
			"the port is set with --listen 127.0.0.1:PORT")
	}
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
	fill, err := c.fill(a)
	if err != nil {
		return err
	}
	return serve(a, conf, specs, fill)
}

// apply overrides the configuration with the flags.
func (c serveCmd) apply(conf *config.Config) error {
	for _, v := range []struct {
		to   *string
		flag string
	}{{&conf.Listen, c.Listen}, {&conf.FilePath, c.FilePath}, {&conf.Audience, c.Audience}, {&conf.Log.Format, c.Log},
		{&conf.TLS.Cert, c.TLSCert}, {&conf.TLS.Key, c.TLSKey}, {&conf.TLS.ClientCA, c.ClientCA}, {&conf.Auth.Audit.File, c.AuditFile},
		{&conf.AdminFiles, string(c.AdminFiles)}, {&conf.SymCache.Store, c.SymcacheStore}, {&conf.Symbols.Make, c.MakeSym}} {
		if v.flag != "" {
			*v.to = v.flag
		}
	}
	for _, v := range []struct {
		to   *bool
		flag bool
	}{
		{&conf.Public, c.Public}, {&conf.Auth.Demand, c.Auth}, {&conf.TwoTier, c.TwoTier}, {&conf.MakeCabinets, c.MakeCabinets},
		{&conf.SymCache.Redirect, c.SymcacheRedirect}, {&conf.SymCache.HexAge, c.SymcacheAge == "auto"},
	} {
		*v.to = *v.to || v.flag
	}
	if err := conf.CheckAuth(); err != nil {
		return term.UsageError(err.Error())
	}
	if _, _, err := conf.Records(); err != nil {
		return term.UsageError("--admin-files: " + err.Error())
	}
	conf.Log.Requests = conf.Log.Requests && !c.Quiet
	if c.SymcacheWait != nil {
		conf.SymCache.Wait = *c.SymcacheWait
	}
	for _, v := range []struct {
		to   *[]string
		flag []string
	}{
		{&conf.Hosts, c.Host}, {&conf.Prefixes, c.Prefix}, {&conf.PointerRoots, c.PointerRoot},
		{&conf.SymCache.Folders, c.SymcacheDir}, {&conf.Transcoding.Programs, c.Transcoder},
	} {
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

// fill returns what adds the files of --add to the depot.
func (c serveCmd) fill(a *session) (func(context.Context, *depot.Depot) error, error) {
	roots, err := c.roots()
	switch {
	case err != nil:
		return nil, err
	case len(c.Add) == 0 && len(roots) > 0:
		return nil, term.UsageError("--sources needs --add: it names the folder with the sources of the added files")
	case len(c.Add) == 0:
		return nil, nil
	}
	return func(_ context.Context, d *depot.Depot) error {
		return runAdd(a.Console, d, c.Add, importexport.AddOptions{Info: c.info(), Sources: roots}, false)
	}, nil
}

// serve answers requests as a configuration says until it is interrupted.
func serve(a *session, conf *config.Config, specs []upstream.Spec, fill func(context.Context, *depot.Depot) error) error {
	return app.Serve(a.Ctx, app.Options{
		Site: a.site, Config: conf, Specs: specs, Limits: a.Downloads(), Version: a.Options.Program(), Stderr: a.Stderr, Fill: fill,
		Started: func(at app.Address) { printStart(a.Console, conf.File(), at) },
	})
}

// printStart prints the server's address and the settings of each client.
func printStart(a *console.Console, configFile string, at app.Address) {
	if configFile != "" {
		fmt.Fprintf(a.Stdout, "Configuration: %s\n", term.Printable(configFile))
	}
	base := at.URL()
	fmt.Fprint(a.Stdout, web.StartText(base, !at.Open))
	if !at.Open {
		fmt.Fprint(a.Stdout, "\n", web.AccessText(base), "\n")
	}
}

// pointerRoots reads the values of --pointer-root.
func pointerRoots(flags []string) ([]symstore.PointerRoot, error) {
	roots, err := config.PointerFolders(flags)
	if err != nil {
		return nil, err
	}
	return roots, setup.CheckPointerFolders(roots)
}
