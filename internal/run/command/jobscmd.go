package command

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/run/client"
)

type jobsCmd struct {
	List   jobsListCmd   `cmd:"" default:"withargs" help:"List jobs, the newest first. The default."`
	Stats  jobsStatsCmd  `cmd:"" help:"Print how many jobs wait, run and have ended, and how long they took."`
	Cancel jobsCancelCmd `cmd:"" help:"Cancel jobs."`
	Retry  jobsRetryCmd  `cmd:"" help:"Run jobs that have ended again, and forget why they failed."`
}

type jobsListCmd struct {
	serverFlags
	State []string `help:"Only jobs in this state: queued, running, done, failed or cancelled; repeatable." placeholder:"STATE"`
	Limit int      `help:"Maximum number; 0: all." default:"100"`
	JSON  bool     `help:"Print one JSON object per job."`
	Long  bool     `help:"Print the whole outcome of each job, not only its first line." short:"l"`
}

// Run lists jobs.
func (c jobsListCmd) Run(a *session) error {
	f := jobs.Filter{Limit: c.Limit}
	for _, word := range c.State {
		st, err := jobs.ParseState(word)
		if err != nil {
			return term.UsageError("--state: " + err.Error())
		}
		f.States = append(f.States, st)
	}
	var list []jobs.Shown
	err := a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		return k.Jobs(a.Ctx, f, func(j jobs.Shown) error {
			list = append(list, j)
			return nil
		})
	})
	if err != nil {
		return err
	}
	lines := term.NewJSONLines(a.Stdout)
	t := term.NewTable(a.Stdout, "JOB", "STATE", "WHAT", "KEY", "TRIES", "AGE", "TOOK", "WORKER", "OUTCOME")
	now := a.Now()
	for _, j := range list {
		if c.JSON {
			if err := lines.Write(j); err != nil {
				return err
			}
			continue
		}
		took := ""
		if !j.Started.IsZero() && !j.Finished.IsZero() {
			took = j.Finished.Sub(j.Started).Round(10 * time.Millisecond).String()
		}
		outcome, _, _ := strings.Cut(j.Detail, "\n")
		if j.Outcome != "" && j.Outcome != "ok" {
			outcome = j.Outcome + ": " + outcome
		}
		t.Row(strconv.FormatInt(j.ID, 10), j.State.String(), j.Kind+" "+strconv.Itoa(j.Variant), j.Key, strconv.Itoa(j.Attempts),
			now.Sub(j.Created).Round(time.Second).String(), took, j.Worker, outcome)
		if c.Long {
			if err := t.Flush(); err != nil {
				return err
			}
			if j.Result != "" {
				fmt.Fprintf(a.Stdout, "    result %s, made by %s\n", j.Result, term.Printable(j.Worker))
			}
			for line := range strings.SplitSeq(j.Detail, "\n") {
				fmt.Fprintf(a.Stdout, "    %s\n", term.Printable(line))
			}
		}
	}
	if len(list) == 0 {
		return a.Nothing("there are no such jobs")
	}
	return t.Flush()
}

type jobsStatsCmd struct {
	serverFlags
	JSON bool `help:"Print one JSON object per kind of job."`
}

// Run prints the statistics.
func (c jobsStatsCmd) Run(a *session) error {
	var stats []jobs.Stats
	err := a.api(c.serverFlags, depot.Options{}, func(k *client.API) (err error) {
		stats, err = k.JobStats(a.Ctx)
		return err
	})
	if err != nil {
		return err
	}
	lines := term.NewJSONLines(a.Stdout)
	for _, s := range stats {
		if c.JSON {
			if err := lines.Write(s); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.Stdout, "%s: %d queued, %d of them delayed; %d running, %d of them with an expired lease\n",
			s.Kind, s.Queued, s.Delayed, s.Running, s.Lost)
		if !s.Oldest.IsZero() {
			fmt.Fprintf(a.Stdout, "the oldest has waited since %s\n", s.Oldest.Local().Format("2006-01-02 15:04:05"))
		}
		t := term.NewTable(a.Stdout, "ENDED", "OUTCOME", "JOBS", "MEAN TIME", "LONGEST")
		for _, o := range s.Outcomes {
			mean := (o.Total / time.Duration(max(o.Jobs, 1))).Round(time.Millisecond)
			t.Row(o.State.String(), o.Class, strconv.FormatInt(o.Jobs, 10), mean.String(), o.Longest.Round(time.Millisecond).String())
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(stats) == 0 {
		return a.Nothing("there are no jobs")
	}
	return nil
}

type jobsCancelCmd struct {
	serverFlags
	ID []int64 `arg:"" help:"Number of a job."`
}

// Run ends jobs.
func (c jobsCancelCmd) Run(a *session) error {
	return eachJob(a, c.serverFlags, c.ID, func(k *client.API, id int64) (string, error) {
		was, err := k.CancelJob(a.Ctx, id)
		if err == nil && !was {
			return "had ended", nil
		}
		return "cancelled", err
	})
}

type jobsRetryCmd struct {
	serverFlags
	ID []int64 `arg:"" help:"Number of a job."`
}

// Run enters jobs again.
func (c jobsRetryCmd) Run(a *session) error {
	return eachJob(a, c.serverFlags, c.ID, func(k *client.API, id int64) (string, error) {
		n, err := k.RetryJob(a.Ctx, id)
		if n == id {
			return "has not ended", err
		}
		return fmt.Sprintf("is tried again as job %d", n), err
	})
}

// eachJob calls do for each job and prints the outcome.
func eachJob(a *session, f serverFlags, ids []int64, do func(k *client.API, id int64) (string, error)) error {
	missing := false
	err := a.api(f, depot.Options{}, func(k *client.API) error {
		for _, id := range ids {
			what, err := do(k, id)
			if errors.Is(err, fs.ErrNotExist) {
				what, missing = "does not exist", true
			} else if err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "job %d %s\n", id, what)
		}
		return nil
	})
	if err == nil && missing {
		err = term.ErrNegative
	}
	return err
}
