package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/server"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

type serveCmd struct {
	txFlags
	upstreamFlags
	symCacheFlags
	Add          []string `help:"Add this file, folder or archive first; repeatable." placeholder:"PATH" sep:"none"`
	Listen       string   `help:"Address and port; port 0 picks a free one. Default: 127.0.0.1:8080." placeholder:"ADDR:PORT"`
	Public       bool     `help:"Allow an address that other machines reach, where everybody may read everything."`
	Auth         bool     `help:"Ask everybody for credentials: tokens (symdepot token new) and what the configuration names under auth."`
	TLSCert      string   `help:"Speak TLS with this certificate; it is read again when it changes." placeholder:"FILE"`
	TLSKey       string   `help:"Its key." placeholder:"FILE"`
	ClientCA     string   `help:"Authorities whose client certificates count." placeholder:"FILE"`
	AuditFile    string   `help:"Write records of who read what is not for everybody into this file." placeholder:"FILE"`
	Host         []string `help:"Another host name under which clients reach this server; repeatable." placeholder:"NAME"`
	Prefix       []string `help:"Another path prefix under which everything is answered; repeatable." placeholder:"PATH"`
	TwoTier      bool     `help:"Answer index2.txt, so that Microsoft's clients ask with two-tier paths."`
	MakeCabinets bool     `help:"Make the cabinet (foo.pd_) of a PE, PDB or DBG file after the first request for it, in the background."`
	Store        []string `help:"Answer from this tree of symbol files too, as it is, after the depot; its layout is found out, or named; repeatable." placeholder:"DIR[,layout=L]" sep:"none"`
	PointerRoot  []string `help:"Follow the pointers of a store into this folder; with PREFIX= those that begin so (//server/share=/mnt/share); repeatable." placeholder:"[PREFIX=]DIR" sep:"none"`
	AdminFiles   bool     `help:"Answer a store's 000Admin and refs.ptr too, with source paths cut down to names."`
	Transcoder   []string `help:"Make SymCache files with this program, NAME=COMMAND; repeatable. See symdepot work --help." placeholder:"NAME=COMMAND" sep:"none"`
	FilePath     string   `help:"What X-DEBUGINFOD-FILE tells of where a file came from: its name (default), the full path as added, or none." enum:",name,full,none" default:"" placeholder:"name|full|none"`
	Log          string   `help:"Format of the log: text, json, or auto (text on a terminal)." enum:",auto,text,json" default:"" placeholder:"auto|text|json"`
	Quiet        bool     `help:"Log no requests, only what goes wrong." short:"q"`
}

// Help is the long help text.
func (serveCmd) Help() string {
	return `One base URL answers Microsoft's debuggers, dotnet-symbol, gdb, lldb, perf, Breakpad and Sentry; what to
paste into each is printed on start. Needs no configuration; Ctrl-C finishes running downloads first.

  symdepot serve --add build/
  symdepot serve --listen 127.0.0.1:0
  symdepot serve --store /srv/symbols --pointer-root '\\server\builds=/mnt/builds'
  symdepot serve --store /srv/new,layout=unified
  symdepot serve --upstream microsoft --upstream https://symbols.example.com,layout=ssqp
  symdepot serve --listen 0.0.0.0:8080 --public --host symbols.example.com
  symdepot serve --listen 0.0.0.0:443 --auth --tls-cert tls.crt --tls-key tls.key
  symdepot serve --config symdepot.yaml         every key: symdepot config print

Flags win over SYMDEPOT_* of the environment, these over the file; lists of flags come on top of the file's.

Exit codes: 0 stopped, 2 wrong command line, 3 could not listen, 4 depot damaged or newer.`
}

// Run serves until it is told to stop.
func (c serveCmd) Run(a *app) error {
	conf, err := c.load(a)
	if err != nil {
		return err
	}
	if err := c.into(conf); err != nil {
		return err
	}
	specs, err := conf.specs()
	if err != nil {
		return err
	}
	return serve(a, conf, specs, c.Add, c.txFlags)
}

