package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/retention"
)

// coverageLabel is the label of a transaction that has the result of the last check of what ships, as
// JSON of the type wire.BuildCoverage.
const coverageLabel = "coverage"

// CoverageOf returns what the last check of what ships has found, by the labels of a transaction; nil:
// there was none.
func CoverageOf(labels map[string]string) *wire.BuildCoverage {
	var c wire.BuildCoverage
	if text, ok := labels[coverageLabel]; !ok || json.Unmarshal([]byte(text), &c) != nil {
		return nil
	}
	return &c
}

// OtherLabels returns the labels of a transaction without the one that CoverageOf reads.
func OtherLabels(labels map[string]string) map[string]string {
	if _, ok := labels[coverageLabel]; !ok {
		return labels
	}
	rest := map[string]string{}
	for name, text := range labels {
		if name != coverageLabel {
			rest[name] = text
		}
	}
	return rest
}

// SetCoverage stores what a check of what ships has found, in place of what the one before has. A
// transaction that does not exist or was removed is fs.ErrNotExist.
func (r *Retention) SetCoverage(ctx context.Context, number int64, c wire.BuildCoverage) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return r.db.Retention.SetLabel(ctx, number, coverageLabel, string(text))
}

// BelowBarError means that a transaction is not moved to a class, because less of what ships has its
// symbols than the policy demands of the class.
type BelowBarError struct {
	Number int64
	Class  string
	Bar    retention.Share
	Has    *wire.BuildCoverage // nil: it was not checked
}

func (e *BelowBarError) Error() string {
	if e.Has == nil {
		return fmt.Sprintf("build %d was not checked, and class %s demands a coverage of %s: symdepot check --build %d checks what ships",
			e.Number, e.Class, e.Bar, e.Number)
	}
	return fmt.Sprintf("build %d has the coverage %v%% (%d of %d files), and class %s demands %s",
		e.Number, e.Has.Percent(), e.Has.Covered, e.Has.Files, e.Class, e.Bar)
}

// CheckBar returns a *BelowBarError if the policy demands more of a class than what the last check of a
// transaction has found.
func (r *Retention) CheckBar(ctx context.Context, number int64, class string) error {
	p, err := r.Policy(ctx)
	if err != nil {
		return err
	}
	bar := p.Policy.Bar(class)
	if bar == 0 {
		return nil
	}
	t, err := r.db.Show(ctx, number, nil)
	if err != nil {
		return err
	}
	has := CoverageOf(t.Labels)
	if has != nil && bar.MetBy(has.Covered, has.Files) {
		return nil
	}
	return &BelowBarError{number, class, bar, has}
}
