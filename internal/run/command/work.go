package command

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/derive/worker"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/server"
)

type workCmd struct {
	Server     string        `help:"Base URL of the server." required:"" placeholder:"URL"`
	TokenFile  string        `help:"File with the token; read again for every request." xor:"login" placeholder:"FILE"`
	Negotiate  bool          `help:"On Windows, log in with the Kerberos ticket of the current user instead of a token." xor:"login"`
	Transcoder []string      `help:"text:work_transcoder" placeholder:"NAME=COMMAND" sep:"none"`
	Symbols    bool          `help:"Make Breakpad symbol files and GSYM files; no program is needed."`
	Jobs       int           `help:"How many jobs run at the same time. Default: half of the processors." short:"j" placeholder:"N"`
	Scratch    string        `help:"text:work_scratch" placeholder:"DIR"`
	MinFree    term.ByteSize `help:"Take no jobs while the disk of the working folder has less free space." default:"2GiB" placeholder:"SIZE"`
	Name       string        `help:"Name of this worker in lists. Default: the host name." placeholder:"NAME"`
	Log        string        `help:"Format of the log: text, json, or auto (text on a terminal)." enum:"auto,text,json" default:"auto"`
}

// Run works until it is interrupted.
func (c workCmd) Run(a *console.Console) error {
	if err := client.CheckURL(c.Server); err != nil {
		return term.UsageError("--server: " + err.Error())
	}
	if c.TokenFile == "" && !c.Negotiate {
		return term.UsageError("the login is missing: give --token-file FILE or --negotiate")
	}
	if len(c.Transcoder) == 0 && !c.Symbols {
		return term.UsageError("there is nothing to do: give --transcoder NAME=COMMAND or --symbols")
	}
	var programs []transcode.Program
	for _, v := range c.Transcoder {
		p, err := config.ParseProgram(v)
		if err != nil {
			return term.UsageError("--transcoder " + err.Error())
		}
		programs = append(programs, p)
	}
	logs := server.NewLogWriter(a.Stderr)
	defer logs.Close()
	log := setup.Logger(c.Log, a.Stderr, logs)
	room, err := transcode.OpenWorkspace(cmp.Or(c.Scratch, transcode.DefaultRoot()))
	if err != nil {
		return err
	}
	defer room.Close()
	var kinds []worker.Kind
	if len(programs) > 0 {
		ts := transcode.NewTranscoders(room, log, programs...)
		if err := ts.Probe(a.Ctx); err != nil && len(ts.Versions()) == 0 {
			return err
		}
		kinds = append(kinds, symcachework.Worker{Transcoders: ts})
	}
	if c.Symbols {
		kinds = append(kinds, symbolicate.Worker{Dir: room.Dir()})
	}
	return c.worker(log, room, kinds).Run(a.Ctx, second(a.Ctx))
}

// second returns a context that ends at the second request to stop.
func second(first context.Context) context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(first))
	context.AfterFunc(first, func() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		<-again
		cancel()
	})
	return ctx
}

func (c workCmd) worker(log *slog.Logger, room *transcode.Workspace, kinds []worker.Kind) *worker.Worker {
	host, err := os.Hostname()
	if err != nil {
		host = runtime.GOOS
	}
	requests := upstream.NewDialer(upstream.DialerOptions{}).ClientFor(c.Server)
	if c.Negotiate {
		requests.Transport = upstream.WithTicket(requests.Transport, c.Server)
	}
	srv := &worker.Server{
		URL: c.Server, Log: log,
		HTTP: requests,
		// The suffix tells several workers of one machine apart.
		Worker: cmp.Or(c.Name, host) + "-" + strings.ToLower(rand.Text()[:6]),
		Token: func() (string, error) {
			if c.Negotiate {
				return "", nil
			}
			b, err := os.ReadFile(c.TokenFile)
			if err == nil && strings.TrimSpace(string(b)) == "" {
				err = fmt.Errorf("%s is empty", c.TokenFile)
			}
			return strings.TrimSpace(string(b)), err
		},
	}
	return &worker.Worker{
		Server: srv, Slots: cmp.Or(c.Jobs, max(1, runtime.NumCPU()/2)), Log: log,
		Kinds: kinds,
		Room: func() error {
			free, err := room.Free()
			if err == nil && free < int64(c.MinFree) {
				err = fmt.Errorf("the disk of the working folder has %s free, less than %s", term.Size(free), term.Size(int64(c.MinFree)))
			}
			return err
		},
	}
}
