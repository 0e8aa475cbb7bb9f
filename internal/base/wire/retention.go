package wire

// Paths of the retention API below a server's base URL. Errors are a Problem, lists
// have the members items and next.
//
//	GET    retention/rules          the policy in force, with its entity tag
//	PUT    retention/rules          sets the policy; the body is its text, If-Match is required
//	GET    retention/runs           what the policy has removed, the latest first
//	POST   plans                    previews a removal or a collection; the body is a PlanSpec
//	GET    plans/ID                 a plan of the policy, or of gc, that can still be applied
//	POST   plans/ID/apply           applies it; the body is a PlanApply
//	GET    builds                   the builds that the client may see, newest first
//	GET    builds/N                 one of them, with its holds and what happened to it
//	PATCH  builds/N                 changes it; the body is a TransactionChange
//	DELETE builds/N                 removes it
//	POST   builds/N/undo            restores it from the trash
//	GET    disk                     what takes the space; with ?from= what took it day by day
const (
	APIPath          = "/-/api/v1"
	RulesPath        = APIPath + "/retention/rules"
	RunsPath         = APIPath + "/retention/runs"
	PlansPath        = APIPath + "/plans"
	TransactionsPath = APIPath + "/builds"
	UsagePath        = APIPath + "/disk"
	ObjectsPath      = APIPath + "/files"
	MissesPath       = APIPath + "/missing"
	JobsListPath     = APIPath + "/jobs"
	ServedPath       = APIPath + "/served"
)

// Kinds of plans.
const (
	PlanRetention = "retention" // what the policy removes
	PlanRemove    = "remove"    // the removal of one transaction
	PlanGC        = "gc"        // what garbage collection frees
)

// What the usage of days is divided by.
const (
	UsageByTotal   = "total" // it is not divided
	UsageByProduct = "product"
)

// PlanSpec asks for a plan.
type PlanSpec struct {
	Kind        string `json:"kind,omitempty"`  // empty: PlanRetention
	Transaction int64  `json:"build,omitempty"` // of PlanRemove
	// Grace and EmptyTrash are those of PlanGC: how many seconds contents without a
	// transaction are kept (missing: the default of the program), and whether the trash
	// is emptied.
	Grace      *int64 `json:"grace,omitempty"`
	EmptyTrash bool   `json:"empty_trash,omitempty"`
}

// PlanApply applies a plan.
type PlanApply struct {
	// Kind is PlanRetention or PlanGC: a plan of another kind does not exist then. Empty:
	// whichever it is.
	Kind string `json:"kind,omitempty"`
	// YesRemove is the number of transactions in the plan, if the brake holds it.
	YesRemove int `json:"yes_remove,omitempty"`
}

// TransactionChange changes a transaction. Members that are missing change nothing.
type TransactionChange struct {
	Class string    `json:"class,omitempty"` // promotes it to this class
	Hold  *HoldSpec `json:"hold,omitempty"`  // places a hold
	// Unhold releases the hold with this reason; all holds if it is empty.
	Unhold *string `json:"unhold,omitempty"`
	// Comment replaces the comment.
	Comment *string `json:"comment,omitempty"`
	// Force gives a build its class even if its coverage is less than the class demands.
	Force bool `json:"force,omitempty"`
}

// HoldSpec places a hold.
type HoldSpec struct {
	Reason string `json:"reason"`
	Until  string `json:"until,omitempty"` // the last day, YYYY-MM-DD in UTC; empty: it does not end
}

// Words of problems that clients of the retention API tell apart.
const (
	ProblemNotFound    = "not-found"
	ProblemNoPolicy    = "no-policy"    // no policy was set
	ProblemBrake       = "brake"        // the plan removes more than the brake allows
	ProblemPlanChanged = "plan-changed" // the plan is stale
	ProblemBelowBar    = "below-bar"    // less of what ships has its symbols than a class demands
	ProblemChanged     = "changed"      // If-Match does not fit
	ProblemHeld        = "held"         // a hold protects the transaction
	ProblemNotInTrash  = "not-in-trash" // the transaction cannot be restored
)
