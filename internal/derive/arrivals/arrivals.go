// Package arrivals keeps the wishes of crash pipelines for files that were not found, finds those that
// each new build, download and file of a watched folder fulfils, and tells other systems of them by
// signed requests (webhooks): at least once, tried again until they answer.
//
// The requests have the form of the specification "Standard Webhooks" 1.0: the headers webhook-id,
// webhook-timestamp and webhook-signature (v1, HMAC-SHA256 of "id.timestamp.body").
package arrivals

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/wishes"
	"github.com/symdepot/symdepot/symfile"
)

// Kinds of jobs.
const (
	MatchKind   = "arrivals" // finds the wishes that a build fulfils
	DeliverKind = "webhook"  // tells one receiver of them
)

const (
	// version of what the jobs do.
	version = "1"
	// turns is how many jobs of one build may be unfinished: another one is entered if files are
	// added while one runs.
	turns = 16
	// matchAttempts and deliverAttempts are large: a receiver may be down for a day.
	matchAttempts, deliverAttempts = 20, 60
	// behind is the priority of jobs that no request waits for.
	behind = -1
	// answerTime is how long a receiver may take.
	answerTime = 30 * time.Second
	// maxWishes is the number of wishes that are made at once: a stack has far fewer modules, unless its
	// dump was made to fill the index.
	maxWishes = 500
	// perRequest is the number of arrivals of one request.
	perRequest = 500
)

// Hook is one receiver.
type Hook struct {
	URL    string
	Secret []byte
	// Client sends the requests. It follows no redirects.
	Client *http.Client
}

// id names a receiver in jobs. The address itself may be a secret.
func (h *Hook) id() string {
	sum := sha256.Sum256([]byte(h.URL))
	return hex.EncodeToString(sum[:8])
}

// host returns the host of a receiver, for people.
func (h *Hook) host() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return "the receiver"
	}
	return u.Host
}

// Sign returns the value of the header webhook-signature for a message.
func Sign(secret []byte, id string, timestamp int64, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%d.", id, timestamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Parts are what New needs.
type Parts struct {
	DB    *index.DB
	Queue *jobs.Queue // New registers its kinds of jobs
	Log   *slog.Logger
	Now   func() time.Time
	Hooks []Hook
}

// Service finds arrivals and tells of them. Its methods may be called by many goroutines.
type Service struct{ parts Parts }

// New registers the kinds of jobs.
func New(p Parts) *Service {
	s := &Service{p}
	p.Queue.Register(matchJobs{s: s}, jobs.Limits{Slots: 1, Attempts: matchAttempts})
	p.Queue.Register(deliverJobs{s: s}, jobs.Limits{Slots: 2, Attempts: deliverAttempts})
	return s
}

// payload is stored with a job.
type payload struct {
	Build int64  `json:"build"`
	Hook  string `json:"hook,omitempty"`  // Hook.id
	After int64  `json:"after,omitempty"` // number of an arrival
}

// EnterBuild has the wishes found that the files of a build fulfil, in the write that makes these files
// visible. Without a wish it does nothing.
func (s *Service) EnterBuild(w *engine.Write, number int64) error {
	found, err := wishes.Any(w)
	if err != nil || !found {
		return err
	}
	return s.enter(w, MatchKind, "", payload{Build: number})
}

func (s *Service) enter(w *engine.Write, kind, prefix string, p payload) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	attempts := matchAttempts
	if kind == DeliverKind {
		attempts = deliverAttempts
	}
	j := queue.Job{Kind: kind, Key: prefix + "build " + strconv.FormatInt(p.Build, 10), Payload: text, Priority: behind, MaxAttempts: attempts}
	return queue.Enter(w, s.parts.Now(), j, turns)
}

// EnterDownload makes arrivals of the wishes that a downloaded file with these keys fulfils, in the write that makes it
// visible. tx is the row of its upstream.
func (s *Service) EnterDownload(w *engine.Write, tx int64, keys iter.Seq[symfile.Alias]) error {
	found, err := wishes.Any(w)
	if err != nil || !found {
		return err
	}
	var list []wishes.Wish
	for k := range keys {
		list = append(list, wishes.Wish{ID: k.ID, Name: k.Name, Role: k.Role})
	}
	return s.bring(w, tx, list)
}

// bring makes arrivals of the wishes that files of a source with these keys fulfil, and has the receivers told.
func (s *Service) bring(w *engine.Write, tx int64, keys []wishes.Wish) error {
	n, before, err := wishes.Bring(w, tx, keys, s.parts.Now())
	if err != nil || n == 0 {
		return err
	}
	for i := range s.parts.Hooks {
		h := s.parts.Hooks[i].id()
		if err := s.enter(w, DeliverKind, h+" ", payload{Build: tx, Hook: h, After: before}); err != nil {
			return err
		}
	}
	return w.JobsChanged()
}

// Found makes arrivals of the wishes that files with these keys fulfil, which were found in a watched folder of a
// product.
func (s *Service) Found(ctx context.Context, folder, product string, keys iter.Seq[symfile.Alias]) error {
	var list []wishes.Wish
	for k := range keys {
		list = append(list, wishes.Wish{ID: k.ID, Name: k.Name, Role: k.Role})
	}
	return s.parts.DB.Wishes.Come(ctx, list, func(w *engine.Write, keys []wishes.Wish) error {
		tx, err := contents.SourceTx(w, folder, product, s.parts.Now())
		if err != nil {
			return err
		}
		return s.bring(w, tx, keys)
	})
}

// Wish records that somebody waits for files that were looked up from a time on and not found. When a build, a download or
// a watched folder brings one, the wish becomes an arrival; at once, if it was downloaded since that time. Of a long
// list the first maxWishes count. owner says whose share of the wishes they are, such as the id of a token.
func (s *Service) Wish(ctx context.Context, owner string, lookups []symfile.Lookup, since time.Time) error {
	lookups = lookups[:min(len(lookups), maxWishes)]
	list := make([]wishes.Wish, len(lookups))
	for i, l := range lookups {
		list[i] = wishes.Wish{ID: l.ID, Name: l.Name, Role: l.Role}
	}
	sum := sha256.Sum256([]byte(owner))
	if err := s.parts.DB.Wishes.Put(ctx, hex.EncodeToString(sum[:8]), list); err != nil {
		return err
	}
	return s.parts.DB.Wishes.Fetched(ctx, list, since, s.bring)
}

// After returns the wishes that builds in a scope have fulfilled, after the arrival of a number, oldest
// first, at most limit.
func (s *Service) After(ctx context.Context, scope record.Scope, after int64, limit int) ([]wishes.Arrival, error) {
	return s.parts.DB.Wishes.After(ctx, scope, after, limit)
}
