package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

type proxyCmd struct {
	upstreamFlags
	Listen      string `help:"Address and port; port 0 picks a free port. Default: 127.0.0.1:8080." placeholder:"ADDR:PORT"`
	PatFile     string `help:"File with a personal access token, sent as the password of Basic; or SYMDEPOT_PAT." placeholder:"FILE"`
	BasicFile   string `help:"File with user:password; or SYMDEPOT_BASIC." placeholder:"FILE"`
	BearerFile  string `help:"File with a bearer token; or SYMDEPOT_BEARER." placeholder:"FILE"`
	HeadersFile string `help:"text:proxy_headers_file" placeholder:"FILE"`
	Negotiate   bool   `help:"On Windows, log in with the Kerberos ticket of the current user."`
	Log         string `help:"text:proxy_log" enum:",auto,text,json" default:"" placeholder:"auto|text|json"`
	Quiet       bool   `help:"Log failures only, not every request." short:"q"`
}

// Run serves until it is interrupted.
func (c proxyCmd) Run(a *session) error {
	conf, err := c.load(a)
	if err != nil {
		return err
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
