package index

import (
	"github.com/symdepot/symdepot/internal/index/catalog"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lifecycle"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/nodes"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/index/watched"
)

// The names by which callers of an index know what the packages below declare.

// Types of engine: the database below.

type (
	ConnectError  = engine.ConnectError
	Pool          = engine.Pool
	ReplicaStatus = engine.ReplicaStatus
	WaitCount     = engine.WaitCount
	Waits         = engine.Waits
	Watch         = engine.Watch
)

// Values of engine: the database below.
var (
	ErrBusy        = engine.ErrBusy
	ErrCorrupt     = engine.ErrCorrupt
	ErrForeign     = engine.ErrForeign
	ErrNewer       = engine.ErrNewer
	ErrNoSpace     = engine.ErrNoSpace
	ErrOlder       = engine.ErrOlder
	ErrReadOnly    = engine.ErrReadOnly
	ErrUnavailable = engine.ErrUnavailable
	ErrUnreleased  = engine.ErrUnreleased
	WaitBounds     = engine.WaitBounds
)

// Functions of engine: the database below.
var (
	IsURL      = engine.IsURL
	Name       = engine.Name
	OneWait    = engine.OneWait
	RemoveFile = engine.RemoveFile
)

// Types of record: what rows hold.

type (
	Cold        = record.Cold
	Content     = record.Content
	Entry       = record.Entry
	Found       = record.Found
	Hit         = record.Hit
	Origin      = record.Origin
	Query       = record.Query
	Scope       = record.Scope
	StageCommit = record.StageCommit
	Stored      = record.Stored
	Tool        = record.Tool
	Transaction = record.Transaction
	Tx          = record.Tx
	TxFile      = record.TxFile
	Upload      = record.Upload
)

// Constants of record: what rows hold.
const (
	ClassTry = record.ClassTry
)

// Values of record: what rows hold.
var (
	ErrNotUploaded = record.ErrNotUploaded
)

// Types of contents: contents.

type (
	CacheFilter   = contents.CacheFilter
	Cached        = contents.Cached
	CachedFile    = contents.CachedFile
	CachedStats   = contents.CachedStats
	ColdStats     = contents.ColdStats
	Colds         = contents.Colds
	CoolCandidate = contents.CoolCandidate
	Cooling       = contents.Cooling
	Pinned        = contents.Pinned
	Replacement   = contents.Replacement
)

// Values of contents: contents.
var (
	ColdTool       = contents.ColdTool
	ErrColdRefused = contents.ErrColdRefused
	ErrImported    = contents.ErrImported
)

// Types of queue: jobs and failures.

type (
	Failure       = queue.Failure
	FailureFilter = queue.FailureFilter
	Job           = queue.Job
	JobFilter     = queue.JobFilter
	JobOutcome    = queue.JobOutcome
	JobState      = queue.JobState
	JobStats      = queue.JobStats
	Jobs          = queue.Jobs
	Outcome       = queue.Outcome
)

// Constants of queue: jobs and failures.
const (
	JobCancelled = queue.JobCancelled
	JobDone      = queue.JobDone
	JobFailed    = queue.JobFailed
	JobQueued    = queue.JobQueued
	JobRunning   = queue.JobRunning
)

// Values of queue: jobs and failures.
var (
	ErrLeaseLost = queue.ErrLeaseLost
	ErrQueueFull = queue.ErrQueueFull
)

// Functions of queue: jobs and failures.
var (
	ParseJobState = queue.ParseJobState
)

// Types of tokens: tokens and sign-ins.

type (
	SignInLimits = tokens.SignInLimits
	TokenRow     = tokens.TokenRow
	Tokens       = tokens.Tokens
)

// Values of tokens: tokens and sign-ins.
var (
	ErrManySignIns = tokens.ErrManySignIns
	ErrManyTokens  = tokens.ErrManyTokens
)

// Types of misses: misses and wanted keys.

type (
	Miss         = misses.Miss
	MissFilter   = misses.MissFilter
	MissStats    = misses.MissStats
	Wanted       = misses.Wanted
	WantedFilter = misses.WantedFilter
	WantedKey    = misses.WantedKey
)

