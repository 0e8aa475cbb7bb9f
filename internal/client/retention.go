package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/ctxio"
	"github.com/symdepot/symdepot/internal/endpoint"
	"github.com/symdepot/symdepot/internal/wire"
)

// Retention is a client of the retention API of one server. Its methods decode the
// answer into a value of the caller, whose JSON is documented with the API.
type Retention struct {
	p *Pusher
	// RetryFor is how long a request is retried that the server has not seen, or
	// was too busy for; zero is 5 seconds.
	RetryFor time.Duration
}

// NewRetention returns a client that has the credentials of NewPusher.
func NewRetention(server, tokenFile string, getenv func(string) string, clientFor func(server string) *http.Client) (*Retention, error) {
	p, err := NewPusher(server, tokenFile, getenv, clientFor)
	if err != nil {
		return nil, err
	}
	return &Retention{p: p}, nil
}

// ProblemWord returns the word of the problem that a server has answered with, such
// as wire.ProblemHeld; empty for other errors.
func ProblemWord(err error) string {
	e, ok := errors.AsType[*pushError](err)
	if !ok {
		return ""
	}
	word, _ := strings.CutPrefix(e.Type, wire.ProblemType)
	return word
}

// ProblemText returns what is wrong according to the server, without status and
// title; the whole text for other errors.
func ProblemText(err error) string {
	if e, ok := errors.AsType[*pushError](err); ok && e.Detail != "" {
		return endpoint.Printable(e.Detail)
	}
	return err.Error()
}

// computeTime is how long an answer may take for which a server computes a plan.
const computeTime = 35 * time.Minute

// do sends a request. Requests change something and are not repeated once the server
// may have seen them, unless they only read.
func (r *Retention) do(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	x := exchange{method: method, base: path, header: header, into: into, timeout: computeTime}
	if body != nil {
		x.body, x.size = func() io.Reader { return bytes.NewReader(body) }, int64(len(body))
	}
	until := time.Now().Add(cmp.Or(r.RetryFor, 5*time.Second))
	first := cmp.Or(r.p.Backoff, time.Second)
	for pause := first; ; pause = min(2*pause, 8*first) {
		_, err := r.p.once(ctx, x)
		if err == nil || ctx.Err() != nil {
			return cmp.Or(ctx.Err(), err)
		}
		answer, answered := errors.AsType[*pushError](err)
		if answered && !answer.transient() || isLocal(err) {
			return err
		}
		again := answered || method == http.MethodGet
		if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
			again = true
		}
		if !again || isFinal(err) || time.Now().Add(pause).After(until) {
			if answered {
				return err
			}
			return fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		if err := ctxio.Pause(ctx, pause); err != nil {
			return err
		}
	}
}

// send sends a request with a JSON body; nil: none.
func (r *Retention) send(ctx context.Context, method, path string, body, into any) error {
	if body == nil {
		return r.do(ctx, method, path, nil, nil, into)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return r.do(ctx, method, path, http.Header{"Content-Type": {"application/json"}}, b, into)
}

// Get reads what an address of the API has; q are the parameters.
func (r *Retention) Get(ctx context.Context, path string, q url.Values, into any) error {
	if e := q.Encode(); e != "" {
		path += "?" + e
	}
	return r.send(ctx, http.MethodGet, path, nil, into)
}

// Post sends a body to an address of the API.
func (r *Retention) Post(ctx context.Context, path string, body, into any) error {
	return r.send(ctx, http.MethodPost, path, body, into)
}

// Rules reads the policy in force.
func (r *Retention) Rules(ctx context.Context, into any) error {
	return r.send(ctx, http.MethodGet, wire.RulesPath, nil, into)
}

// SetRules sets the policy. before is the number of the policy that must be in force;
// negative: any.
func (r *Retention) SetRules(ctx context.Context, text []byte, before int64, into any) error {
	match := "*"
	if before >= 0 {
		match = strconv.Quote(strconv.FormatInt(before, 10))
	}
	if text == nil {
		text = []byte{}
	}
	return r.do(ctx, http.MethodPut, wire.RulesPath, http.Header{"Content-Type": {"application/yaml"}, "If-Match": {match}}, text, into)
}

// Preview makes a plan of the policy in force.
func (r *Retention) Preview(ctx context.Context, into any) error {
	return r.send(ctx, http.MethodPost, wire.PlansPath, wire.PlanSpec{Kind: wire.PlanRetention}, into)
}

// PlanCollection makes a plan of a garbage collection.
func (r *Retention) PlanCollection(ctx context.Context, grace time.Duration, emptyTrash bool, into any) error {
	seconds := int64((grace + time.Second - 1) / time.Second)
	return r.send(ctx, http.MethodPost, wire.PlansPath, wire.PlanSpec{Kind: wire.PlanGC, Grace: &seconds, EmptyTrash: emptyTrash}, into)
}

// Apply applies a plan.
func (r *Retention) Apply(ctx context.Context, plan string, q wire.PlanApply, into any) error {
	return r.send(ctx, http.MethodPost, wire.PlansPath+"/"+url.PathEscape(plan)+"/apply", q, into)
}

func transactionPath(number int64) string {
	return wire.TransactionsPath + "/" + strconv.FormatInt(number, 10)
}

// Transaction reads a transaction.
func (r *Retention) Transaction(ctx context.Context, number int64, into any) error {
	return r.send(ctx, http.MethodGet, transactionPath(number), nil, into)
}

// Change changes a transaction.
func (r *Retention) Change(ctx context.Context, number int64, q wire.TransactionChange, into any) error {
	return r.send(ctx, http.MethodPatch, transactionPath(number), q, into)
}

// PlanRemoval makes a plan of the removal of a transaction.
func (r *Retention) PlanRemoval(ctx context.Context, number int64, into any) error {
	return r.send(ctx, http.MethodPost, wire.PlansPath, wire.PlanSpec{Kind: wire.PlanRemove, Transaction: number}, into)
}

// Remove removes a transaction, if plan is empty or still the plan of its removal.
func (r *Retention) Remove(ctx context.Context, number int64, plan string, into any) error {
	path := transactionPath(number)
	if plan != "" {
		path += "?" + url.Values{"plan": {plan}}.Encode()
	}
	return r.send(ctx, http.MethodDelete, path, nil, into)
}

// Purge removes a transaction and frees its bytes at once.
func (r *Retention) Purge(ctx context.Context, number int64, reason string, into any) error {
	q := url.Values{"purge": {"true"}}
	if reason != "" {
		q.Set("reason", reason)
	}
	return r.send(ctx, http.MethodDelete, transactionPath(number)+"?"+q.Encode(), nil, into)
}

// Undo restores a transaction from the trash.
func (r *Retention) Undo(ctx context.Context, number int64, into any) error {
	return r.send(ctx, http.MethodPost, transactionPath(number)+"/undo", nil, into)
}

// Usage reads what takes the space.
func (r *Retention) Usage(ctx context.Context, into any) error {
	return r.send(ctx, http.MethodGet, wire.UsagePath, nil, into)
}

// UsageDays reads what a product took day by day; with a nil product all of them, or
// the whole depot.
func (r *Retention) UsageDays(ctx context.Context, from, to time.Time, by string, product *string, into any) error {
	q := url.Values{"from": {from.UTC().Format(time.DateOnly)}, "to": {to.UTC().Format(time.DateOnly)}, "by": {by}}
	if product != nil {
		q.Set("product", *product)
	}
	return r.send(ctx, http.MethodGet, wire.UsagePath+"?"+q.Encode(), nil, into)
}
