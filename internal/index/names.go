package index

import (
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/nodes"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
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
	DerivedForm   = lists.DerivedForm
	FileFilter    = lists.FileFilter
	FileKey       = lists.FileKey
	GroupKey      = lists.GroupKey
	GroupOrder    = lists.GroupOrder
	HolderTx      = lists.HolderTx
	Listing       = lists.Listing
	ObjectFilter  = lists.ObjectFilter
	ObjectKey     = lists.ObjectKey
	ProductFacts  = lists.ProductFacts
	VersionDiff   = lists.VersionDiff
	VersionFacts  = lists.VersionFacts
	VersionFilter = lists.VersionFilter
)

// Constants of catalog: the catalog.
const (
	ByAdded            = lists.ByAdded
	ByName             = lists.ByName
	BySize             = lists.BySize
	FilesByName        = lists.FilesByName
	FilesBySize        = lists.FilesBySize
	GroupsByBytes      = lists.GroupsByBytes
	GroupsByName       = lists.GroupsByName
	GroupsByNewest     = lists.GroupsByNewest
	ListedTransactions = lists.ListedTransactions
)

// Values of catalog: the catalog.
var (
	ErrShortPattern = lists.ErrShortPattern
)

// Types of lifecycle: retention, trash and usage.

type (
	Decision        = removals.Decision
	ErrHeld         = removals.ErrHeld
	Hold            = removals.Hold
	NeedError       = removals.NeedError
	NotInTrashError = removals.NotInTrashError
	PlanRow         = removals.PlanRow
	PolicyRow       = removals.PolicyRow
	Promotion       = removals.Promotion
	Removal         = removals.Removal
	RemovedFile     = removals.RemovedFile
	RetainedState   = removals.RetainedState
	Run             = removals.Run
	Trashed         = removals.Trashed
	UsageDay        = removals.UsageDay
	UsageFilter     = removals.UsageFilter
)

// Constants of lifecycle: retention, trash and usage.
const (
	RunBraked     = removals.RunBraked
	RunClock      = removals.RunClock
	RunUnfinished = removals.RunUnfinished
)

// Values of lifecycle: retention, trash and usage.
var (
	ErrChanged = removals.ErrChanged
)
