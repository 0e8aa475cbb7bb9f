package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// steps reads a whole log in steps, and returns the names of the records.
func steps(t *testing.T, file string, q AuditStep) (names []string, damaged int) {
	t.Helper()
	for n := 0; ; n++ {
		page, err := ReadAuditStep(file, q)
		if err != nil {
			t.Fatalf("step %d after %q: %v", n, q.After, err)
		}
		if q.Limit > 0 && len(page.Events) > q.Limit || n > 10_000 {
			t.Fatalf("step %d has %d records, want at most %d", n, len(page.Events), q.Limit)
		}
		for _, e := range page.Events {
			names = append(names, e.Name)
		}
		damaged += page.Damaged
		if q.After = page.Next; q.After == "" {
			return names, damaged
		}
	}
}

// TestAuditSteps: a log of several files is read in steps, from either end, whole and
// without a record twice, whatever the steps are.
func TestAuditSteps(t *testing.T) {
	t.Parallel()
	c := newClock()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	a := openAudit(t, AuditConfig{File: file, MaxBytes: 2000, Now: c.now})
	var want []string
	for i := range 200 {
		c.add(time.Minute)
		name := fmt.Sprintf("file%03d%s", i, strings.Repeat("x", i%300))
		want = append(want, name)
		a.Record(Event{Action: ActionRead, Who: fmt.Sprint("user", i%3), Name: name, Products: []string{fmt.Sprint("p", i%2)}})
	}
	a.Flush()
	files, err := olderFiles(file)
	if err != nil || len(files) < 5 {
		t.Fatalf("%d rotated files, %v; want at least 5", len(files), err)
	}
	newest := slices.Clone(want)
	slices.Reverse(newest)
	for _, q := range []AuditStep{{}, {Limit: 1}, {Limit: 7}, {Limit: 1000}, {Limit: 1000, Bytes: 1}, {Limit: 3, Bytes: 1500}} {
		if got, damaged := steps(t, file, q); !slices.Equal(got, newest) || damaged != 0 {
			t.Errorf("%+v: %d records, %d damaged lines; want all %d, the newest first", q, len(got), damaged, len(want))
		}
		q.Oldest = true
		if got, damaged := steps(t, file, q); !slices.Equal(got, want) || damaged != 0 {
			t.Errorf("%+v: %d records, %d damaged lines; want all %d, the oldest first", q, len(got), damaged, len(want))
		}
	}
	// Filters, and how much a step reads.
	half := AuditStep{Limit: 5, Filter: AuditFilter{Who: "user1", Product: "p1", Since: c.now().Add(-time.Hour)}}
	var some []string
	for i, name := range want {
		if i%3 == 1 && i%2 == 1 && i >= len(want)-61 {
			some = append(some, name)
		}
	}
	slices.Reverse(some)
	if got, _ := steps(t, file, half); !slices.Equal(got, some) {
		t.Errorf("with a filter: %q, want %q", got, some)
	}
	page, err := ReadAuditStep(file, AuditStep{Bytes: 3000, Filter: AuditFilter{Who: "nobody"}})
	if err != nil || page.Read < 3000 || page.Read > 3000+2000 || page.Next == "" || len(page.Events) > 0 {
		t.Errorf("a step of 3000 bytes without a record: %+v, %v; want it to go on", page, err)
	}
	// The log goes on between two steps.
	first, err := ReadAuditStep(file, AuditStep{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		c.add(time.Minute)
		a.Record(Event{Action: ActionRead, Name: "later" + strings.Repeat("x", 200)})
	}
	a.Flush()
	if got, _ := steps(t, file, AuditStep{After: first.Next, Limit: 10}); !slices.Equal(got, newest[10:]) {
		t.Errorf("after new files: %d records, first %.10q; want %d, first %.10q", len(got), got[0], len(newest)-10, newest[10])
	}
	// Its file may be gone.
	files, err = olderFiles(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range files {
		if err := os.Remove(o.name); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := ReadAuditStep(file, AuditStep{After: first.Next}); err != nil || len(page.Events) > 0 || page.Next != "" {
		t.Errorf("the position of a file that was removed: %+v, %v; want the end", page, err)
	}
	for _, bad := range []string{"x", "0123456789abcdef", "0123456789abcdef-", "0123456789abcdef--1", "-5", "0123456789abcdef-x"} {
		if _, err := ReadAuditStep(file, AuditStep{After: bad}); !errors.Is(err, ErrAuditCursor) {
			t.Errorf("the position %q: %v, want ErrAuditCursor", bad, err)
		}
	}
	if _, err := ReadAuditStep(file+"x", AuditStep{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v, want ErrNotExist", err)
	}
}

// TestAuditStepsDamaged: lines that are no records, one that is far too long, and one
// that is being written hide no other.
func TestAuditStepsDamaged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	line := func(name string) string {
		b, err := json.Marshal(Event{Time: time.Unix(1, 0).UTC(), Action: ActionRead, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + "\n"
	}
	text := line("a") + "garbage\n\n" + line("b") + strings.Repeat("y", 3*maxLine) + "\n" + line("c") + `{"time":"2026`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, q := range []AuditStep{{}, {Limit: 1}, {Bytes: 1}, {Bytes: maxLine}} {
		for _, oldest := range []bool{false, true} {
			q.Oldest = oldest
			want := []string{"c", "b", "a"}
			if oldest {
				want = []string{"a", "b", "c"}
			}
			if got, damaged := steps(t, file, q); !slices.Equal(got, want) || damaged != 2 {
				t.Errorf("%+v: %q with %d damaged lines, want %q with 2", q, got, damaged, want)
			}
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if page, err := ReadAuditStep(file, AuditStep{}); err != nil || page.Next != "" || len(page.Events) > 0 {
		t.Errorf("an empty log: %+v, %v; want nothing", page, err)
	}
}

// BenchmarkAuditStep reads a whole step in which no record matches.
func BenchmarkAuditStep(b *testing.B) {
	file := filepath.Join(b.TempDir(), "audit.jsonl")
	line, err := json.Marshal(Event{Time: time.Unix(1, 0).UTC(), Who: "alice@CORP.EXAMPLE", Method: MethodNegotiate, Remote: "192.0.2.17:50000", Agent: "Microsoft-Symbol-Server/10.0.22621.1",
		Action: ActionRead, Protocol: "symstore", Name: "game.pdb", ID: "4FD6D1A0C4E94B2E8B0A5D0C7F1E22331", Products: []string{"Game"}, Status: 200, Bytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	line = append(line, '\n')
	if err := os.WriteFile(file, slices.Repeat(line, stepBytes/len(line)), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ReadAuditStep(file, AuditStep{Filter: AuditFilter{Who: "nobody"}}); err != nil {
			b.Fatal(err)
		}
	}
}
