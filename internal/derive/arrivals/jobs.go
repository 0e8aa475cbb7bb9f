package arrivals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/wishes"
)

// abilities are those of a kind.
func abilities(kind string) (list []jobs.Ability) {
	for turn := range turns {
		list = append(list, jobs.Ability{Kind: kind, Variant: turn, Version: version})
	}
	return list
}

// matchJobs is the kind of job of EnterBuild. It implements jobs.Kind.
type matchJobs struct {
	jobs.OnServers
	s *Service
}

// Name implements jobs.Kind.
func (matchJobs) Name() string { return MatchKind }

// Abilities implements jobs.Kind.
func (matchJobs) Abilities() []jobs.Ability { return abilities(MatchKind) }

// CanStart implements jobs.Kind.
func (matchJobs) CanStart() bool { return true }

// Input implements jobs.Kind.
func (matchJobs) Input(context.Context, jobs.Job) (jobs.Input, error) {
	return jobs.Input{Version: version}, nil
}

// Existing implements jobs.Kind.
func (matchJobs) Existing(context.Context, jobs.Job) (*jobs.Outcome, error) { return nil, nil }

// Rule implements jobs.Kind.
func (matchJobs) Rule(string) jobs.Rule {
	return jobs.Rule{Retries: matchAttempts, Backoff: []time.Duration{5 * time.Second, time.Minute}}
}

// Make implements jobs.Kind.
func (k matchJobs) Make(ctx context.Context, j jobs.Job) (jobs.Outcome, error) {
	var p payload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return jobs.Outcome{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	n, err := k.s.parts.DB.Wishes.Match(ctx, p.Build, func(w *engine.Write, before int64) error {
		for i := range k.s.parts.Hooks {
			h := k.s.parts.Hooks[i].id()
			if err := k.s.enter(w, DeliverKind, h+" ", payload{Build: p.Build, Hook: h, After: before}); err != nil {
				return err
			}
		}
		return w.JobsChanged()
	})
	if err != nil {
		return jobs.Outcome{}, err
	}
	if n > 0 {
		k.s.parts.Log.Info("a build has files that crashes lacked", "build", p.Build, "files", n)
	}
	return jobs.Outcome{Class: "ok", Detail: fmt.Sprintf("build %d: files that were wished for: %d", p.Build, n)}, nil
}

// deliverJobs is the kind of job that tells one receiver of the arrivals of a build. It implements
// jobs.Kind.
type deliverJobs struct {
	jobs.OnServers
	s *Service
}

// Name implements jobs.Kind.
func (deliverJobs) Name() string { return DeliverKind }

// Abilities implements jobs.Kind. A server without receivers leaves the jobs to others.
func (k deliverJobs) Abilities() []jobs.Ability {
	if len(k.s.parts.Hooks) == 0 {
		return nil
	}
	return abilities(DeliverKind)
}

// CanStart implements jobs.Kind.
func (deliverJobs) CanStart() bool { return true }

// Input implements jobs.Kind.
func (deliverJobs) Input(context.Context, jobs.Job) (jobs.Input, error) {
	return jobs.Input{Version: version}, nil
}

// Existing implements jobs.Kind.
func (deliverJobs) Existing(context.Context, jobs.Job) (*jobs.Outcome, error) { return nil, nil }

// Classes of failures.
const (
	classUnreachable = "unreachable" // no answer
	classRefused     = "refused"     // an answer other than success
	classGone        = "gone"        // the receiver wants no more
)

// Rule implements jobs.Kind.
func (deliverJobs) Rule(class string) jobs.Rule {
	if class == classGone {
		return jobs.Rule{}
	}
	return jobs.Rule{Retries: deliverAttempts, Backoff: []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour,
	}}
}

// Make implements jobs.Kind.
func (k deliverJobs) Make(ctx context.Context, j jobs.Job) (jobs.Outcome, error) {
	var p payload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return jobs.Outcome{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	var hook *Hook
	for i := range k.s.parts.Hooks {
		if h := &k.s.parts.Hooks[i]; h.id() == p.Hook {
			hook = h
		}
	}
	if hook == nil {
		return jobs.Outcome{Class: "ok", Detail: "the configuration does not name the receiver any more"}, nil
	}
	sent := 0
	for after := p.After; ; {
		list, err := k.s.parts.DB.Wishes.OfBuild(ctx, p.Build, after, perRequest)
		if err != nil {
			return jobs.Outcome{}, err
		}
		if len(list) == 0 {
			return jobs.Outcome{Class: "ok", Detail: fmt.Sprintf("build %d: %s was told of files: %d", p.Build, hook.host(), sent)}, nil
		}
		after = list[len(list)-1].No
		sent += len(list)
		if err := k.s.send(ctx, hook, list); err != nil {
			return jobs.Outcome{}, err
		}
	}
}

// message is the body of a request.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		Arrivals []Item `json:"arrivals"`
	} `json:"data"`
}

// Item is an arrival in the body of a request and in the API.
type Item struct {
	Number  int64     `json:"number"` // grows; a receiver that knows a number already ignores it
	Name    string    `json:"name,omitempty"`
	ID      string    `json:"id"`
	Build   int64     `json:"build,omitempty"`
	Source  string    `json:"source,omitempty"` // the upstream or watched folder that had the file, in place of a build
	Product string    `json:"product,omitempty"`
	Version string    `json:"version,omitempty"`
	Time    time.Time `json:"time"`
}

// Items returns the form of arrivals in JSON.
func Items(list []wishes.Arrival) []Item {
	items := make([]Item, len(list))
	for i, a := range list {
		items[i] = Item{
			Number: a.No, Name: a.Name, ID: a.ID, Build: max(a.Build, 0), Source: a.Source, Product: a.Product, Version: a.Version, Time: a.Time,
		}
	}
	return items
}

// send tells a receiver of arrivals. The id of the message is the same for every attempt.
func (s *Service) send(ctx context.Context, h *Hook, list []wishes.Arrival) error {
	m := message{Type: "symdepot.arrivals", Timestamp: s.parts.Now().UTC()}
	m.Data.Arrivals = Items(list)
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errors.New("no answer within "+answerTime.String()))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return jobs.Failure{Class: classUnreachable, Version: version, Detail: h.host() + ": the address cannot be used"}
	}
	id, at := fmt.Sprintf("arrivals-%d-%d", list[0].No, list[len(list)-1].No), s.parts.Now().Unix()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "symdepot")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(at, 10))
	req.Header.Set("Webhook-Signature", Sign(h.Secret, id, at, body))
	resp, err := h.Client.Do(req)
	if err != nil {
		return jobs.Failure{Class: classUnreachable, Version: version, Detail: h.host() + ": " + withoutURL(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusGone:
		return jobs.Failure{Class: classGone, Version: version, Detail: h.host() + " answered 410: it wants no more of these messages"}
	}
	return jobs.Failure{Class: classRefused, Version: version, Detail: fmt.Sprintf("%s answered %d", h.host(), resp.StatusCode)}
}

// withoutURL returns the text of an error of a request without its address, which may be a secret.
func withoutURL(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}
