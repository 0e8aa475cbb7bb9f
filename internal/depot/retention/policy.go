package retention

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/term"
)

// Policy decides which transactions are kept. The zero value keeps everything forever, and has
// no trash.
//
// The rules of a class select transactions to keep; a transaction is kept if one of them
// applies. What no rule keeps is expired.
type Policy struct {
	// Classes are in the order in which they are tried on transactions without a
	// class.
	Classes []Class
	// Default is the class of transactions that have none and match none. Empty or
	// [Forever]: they are kept forever.
	Default string
	// ProductCaps limit products by name.
	ProductCaps map[string]term.ByteSize
	// Cap limits all transactions of the depot together. Zero: no limit.
	Cap term.ByteSize
	// MinAge is the time since its arrival before a transaction can be removed.
	MinAge term.Duration
	// Floor is the number of transactions of each group, the newest ones, that a cap
	// never removes.
	Floor int
	// Trash is how long a removed transaction can be restored. Zero: there is no trash.
	// A policy that does not say it has [DefaultTrash].
	Trash term.Duration
	// Brake is the share of a product's live transactions, or of its bytes, above
	// which a plan is not applied without confirmation. [AllShare] confirms everything.
	Brake Share
	// Schedule is the time of day, HH:MM in UTC, at which a server applies the policy.
	// Empty: it never does.
	Schedule string
}

// DefaultTrash is how long a removed transaction can be restored if no policy says
// otherwise: as long as garbage collection by default keeps a content that nothing
// refers to.
const DefaultTrash = term.Duration(24 * time.Hour)

// None is the policy of a depot for which none was set: it keeps everything forever, and
// what somebody removes can be restored for [DefaultTrash].
func None() *Policy { return &Policy{Trash: DefaultTrash} }

// Restorable returns the end of the trash for a transaction that is removed at a time;
// the zero time if it cannot be restored.
func (p *Policy) Restorable(at time.Time) time.Time { return trashEnd(p.Trash, at) }

func trashEnd(trash term.Duration, at time.Time) (end time.Time) {
	if trash > 0 {
		end = at.Add(time.Duration(trash))
	}
	return end
}

// Forever is the name of the class that has no rules: its transactions are kept
// forever. No class of a policy may have this name.
const Forever = "forever"

// Class is a kind of transactions with rules of their own: release, nightly, try.
type Class struct {
	Name  string
	Match Match
	Rules
	// Cap limits the bytes of all transactions of the class, of all products. It
	// wins over the keep rules. Zero: no limit.
	Cap term.ByteSize
	// Publish is what is made of the files of a transaction as soon as it has the class:
	// [PublishPublic], or nothing if it is empty. Nothing is kept or removed for it.
	Publish string
	// Coverage is the share of the files that ship that must have their symbols before a transaction is
	// moved to the class. Zero: no check is demanded.
	Coverage Share
}

// PublishPublic is the value of [Class].Publish for the public forms of files.
const PublishPublic = "public"

// Match selects the transactions without a class that belong to a class. Each
// pattern must match; * matches any text, ? one character, and letter case counts.
// An empty pattern matches everything, but a Match without any pattern matches
// nothing: such a class has to be given by the push.
type Match struct {
	Product string
	Version string
	Branch  string
}

func (m Match) matches(t *Transaction) bool {
	return m != Match{} && fits(m.Product, t.Product) && fits(m.Version, t.Version) && fits(m.Branch, t.Branch)
}

func fits(pattern, s string) bool { return pattern == "" || glob.Match(pattern, s) }

// Rules select the transactions of a class that are kept. Zero fields are not rules. A class without
// rules is kept forever.
type Rules struct {
	// KeepLast keeps the newest transactions of each group, that is of each product
	// and branch, by their own time. Held transactions do not count.
	KeepLast int
	// KeepWithin keeps transactions that arrived at most that long ago. It counts from
	// the time of the plan, not from the newest transaction.
	KeepWithin term.Duration
	// KeepUsed keeps transactions that arrived, or had a content read, at most that long
	// ago. A read counts for the newest live transaction of each product that holds the
	// content.
	KeepUsed term.Duration
}

func (r Rules) forever() bool { return r == Rules{} }

// Share is a share of a whole in hundredths of a percent.
type Share int

// AllShare is 100 %: nothing is more than that.
const AllShare Share = 10000

const shareSyntax = "a share from 0% to 100% is expected, such as 30%"

// UnmarshalText parses a share such as 30% or 12.5%.
func (s *Share) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil || !(f >= 0 && f <= 100) {
		return errors.New(shareSyntax)
	}
	*s = Share(f*100 + 0.5)
	return nil
}

// String prints the share in percent. UnmarshalText reads it back.
func (s Share) String() string {
	return strconv.FormatFloat(float64(s)/100, 'f', -1, 64) + "%"
}

