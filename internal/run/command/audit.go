package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

type auditCmd struct {
	serverFlags
	Config  string   `help:"Configuration file whose auth.audit.file is read. Default: as for serve." placeholder:"FILE" xor:"from"`
	File    string   `help:"The audit log; older files beside it are read too." placeholder:"FILE" xor:"from"`
	Stored  bool     `help:"text:audit_stored" more:""`
	Node    string   `help:"Only the server with this name, of several." placeholder:"NAME" more:""`
	Since   string   `help:"Only from this time on: 24h, 7d, 2026-11-21 or 2026-11-21T08:00:00Z." placeholder:"TIME"`
	Until   string   `help:"Only before this time, likewise." placeholder:"TIME"`
	Who     string   `help:"Only this principal or token id; * matches any text." placeholder:"NAME"`
	Product string   `help:"Only files of this product." placeholder:"NAME"`
	Name    string   `help:"Only files of this name; * matches any text." placeholder:"NAME"`
	ID      string   `help:"Only the file with this id." placeholder:"ID"`
	Action  string   `help:"Only this: read, purge, force or dump." enum:",read,purge,force,dump" default:"" placeholder:"ACTION" more:""`
	Remote  string   `help:"Only from addresses that start with this text." placeholder:"ADDRESS" more:""`
	JSON    bool     `help:"Print one JSON object per record."`
	Files   []string `arg:"" optional:"" name:"file" help:"text:audit_files"`
}

// Run lists records.
func (c auditCmd) Run(a *session) error {
	f := auth.AuditFilter{Who: c.Who, Node: c.Node, Product: c.Product, Name: c.Name, ID: c.ID, Remote: c.Remote, Action: c.Action}
	var err error
	if f.Since, err = term.ParseMoment(c.Since, a.Now()); err != nil {
		return term.UsageError("--since: " + err.Error())
	}
	if f.Until, err = term.ParseMoment(c.Until, a.Now()); err != nil {
		return term.UsageError("--until: " + err.Error())
	}
	logs, done, err := c.logs(a, f)
	if err != nil {
		return err
	}
	defer done()
	return c.print(a.Console, logs)
}

// print prints the records of logs, merged by time.
func (c auditCmd) print(a *console.Console, logs []iter.Seq2[auth.Event, error]) error {
	columns := []string{"TIME", "WHO", "BY", "FROM", "PROTOCOL", "STATUS", "SENT", "PRODUCTS", "NAME", "ID"}
	if len(logs) > 1 {
		columns = append(columns, "SERVER")
	}
	lines, t := term.NewJSONLines(a.Stdout), term.NewTable(a.Stdout, columns...)
	n := 0
	for e, err := range auth.MergeAudits(logs) {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, auth.ErrArchive),
			err != nil && c.Server != "" && !errors.Is(err, client.ErrDamagedRecords):
			return err
		case err != nil:
			fmt.Fprintln(a.Stderr, "symdepot:", term.Printable(err.Error()))
			continue
		}
		n++
		if c.JSON {
			if err := lines.Write(e); err != nil {
				return err
			}
			continue
		}
		protocol := e.Protocol
		if e.Action != auth.ActionRead {
			protocol = e.Action
		}
		if e.Detail != "" {
			protocol += ": " + e.Detail
		}
		row := []string{
			e.Time.Local().Format(time.RFC3339), e.Who, string(e.Method), e.Remote, protocol, strconv.Itoa(e.Status),
			term.Size(e.Bytes), strings.Join(e.Products, ", "), e.Name, e.ID,
		}
		if len(logs) > 1 {
			row = append(row, e.Node)
		}
		t.Row(row...)
	}
	if n == 0 {
		return a.Nothing("no record matches")
	}
	return t.Flush()
}

// logs are the records of the logs that the command line or the configuration names,
// of each server by itself. done ends the reading.
func (c auditCmd) logs(a *session, f auth.AuditFilter) (logs []iter.Seq2[auth.Event, error], done func(), err error) {
	done = func() {}
	files := c.Files
	if c.Server != "" {
		if len(files) > 0 || c.File != "" || c.Config != "" || c.Stored {
			return nil, done, term.UsageError("--server excludes files, --file, --config and --stored")
		}
		s, err := c.client(a.Console)
		return []iter.Seq2[auth.Event, error]{s.AuditEvents(a.Ctx, f)}, done, err
	}
	switch {
	case len(c.Files) > 0 && (c.File != "" || c.Config != ""):
		return nil, done, term.UsageError("files exclude --file and --config")
	case c.File != "":
		files = []string{c.File}
	case len(files) == 0 && !c.Stored:
		conf, err := a.config(c.Config)
		if err == nil && conf.Auth.Audit.File == "" {
			err = term.UsageError("the configuration has no auth.audit.file; " +
				"name the file that the server has as --audit-file with --file, or the server's configuration with --config")
		}
		if err != nil {
			return nil, done, err
		}
		files = []string{conf.Auth.Audit.File}
	}
	if c.Stored {
		if logs, done, err = stored(a, f); err != nil {
			return nil, done, err
		}
	}
	for _, file := range files {
		logs = append(logs, auth.ReadAudit(file, f))
	}
	return logs, done, nil
}

// stored are the records of the files that servers have stored in the bucket. They
// are read from there, in parts.
func stored(a *session, f auth.AuditFilter) (logs []iter.Seq2[auth.Event, error], done func(), err error) {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return nil, func() {}, err
	}
	done = func() { _ = d.Close() }
	defer func() {
		if err != nil {
			done()
		}
	}()
	from := d.Nodes.AuditArchive()
	if from == nil {
		return nil, done, term.UsageError("--stored is for a depot with a bucket (--blobs); for this one name the server's file with --file")
	}
	servers, err := from.Logs(a.Ctx, f.Since)
	for _, s := range servers {
		files := make([]auth.ArchivedFile, len(s.Files))
		for i, l := range s.Files {
			files[i] = auth.ArchivedFile{Name: l.Name, Open: func() (io.ReadCloser, error) { return l.Open(a.Ctx) }}
		}
		logs = append(logs, auth.ReadArchive(files, f))
	}
	return logs, done, err
}