// Types of places: places, damages and the check of contents.

type (
	Coverage   = places.Coverage
	Identity   = places.Identity
	Numbered   = places.Numbered
	Places     = places.Places
	ScrubState = places.ScrubState
)

// Types of nodes: what processes share.

type (
	Nodes = nodes.Nodes
)

// Types of watched: the index of a watched folder.

type (
	Watched       = watched.Watched
	WatchedChange = watched.Change
	WatchedDir    = watched.Dir
	WatchedEntry  = watched.Entry
	WatchedFile   = watched.File
	WatchedHit    = watched.Hit
	WatchedObject = watched.Object
	WatchedTotals = watched.Totals
)

// Functions of watched: the index of a watched folder.
var (
	OpenWatched   = watched.OpenWatched
	ReadWatched   = watched.ReadWatched
	RemoveWatched = watched.RemoveWatched
)

// Types of stages: stages.

type (
	KnownFile       = stages.KnownFile
	QuotaError      = stages.QuotaError
	StageArrival    = stages.StageArrival
	StageFile       = stages.StageFile
	StageKey        = stages.StageKey
	StageLimitError = stages.StageLimitError
	StagePut        = stages.StagePut
	StageRow        = stages.StageRow
	VisibleObject   = stages.VisibleObject
)

// Constants of stages: stages.
const (
	NamedOwner   = stages.NamedOwner
	StageArrived = stages.StageArrived
	StageAwaited = stages.StageAwaited
	StageKnown   = stages.StageKnown
	StageRefused = stages.StageRefused
)

// Values of stages: stages.
var (
	ErrStageClosed   = stages.ErrStageClosed
	ErrStageMoved    = stages.ErrStageMoved
	ErrTooManyStages = stages.ErrTooManyStages
)

// Types of catalog: the catalog.

type (
	DerivedForm   = catalog.DerivedForm
	FileFilter    = catalog.FileFilter
	FileKey       = catalog.FileKey
	GroupKey      = catalog.GroupKey
	GroupOrder    = catalog.GroupOrder
	HolderTx      = catalog.HolderTx
	Listing       = catalog.Listing
	ObjectFilter  = catalog.ObjectFilter
	ObjectKey     = catalog.ObjectKey
	ProductFacts  = catalog.ProductFacts
	VersionDiff   = catalog.VersionDiff
	VersionFacts  = catalog.VersionFacts
	VersionFilter = catalog.VersionFilter
)

// Constants of catalog: the catalog.
const (
	ByAdded            = catalog.ByAdded
	ByName             = catalog.ByName
	BySize             = catalog.BySize
	FilesByName        = catalog.FilesByName
	FilesBySize        = catalog.FilesBySize
	GroupsByBytes      = catalog.GroupsByBytes
	GroupsByName       = catalog.GroupsByName
	GroupsByNewest     = catalog.GroupsByNewest
	ListedTransactions = catalog.ListedTransactions
)

// Values of catalog: the catalog.
var (
	ErrShortPattern = catalog.ErrShortPattern
)

// Types of lifecycle: retention, trash and usage.

type (
	Decision        = lifecycle.Decision
	ErrHeld         = lifecycle.ErrHeld
	Hold            = lifecycle.Hold
	NeedError       = lifecycle.NeedError
	NotInTrashError = lifecycle.NotInTrashError
	PlanRow         = lifecycle.PlanRow
	PolicyRow       = lifecycle.PolicyRow
	Promotion       = lifecycle.Promotion
	Removal         = lifecycle.Removal
	RemovedFile     = lifecycle.RemovedFile
	RetainedState   = lifecycle.RetainedState
	Run             = lifecycle.Run
	Trashed         = lifecycle.Trashed
	UsageDay        = lifecycle.UsageDay
	UsageFilter     = lifecycle.UsageFilter
)

// Constants of lifecycle: retention, trash and usage.
const (
	RunBraked     = lifecycle.RunBraked
	RunClock      = lifecycle.RunClock
	RunUnfinished = lifecycle.RunUnfinished
)

// Values of lifecycle: retention, trash and usage.
var (
	ErrChanged = lifecycle.ErrChanged
)