// MarshalText is the inverse of UnmarshalText.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// exceeded reports whether part is more than this share of the whole. Both are at
// least 0.
func (s Share) exceeded(part, whole int64) bool {
	ah, al := bits.Mul64(uint64(part), uint64(AllShare))
	bh, bl := bits.Mul64(uint64(whole), uint64(s))
	return ah > bh || ah == bh && al > bl
}

// MetBy reports whether part is at least this share of the whole. Both are at least 0; an empty whole
// meets every share.
func (s Share) MetBy(part, whole int64) bool { return !(AllShare - s).exceeded(whole-part, whole) }

// class returns the position of a class; -1 if the policy has none of that name.
func (p *Policy) class(name string) int {
	return slices.IndexFunc(p.Classes, func(c Class) bool { return c.Name == name })
}

// ClassOf returns the class of a transaction: the one that its push or a promotion
// names, else the first whose patterns match, else the default. If the policy has no
// class of the name, the transaction is kept forever.
func (p *Policy) ClassOf(t *Transaction) string {
	if t.Class != "" {
		return t.Class
	}
	for _, c := range p.Classes {
		if c.Match.matches(t) {
			return c.Name
		}
	}
	if p.Default == "" {
		return Forever
	}
	return p.Default
}

// Rules returns the rules of a class, and whether there are any. Without rules,
// transactions of the class are kept forever.
func (p *Policy) Rules(class string) (Rules, bool) {
	if i := p.class(class); i >= 0 && !p.Classes[i].forever() {
		return p.Classes[i].Rules, true
	}
	return Rules{}, false
}

// Bar returns the coverage that a class demands; zero: none.
func (p *Policy) Bar(class string) Share {
	if i := p.class(class); i >= 0 {
		return p.Classes[i].Coverage
	}
	return 0
}

// Publishes reports whether the public forms of a transaction's files are made as soon as
// it has its class, and not at the first request.
func (p *Policy) Publishes(t *Transaction) bool {
	i := p.class(p.ClassOf(t))
	return i >= 0 && p.Classes[i].Publish == PublishPublic
}

// CheckClass returns an error if neither the policy has the class nor it is
// [Forever]. Pushes and promotions call it: a misspelled class would keep a
// transaction forever.
func (p *Policy) CheckClass(name string) error {
	if name == Forever || p.class(name) >= 0 {
		return nil
	}
	known := []string{Forever}
	for _, c := range p.Classes {
		known = append(known, c.Name)
	}
	return fmt.Errorf("class %q is not in the retention policy%s; known are %s", name, nearest(name, known), strings.Join(known, ", "))
}

// Warnings describes settings that are permitted but probably not meant.
func (p *Policy) Warnings() []string {
	var list []string
	for _, c := range p.Classes {
		switch {
		case c.forever() && c.Cap > 0:
			list = append(list,
				fmt.Sprintf("class %s has a cap but no keep rule: it is kept forever, so the cap can remove nothing; add a keep rule", c.Name))
		case c.KeepLast > 0 && c.KeepWithin == 0:
			list = append(list,
				fmt.Sprintf("class %s has keep_last but no keep_within: many pushes in a short time remove everything older; add keep_within", c.Name))
		}
	}
	if p.Brake == AllShare && p.removes() {
		list = append(list, "brake is 100%: a plan that removes everything of a product is applied without confirmation")
	}
	if p.Schedule != "" && !p.removes() {
		list = append(list, "schedule is set but no class has keep rules: the policy removes nothing")
	}
	return list
}

// removes reports whether the policy can remove anything.
func (p *Policy) removes() bool {
	return slices.ContainsFunc(p.Classes, func(c Class) bool { return !c.forever() })
}

// Next returns the time of the first scheduled run after a time. The result is
// false if the policy has no schedule.
func (p *Policy) Next(after time.Time) (time.Time, bool) {
	at, err := time.Parse("15:04", p.Schedule)
	if err != nil {
		return time.Time{}, false
	}
	next := day(after).Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute)
	if !next.After(after) {
		next = next.AddDate(0, 0, 1)
	}
	return next, true
}

// maxPause is the longest time between two runs that a scheduled run accepts.
const maxPause = 30 * 24 * time.Hour

// ErrClock means that the clock is probably wrong.
var ErrClock = errors.New("the clock may be wrong")

// CheckClock compares the time of a scheduled run with that of the run before. The
// error is ErrClock if time went back or more than 30 days have passed: a wrong
// clock would expire everything (section "Traps"). A zero last means that there was
// no run before.
func CheckClock(last, now time.Time) error {
	switch {
	case last.IsZero():
		return nil
	case now.Before(last):
		return fmt.Errorf("%w: it is %s, before the last run at %s; check the clock, then apply a plan by hand",
			ErrClock, stamp(now), stamp(last))
	case now.Sub(last) > maxPause:
		return fmt.Errorf("%w: it is %s, more than 30 days after the last run at %s; check the clock, then apply a plan by hand",
			ErrClock, stamp(now), stamp(last))
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
