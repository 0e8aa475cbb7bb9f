package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// symbolicatePath is the path of the symbolication API, version 5.
const symbolicatePath = "/symbolicate/v5"

// symbolicateTime is how long an answer may take for which a server prepares
// modules.
const symbolicateTime = 5 * time.Minute

// Symbolicate sends a request to the symbolication API of the server and decodes the
// answer into into.
func (p *Pusher) Symbolicate(ctx context.Context, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = p.once(ctx, exchange{
		method: http.MethodPost, base: symbolicatePath, timeout: symbolicateTime, header: http.Header{"Content-Type": {"application/json"}},
		body: func() io.Reader { return bytes.NewReader(b) }, size: int64(len(b)), into: into,
	})
	if _, answered := errors.AsType[*answerError](err); err != nil && !answered && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}
