package stage

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/stages"
)

// question is a request that is forwarded. The caller has the rights for it.
type question struct {
	Owner string // Caller.ID
	Stage string
	Ref   string
	// Part is the number of the part that the body is; -1: the question is which
	// parts have arrived.
	Part  int
	Total int64 // bytes of the content
}

// owner returns the other server that has the parts of a stage, or "" if this
// one has them. This server takes over the stage of one that is no longer at
// work: its parts are lost, and the client sends them again.
func (s *Stages) owner(ctx context.Context, row stages.StageRow) (string, error) {
	if row.Node == s.node {
		return "", nil
	}
	if s.peers != nil {
		switch live, known := s.peers.Live(row.Node); {
		case !known:
			return "", refuse(Busy, "this server does not know the other servers of the depot; try again later")
		case live:
			return row.Node, nil
		}
	}
	if err := s.db.Own(ctx, row.ID, row.Node, s.node); err != nil {
		return "", s.explain(ctx, err, row.ID)
	}
	s.log.Info("took over a push from a server that does not answer", "stage", row.ID, "server", row.Node)
	s.partials.forgetStage(row.ID)
	return "", nil
}

// here returns an open stage of which this server is the owner.
func (s *Stages) here(ctx context.Context, c Caller, id string) (stages.StageRow, error) {
	row, err := s.open(ctx, c, id)
	if err == nil && row.Node != s.node {
		err = refuse(Busy, "another server has the parts of this push now; try again")
	}
	return row, err
}
