package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ClassInfra is the class of a failure of the machine: no program, no disk space,
// an interruption. All other classes are words of a Kind.
const ClassInfra = wire.ClassInfra

// Failure is the end of an attempt without a result. It is an error.
type Failure struct {
	Class   string
	Version string    // of the tool; empty if the tool did not run
	Source  *blob.Ref // content that the tool could not use, if known
	Detail  string    // for people
}

func (f Failure) Error() string { return f.Detail }

// failureOf turns any error of a Kind into a Failure.
func failureOf(err error) Failure {
	if f, ok := errors.AsType[Failure](err); ok {
		return f
	}
	return Failure{Class: ClassInfra, Detail: err.Error()}
}

// Rule is what follows from a failure of a class.
type Rule struct {
	// Retries is how many attempts in a row may end with this class before the
	// job fails, beside the first one. Limits.Attempts bounds all attempts.
	Retries int
	// Backoff are the delays before the retries; the last one repeats.
	Backoff []time.Duration
	// NeedsOther retries only if more than one machine can do the job.
	NeedsOther bool
	// ByContent is how long the failure is remembered of the input's content,
	// ByKey of the job's key, for when the content is unknown. Zero: not at all.
	ByContent, ByKey time.Duration
	// Versioned binds the memory to the version of the tool.
	Versioned bool
}

// endAttempt ends a failed attempt: the job is tried again, or it has failed and the
// failure is remembered.
func (q *Queue) endAttempt(ctx context.Context, k *kind, j Job, f Failure) error {
	r := k.Rule(f.Class)
	f.Detail = term.PrintableText(f.Detail, maxDetail)
	o := Outcome{Class: f.Class, Detail: f.Detail}
	row := 1 // attempts in a row that ended with this class
	if j.Outcome == f.Class {
		row = max(j.Attempts, 2)
	}
	again := row <= r.Retries && j.Attempts < j.MaxAttempts
	if r.NeedsOther {
		again = again && q.countAble(k, j.Variant) > 1
	}
	if again {
		o.Retry = q.now()
		if len(r.Backoff) > 0 {
			o.Retry = o.Retry.Add(r.Backoff[min(row, len(r.Backoff))-1])
		}
	} else if err := q.remember(ctx, k, j, f, r); err != nil {
		return err
	}
	q.log.Warn("a job failed", "job", j.ID, "kind", j.Kind, "key", j.Key, "class", f.Class, "again", again, "error", o.Detail)
	err := q.store.Fail(ctx, j.ID, j.Worker, j.Token, o)
	q.ended.notify()
	q.entered.notify()
	if err == nil && !again {
		q.tellEnd(ctx, j)
	}
	if q.opt.Hooks.Settled != nil {
		q.opt.Hooks.Settled(j)
	}
	return err
}

// countAble returns the number of machines that can do jobs of a variant.
func (q *Queue) countAble(k *kind, variant int) (n int) {
	has := func(list []Ability) {
		for _, v := range variantsOf(list, k.Name()) {
			if v == variant {
				n++
				return
			}
		}
	}
	has(k.Abilities())
	for _, w := range q.Workers() {
		has(w.Abilities)
	}
	return n
}

// remember stores why a job failed, for the time that the rule gives.
func (q *Queue) remember(ctx context.Context, k *kind, j Job, f Failure, r Rule) error {
	if r.ByContent <= 0 && r.ByKey <= 0 {
		return nil
	}
	in, err := k.Input(ctx, j)
	if err != nil {
		return err
	}
	version := ""
	if r.Versioned {
		version = f.Version
		if version == "" {
			version = in.Version
		}
	}
	if f.Source == nil {
		f.Source = in.Source
	}
	row := queue.Failure{Tool: k.Name(), Version: version, Class: f.Class, Detail: f.Detail}
	var errs []error
	if r.ByContent > 0 && f.Source != nil {
		row.Source, row.Until = *f.Source, q.now().Add(r.ByContent)
		errs = append(errs, q.store.PutFailure(ctx, row))
	}
	if r.ByKey > 0 {
		row.Source, row.Until = keyRef(j.Key), q.now().Add(r.ByKey)
		errs = append(errs, q.store.PutFailure(ctx, row))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("record the failure of job %d: %w", j.ID, err)
	}
	return nil
}

// Failure returns the remembered failure of a version of a kind's tool: of the
// content of the input, or, if source is nil, of the key. None is fs.ErrNotExist.
func (q *Queue) Failure(ctx context.Context, kind, key string, source *blob.Ref, version string) (queue.Failure, error) {
	ref := keyRef(key)
	if source != nil {
		ref = *source
	}
	return q.store.Failure(ctx, ref, kind, version)
}

// forget deletes the remembered failures of a job's key and content.
func (q *Queue) forget(ctx context.Context, k *kind, j Job) error {
	refs := []blob.Ref{keyRef(j.Key)}
	if in, err := k.Input(ctx, j); err == nil && in.Source != nil {
		refs = append(refs, *in.Source)
	}
	for _, r := range refs {
		if _, err := q.store.FlushFailures(ctx, queue.FailureFilter{Source: &r, Tool: k.Name()}); err != nil {
			return err
		}
	}
	return nil
}

// keyRef represents a key in the memory of failures if no content is known.
func keyRef(key string) blob.Ref { return blob.Sum([]byte("symdepot job key: " + key)) }

// maxDetail is how many bytes of a detail are kept.
const maxDetail = 8 << 10
