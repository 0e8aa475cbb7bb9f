package retention

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// vectors is the table of the specification of retention, section "Test vectors",
// as it stands there: number, subject, policy, transactions, kept with reason,
// removed, bytes listed and freed. The contents have one letter, a = 10, b = 20,
// c = 30, d = 40, e = 50, s = 100 bytes. The time is day 100; min_age is 1 day and
// floor is 1.
//
//go:embed testdata/vectors.txt
var vectors string

// alone are the bytes that single transactions would free, from the text below the
// table.
var alone = map[int]map[int64]int64{8: {1: 10, 2: 20}, 10: {1: 0}, 24: {1: 10, 2: 20}, 28: {1: 14}}

// at returns the time of a day of the vectors.
func at(days float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(days * 24 * float64(time.Hour)))
}

var now = at(100)

// letters are the contents of the vectors.
var letters = []struct {
	letter byte
	size   int64
}{{'a', 10}, {'b', 20}, {'c', 30}, {'d', 40}, {'e', 50}, {'s', 100}}

func letter(c byte) uint32 {
	for i, l := range letters {
		if l.letter == c {
			return uint32(i)
		}
	}
	panic("no content " + string(c))
}

func number[T int | int64 | float64](t *testing.T, s string) T {
	t.Helper()
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil {
		t.Fatal(err)
	}
	return T(f)
}

// vectorPolicy reads the column policy: the policy and what it says about contents.
func vectorPolicy(t *testing.T, n int, text string) (*Policy, *State) {
	t.Helper()
	s := &State{}
	for _, l := range letters {
		s.Contents = append(s.Contents, Content{Size: l.size, Stored: l.size})
	}
	var b strings.Builder
	b.WriteString("retention:\n  min_age: 1d\n  floor: 1\n  trash: 0\n")
	if n == 33 {
		b.WriteString("  brake: 50%\n")
	} else {
		b.WriteString("  brake: 100%\n")
	}
	b.WriteString("  classes:\n")
	for part := range strings.SplitSeq(text, "; ") {
		if name, rules, ok := strings.Cut(part, ": "); ok {
			fmt.Fprintf(&b, "  - name: %s\n", name)
			for rule := range strings.SplitSeq(rules, ", ") {
				key, value, ok := strings.Cut(rule, " ")
				switch {
				case rule == "–":
				case !ok:
					t.Fatalf("vector %d: rule %q, want one that this test knows", n, rule)
				case key == "keep_within" || key == "keep_used":
					fmt.Fprintf(&b, "    %s: %sd\n", key, value)
				default:
					fmt.Fprintf(&b, "    %s: %s\n", key, value)
				}
			}
			continue
		}
		word, list, _ := strings.Cut(part, " ")
		for item := range strings.SplitSeq(list, ", ") {
			c := &s.Contents[letter(item[0])]
			switch word {
			case "read":
				c.LastRead = at(number[float64](t, item[2:])).Unix()
			case "cached":
				c.Pinned = true
			case "derived":
				size := number[int64](t, item[2:])
				s.Derived = append(s.Derived, Derivation{Source: letter(item[0]), Result: uint32(len(s.Contents))})
				s.Contents = append(s.Contents, Content{Size: size, Stored: size})
			default:
				t.Fatalf("vector %d: %q, want a word that this test knows", n, part)
			}
		}
	}
	p, err := Parse("policy", []byte(b.String()))
	if err != nil {
		t.Fatalf("vector %d: %v\n%s", n, err, b.String())
	}
	return p, s
}

var vectorTx = regexp.MustCompile(`^(\d+):([0-9.]+)(?:\(arrived (\d+)\))? ([a-es]+)((?: [^ ]+)*)$`)

