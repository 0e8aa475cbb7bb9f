package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/term"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check a configuration file and print the effective settings."`
	Print configPrintCmd `cmd:"" nodepot:"" help:"Print a configuration file with every key, its default and its meaning."`

	FromSymcacheSample configSampleCmd `cmd:"" nodepot:"" name:"from-symcache-sample" help:"${config_from_symcache_sample}"`
}

type configCheckCmd struct {
	JSON   bool   `help:"Print one JSON object."`
	Config string `help:"The file, as other commands name it." placeholder:"FILE"`
	File   string `arg:"" optional:"" help:"The file. Default: the file that the other commands read."`
}

// Help is the long help text.
func (configCheckCmd) Help() string {
	return `Reads a configuration as serve and proxy do, including SYMDEPOT_* of the environment, and prints the effective settings:
the depot, the stores, TLS, who may read and write what, and every upstream. Connects to nothing and prints no secret.

  symdepot config check
  symdepot config check new.yaml

A secret file that does not exist is a warning.

Exit codes: 0 the configuration is valid, 1 it has faults (printed with file, line and key), 3 it cannot be read.`
}

// Run checks a configuration.
func (c configCheckCmd) Run(a *app) error {
	conf, err := config.LoadForCheck(a.site.ConfigFile(cmp.Or(c.File, c.Config)), os.Getenv)
	if fault := (*config.Error)(nil); errors.As(err, &fault) {
		fmt.Fprintln(a.stderr, err)
		return term.ErrNegative
	}
	if err != nil {
		return err
	}
	if a.site.Depot != "" {
		if err := config.CheckDepot(a.site.Depot); err != nil {
			return term.UsageError(err.Error())
		}
		conf.Depot.Dir = a.site.Depot
	}
	dir, err := conf.DepotDir()
	if err != nil {
		return err
	}
	return conf.Report(a.stdout, a.stderr, c.JSON, dir)
}

type configPrintCmd struct{}

// Help is the long help text.
func (configPrintCmd) Help() string {
	return `Every key is printed with its default, commented out with #. Remove the # of the keys to change.

  symdepot config print > config.yaml

Exit codes: 0 printed, 3 failed.`
}

// Run prints the documented file.
func (configPrintCmd) Run(a *console) error {
	_, err := io.WriteString(a.stdout, config.Manual())
	return err
}

type configSampleCmd struct {
	File string `arg:"" optional:"" help:"The sample's appsettings.json. Default: the environment variables only."`
}

// Help is the long help text.
func (configSampleCmd) Help() string {
	return `Prints a configuration with the effect of the settings of Microsoft's sample SymCache server: SymCacheDirectory becomes
symcache.store, SymbolServer an upstream, TranscoderPath a transcoder, and TranscoderVersion the version that the
transcoder must have. Environment variables of these names are read too, and win, as in the sample: run it where the
sample runs. Changes nothing.

  symdepot config from-symcache-sample C:\inetpub\SymCacheServer\appsettings.json > config.yaml
  symdepot config check config.yaml

Exit codes: 0 printed, 1 neither the file nor the environment has these settings, 3 the file cannot be read.`
}

// Run prints the configuration.
func (c configSampleCmd) Run(a *console) error {
	s, err := config.ReadSampleSettings(c.File)
	if err != nil {
		return err
	}
	if names := s.Override(os.Environ()); len(names) > 0 {
		fmt.Fprintf(a.stderr, "symdepot: the environment has %s\n", strings.Join(names, ", "))
	}
	if s.IsZero() {
		where := cmp.Or(c.File, "the environment")
		fmt.Fprintf(a.stderr, "symdepot: %s has none of SymCacheDirectory, SymbolServer, TranscoderPath and TranscoderVersion\n", where)
		return term.ErrNegative
	}
	out, err := s.Config()
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.stdout, out)
	return err
}