// into puts the flags over what the configuration says.
func (c serveCmd) into(conf *Config) error {
	for _, v := range []struct {
		to   *string
		flag string
	}{{&conf.Listen, c.Listen}, {&conf.FilePath, c.FilePath}, {&conf.Log.Format, c.Log},
		{&conf.TLS.Cert, c.TLSCert}, {&conf.TLS.Key, c.TLSKey}, {&conf.TLS.ClientCA, c.ClientCA}, {&conf.Auth.Audit.File, c.AuditFile}} {
		if v.flag != "" {
			*v.to = v.flag
		}
	}
	conf.Public = conf.Public || c.Public
	conf.Auth.Demand = conf.Auth.Demand || c.Auth
	if err := conf.checkAuth(); err != nil {
		return term.UsageError(err.Error())
	}
	conf.TwoTier = conf.TwoTier || c.TwoTier
	conf.MakeCabinets = conf.MakeCabinets || c.MakeCabinets
	conf.AdminFiles = conf.AdminFiles || c.AdminFiles
	conf.Log.Requests = conf.Log.Requests && !c.Quiet
	c.symCacheFlags.into(conf)
	conf.Hosts = append(conf.Hosts, c.Host...)
	conf.Prefixes = append(conf.Prefixes, c.Prefix...)
	for _, v := range c.PointerRoot {
		var p pointerEntry
		if err := p.fromText(v); err != nil {
			return term.UsageError("--pointer-root: " + err.Error())
		}
		conf.PointerRoots = append(conf.PointerRoots, p)
	}
	for _, v := range c.Transcoder {
		var p programEntry
		if err := p.fromText(v); err != nil {
			return err
		}
		conf.Transcoding.Programs = append(conf.Transcoding.Programs, p)
	}
	for _, v := range c.Store {
		dir, lay, err := storeFlagValue(v)
		if err != nil {
			return err
		}
		conf.Stores = append(conf.Stores, storeEntry{Dir: dir, Layout: lay})
	}
	return nil
}

