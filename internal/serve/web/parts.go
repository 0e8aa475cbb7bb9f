package web

import (
	"context"
	"io"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Depot are the transactions of a depot, and what depot.Depot has to say of them.
type Depot interface {
	List(ctx context.Context, scope answer.Scope, f depot.ListFilter) ([]depot.Transaction, error)
	Transaction(ctx context.Context, number int64) (depot.Transaction, error)
}

// Policies are the policy of a depot, and its plans and runs.
type Policies interface {
	Policy(ctx context.Context) (lifecycle.PolicyInForce, error)
	SetPolicy(ctx context.Context, file string, text []byte, who string, before int64) (lifecycle.PolicyInForce, error)
	Try(ctx context.Context, file string, text []byte) (*lifecycle.Preview, error)
	Preview(ctx context.Context, who string) (*lifecycle.Preview, error)
	Planned(ctx context.Context, number string) (*lifecycle.Preview, error)
	Apply(ctx context.Context, number string, yesRemove int, who string) (lifecycle.Applied, error)
	Runs(ctx context.Context, before int64, limit int) ([]lifecycle.RetentionRun, error)
}

// Collections are the plans by which garbage is collected.
type Collections interface {
	KindOfPlan(ctx context.Context, number string) (lifecycle.PlanKind, error)
	PlanCollection(ctx context.Context, opt lifecycle.CollectOptions, who string) (lifecycle.CollectionPlan, error)
	PlannedCollection(ctx context.Context, number string) (lifecycle.CollectionPlan, error)
	ApplyCollection(ctx context.Context, number string) (lifecycle.Collected, error)
}

// SpaceUsage is the disk space that a depot takes, and took.
type SpaceUsage interface {
	Usage(ctx context.Context) (*lifecycle.Usage, error)
	UsageOverTime(ctx context.Context, f lifecycle.UsageFilter) ([]lifecycle.UsageDay, error)
}

// History is what was done to a transaction, and why.
type History interface {
	Holds(ctx context.Context, number int64) ([]lifecycle.Hold, error)
	Promotions(ctx context.Context, number int64) ([]lifecycle.Promotion, error)
	Needs(ctx context.Context, number int64) ([]int64, error)
	PushKey(ctx context.Context, number int64) (string, error)
	Why(ctx context.Context, number int64) (lifecycle.Removal, error)
}

// Changes change a transaction.
type Changes interface {
	Hold(ctx context.Context, h lifecycle.Hold) error
	Unhold(ctx context.Context, number int64, name string) ([]lifecycle.Hold, error)
	Promote(ctx context.Context, number int64, class, who string, force bool) (lifecycle.Promotion, error)
	SetCoverage(ctx context.Context, number int64, c wire.BuildCoverage) error
	CheckBar(ctx context.Context, number int64, class string) error
	SetComment(ctx context.Context, number int64, comment string) (depot.Transaction, error)
	Remove(ctx context.Context, number int64, who string) (depot.Transaction, error)
	Purge(ctx context.Context, number int64, who, detail string) (lifecycle.Purged, error)
	Undo(ctx context.Context, number int64, who string) (depot.Transaction, error)
	// Snapshot is the state of all transactions, from which it follows what a removal frees.
	Snapshot(ctx context.Context) (*retention.State, int64, error)
}

// Retention are all of these, of one depot. Only a configuration has it: each handler takes
// what it uses.
type Retention interface {
	Policies
	Collections
	SpaceUsage
	History
	Changes
}

// Stages is the part of the depot's stages that pushes use.
type Stages interface {
	Limits(ctx context.Context, c stage.Caller) (stage.Limits, error)
	Open(ctx context.Context, c stage.Caller, spec stage.Spec) (st stage.State, again bool, err error)
	State(ctx context.Context, c stage.Caller, id string) (stage.State, error)
	Check(ctx context.Context, c stage.Caller, id string, list []stage.Entry) ([]stage.Verdict, error)
	Put(ctx context.Context, c stage.Caller, id string, ref blob.Ref, body io.Reader) (had bool, err error)
	PutSeveral(ctx context.Context, c stage.Caller, id string, list []stage.Entry, body io.Reader) ([]stage.Verdict, error)
	PutPart(ctx context.Context, c stage.Caller, id string, ref blob.Ref, total int64, n int, body io.Reader) error
	Parts(ctx context.Context, c stage.Caller, id string, ref blob.Ref) (stage.Parts, error)
	Commit(ctx context.Context, c stage.Caller, id string, ask stage.Commit) (stage.Committed, error)
	Abandon(ctx context.Context, c stage.Caller, id string) error
	Refused(ctx context.Context, c stage.Caller, id string) ([]stage.Refused, error)
}

// Bases are the stored contents from which pushes write recipes of others: see stage.Bases.
type Bases interface {
	Blocks(ctx context.Context, c stage.Caller, id string, ref blob.Ref) ([]byte, error)
	FromRecipe(ctx context.Context, c stage.Caller, id string, ref, base blob.Ref, recipe io.Reader) (io.ReadCloser, error)
}

// Tokens keeps the tokens of a depot, the sign-ins of browsers and the logins of programs.
type Tokens interface {
	// List returns all tokens, oldest first.
	List(ctx context.Context) ([]auth.TokenRow, error)
	// PutToken adds a token.
	PutToken(ctx context.Context, row auth.TokenRow) error
	// Revoke revokes a token; an unknown one is fs.ErrNotExist.
	Revoke(ctx context.Context, id string) error
	// SignIns returns the sign-ins of browsers and the logins of programs, in any order.
	SignIns(ctx context.Context) ([]auth.TokenRow, error)
}