// vectorTransaction reads one item of the column transactions.
func vectorTransaction(t *testing.T, n int, text string) Transaction {
	t.Helper()
	m := vectorTx.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("vector %d: build %q, want the form of the other vectors", n, text)
	}
	x := Transaction{Number: number[int64](t, m[1]), Product: "G", Version: m[1], Branch: "main", Class: "nightly", Time: at(number[float64](t, m[2]))}
	x.Arrived = x.Time
	if m[3] != "" {
		x.Arrived = at(number[float64](t, m[3]))
	}
	for i := range len(m[4]) {
		x.Contents = append(x.Contents, letter(m[4][i]))
	}
	for _, word := range strings.Fields(m[5]) {
		switch {
		case strings.HasPrefix(word, "B="):
			x.Branch = word[2:]
		case strings.HasPrefix(word, "P="):
			x.Product = word[2:]
		case strings.HasPrefix(word, "→"):
			x.Needs = append(x.Needs, number[int64](t, strings.TrimPrefix(word, "→")))
		case strings.HasPrefix(word, "hold="):
			for i, end := range strings.Split(word[5:], ",") {
				h := Hold{Name: strconv.Itoa(i), By: "anna", Reason: "1.2 GA"}
				if end != "∞" {
					h.Until = at(number[float64](t, end))
				}
				x.Holds = append(x.Holds, h)
			}
		case word == "(removed)":
			x.Removed = at(90)
			x.TrashUntil = at(97)
		default:
			x.Class = word
		}
	}
	return x
}

func TestVectors(t *testing.T) {
	t.Parallel()
	count := 0
	for row := range strings.Lines(strings.TrimSpace(vectors)) {
		cell := strings.Split(strings.TrimSpace(row), "|")
		for i := range cell {
			cell[i] = strings.TrimSpace(cell[i])
		}
		n := number[int](t, cell[1])
		count++
		t.Run(fmt.Sprintf("%d %s", n, cell[2]), func(t *testing.T) {
			p, s := vectorPolicy(t, n, cell[3])
			for item := range strings.SplitSeq(cell[4], " · ") {
				s.Transactions = append(s.Transactions, vectorTransaction(t, n, item))
			}
			plan, err := p.Plan(s, now)
			if err != nil {
				t.Fatal(err)
			}
			var kept, removed []string
			for _, v := range plan.Verdicts {
				switch {
				case v.Reason.Keeps():
					kept = append(kept, fmt.Sprintf("%d %s", v.Number, v.Reason))
				case v.Reason == Cap:
					removed = append(removed, fmt.Sprintf("%d cap", v.Number))
				default:
					removed = append(removed, fmt.Sprint(v.Number))
				}
			}
			sums := fmt.Sprintf("%d / %d", plan.Listed, plan.Frees.Stored)
			for _, c := range plan.Caps {
				if c.Unmet > 0 {
					sums += fmt.Sprintf(", unmet %d", c.Unmet)
				}
			}
			if len(plan.Brake) > 0 {
				sums += ", **brake**: nothing done"
			}
			got := []string{cmp.Or(strings.Join(kept, ", "), "–"), cmp.Or(strings.Join(removed, ", "), "–"), sums}
			if d := gocmp.Diff(cell[5:8], got); d != "" {
				t.Errorf("vector %d: the plan differs, want that of the specification (-specification +plan):\n%s", n, d)
			}
			for tx, want := range alone[n] {
				if got := plan.Why(tx).Alone.Stored; got != want {
					t.Errorf("vector %d: build %d alone frees %d bytes, want %d", n, tx, got, want)
				}
			}
			if plan.FreesNow != plan.Frees {
				t.Errorf("vector %d: %v of %v are free at once, want all: the policy has no trash", n, plan.FreesNow, plan.Frees)
			}
			if n == 33 {
				return
			}
			// A second run at the same time removes nothing.
			again, err := p.Plan(remove(s, plan), now)
			if err != nil {
				t.Fatal(err)
			}
			if again.Builds() > 0 {
				t.Errorf("vector %d: a second run removes %d builds, want none", n, again.Builds())
			}
			// Neither does the order of the transactions matter.
			reversed := *s
			reversed.Transactions = slices.Clone(s.Transactions)
			slices.Reverse(reversed.Transactions)
			other, err := p.Plan(&reversed, now)
			if err != nil {
				t.Fatal(err)
			}
			if other.Ticket() != plan.Ticket() {
				t.Errorf("vector %d: the plan depends on the order of the builds, want equal plans", n)
			}
		})
	}
	if count != 33 {
		t.Errorf("%d vectors were tested, want 33", count)
	}
}

// remove returns the state after a plan was applied.
func remove(s *State, p *Plan) *State {
	after := *s
	after.Transactions = slices.Clone(s.Transactions)
	for i := range after.Transactions {
		t := &after.Transactions[i]
		if v := p.Why(t.Number); v != nil && !v.Reason.Keeps() {
			t.Removed = p.Now
			if p.Trash > 0 {
				t.TrashUntil = p.Now.Add(time.Duration(p.Trash))
			}
		}
	}
	return &after
}
