package stage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/symdepot/symdepot/internal/store/blob"
)

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

// answer answers a question.
type answer struct {
	Parts   Parts
	Refusal *Refusal `json:",omitempty"`
	Failure string   `json:",omitempty"` // any other error
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
