package depot

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// vectorDay returns the time of a day of the vectors.
func vectorDay(t *testing.T, text string) time.Time {
	t.Helper()
	days, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(days * 24 * float64(time.Hour)))
}

// vectorEntry is a file with the content of a letter.
func vectorEntry(letter string) record.Entry {
	size := map[string]int64{"a": 10, "b": 20, "c": 30, "d": 40, "e": 50, "s": 100}[letter]
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: letter + ".pdb", DebugID: debugid.ID{GUID: debugid.GUID{letter[0], 15: 1}, Age: 1}, InfoAge: 1}
	return record.Entry{Object: o, Ref: blob.Sum([]byte(letter)), Size: size, Aliases: o.Aliases(), Path: letter + ".pdb"}
}

// TestRetentionVectors takes the transactions of the specification's test vectors
// through a depot: the plan, what is live after it was applied, and the bytes.
func TestRetentionVectors(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	table, err := os.ReadFile("retention/testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for row := range strings.Lines(string(table)) {
		cell := strings.Split(strings.TrimSpace(row), "|")
		if len(cell) < 8 {
			continue
		}
		for i := range cell {
			cell[i] = strings.TrimSpace(cell[i])
		}
		count++
		t.Run(cell[1], func(t *testing.T) { testVector(t, cell) })
	}
	if count != 33 {
		t.Errorf("%d vectors, want 33", count)
	}
}

func testVector(t *testing.T, cell []string) {
	ctx := t.Context()
	d, c := newDepot(t)
	d.Retention.Block = 1 // as the specification counts
	numbers := map[string]int64{}
	items := strings.Split(cell[4], " · ")
	slices.SortFunc(items, func(a, b string) int {
		number := func(s string) int { n, _ := strconv.Atoi(s[:strings.Index(s, ":")]); return n }
		return cmp.Compare(number(a), number(b))
	})
	for _, item := range items {
		words := strings.Fields(strings.Replace(item, "(arrived ", "@", 1))
		number, at, _ := strings.Cut(words[0], ":")
		own, arrived, imported := strings.Cut(at, "@")
		tx := record.Tx{Kind: "add", Product: "G", Version: number, Branch: "main", Class: "nightly"}
		c.t = vectorDay(t, own)
		if imported {
			c.t = vectorDay(t, strings.TrimSuffix(arrived, ")"))
			tx.Origin = &record.Origin{Store: "old", Number: number, Time: vectorDay(t, own)}
		}
		var after []func()
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			switch {
			case key == "B":
				tx.Branch = value
			case key == "P":
				tx.Product = value
			case key == "hold":
				for i, end := range strings.Split(value, ",") {
					h := lifecycle.Hold{Name: strconv.Itoa(i)}
					if end != "∞" {
						h.Until = vectorDay(t, end)
					}
					after = append(after, func() { h.Number = numbers[number]; check1(t, d.Retention.Hold(ctx, h)) })
				}
			case strings.HasPrefix(w, "→"):
				needed := strings.TrimPrefix(w, "→")
				after = append(after, func() { check1(t, d.Retention.SetNeeds(ctx, numbers[number], []int64{numbers[needed]})) })
			case w == "(removed)":
				after = append(after, func() {
					_, err := d.Retention.Remove(ctx, numbers[number], "anna")
					check1(t, err)
				})
			default:
				tx.Class = w
			}
		}
		for _, letter := range words[1] {
			tx.Entries = append(tx.Entries, vectorEntry(string(letter)))
		}
		n, err := d.db.Commit(ctx, tx, nil)
		check1(t, err)
		numbers[number] = n
		for _, fn := range after {
			fn()
		}
	}
	lines := []string{"min_age: 1d", "floor: 1", "brake: 100%"}
	if cell[1] == "33" {
		lines[2] = "brake: 50%"
	}
	lines = append(lines, "classes:")
	for part := range strings.SplitSeq(cell[3], "; ") {
		if name, rules, ok := strings.Cut(part, ": "); ok {
			lines = append(lines, "  - name: "+name)
			for rule := range strings.SplitSeq(rules, ", ") {
				if key, value, ok := strings.Cut(rule, " "); ok {
					if strings.HasPrefix(key, "keep_within") || key == "keep_used" {
						value += "d"
					}
					lines = append(lines, "    "+key+": "+value)
				}
			}
			continue
		}
		word, list, _ := strings.Cut(part, " ")
		for item := range strings.SplitSeq(list, ", ") {
			e := vectorEntry(item[:1])
			switch word {
			case "read":
				check1(t, d.db.Retention.Touch(ctx, [][]byte{e.Ref[:]}, vectorDay(t, item[2:])))
			case "cached":
				check1(t, d.db.Cached.Put(ctx, contents.CachedFile{Source: "up", Name: "s", URL: "http://up/s", Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil))
			case "derived":
				size, err := strconv.ParseInt(item[2:], 10, 64)
				check1(t, err)
				check1(t, d.db.PutDerived(ctx, e.Ref, record.Tool{Name: "zstd", Version: 1}, &record.Content{Ref: blob.Sum([]byte("made of " + item)), Size: size}))
			}
		}
	}
	c.t = vectorDay(t, "100")
	setPolicy(t, d, lines...)
	p := preview(t, d)
	var kept, removed []string
	for _, v := range p.Verdicts {
		switch {
		case v.Reason.Keeps():
			kept = append(kept, fmt.Sprintf("%s %s", v.Version, v.Reason))
		case v.Reason.String() == "cap":
			removed = append(removed, v.Version+" cap")
		default:
			removed = append(removed, v.Version)
		}
	}
	sums := fmt.Sprintf("%d / %d", p.Listed, p.Frees.Stored)
	for _, c := range p.Caps {
		if c.Unmet > 0 {
			sums += fmt.Sprintf(", unmet %d", c.Unmet)
		}
	}
	if len(p.Brake) > 0 {
		sums += ", **brake**: nothing done"
	}
	got := []string{cmp.Or(strings.Join(kept, ", "), "–"), cmp.Or(strings.Join(removed, ", "), "–"), sums}
	if !slices.Equal(got, cell[5:8]) {
		t.Fatalf("plan %q, want %q", got, cell[5:8])
	}
	applyPlan(t, d, p)
	live, err := d.List(ctx, answer.Scope{}, ListFilter{})
	check1(t, err)
	if len(live) != len(kept) {
		t.Errorf("%d builds are live after the plan, want %d", len(live), len(kept))
	}
	if again := preview(t, d); again.Builds() != 0 && cell[1] != "33" {
		t.Errorf("a second run removes %v, want nothing", numbersOf(again))
	}
	wantClean(t, d)
}

func check1(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
