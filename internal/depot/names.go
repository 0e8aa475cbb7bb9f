package depot

import (
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/why"
)

// The names under which callers know what the parts of a depot take and return. The packages
// of the parts say what they mean.

// Of package answer: a request and its answer.
type (
	File          = answer.File
	LookupHit     = answer.LookupHit
	LookupOutcome = answer.LookupOutcome
	Question      = answer.Question
	Ranked        = answer.Ranked
	Scope         = answer.Scope
	TracedFolder  = answer.TracedFolder
	TracedLookup  = answer.TracedLookup
	TracedPlace   = answer.TracedPlace
)

const (
	Ambiguous       = answer.Ambiguous
	Away            = answer.Away
	CachedOtherName = answer.CachedOtherName
	Changed         = answer.Changed
	Damaged         = answer.Damaged
	HigherAge       = answer.HigherAge
	Hit             = answer.Hit
	NoHit           = answer.NoHit
	NoSection       = answer.NoSection
	NoText          = answer.NoText
	NotNamed        = answer.NotNamed
	OtherName       = answer.OtherName
	OtherRole       = answer.OtherRole
)

var (
	Better   = answer.Better
	RankedIn = answer.RankedIn
)

// Of package content: stored contents.
type (
	Fault     = content.Fault
	FaultFile = content.FaultFile
)

var (
	ErrUnavailable = content.ErrUnavailable
)

// Of package why: why a request finds a file or does not.
type (
	FormState  = why.FormState
	HiddenFile = why.HiddenFile
	Trace      = why.Trace
	TraceAsk   = why.TraceAsk
	TracedFile = why.TracedFile
	TracedForm = why.TracedForm
	Tracer     = why.Tracer
	Verdict    = why.Verdict
)

const (
	FormBeingMade   = why.FormBeingMade
	FormFailed      = why.FormFailed
	FormHeld        = why.FormHeld
	FormNever       = why.FormNever
	FormNoWorker    = why.FormNoWorker
	FormPossible    = why.FormPossible
	FormUseless     = why.FormUseless
	VerdictAbsent   = why.VerdictAbsent
	VerdictFails    = why.VerdictFails
	VerdictFound    = why.VerdictFound
	VerdictMakes    = why.VerdictMakes
	VerdictNotPath  = why.VerdictNotPath
	VerdictRedirect = why.VerdictRedirect
	VerdictSources  = why.VerdictSources
)

// Of package lifecycle: what is kept, and what is freed.
type (
	Applied         = lifecycle.Applied
	CollectOptions  = lifecycle.CollectOptions
	Collected       = lifecycle.Collected
	CollectionPlan  = lifecycle.CollectionPlan
	ErrHeld         = lifecycle.ErrHeld
	Hold            = lifecycle.Hold
	NotInTrashError = lifecycle.NotInTrashError
	PlanKind        = lifecycle.PlanKind
	PolicyInForce   = lifecycle.PolicyInForce
	Preview         = lifecycle.Preview
	Promotion       = lifecycle.Promotion
	Purged          = lifecycle.Purged
	Removal         = lifecycle.Removal
	RemovedFile     = lifecycle.RemovedFile
	Retention       = lifecycle.Retention
	RetentionRun    = lifecycle.RetentionRun
	Share           = lifecycle.Share
	Trashed         = lifecycle.Trashed
	UnfinishedError = lifecycle.UnfinishedError
	Usage           = lifecycle.Usage
	UsageDay        = lifecycle.UsageDay
	UsageFilter     = lifecycle.UsageFilter
)

const (
	DefaultGrace     = lifecycle.DefaultGrace
	PlanOfCollection = lifecycle.PlanOfCollection
	PlanOfPolicy     = lifecycle.PlanOfPolicy
)

var (
	ErrNoPlan        = lifecycle.ErrNoPlan
	ErrNoPolicy      = lifecycle.ErrNoPolicy
	ErrPolicyChanged = lifecycle.ErrPolicyChanged
)

// Of package coldstore: cold contents.
type (
	ColdContent = coldstore.ColdContent
	ColdOptions = coldstore.ColdOptions
	ColdStats   = coldstore.ColdStats
	ColdStatus  = coldstore.ColdStatus
	CoolOptions = coldstore.CoolOptions
	CoolOutlook = coldstore.CoolOutlook
	CoolSum     = coldstore.CoolSum
	Cooled      = coldstore.Cooled
	Cooling     = coldstore.Cooling
	Warmed      = coldstore.Warmed
	Warming     = coldstore.Warming
)

const (
	CoolGrace = coldstore.CoolGrace
)

var (
	ErrDiskFull = coldstore.ErrDiskFull
)
