// Package queue is the queue of jobs in an index: entered once, leased by workers, ended with
// an outcome, and what tools could make nothing of.
package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ErrLeaseLost means that the worker no longer holds the job: it was leased to
// another worker, cancelled or finished. The worker can stop.
var ErrLeaseLost = errors.New("the worker no longer holds the lease of the job")

// Jobs is the queue of jobs, with the memory of failures. Not found is fs.ErrNotExist.
type Jobs struct{ db *engine.Database }

// NewJobs returns the queue of an index in a database.
func NewJobs(db *engine.Database) Jobs { return Jobs{db} }

// JobState is the state of a job.
type JobState uint8

// The states. Their numbers are stored: never renumber them.
const (
	JobQueued JobState = iota + 1
	JobRunning
	JobDone
	JobFailed
	JobCancelled
)

var jobStates = [...]string{"unknown", "queued", "running", "done", "failed", "cancelled"}

func (s JobState) String() string {
	if int(s) >= len(jobStates) {
		s = 0
	}
	return jobStates[s]
}

// MarshalText returns the name of the state.
func (s JobState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name of a state.
func (s *JobState) UnmarshalText(text []byte) (err error) {
	*s, err = ParseJobState(string(text))
	return err
}

// ParseJobState returns the state with a name.
func ParseJobState(word string) (JobState, error) {
	if i := slices.Index(jobStates[:], word); i > 0 {
		return JobState(i), nil
	}
	return 0, fmt.Errorf("%q is not a job state; the states are %s", word, strings.Join(jobStates[1:], ", "))
}

// Job is a piece of background work. At most one job of each Kind, Key and
// Variant is queued or running.
type Job struct {
	ID      int64           `json:"id"`
	Kind    string          `json:"kind"`
	Key     string          `json:"key"`
	Variant int             `json:"variant"`           // for example a major version
	Payload json.RawMessage `json:"payload,omitempty"` // up to 1 MiB; nil is none
	State   JobState        `json:"state"`
	// Priority: higher priorities are leased first; within one priority, the
	// oldest job.
	Priority int `json:"priority"`
	// Attempts is the number of leases so far. Once it reaches MaxAttempts (zero
	// means five), the job is not tried again.
	Attempts    int       `json:"attempts"`
	MaxAttempts int       `json:"max_attempts"`
	Created     time.Time `json:"created"`
	NotBefore   time.Time `json:"not_before,omitzero"` // earliest time of a lease
	Started     time.Time `json:"started,omitzero"`    // start of the last attempt
	Finished    time.Time `json:"finished,omitzero"`
	LeaseUntil  time.Time `json:"lease_until,omitzero"` // while running
	Worker      string    `json:"worker,omitempty"`     // the current or last worker
	// Token proves the ownership of a lease. Only Lease sets it.
	Token string `json:"-"`
	// Outcome is the class of the last outcome, Detail its description for
	// users. While the job is queued or running, they are those of the previous
	// attempt.
	Outcome string    `json:"outcome,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Result  *blob.Ref `json:"result,omitempty"`
	// MaxQueued, for Enqueue, is the number of queued jobs of the Kind with at
	// least this Priority above which Enqueue returns ErrQueueFull; zero means
	// no limit.
	MaxQueued int `json:"-"`
}

// ErrQueueFull is returned by Enqueue when a job would exceed its MaxQueued.
var ErrQueueFull = errors.New("the job queue is full")

const (
	maxPayload  = 1 << 20
	maxAttempts = 5
	// OutcomeLost is the outcome of a job whose workers stopped without a
	// report.
	OutcomeLost = "lost"
)

const jobColumns = `id, kind, key, variant, payload, state, priority, attempts, max_attempts, created, not_before, started, finished,
 lease_until,
 worker, outcome, detail, result`

func scanJob(scan engine.Scan, more ...any) (j Job, err error) {
	var created, notBefore int64
	var started, finished, lease sql.NullInt64
	var payload, result []byte
	err = scan(append([]any{&j.ID, &j.Kind, &j.Key, &j.Variant, &payload, &j.State, &j.Priority, &j.Attempts, &j.MaxAttempts,
		&created, &notBefore,
		&started, &finished, &lease, &j.Worker, &j.Outcome, &j.Detail, &result}, more...)...)
	if err != nil {
		return j, err
	}
	j.Payload, j.Created = payload, time.UnixMilli(created).UTC()
	if notBefore > created {
		j.NotBefore = time.UnixMilli(notBefore).UTC()
	}
	j.Started, j.Finished, j.LeaseUntil = engine.FromMillis(started), engine.FromMillis(finished), engine.FromMillis(lease)
	if result != nil {
		j.Result = new(blob.Ref)
		err = record.ScanRef(result, j.Result)
	}
	return j, err
}

// Enqueue adds a job, durably, with the Kind, Key, Variant, Payload, Priority,
// MaxAttempts and NotBefore of j. If a job with the same Kind, Key and Variant
// is queued or running, existing is true and Enqueue at most raises its
// priority. The generation does not change.
func (q Jobs) Enqueue(ctx context.Context, j Job) (id int64, existing bool, err error) {
	const op = "enqueue a job"
	if j.Kind == "" || j.Key == "" {
		return 0, false, q.db.Fail(op, errors.New("the job has no kind or no key"))
	}
	if len(j.Payload) > maxPayload || j.Payload != nil && !json.Valid(j.Payload) {
		return 0, false, q.db.Fail(op, errors.New("the payload of the job is too long or not JSON"))
	}
	const active = "SELECT id, priority FROM job WHERE kind = $1 AND key = $2 AND variant = $3 AND state <= 2"
	key := []any{engine.Text(j.Kind), engine.Text(j.Key), j.Variant}
	priority := 0
	// Most repeated requests need no write.
	switch err := q.db.Points.Row(ctx, active, key, &id, &priority); {
	case err == nil && priority >= j.Priority:
		return id, true, nil
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return 0, false, q.db.Fail(op, err)
	}
	now := q.db.Now()
	err = q.db.Update(ctx, op, func(w *engine.Write) error {
		err := w.Row(active, key, &id, &priority)
		if existing = err == nil; existing {
			_, err = w.Exec("UPDATE job SET priority = "+engine.Larger("priority", "$2")+" WHERE id = $1", id, j.Priority)
			return err
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if j.MaxQueued > 0 {
			queued := 0
			if err := w.Row("SELECT count(*) FROM job WHERE state = 1 AND kind = $1 AND priority >= $2",
				[]any{engine.Text(j.Kind), j.Priority}, &queued); err != nil {
				return err
			}
			if queued >= j.MaxQueued {
				return ErrQueueFull
			}
		}
		id, err = insert(w, now, j)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return id, existing, nil
}

// insert adds a queued job, and tells all processes.
func insert(w *engine.Write, now time.Time, j Job) (id int64, err error) {
	var payload any
	if j.Payload != nil {
		payload = []byte(j.Payload)
	}
	after := int64(0) // at once, also by the clock of a process that differs a little
	if j.NotBefore.After(now) {
		after = j.NotBefore.UnixMilli()
	}
	if err := w.JobsChanged(); err != nil {
		return 0, err
	}
	err = w.Row(`INSERT INTO job
		(kind, key, variant, payload, state, priority, attempts, max_attempts, created, not_before, worker, token, outcome, detail)
		VALUES ($1, $2, $3, $4, 1, $5, 0, $6, $7, $8, '', '', '', '') RETURNING id`, []any{
		engine.Text(j.Kind), engine.Text(j.Key), j.Variant, payload, j.Priority, cmp.Or(j.MaxAttempts, maxAttempts), now.UnixMilli(), after,
	}, &id)
	return id, err
}

// Enter adds a job in a write that changes what the job reads, unless one of its Kind and Key
// is queued, which will read it. One that runs may have read it before: the new job gets the
// first Variant below variants that no unfinished one has. If there is none, nothing is added.
func Enter(w *engine.Write, now time.Time, j Job, variants int) error {
	queued, taken := false, make(map[int]bool)
	err := w.Each("SELECT variant, state FROM job WHERE kind = $1 AND key = $2 AND state <= 2", []any{engine.Text(j.Kind), engine.Text(j.Key)},
		func(scan engine.Scan) error {
			var variant int
			var state JobState
			err := scan(&variant, &state)
			queued, taken[variant] = queued || state == JobQueued, true
			return err
		})
	if err != nil || queued {
		return err
	}
	for j.Variant = 0; taken[j.Variant]; j.Variant++ {
	}
	if j.Variant >= variants {
		return nil
	}
	_, err = insert(w, now, j)
	return err
}

// wantedJobs is the condition for the jobs of given kinds and variants, as JSON
// lists; an empty list means all.
const (
	wantedJobs   = `($2 = '[]' OR kind IN (SELECT value FROM json_each($2))) AND ($3 = '[]' OR variant IN (SELECT value FROM json_each($3)))`
	pgWantedJobs = `($2 = '[]' OR kind IN (SELECT jsonb_array_elements_text($2::jsonb)))
		AND ($3 = '[]' OR variant IN (SELECT jsonb_array_elements_text($3::jsonb)::bigint))`
)

const nextJobs = "SELECT id FROM job WHERE state = 1 AND not_before <= $1 AND %s ORDER BY priority DESC, id LIMIT $4"

// someJobs asks whether a lease would do anything, leaseJobs leases.
var (
	someJobs = bothJobs(`SELECT EXISTS (SELECT 1 FROM job WHERE state = 2 AND lease_until <= $1)
		OR EXISTS (SELECT 1 FROM job WHERE state = 1 AND not_before <= $1 AND %s)`)
	leaseJobs = bothJobs(`UPDATE job SET state = 2, attempts = attempts + 1, started = $1, lease_until = $5, worker = $6, token = $7
		WHERE id IN (` + nextJobs + `)
		RETURNING ` + jobColumns)
)

func bothJobs(format string) string {
	return engine.Dialects(fmt.Sprintf(format, wantedJobs), fmt.Sprintf(format, pgWantedJobs))
}

// Lease leases up to n jobs of these kinds and variants (none: all) to a worker
// for the duration d, the most urgent first, in one write. It first requeues
// jobs whose lease has expired; after too many attempts these fail with
// OutcomeLost. If there are no jobs, it writes nothing.
func (q Jobs) Lease(ctx context.Context, worker string, kinds []string, variants []int, d time.Duration, n int) ([]Job, error) {
	const op = "lease jobs"
	if worker == "" || n <= 0 || d <= 0 {
		return nil, q.db.Fail(op, errors.New("the lease request has no worker, number or duration"))
	}
	k, v, err := jobLists(kinds, variants)
	if err != nil {
		return nil, q.db.Fail(op, err)
	}
	now := q.db.Now().UnixMilli()
	var some bool
	if err := q.db.Points.Row(ctx, someJobs, []any{now, k, v}, &some); err != nil || !some {
		return nil, q.db.Fail(op, err)
	}
	token := rand.Text()
	var jobs []Job
	err = q.db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
		jobs = nil
		if err := requeueJobs(w, now); err != nil {
			return err
		}
		return w.Each(leaseJobs, []any{now, k, v, n, now + d.Milliseconds(), engine.Text(worker), token}, func(scan engine.Scan) error {
			j, err := scanJob(scan)
			j.Token = token
			jobs = append(jobs, j)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	sorting.By(jobs, func(a, b Job) int { return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.ID, b.ID)) })
	return jobs, nil
}

func jobLists(kinds []string, variants []int) (k, v string, err error) {
	if kinds == nil {
		kinds = []string{}
	}
	if variants == nil {
		variants = []int{}
	}
	kb, err := json.Marshal(kinds)
	if err != nil {
		return "", "", err
	}
	vb, err := json.Marshal(variants)
	return string(kb), string(vb), err
}

// requeue requeues running jobs whose lease has expired. Worker and token stay:
// until another worker leases such a job, its worker may still finish it.
func requeueJobs(w *engine.Write, now int64) error {
	if _, err := w.Exec(`UPDATE job SET state = 4, finished = $1, outcome = $2, detail = 'no heartbeat from ' || worker, lease_until = NULL
		WHERE state = 2 AND lease_until <= $1 AND attempts >= max_attempts`, now, OutcomeLost); err != nil {
		return err
	}
	_, err := w.Exec(`UPDATE job SET state = 1, outcome = $2, detail = 'no heartbeat from ' || worker, lease_until = NULL
		WHERE state = 2 AND lease_until <= $1`, now, OutcomeLost)
	return err
}

// heldJob is the condition that a worker holds a job, or held it last and no
// other worker has leased it since.
const heldJob = "id = $1 AND worker = $2 AND token = $3 AND token <> '' AND state <= 2"

// Heartbeat extends a lease to d from now. ErrLeaseLost means that the worker no
// longer holds the job.
func (q Jobs) Heartbeat(ctx context.Context, id int64, worker, token string, d time.Duration) error {
	until := q.db.Now().Add(d).UnixMilli()
	return q.db.UpdateUnsynced(ctx, "renew a lease", func(w *engine.Write) error {
		n, err := w.Exec("UPDATE job SET state = 2, lease_until = $4 WHERE "+heldJob, id, engine.Text(worker), token, until)
		return leased(id, n, err)
	})
}

func leased(id, n int64, err error) error {
	if err == nil && n == 0 {
		err = fmt.Errorf("job %d: %w", id, ErrLeaseLost)
	}
	return err
}

// Outcome describes the end of a job or an attempt.
type Outcome struct {
	Class  string    // defined by the caller; counted in JobStats
	Detail string    // for users
	Result *blob.Ref // the content that was made, or nil
	// Retry, for Fail, is when to try again if attempts are left; the zero time
	// means never.
	Retry time.Time
}

// Complete ends a job successfully, durably. A repeated call is no error, so
// that a worker that missed the response can call again.
func (q Jobs) Complete(ctx context.Context, id int64, worker, token string, o Outcome) error {
	return q.finish(ctx, "complete a job", id, worker, token, JobDone, o)
}

// Fail ends an attempt, durably: the job is tried again at o.Retry or has
// failed. As with Complete, a repeated call is no error.
func (q Jobs) Fail(ctx context.Context, id int64, worker, token string, o Outcome) error {
	return q.finish(ctx, "fail a job", id, worker, token, JobFailed, o)
}

func (q Jobs) finish(ctx context.Context, op string, id int64, worker, token string, state JobState, o Outcome) error {
	now := q.db.Now().UnixMilli()
	var result any
	if o.Result != nil {
		result = o.Result[:]
	}
	return q.db.Update(ctx, op, func(w *engine.Write) error {
		if err := w.JobsChanged(); err != nil {
			return err
		}
		args := []any{id, engine.Text(worker), token, engine.Text(o.Class), engine.Text(o.Detail)}
		if state == JobFailed && !o.Retry.IsZero() {
			n, err := w.Exec("UPDATE job SET state = 1, outcome = $4, detail = $5, not_before = $6, lease_until = NULL, token = '' "+
				"WHERE attempts < max_attempts AND "+heldJob,
				append(args, o.Retry.UnixMilli())...)
			if err != nil || n > 0 {
				return err
			}
		}
		n, err := w.Exec("UPDATE job SET state = $6, outcome = $4, detail = $5, result = $7, finished = $8, lease_until = NULL WHERE "+heldJob,
			append(args, state, result, now)...)
		if err != nil || n > 0 {
			return err
		}
		var reported bool
		if err := w.Row("SELECT EXISTS (SELECT 1 FROM job "+
			"WHERE id = $1 AND worker = $2 AND token = $3 AND token <> '' AND state = $4)",
			[]any{id, engine.Text(worker), token, state}, &reported); err != nil || reported {
			return err
		}
		return leased(id, 0, nil)
	})
}

// Release returns a job to the queue, for a worker that is about to stop. The
// attempt does not count.
func (q Jobs) Release(ctx context.Context, id int64, worker, token string) error {
	return q.db.UpdateUnsynced(ctx, "release a job", func(w *engine.Write) error {
		n, err := w.Exec("UPDATE job SET state = 1, attempts = attempts - 1, lease_until = NULL, token = '' WHERE "+heldJob, id,
			engine.Text(worker), token)
		if err == nil && n > 0 {
			err = w.JobsChanged()
		}
		return leased(id, n, err)
	})
}

// Cancel cancels a queued or running job and reports whether it was queued or
// running. Its worker learns it from the next Heartbeat. An unknown job is
// fs.ErrNotExist.
func (q Jobs) Cancel(ctx context.Context, id int64) (was bool, err error) {
	err = q.db.Update(ctx, "cancel a job", func(w *engine.Write) error {
		n, err := w.Exec("UPDATE job SET state = 5, finished = $2, lease_until = NULL WHERE id = $1 AND state <= 2", id, q.db.Now().UnixMilli())
		if was = n > 0; err == nil && was {
			err = w.JobsChanged()
		}
		if err != nil || was {
			return err
		}
		var is bool
		if err := w.Row("SELECT EXISTS (SELECT 1 FROM job WHERE id = $1)", []any{id}, &is); err != nil || is {
			return err
		}
		return fmt.Errorf("job %d: %w", id, fs.ErrNotExist)
	})
	return was, err
}

// Job returns one job. An unknown job is fs.ErrNotExist.
func (q Jobs) Job(ctx context.Context, id int64) (Job, error) {
	return q.job(ctx, "SELECT "+jobColumns+" FROM job WHERE id = $1", id)
}

// Last returns the newest job of a kind, key and variant. If there is none,
// the error is fs.ErrNotExist.
func (q Jobs) Last(ctx context.Context, kind, key string, variant int) (Job, error) {
	return q.job(ctx, "SELECT "+jobColumns+" FROM job WHERE kind = $1 AND key = $2 AND variant = $3 ORDER BY id DESC LIMIT 1",
		engine.Text(kind), engine.Text(key), variant)
}

func (q Jobs) job(ctx context.Context, query string, args ...any) (j Job, err error) {
	if err := ctx.Err(); err != nil {
		return j, q.db.Fail("look up a job", err)
	}
	err = fs.ErrNotExist
	qerr := q.db.Points.Each(context.WithoutCancel(ctx), true, query, args, func(scan engine.Scan) (bool, error) {
		j, err = scanJob(scan)
		return false, err
	})
	return j, q.db.Fail("look up a job", cmp.Or(qerr, err))
}

// JobFilter selects jobs; the zero value selects all.
type JobFilter struct {
	Kind, Key string
	Variants  []int
	States    []JobState
	Worker    string
	Before    int64 // only lower ids; 0 is any
	Limit     int   // 0 is all
}

// List lists jobs, newest first.
func (q Jobs) List(ctx context.Context, f JobFilter) ([]Job, error) {
	query, args := "SELECT "+jobColumns+" FROM job WHERE id < $1", []any{cmp.Or(f.Before, math.MaxInt64)}
	and := func(cond string, arg any) {
		args = append(args, arg)
		query += " AND " + strings.ReplaceAll(cond, "?", "$"+strconv.Itoa(len(args)))
	}
	for _, c := range [...]struct{ column, value string }{{"kind", f.Kind}, {"key", f.Key}, {"worker", f.Worker}} {
		if c.value != "" {
			and(c.column+" = ?", engine.Text(c.value))
		}
	}
	in := func(column string, list []int) {
		numbers := make([]string, len(list))
		for i, n := range list {
			numbers[i] = strconv.Itoa(n)
		}
		query += " AND " + column + " IN (" + strings.Join(numbers, ", ") + ")"
	}
	if len(f.Variants) > 0 {
		in("variant", f.Variants)
	}
	if len(f.States) > 0 {
		states := make([]int, 0, len(f.States))
		for _, s := range f.States {
			states = append(states, int(s))
		}
		in("state", states)
	}
	query += " ORDER BY id DESC"
	if f.Limit > 0 {
		query += " LIMIT " + strconv.Itoa(f.Limit)
	}
	list := []Job{}
	err := q.db.Scans.Each(ctx, false, query, args, func(scan engine.Scan) (bool, error) {
		j, err := scanJob(scan)
		list = append(list, j)
		return true, err
	})
	return list, q.db.Fail("list jobs", err)
}

// JobStats summarizes the jobs of one kind.
type JobStats struct {
	Kind    string    `json:"kind"`
	Queued  int64     `json:"queued"`
	Delayed int64     `json:"delayed"` // queued jobs that wait for their NotBefore
	Running int64     `json:"running"`
	Lost    int64     `json:"lost"`            // running jobs whose lease has expired
	Oldest  time.Time `json:"oldest,omitzero"` // creation of the oldest queued job
	// Outcomes counts the ended jobs that have not been swept.
	Outcomes []JobOutcome `json:"outcomes"`
}

// JobOutcome summarizes the jobs with one outcome.
type JobOutcome struct {
	State JobState `json:"state"`
	Class string   `json:"class"`
	Jobs  int64    `json:"jobs"`
	// Total and Longest are the durations of their last attempts.
	Total   time.Duration `json:"total"`
	Longest time.Duration `json:"longest"`
}

// Stats returns the queue and the outcomes by kind. It takes time
// proportional to the number of jobs.
func (q Jobs) Stats(ctx context.Context) ([]JobStats, error) {
	list := []JobStats{}
	now := q.db.Now().UnixMilli()
	err := q.db.Scans.Each(ctx, true, `SELECT kind, state, CASE WHEN state > 2 THEN outcome ELSE '' END AS class, count(*),
		count(*) FILTER (WHERE state = 1 AND not_before > $1 OR state = 2 AND lease_until <= $1), min(created),
		coalesce(sum(finished - started), 0), coalesce(max(finished - started), 0)
		FROM job GROUP BY kind, state, class ORDER BY kind, state, class`, []any{now}, func(scan engine.Scan) (bool, error) {
		var kind string
		var o JobOutcome
		var apart, created, total, longest int64
		if err := scan(&kind, &o.State, &o.Class, &o.Jobs, &apart, &created, &total, &longest); err != nil {
			return false, err
		}
		if len(list) == 0 || list[len(list)-1].Kind != kind {
			list = append(list, JobStats{Kind: kind, Outcomes: []JobOutcome{}})
		}
		s := &list[len(list)-1]
		switch o.State {
		case JobQueued:
			s.Queued, s.Delayed, s.Oldest = o.Jobs, apart, time.UnixMilli(created).UTC()
		case JobRunning:
			s.Running, s.Lost = o.Jobs, apart
		default:
			o.Total, o.Longest = time.Duration(total)*time.Millisecond, time.Duration(longest)*time.Millisecond
			s.Outcomes = append(s.Outcomes, o)
		}
		return true, nil
	})
	return list, q.db.Fail("count jobs", err)
}

// Sweep deletes the jobs that ended before a time and returns their number.
func (q Jobs) Sweep(ctx context.Context, before time.Time) (int64, error) {
	return record.DeleteRows(ctx, q.db, "job", "DELETE FROM job "+
		"WHERE id IN (SELECT id FROM job WHERE finished < $2 ORDER BY finished LIMIT $1)", before.UnixMilli())
}
