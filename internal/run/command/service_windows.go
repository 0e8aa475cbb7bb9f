package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/winservice"
)

// serviceCommands are the commands of the service of Windows.
type serviceCommands struct {
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

type (
	serviceInstallCmd struct{ serveCmd }
	serviceRunCmd     struct{ serveCmd }
	serviceStartCmd   struct{}
	serviceStopCmd    struct{}
	serviceStatusCmd  struct{}
	serviceRemoveCmd  struct{}
)

// Run makes the service.
func (c serviceInstallCmd) Run(a *session, ctx *kong.Context, all *serviceCmd) error {
	dir, err := winservice.PrepareDir(all.Name, config.FileName)
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
	if err := winservice.Install(all.Name, args); err != nil {
		return err
	}
	log := filepath.Join(dir, "log", "symdepot.log")
	_, err = fmt.Fprintf(a.Stdout, "The service %s is installed.\nConfiguration: %s\nLog: %s\nStart it with: symdepot service start\n",
		all.Name, file, log)
	return err
}

// Run is the process of the service.
func (c serviceRunCmd) Run(a *session, all *serviceCmd) error {
	return winservice.Run(all.Name, func(ctx context.Context, logs *winservice.Logs) error {
		out := &console.Console{Ctx: ctx, Stdin: a.Stdin, Stdout: io.Discard, Stderr: logs, Options: a.Options}
		return c.serveCmd.Run(&session{Console: out, site: a.site})
	})
}

// Run starts the service.
func (serviceStartCmd) Run(a *console.Console, all *serviceCmd) error {
	return winservice.Start(a.Ctx, all.Name)
}

// Run stops the service.
func (serviceStopCmd) Run(a *console.Console, all *serviceCmd) error {
	return winservice.Stop(a.Ctx, all.Name)
}

// Run removes the service.
func (serviceRemoveCmd) Run(a *console.Console, all *serviceCmd) error {
	return winservice.Remove(a.Ctx, all.Name)
}

// Run prints the state of the service.
func (serviceStatusCmd) Run(a *console.Console, all *serviceCmd) error {
	text, running, err := winservice.Status(all.Name)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.Stdout, text); err != nil || running {
		return err
	}
	return term.ErrNegative
}
