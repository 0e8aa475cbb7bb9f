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
	answer, err := send[wire.CoverageAnswer](ctx, a, http.MethodPost, wire.CoveragePath, q, ErrNoCoverage)
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
	base, err := url.JoinPath(p.URL, path)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, base, nil)
	if err != nil {
		return false, err
	}
	token, err := p.Token()
	if err != nil {
		return false, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return false, fmt.Errorf("%w: status %d", ErrCredentials, resp.StatusCode)
	}
	return resp.StatusCode/100 == 2 || resp.StatusCode/100 == 3, nil
}
