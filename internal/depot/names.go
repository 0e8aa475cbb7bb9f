package depot

import (
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
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
