package retention

import (
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Detail explains a verdict in one sentence without a period:
//
//	50 days old (limit 14 days), not among the last 20, last read 44 days ago (limit 30 days)
func (p *Plan) Detail(v *Verdict) string {
	switch v.Reason {
	case Held:
		text := "held"
		if v.hold.By != "" {
			text += " by " + v.hold.By
		}
		if !v.hold.Until.IsZero() {
			text += " until " + day(v.hold.Until).Format(time.DateOnly)
		}
		if v.hold.Reason != "" {
			text += ": " + v.hold.Reason
		}
		return text
	case NoRule:
		if v.Class == Forever {
			return "kept forever"
		}
		return fmt.Sprintf("class %s has no keep rules: kept forever", v.Class)
	case Young:
		if v.Open {
			return "still open"
		}
		return ago(v.Age) + " old: too young to be removed"
	case Last:
		return fmt.Sprintf("number %d of the last %d", v.Rank, v.rules.KeepLast)
	case Within:
		return fmt.Sprintf("%s old, kept for %s", ago(v.Age), span(time.Duration(v.rules.KeepWithin)))
	case Used:
		return fmt.Sprintf("%s, kept for %s after the last use", v.use(), span(time.Duration(v.rules.KeepUsed)))
	case Needed:
		if v.Orphan {
			return fmt.Sprintf("needed by build %d until now; the next run may remove it", v.NeededBy)
		}
		return fmt.Sprintf("needed by build %d", v.NeededBy)
	case Cap:
		c := p.Caps[v.CapOf]
		return fmt.Sprintf("%s is above its cap of %s; %s", strings.TrimSpace(string(c.Scope)+" "+c.Name), term.ByteSize(c.Limit), v.use())
	}
	parts := []string{ago(v.Age) + " old"}
	if v.rules.KeepWithin > 0 {
		parts[0] += limit(v.rules.KeepWithin)
	}
	if v.rules.KeepLast > 0 {
		parts = append(parts, fmt.Sprintf("not among the last %d", v.rules.KeepLast))
	}
	if v.rules.KeepUsed > 0 {
		use := v.use()
		if v.WasRead {
			use += limit(v.rules.KeepUsed)
		}
		parts = append(parts, use)
	}
	return strings.Join(parts, ", ")
}

func (v *Verdict) use() string {
	if v.WasRead {
		return "last read " + ago(v.Unused) + " ago"
	}
	return "never read"
}

// ago prints an age in whole days, in hours below two days, or in minutes below an hour.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return units(int(d/time.Minute), "minute")
	case d < 48*time.Hour:
		return units(int(d/time.Hour), "hour")
	}
	return units(int(d/(24*time.Hour)), "day")
}

func limit(d term.Duration) string { return " (limit " + span(time.Duration(d)) + ")" }

// span prints a duration of a rule exactly.
func span(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return units(int(d/(24*time.Hour)), "day")
	}
	return term.Duration(d).String()
}

func units(n int, unit string) string {
	if n == 1 || n == -1 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
