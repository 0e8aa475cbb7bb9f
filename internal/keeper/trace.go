package keeper

import (
	"context"

	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/userquery"
)

// Tracer explains why a request finds a file or does not.
type Tracer interface {
	Trace(ctx context.Context, a userquery.Ask) (report.Trace, error)
}

// TracerOf explains requests for the files of a depot on this machine. as has the
// configuration of its server.
func TracerOf(d *depot.Depot, as depot.TraceAsk) Tracer { return localTracer{d.Tracer, as} }

// ServerTracer explains requests for the files of a server.
func ServerTracer(c *client.Retention) Tracer { return serverTracer{c} }

type localTracer struct {
	t  *depot.Tracer
	as depot.TraceAsk
}

func (l localTracer) Trace(ctx context.Context, a userquery.Ask) (report.Trace, error) {
	ask := l.as
	ask.Segments = a.Segments
	t, err := l.t.Trace(ctx, ask)
	if err != nil {
		return report.Trace{}, err
	}
	return report.NewTrace(report.Traced{Asked: a.Text, Path: a.Path(), Token: a.Token, Who: "The command reads the depot itself, and sees all products."}, t), nil
}

type serverTracer struct{ c *client.Retention }

func (s serverTracer) Trace(ctx context.Context, a userquery.Ask) (t report.Trace, err error) {
	err = s.c.Trace(ctx, a.Path(), &t)
	t.Asked = a.Text // as it was written here
	return t, err
}
