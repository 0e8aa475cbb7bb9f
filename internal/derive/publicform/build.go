package publicform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
)

// BuildKind is the kind of the jobs that have the public forms of all files of a build made,
// one after the other, each by a job of its own that a request may wait for too.
const BuildKind = "publish"

const (
	// buildTurns is how many jobs of one build may run: another one is entered if files are
	// added while one runs.
	buildTurns = 16
	// buildAttempts is large, because an attempt goes on where the one before was killed.
	buildAttempts = 100
	// behind is the priority of the jobs that no request has asked for.
	behind = -1
	// busyPause is the wait for a place in the queue, which requests have filled.
	busyPause = time.Second
)

// buildPayload is stored with a job.
type buildPayload struct {
	Build int64 `json:"build"`
}

// EnterBuild has the public forms of all files of a build made, in the write that makes these
// files visible. Files that have theirs need no work.
func (s *Service) EnterBuild(w *engine.Write, number int64) error {
	p, err := json.Marshal(buildPayload{number})
	if err != nil {
		return err
	}
	j := queue.Job{Kind: BuildKind, Key: "build " + strconv.FormatInt(number, 10), Payload: p, Priority: behind, MaxAttempts: buildAttempts}
	return queue.Enter(w, s.parts.Now(), j, buildTurns)
}

// buildJobs is the kind of job of EnterBuild. It implements jobs.Kind.
type buildJobs struct{ kind }

// Name implements jobs.Kind.
func (buildJobs) Name() string { return BuildKind }

// Abilities implements jobs.Kind.
func (buildJobs) Abilities() (list []jobs.Ability) {
	for turn := range buildTurns {
		list = append(list, jobs.Ability{Kind: BuildKind, Variant: turn, Version: fmt.Sprint(version)})
	}
	return list
}

// Input implements jobs.Kind.
func (buildJobs) Input(context.Context, jobs.Job) (jobs.Input, error) {
	return jobs.Input{Version: fmt.Sprint(version)}, nil
}

// Existing implements jobs.Kind.
func (buildJobs) Existing(context.Context, jobs.Job) (*jobs.Outcome, error) { return nil, nil }

// Rule implements jobs.Kind.
func (buildJobs) Rule(class string) jobs.Rule {
	if class == classFiles {
		return jobs.Rule{} // the job of each file has been tried again
	}
	return jobs.Rule{Retries: buildAttempts, Backoff: []time.Duration{5 * time.Second, time.Minute}}
}

// Make implements jobs.Kind.
func (k buildJobs) Make(ctx context.Context, j jobs.Job) (jobs.Outcome, error) {
	var p buildPayload
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return jobs.Outcome{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	var sum buildSum
	build, err := k.parts.DB.Show(ctx, p.Build, func(f record.TxFile) error {
		return k.addTo(ctx, &sum, f)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !build.Removed.IsZero():
		return jobs.Outcome{Class: "ok", Detail: fmt.Sprintf("build %d was removed", p.Build)}, nil
	case err != nil:
		return jobs.Outcome{}, err
	}
	text := fmt.Sprintf("build %d: files with a public form: %d, with nothing public: %d", p.Build, sum.public, sum.private)
	if sum.failed > 0 {
		return jobs.Outcome{}, jobs.Failure{Class: classFiles, Detail: fmt.Sprintf("%s, failed: %d, the first: %s; "+
			"symdepot jobs list --state failed shows each", text, sum.failed, sum.first)}
	}
	return jobs.Outcome{Class: "ok", Detail: text}, nil
}

// classFiles is the class of the failure of a build whose files have failed.
const classFiles = "files"

// buildSum counts the files of a build.
type buildSum struct {
	public, private, failed int
	first                   string // of the failed ones, with the reason
}

// addTo has the public form of a file of a build made if there is none, and counts it.
func (s *Service) addTo(ctx context.Context, sum *buildSum, f record.TxFile) error {
	source := Source{Content: record.Content{Ref: f.Ref, Size: f.Size}, Name: f.Object.Name, Kind: f.Object.Kind}
	err := s.await(ctx, Ask{Source: source, priority: behind})
	if err == nil {
		sum.public++
		return nil
	}
	if !errors.Is(err, ErrNone) {
		return err
	}
	why, err := s.failure(ctx, &source)
	if errors.Is(err, fs.ErrNotExist) { // it is not remembered, and may succeed later
		why.Detail, err = f.Object.Name, nil
	}
	if err != nil {
		return err
	}
	if why.Class == classPrivate {
		sum.private++
		return nil
	}
	if sum.failed++; sum.failed == 1 {
		sum.first = why.Detail
	}
	return nil
}

// await waits until the form of an Ask is made, or cannot be made: see Answer.
func (s *Service) await(ctx context.Context, ask Ask) error {
	ask.Hold = func(ctx context.Context, wait func(context.Context) error) (bool, error) {
		err := wait(ctx)
		return false, errors.Join(err, context.Cause(ctx))
	}
	for {
		_, err := s.Answer(ctx, ask)
		if _, pending := errors.AsType[symbolicate.PendingError](err); !pending && !errors.Is(err, symbolicate.ErrBusy) {
			return err
		}
		if err := ctxio.Pause(ctx, busyPause); err != nil {
			return err
		}
	}
}