// serve answers as a configuration says until it is told to stop.
func serve(a *app, conf *Config, specs []upstream.Spec, add []string, info txFlags) error {
	// The heap of a server of files is small; collect it early rather than
	// let it grow with the load.
	debug.SetGCPercent(50)
	logs := server.NewLogWriter(a.stderr)
	defer logs.Close()
	log := newLogger(conf.Log.Format, a.stderr, logs)
	for _, w := range conf.warnings(specs) {
		log.Warn(w)
	}
	stores, err := openStores(a, conf)
	defer func() {
		for _, s := range stores {
			_ = s.Close()
		}
	}()
	if err != nil {
		return err
	}
	far, err := conf.open(a.ctx, specs)
	if err != nil {
		return err
	}
	defer far.Close()
	jobs, endJobs, err := openTranscoders(a, conf, log)
	if err != nil {
		return err
	}
	defer endJobs()
	d, err := a.open(depot.Options{
		Jobs: jobs, SymCache: conf.SymCache.depot(), Log: log, MakeCabinets: conf.MakeCabinets, Sources: stores,
		Upstreams: far.far, Limits: conf.limits(), Lifetimes: conf.lifetimes(), Cache: conf.cacheLimits(),
	})
	if err != nil {
		return err
	}
	defer d.Close()
	guard, err := conf.guard(d, log)
	if err != nil {
		return err
	}
	defer guard.Close()
	var listenerTLS *tls.Config
	if guard.tls != nil {
		listenerTLS = guard.tls.Config()
	}
	if len(add) > 0 {
		ad := newAdder(a, d)
		n, err := ad.add(info.info(), add)
		if err != nil && !errors.Is(err, depot.ErrEmpty) {
			return err
		}
		if err := ad.summary(n, info); err != nil {
			return err
		}
	}
	proxies, err := server.ParseNetworks(conf.Proxies)
	if err != nil {
		return fmt.Errorf("proxies: %w", err)
	}
	srv, err := server.New(server.Config{
		Gate: guard.gate, Audit: guard.audit, TLS: listenerTLS,
		Depot: d, ID: far.id, Log: log, Public: conf.Public, Hosts: conf.Hosts, Origins: conf.Origins, ProxyNetworks: proxies, Prefixes: conf.Prefixes, TwoTier: conf.TwoTier,
		Paths: conf.FilePath, AccessLog: conf.Log.Requests, SymCache: conf.SymCache.server(),
	})
	if err != nil {
		return err
	}
	if err := srv.CheckListen(conf.Listen); err != nil {
		return term.UsageError(err.Error())
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(a.ctx, "tcp", conf.Listen)
	if err != nil {
		return fmt.Errorf("%w\nAnother program may have that port; --listen 127.0.0.1:0 picks a free one", err)
	}
	printStart(a, ln.Addr(), guard, log)
	g, ctx := errgroup.WithContext(a.ctx)
	g.Go(func() error { return d.Work(ctx) })
	g.Go(func() error { return srv.Serve(ctx, ln) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// openTranscoders tries the programs that make SymCache files. One that cannot
// be used is told, and left out until it can be.
func openTranscoders(a *app, conf *Config, log *slog.Logger) (depot.JobOptions, func(), error) {
	t := conf.Transcoding
	opt := depot.JobOptions{Slots: t.Jobs, NoUpgrades: !t.Upgrades}
	if len(t.Programs) == 0 {
		return opt, func() {}, nil
	}
	var programs []transcode.Program
	for i := range t.Programs {
		p, err := t.Programs[i].program()
		if err != nil {
			return opt, nil, err
		}
		programs = append(programs, p)
	}
	scratch := t.Scratch
	if scratch == "" {
		dir, err := a.dir()
		if err != nil {
			return opt, nil, err
		}
		scratch = filepath.Join(dir, ".scratch")
	}
	room, err := transcode.OpenRoom(scratch)
	if err != nil {
		return opt, nil, err
	}
	opt.Transcoders = transcode.NewTranscoders(room, log, programs...)
	if err := opt.Transcoders.Probe(a.ctx); err != nil {
		log.Error("a transcoder cannot be used", "error", err)
	}
	return opt, func() { _ = room.Close() }, nil
}

// printStart says where the server is and how each tool reaches it.
func printStart(a *app, addr net.Addr, g *guard, log *slog.Logger) {
	base := server.BaseURL(addr)
	if g.tls != nil {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	fmt.Fprint(a.stdout, server.StartText(base))
	if _, open := g.gate.Open(); open {
		return
	}
	fmt.Fprint(a.stdout, "\n", server.AccessText(base), "\n")
	if tcp, ok := addr.(*net.TCPAddr); ok && g.tls == nil && !tcp.IP.IsLoopback() {
		log.Warn("credentials come over plain HTTP, where anybody on the way can read them; give the server a certificate (tls), or put a proxy that has one in front")
	}
}

// openStores opens the trees to answer from.
func openStores(a *app, conf *Config) ([]*upstream.Folder, error) {
	roots, err := conf.pointerRoots()
	if err != nil {
		return nil, err
	}
	for _, r := range roots {
		if info, err := os.Stat(r.Dir); err != nil {
			return nil, fmt.Errorf("--pointer-root: %w", err)
		} else if !info.IsDir() {
			return nil, term.UsageError("--pointer-root " + r.Dir + " is no folder")
		}
	}
	var list []*upstream.Folder
	for _, s := range conf.Stores {
		lay, err := layout.ParseFolder(s.Layout)
		if err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		}
		f, err := upstream.OpenFolder(a.ctx, s.Dir, upstream.Options{Layout: lay, PointerRoots: roots, AdminFiles: conf.AdminFiles})
		if err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// storeFlagValue takes a value of --store apart: a folder, whatever its name
// is, or a folder and its layout.
func storeFlagValue(v string) (dir, lay string, err error) {
	if isDir(v) {
		return v, "", nil
	}
	i := strings.LastIndex(v, ",layout=")
	if i < 0 {
		return v, "", nil
	}
	dir, lay = v[:i], v[i+len(",layout="):]
	l, err := layout.ParseFolder(lay)
	if err != nil {
		return "", "", term.UsageError(fmt.Sprintf("--store %s: %v", v, err))
	}
	return dir, l.Name(), nil
}

// pointerRoots reads the values of --pointer-root.
func pointerRoots(flags []string) ([]symstore.PointerRoot, error) {
	var roots []symstore.PointerRoot
	for _, v := range flags {
		var r symstore.PointerRoot
		if prefix, dir, ok := strings.Cut(v, "="); ok {
			r.Prefix, v = prefix, dir
		}
		abs, err := filepath.Abs(v)
		if err != nil {
			return nil, err
		}
		if info, err := os.Stat(abs); err != nil {
			return nil, fmt.Errorf("--pointer-root: %w", err)
		} else if !info.IsDir() {
			return nil, term.UsageError("--pointer-root " + v + " is no folder")
		}
		r.Dir = abs
		roots = append(roots, r)
	}
	return roots, nil
}

// newLogger writes to w in the format asked for; stderr is where w goes.
func newLogger(format string, stderr, w io.Writer) *slog.Logger {
	opt := &slog.HandlerOptions{Level: slog.LevelInfo}
	if format == "json" || format == "auto" && !term.IsTerminal(stderr) {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
