package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check a configuration file and print the effective settings."`
	Print configPrintCmd `cmd:"" nodepot:"" help:"Print a configuration file with every key, its default and its meaning."`

	FromSymcacheSample configSampleCmd `cmd:"" nodepot:"" name:"from-symcache-sample" help:"text:config_from_symcache_sample"`
}

type configCheckCmd struct {
	JSON   bool   `help:"Print one JSON object."`
	Config string `help:"The file, as other commands name it." placeholder:"FILE"`
	File   string `arg:"" optional:"" help:"The file. Default: the file that the other commands read."`
}

// Run checks a configuration.
func (c configCheckCmd) Run(a *session) error {
	conf, err := config.LoadForCheck(a.site.ConfigFile(cmp.Or(c.File, c.Config)), os.Getenv)
	if fault := (*config.Error)(nil); errors.As(err, &fault) {
		fmt.Fprintln(a.Stderr, err)
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
	return conf.Report(a.Stdout, a.Stderr, c.JSON, dir)
}

type configPrintCmd struct{}

// Run prints the documented file.
func (configPrintCmd) Run(a *console.Console) error {
	_, err := io.WriteString(a.Stdout, config.Manual())
	return err
}

type configSampleCmd struct {
	File string `arg:"" optional:"" help:"The sample's appsettings.json. Default: the environment variables only."`
}

// Run prints the configuration.
func (c configSampleCmd) Run(a *console.Console) error {
	s, err := config.ReadSampleSettings(c.File)
	if err != nil {
		return err
	}
	if names := s.Override(os.Environ()); len(names) > 0 {
		fmt.Fprintf(a.Stderr, "symdepot: the environment has %s\n", strings.Join(names, ", "))
	}
	if s.IsZero() {
		where := cmp.Or(c.File, "the environment")
		fmt.Fprintf(a.Stderr, "symdepot: %s has none of SymCacheDirectory, SymbolServer, TranscoderPath and TranscoderVersion\n", where)
		return term.ErrNegative
	}
	out, err := s.Config()
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.Stdout, out)
	return err
}
