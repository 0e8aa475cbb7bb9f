package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/app"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/logincmd"
)

type proxyCmd struct {
	URL string `arg:"" optional:"" name:"url" help:"text:proxy_url"`
	upstreamFlags
	Listen      string `help:"Address and port; port 0 picks a free port. Default: 127.0.0.1:8080." placeholder:"ADDR:PORT"`
	PatFile     string `help:"File with a personal access token, sent as the password of Basic; or SYMDEPOT_PAT." placeholder:"FILE"`
	BasicFile   string `help:"File with user:password; or SYMDEPOT_BASIC." placeholder:"FILE"`
	BearerFile  string `help:"File with a bearer token; or SYMDEPOT_BEARER." placeholder:"FILE"`
	HeadersFile string `help:"text:proxy_headers_file" placeholder:"FILE"`
	Negotiate   bool   `help:"On Windows, log in with the Kerberos ticket of the current user."`
	Socket      string `help:"With a URL: listen on this Unix socket, which only you can connect to, instead of a port." placeholder:"PATH"`
	Log         string `help:"text:proxy_log" enum:",auto,text,json" default:"" placeholder:"auto|text|json"`
	Quiet       bool   `help:"Log failures only, not every request." short:"q"`
}

// Run serves until it is interrupted.
func (c proxyCmd) Run(a *session) error {
	conf, err := c.load(a)
	if err != nil {
		return err
	}
	if c.URL != "" || c.Socket != "" {
		return c.serveLogin(a, conf)
	}
	if err := (serveCmd{Listen: c.Listen, Log: c.Log, Quiet: c.Quiet}).apply(conf); err != nil {
		return err
	}
	if len(conf.Upstreams) == 0 {
		conf.FromEnv = true
	}
	specs, err := conf.Specs()
	if err != nil {
		return term.UsageError(err.Error())
	}
	if len(specs) == 0 {
		m, err := upstream.PresetByName("microsoft")
		if err != nil {
			return err
		}
		specs = append(specs, m)
		fmt.Fprintln(a.Stdout, "Neither --upstream nor _NT_SYMBOL_PATH nor DEBUGINFOD_URLS names a server: using microsoft.")
	}
	if err := c.credentials(specs, os.Getenv); err != nil {
		return err
	}
	for _, s := range specs {
		fmt.Fprintf(a.Stdout, "Upstream: %s (%s).\n", term.Printable(s.Name), s.Layout)
	}
	return serve(a, conf, specs, nil)
}

// serveLogin serves the files of a server that the user is signed in to, to this user alone.
func (c proxyCmd) serveLogin(a *session, conf *config.Config) error {
	if c.URL == "" {
		return term.UsageError("--socket is for the proxy of a login: name the server")
	}
	if c.PatFile+c.BasicFile+c.BearerFile+c.HeadersFile != "" || c.Negotiate {
		return term.UsageError("the proxy of " + c.URL + " uses the login; leave the other credentials out, or name the server with --upstream")
	}
	p, err := logincmd.NewProxy(a.Ctx, a.Stderr, c.URL, c.Listen, c.Socket)
	if err != nil {
		return err
	}
	if err := (serveCmd{Listen: p.Listen, Log: c.Log, Quiet: c.Quiet}).apply(conf); err != nil {
		return err
	}
	if err := conf.AddUpstream(p.Server); err != nil {
		return err
	}
	specs, err := conf.Specs()
	if err != nil {
		return term.UsageError(err.Error())
	}
	specs[len(specs)-1].Credentials = upstream.Credentials{Tokens: p.Tokens}
	return app.Serve(a.Ctx, app.Options{
		Site: a.site, Config: conf, Specs: specs, Limits: a.Downloads(), Version: a.Options.Program(), Stderr: a.Stderr, Listen: p.Open,
		Started: func(at app.Address) { fmt.Fprint(a.Stdout, p.Text(at.URL())) },
	})
}

// credentials gives the secrets of the environment or of files to the only
// private server among the upstreams: never to a preset, and never to two hosts.
func (c proxyCmd) credentials(specs []upstream.Spec, getenv func(string) string) error {
	var cred upstream.Credentials
	given := 0
	for _, s := range []struct {
		file, env string
		set       func(string)
	}{
		{c.PatFile, "SYMDEPOT_PAT", func(v string) { cred.Password = v }},
		{c.BasicFile, "SYMDEPOT_BASIC", func(v string) { cred.User, cred.Password, _ = strings.Cut(v, ":") }},
		{c.BearerFile, "SYMDEPOT_BEARER", func(v string) { cred.Token = v }},
	} {
		v := getenv(s.env)
		if s.file != "" {
			b, err := os.ReadFile(s.file)
			if err != nil {
				return err
			}
			v = strings.TrimSpace(string(b))
			if v == "" {
				return fmt.Errorf("%s is empty", s.file)
			}
		}
		if v != "" {
			given++
			s.set(v)
		}
	}
	if cred.HeadersFile = c.HeadersFile; cred.HeadersFile == "" {
		cred.HeadersFile = getenv("SYMDEPOT_HEADERS_FILE")
	}
	if cred.Negotiate = c.Negotiate; c.Negotiate {
		given++
	}
	if given > 1 {
		return term.UsageError("a personal access token, a user with password, a bearer token, and --negotiate exclude each other")
	}
	if given == 0 && cred.HeadersFile == "" {
		return nil
	}
	err := upstream.GiveCredentials(specs, cred)
	switch {
	case errors.Is(err, upstream.ErrNoPrivateServer):
		return term.UsageError(err.Error() + "; name it with --upstream URL")
	case err != nil:
		return fmt.Errorf("%w; set the credentials of each in a configuration file (symdepot config print)", err)
	}
	return nil
}
