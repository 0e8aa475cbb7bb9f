package symbolicate

import "github.com/symdepot/symdepot/internal/derive/jobs"

// perClientJobs is how many symbol files one client can have made at once.
const perClientJobs = 16

// New registers the kind of job. Close must be called.
func New(p Parts, opt Options) *Service {
	svc := &Service{Parts: p, opt: opt.withDefaults()}
	svc.clients = &clientTimes{
		limit: svc.opt.PerClient, every: svc.opt.PerClientEvery, now: p.Now, of: map[string]clientTime{},
		jobs: map[string]clientJob{},
	}
	svc.modules = &modules{max: svc.opt.Open}
	if p.Generation != nil {
		svc.recent = &recentAnswers{generation: p.Generation}
	}
	limits := jobs.Limits{Queued: svc.opt.Queued, PerClient: perClientJobs, Attempts: 3}
	if svc.opt.Make != MakeNothing {
		limits.Slots = svc.opt.Slots
	}
	svc.Queue.Register(kind{svc}, limits)
	return svc
}
