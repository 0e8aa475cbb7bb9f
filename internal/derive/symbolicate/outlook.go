package symbolicate

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/queue"
)

// Outlook is what Answer would do.
type Outlook struct {
	// Answer is the file, if it has been made, or the redirect to it.
	Answer Answer
	// Made is set if Answer is. Else the file would be made of From.
	Made bool
	From string
	// Job is the job that makes the file; 0: there is none now.
	Job int64
	// Failed is why an earlier attempt failed; nothing is tried until it is forgotten.
	// Nil: none has failed.
	Failed *queue.Failure
	// TooLarge is why the file cannot be made without a worker; nil: it can.
	TooLarge error
}

// Outlook finds out what Answer would do, makes nothing and asks nobody. It is
// fs.ErrNotExist if the files of the module are not held.
func (svc *Service) Outlook(ctx context.Context, ask Ask) (o Outlook, err error) {
	ask.Local, ask.Hold = true, nil
	a, f, err := svc.prepare(ctx, ask, ask.Format == lookupFormat)
	if f == nil || !errors.Is(err, fs.ErrNotExist) {
		o.Answer, o.Made, o.From = a, err == nil, a.From
		return o, err
	}
	o.From = f.from()
	variant, key := int(ask.Format), f.key(ask.Format)
	if f.size() > svc.opt.InProcess {
		if variant += largeVariant; !svc.hasWorker(variant) {
			o.TooLarge = NoWorkerError{f.size(), svc.opt.InProcess}
		}
	}
	switch failed, err := svc.failure(ctx, f, ask.Format); {
	case err == nil:
		o.Failed = &failed
		if f.isSym() && len(ask.unfit) < maxUnfit {
			ask.unfit = append(ask.unfit, f.source())
			if other, err := svc.Outlook(ctx, ask); !errors.Is(err, fs.ErrNotExist) {
				return other, err
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return o, err
	}
	switch j, err := svc.DB.Jobs.Last(ctx, Kind, key, variant); {
	case err == nil && j.State <= jobs.Running:
		o.Job = j.ID
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return o, err
	}
	return o, nil
}
