package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/coverage"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
)

// Coverage says what the depot has of files that ship, and keeps what checks of builds have found.
type Coverage struct {
	looker  coverage.Looker
	looking *Gate
	txs     *Transactions
}

// maxLooking is how many questions about files that ship are answered at the same time.
const maxLooking = 4

func newCoverage(cfg *Config, txs *Transactions) *Coverage {
	c := &Coverage{
		coverage.Looker{Files: cfg.Files, Makes: cfg.Makes}, newGate(maxLooking, examineTime, "other builds are being checked"), txs,
	}
	if cfg.Sources != nil {
		c.looker.Sources = cfg.Sources
	}
	return c
}

// MaxCoverageBody limits the body of a question about files that ship, in bytes.
const MaxCoverageBody = 2 << 20

// Look answers a question about files that ship.
func (c *Coverage) Look(r *Request, q *wire.CoverageAsk) (out wire.CoverageAnswer, err error) {
	if field, why := coverage.CheckAsk(q); field != "" {
		return out, BadMember("the question is not valid", field, why)
	}
	done, err := c.looking.Enter(r)
	if err != nil {
		return out, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), examineTime)
	defer cancel()
	out.Items, err = c.looker.Look(ctx, r.Scope(), q)
	return out, r.tookLonger(err)
}

// Limits of the stored result of a check.
const (
	MaxGaps       = 20  // files
	maxGapPath    = 300 // bytes
	maxGapWords   = 5
	maxCheckFiles = 100_000_000
)

// Keep stores the result of a check of what ships beside a build that the client may add files to.
func (c *Coverage) Keep(r *Request, number string, q wire.BuildCoverage) (wire.BuildCoverage, error) {
	t, err := c.txs.Find(r, number)
	switch {
	case err != nil:
		return q, err
	case !r.Principal.Write(t.Product):
		return q, noRightTo("change", t.Product, r.Rights.WriteProducts)
	case r.Identity.Uploads.Class != "" && r.Identity.Uploads.Class != t.Class:
		return q, &Problem{Word: "forbidden", Detail: "the token is for the class " + strconv.Quote(r.Identity.Uploads.Class) + " only"}
	case !t.Removed.IsZero():
		return q, &Problem{Word: "conflict", Detail: fmt.Sprintf("build %d was removed", t.Number)}
	}
	if err := checkBuildCoverage(&q); err != nil {
		return q, err
	}
	q.Checked, q.By = c.txs.now().UTC(), r.Name
	if err := c.txs.changes.SetCoverage(r.Context(), t.Number, q); err != nil {
		return q, RetentionProblem(err)
	}
	c.txs.log.Info("the coverage of a build was stored", "request", r.ID, "by", r.Name, "build", t.Number, "files", q.Files,
		"covered", q.Covered)
	return q, nil
}

// checkBuildCoverage returns a problem if the result of a check is not valid.
func checkBuildCoverage(q *wire.BuildCoverage) error {
	wrong := func(field, why string) error { return BadMember("the coverage is not valid", field, why) }
	unknown := func(w string) bool { return !slices.Contains(wire.Requirements, w) }
	switch {
	case q.Files < 0 || q.Files > maxCheckFiles || q.Allowed < 0 || q.Allowed > maxCheckFiles:
		return wrong("files", "a number of files is expected")
	case q.Covered < 0 || q.Covered > q.Files:
		return wrong("covered", "at most all files are expected")
	case len(q.Require) == 0 || len(q.Require) > maxGapWords || slices.ContainsFunc(q.Require, unknown):
		return wrong("require", fmt.Sprintf("words of %v are expected", wire.Requirements))
	case len(q.Gaps) > MaxGaps || int64(len(q.Gaps)) > q.Files-q.Covered:
		return wrong("gaps", fmt.Sprintf("at most %d files are expected, of those that are not covered", MaxGaps))
	}
	for _, g := range q.Gaps {
		text := g.Path != "" && len(g.Path) <= maxGapPath && utf8.ValidString(g.Path)
		if !text || len(g.Lacks) > maxGapWords || slices.ContainsFunc(g.Lacks, unknown) {
			return wrong("gaps", fmt.Sprintf("each has a path of at most %d bytes, and words of %v", maxGapPath, wire.Requirements))
		}
	}
	return nil
}

// trendBuilds is how many of the newest builds of a product are looked at for its trend.
const trendBuilds = 200

// Trend returns the builds among the newest ones of a product that were checked, the newest first.
func (c *Coverage) Trend(r *Request, product string) (list []wire.CoveredBuild, err error) {
	newest, err := c.txs.depot.List(r.Context(), r.Scope(), depot.ListFilter{Product: &product, Limit: trendBuilds})
	for _, t := range newest {
		if cover := lifecycle.CoverageOf(t.Labels); cover != nil {
			list = append(list, wire.CoveredBuild{Build: t.Number, Version: t.Version, BuildCoverage: *cover})
		}
	}
	return list, err
}
