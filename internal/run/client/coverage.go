package client

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// Coverage asks what the depot has of files that ship. The answer has an item for each of them.
func (a *API) Coverage(ctx context.Context, q wire.CoverageAsk) ([]wire.Coverage, error) {
	ask := request{method: http.MethodPost, path: wire.CoveragePath, reads: true, missing: ErrNoCoverage}
	answer, err := sendAs[wire.CoverageAnswer](ctx, a, ask, q)
	if err == nil && len(answer.Items) != len(q.Files) {
		err = fmt.Errorf("the server answers for %d files, and was asked for %d", len(answer.Items), len(q.Files))
	}
	return answer.Items, err
}

// ErrNoCoverage means that a server does not know the question.
var ErrNoCoverage = fmt.Errorf("the server is older than the command and cannot check what ships; update it")

// KeepCoverage stores the result of a check beside a build. An unknown build is fs.ErrNotExist.
func (a *API) KeepCoverage(ctx context.Context, number int64, c wire.BuildCoverage) (wire.BuildCoverage, error) {
	return send[wire.BuildCoverage](ctx, a, http.MethodPut, numbered(wire.TransactionsPath, number)+"/coverage", c, fs.ErrNotExist)
}

// Has asks for a file under a path as a debugger does, which lets the server ask its upstreams, and reports
// whether it would get the file.
func (p *Pusher) Has(ctx context.Context, path string) (bool, error) {
	at := url.URL{Path: "/" + path}
	status, err := p.do(ctx, exchange{method: http.MethodHead, base: at.EscapedPath(), header: http.Header{"Accept": {"*/*"}}})
	switch {
	case err == nil || status/100 == 3:
		return true, nil
	case status == http.StatusNotFound:
		return false, nil
	}
	return false, err
}
