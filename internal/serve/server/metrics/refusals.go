package metrics

import (
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot"
)

// Limits of this server that end a request for a SymCache file with a plain 404
// although the file is being made. Those of the depot are depot.LimitJobs and
// depot.LimitDownloads.
const (
	LimitHeld = "held" // requests that are held at once
	LimitWait = "wait" // the time that a request is held: symcache.wait
)

// Refusals counts and logs the requests for SymCache files that a limit has
// refused: to their clients, the file does not exist.
type Refusals struct {
	held limit.Semaphore
	log  *slog.Logger

	mu    sync.Mutex
	kinds map[string]*refusals // guarded by mu; by limit, complete from the start
}

// refusals are those of one limit.
type refusals struct {
	hint   string
	total  int
	since  int // the last line of the log
	logged time.Time
}

// NewRefusals returns the counts of the requests that are held as long as they have a place
// in held. log receives them.
func NewRefusals(held limit.Semaphore, log *slog.Logger) *Refusals {
	return &Refusals{held: held, log: log, kinds: map[string]*refusals{
		LimitHeld:            {hint: strconv.Itoa(cap(held)) + " requests are held already"},
		LimitWait:            {hint: "symcache.wait has passed and the file is still being made"},
		depot.LimitJobs:      {hint: "too many jobs are queued, in all or by this client"},
		depot.LimitDownloads: {hint: "too many downloads from SymCache servers are under way, in all or of this client"},
	}}
}

// refusedEvery is how often refusals by one limit are logged.
const refusedEvery = time.Minute

// Count counts a request that a limit has refused; empty: none has.
func (l *Refusals) Count(limit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.kinds[limit]
	if k == nil {
		return
	}
	k.total++
	k.since++
	if now := time.Now(); now.Sub(k.logged) >= refusedEvery {
		l.log.Warn("requests for SymCache files got 404 because of a limit", "limit", limit, "why", k.hint, "requests", k.since)
		k.since, k.logged = 0, now
	}
}

var (
	descSymCacheHeld = prometheus.NewDesc("symdepot_symcache_held_requests",
		"Requests for SymCache files that are held while the file is made.", nil, nil)
	descSymCacheRefused = prometheus.NewDesc("symdepot_symcache_refused_total",
		"Requests for SymCache files that a limit answered with 404 although the file may be made.", []string{"limit"}, nil)
)

// Describe implements prometheus.Collector.
func (l *Refusals) Describe(ch chan<- *prometheus.Desc) {
	ch <- descSymCacheHeld
	ch <- descSymCacheRefused
}

// Collect implements prometheus.Collector.
func (l *Refusals) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descSymCacheHeld, prometheus.GaugeValue, float64(len(l.held)))
	l.mu.Lock()
	defer l.mu.Unlock()
	for limit, k := range l.kinds {
		ch <- prometheus.MustNewConstMetric(descSymCacheRefused, prometheus.CounterValue, float64(k.total), limit)
	}
}
