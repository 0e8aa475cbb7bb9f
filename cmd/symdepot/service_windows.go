package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/winservice"
)

// daemonCommands are the commands for those who run a server.
type daemonCommands struct {
	appleCommands
	serverCommands
	Service serviceCmd `cmd:"" help:"Run the server as a service of Windows."`
}

type serviceCmd struct {
	Name    string            `help:"Name of the service." default:"symdepot"`
	Install serviceInstallCmd `cmd:"" help:"Make the service. It starts with the machine; start it now with symdepot service start."`
	Start   serviceStartCmd   `cmd:"" help:"Start the service and wait until it serves."`
	Stop    serviceStopCmd    `cmd:"" help:"Stop the service and wait for its end."`
	Status  serviceStatusCmd  `cmd:"" help:"Print whether the service runs."`
	Remove  serviceRemoveCmd  `cmd:"" help:"Stop and remove the service. Its folder stays."`
	Run     serviceRunCmd     `cmd:"" hidden:"" help:"Be the service: for the service manager of Windows only."`
}

// Help is the long help text.
func (serviceCmd) Help() string {
	return `Administrators make the service once, with the flags of symdepot serve. Without --config it reads symdepot.yaml in
%ProgramData%\symdepot, which is made if there is none. The service has an account of its own (NT SERVICE\symdepot), and that folder
is for it and for administrators only: one that others may have filled is refused. Its log is log\symdepot.log there, and the event log (Application).

  symdepot service install
  symdepot service start
  symdepot service install --name symdepot-test --config D:\test\symdepot.yaml

Exit codes: 0 done or running, 1 not running, 2 wrong command line, 3 failed, or there is no such service.`
}

type (
	serviceInstallCmd struct{ serveCmd }
	serviceRunCmd     struct{ serveCmd }
	serviceStartCmd   struct{}
	serviceStopCmd    struct{}
	serviceStatusCmd  struct{}
	serviceRemoveCmd  struct{}
)

// Help is empty: the group of commands has one text.
func (serviceInstallCmd) Help() string { return "" }

// Help is empty: the group of commands has one text.
func (serviceRunCmd) Help() string { return "" }

// Run makes the service.
func (c serviceInstallCmd) Run(a *app, ctx *kong.Context, all *cli) error {
	dir, err := winservice.PrepareDir(all.Service.Name, config.FileName)
	if err != nil {
		return err
	}
	args := slices.Clone(ctx.Args)
	args[slices.Index(args, "install")] = "run" // the same flags
	file := c.Config
	if file == "" {
		file = filepath.Join(dir, config.FileName)
		args = append(args, "--config", file)
		if err := winservice.WriteFirst(file); err != nil {
			return err
		}
	} else if !filepath.IsAbs(file) {
		return term.UsageError("--config " + file + ": the service starts in another folder; give an absolute path")
	}
	if _, err := a.config(file); err != nil {
		return err
	}
	if err := winservice.Install(all.Service.Name, args); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "The service %s is installed.\nConfiguration: %s\nLog: %s\nStart it with: symdepot service start\n", all.Service.Name, file, filepath.Join(dir, "log", "symdepot.log"))
	return err
}

// Run is the process of the service.
func (c serviceRunCmd) Run(a *app, all *cli) error {
	return winservice.Run(all.Service.Name, func(ctx context.Context, logs *winservice.Logs) error {
		return c.serveCmd.Run(&app{console: &console{ctx, io.Discard, logs}, site: a.site})
	})
}

// Run starts the service.
func (serviceStartCmd) Run(a *console, all *cli) error {
	return winservice.Start(a.ctx, all.Service.Name)
}

// Run stops the service.
func (serviceStopCmd) Run(a *console, all *cli) error {
	return winservice.Stop(a.ctx, all.Service.Name)
}

// Run removes the service.
func (serviceRemoveCmd) Run(a *console, all *cli) error {
	return winservice.Remove(a.ctx, all.Service.Name)
}

// Run prints the state of the service.
func (serviceStatusCmd) Run(a *console, all *cli) error {
	text, running, err := winservice.Status(all.Service.Name)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.stdout, text); err != nil || running {
		return err
	}
	return term.ErrNegative
}
