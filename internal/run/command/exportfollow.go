package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/importexport"
)

// follow exports, and goes on until it is interrupted.
func (c exportCmd) follow(a *session, d *depot.Depot, to importexport.Target, opt importexport.ExportOptions, lines term.JSONLines) error {
	var bar *term.Progress
	opt.Progress = func(done, _ int64) {
		if bar == nil {
			bar = term.NewProgress(a.Stderr, "exporting", -1)
		}
		bar.Set(done)
	}
	still := func() { // ends the line of the progress
		if bar != nil {
			bar.Done()
			bar = nil
		}
	}
	say := func(format string, args ...any) {
		still()
		fmt.Fprintf(a.Stderr, "symdepot: "+format+"\n", args...)
	}
	err := importexport.Follow(a.Ctx, d, to, importexport.FollowOptions{
		ExportOptions: opt, Product: c.Product,
		Waiting: func(text string) { say("%s", term.Printable(text)) },
		Away: func(err error, retry time.Duration) {
			say("%s; trying again in %s", term.Printable(describe(err, a.site)), retry)
			if c.JSON {
				_ = lines.Write(followAway{"away", err.Error(), retry.String()})
			}
		},
		Back: func() {
			say("it works again")
			if c.JSON {
				_ = lines.Write(followAway{Event: "back"})
			}
		},
		Round: func(r importexport.ExportResult, builds, gone []int64) {
			still()
			if c.JSON {
				_ = lines.Write(followRound{"exported", builds, gone, r.Written, r.Same, r.Replaced, r.Removed, r.Private, r.Failed})
				return
			}
			c.printRound(a, &r, builds, gone)
		},
	})
	still()
	return err
}

// followAway is the JSON of a failure, and of its end.
type followAway struct {
	Event string `json:"event"`
	Error string `json:"error,omitempty"`
	Retry string `json:"retry_in,omitempty"`
}

// followRound is the JSON of a change that the target has.
type followRound struct {
	Event    string             `json:"event"`
	Builds   []int64            `json:"builds,omitempty"`
	Gone     []int64            `json:"gone,omitempty"`
	Written  importexport.Tally `json:"written"`
	Same     importexport.Tally `json:"same"`
	Replaced int64              `json:"replaced"`
	Removed  int64              `json:"removed"`
	Private  int64              `json:"private,omitempty"`
	Failed   int64              `json:"failed"`
}

// printRound prints one line about a change.
func (c exportCmd) printRound(a *session, r *importexport.ExportResult, builds, gone []int64) {
	var parts []string
	add := func(n int, one, text string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(text, term.Count(int64(n), one)))
		}
	}
	add(len(builds), "new build", "%s")
	add(len(gone), "build", "%s gone")
	parts = append(parts, fmt.Sprintf("%s written (%s)", term.Count(r.Written.Files, "file"), term.Size(r.Written.Bytes)))
	add(int(r.Same.Files), "file", "%s unchanged")
	add(int(r.Removed), "file", "%s removed")
	add(int(r.Private), "file", "%s without a public form left out")
	add(int(r.Failed), "file", "%s failed")
	fmt.Fprintf(a.Stdout, "%s  %s\n", time.Now().Format(time.DateTime), strings.Join(parts, ", "))
	for _, s := range r.Some {
		fmt.Fprintf(a.Stdout, "    %s\n", term.Printable(s))
	}
}
