package stage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

// Peers are the other servers of a depot on several machines. The parts of a
// stage are on one of them, its owner: the others forward requests for parts to
// it. Whole contents are in the bucket, and every server accepts them.
type Peers interface {
	// Live reports whether a server is at work. known is false while that is not
	// known.
	Live(node string) (live, known bool)
	// Send sends a question with a body to a server, and returns the answer of its
	// Stages.Answer. An error of the body is returned unchanged; for all
	// others the error is ErrNoAnswer.
	Send(ctx context.Context, node string, question []byte, body io.Reader) (answer []byte, err error)
}

// ErrNoAnswer means that another server did not answer, or its answer ended early.
var ErrNoAnswer = errors.New("the other server does not answer")

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

// answer answers a question.
type answer struct {
	Parts   Parts
	Refusal *Refusal `json:",omitempty"`
	Failure string   `json:",omitempty"` // any other error
}

// owner returns the other server that has the parts of a stage, or "" if this
// one has them. This server takes over the stage of one that is no longer at
// work: its parts are lost, and the client sends them again.
func (s *Stages) owner(ctx context.Context, row index.StageRow) (string, error) {
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

// forward sends a question to the owner of a stage.
func (s *Stages) forward(ctx context.Context, node string, q question, body io.Reader) (Parts, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return Parts{}, err
	}
	reply, err := s.peers.Send(ctx, node, text, body)
	if errors.Is(err, ErrNoAnswer) {
		s.log.Debug("cannot forward a part of a push", "stage", q.Stage, "server", node, "error", err)
		return Parts{}, refuse(Busy, "server %s, which has the parts of this push, does not answer; try again later", node)
	}
	if err != nil {
		return Parts{}, err
	}
	var a answer
	if err := json.Unmarshal(reply, &a); err != nil {
		return Parts{}, err
	}
	switch {
	case a.Refusal != nil:
		return Parts{}, a.Refusal
	case a.Failure != "":
		return Parts{}, errors.New("server " + node + ": " + a.Failure)
	}
	return a.Parts, nil
}

// Answer answers a question that another server of the depot has forwarded. It
// need not read all of the body.
func (s *Stages) Answer(ctx context.Context, text []byte, body io.Reader) ([]byte, error) {
	var q question
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, err
	}
	ref, err := blob.ParseRef(q.Ref)
	if err != nil {
		return nil, err
	}
	// The other server has checked the rights.
	c := Caller{ID: q.Owner, Read: func(string) bool { return false }, Write: func(string) bool { return true }}
	var a answer
	if q.Part < 0 {
		a.Parts, err = s.localParts(ctx, c, q.Stage, ref)
	} else {
		err = s.putPart(ctx, c, q.Stage, ref, q.Total, q.Part, body)
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		a.Refusal, err = r, nil
	}
	if err != nil {
		a.Failure = strings.ToValidUTF8(err.Error(), "\uFFFD")
	}
	return json.Marshal(a)
}

// here returns an open stage of which this server is the owner.
func (s *Stages) here(ctx context.Context, c Caller, id string) (index.StageRow, error) {
	row, err := s.open(ctx, c, id)
	if err == nil && row.Node != s.node {
		err = refuse(Busy, "another server has the parts of this push now; try again")
	}
	return row, err
}
