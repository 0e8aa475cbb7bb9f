package stage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestManifest: the hash of a list of files is that of their sorted lines,
// computed here by another program.
func TestManifest(t *testing.T) {
	t.Parallel()
	a, b := blob.Sum([]byte("a")), blob.Sum([]byte("bb"))
	list := []Entry{{Path: "b.pdb", Size: 2, Ref: b}, {Path: "x/a b", Size: 1, Ref: a}, {Path: "x/a", Size: 1, Ref: a}}
	const want = "9b153a648acedafb72fd5060c6f9ad06f98b246151aff7d6d8923831d0f7fda7"
	if got := Manifest(list).String(); got != want {
		t.Errorf("manifest: %s, want %s", got, want)
	}
	if got, empty := Manifest(nil), blob.Sum(nil); got != empty {
		t.Errorf("manifest of no files: %s, want %s", got, empty)
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bits []byte
		want string
	}{
		{nil, ""}, {[]byte{1}, "0"}, {[]byte{0xff, 0x0f}, "0-11"}, {[]byte{0xff, 0x2f}, "0-11,13"}, {[]byte{0x05}, "0,2"}, {[]byte{0, 0x20}, "13"},
	} {
		if got := ranges(14, func(n int) bool { return hasBit(c.bits, n) }); got != c.want {
			t.Errorf("ranges of %x: %q, want %q", c.bits, got, c.want)
		}
	}
	if isComplete([]byte{0xff}, 9) || !isComplete([]byte{0xff, 1}, 9) {
		t.Error("nine parts are complete with nine bits only")
	}
}

// TestContradicts: the id of a client is compared in any spelling.
func TestContradicts(t *testing.T) {
	t.Parallel()
	id, err := debugid.ParseBreakpad("44E4EC8C2F41492B9369D6B9A059577C2")
	if err != nil {
		t.Fatal(err)
	}
	objects := []symfile.Object{{Kind: symfile.PDB, Role: symfile.Debug, Name: "app.pdb", DebugID: id}}
	for _, c := range []struct {
		claim string
		fits  bool
	}{
		{"", true},
		{"44E4EC8C2F41492B9369D6B9A059577C2", true},
		{"44e4ec8c2f41492b9369d6b9a059577c2", true},
		{"44e4ec8c-2f41-492b-9369-d6b9a059577c-2", true},
		{"44e4ec8c-2f41-492b-9369-d6b9a059577c-3", false},
		{"app.pdb", false},
	} {
		if got := contradicts(c.claim, objects); (got == "") != c.fits {
			t.Errorf("claim %q: %q, want that it fits: %t", c.claim, got, c.fits)
		}
	}
	if got := contradicts("x", nil); !strings.Contains(got, "has no id") {
		t.Errorf("a claim for a file without an id: %q", got)
	}
}

// TestFacts: what is known of an object survives as text.
func TestFacts(t *testing.T) {
	t.Parallel()
	id, err := debugid.ParseBreakpad("44E4EC8C2F41492B9369D6B9A059577C2")
	if err != nil {
		t.Fatal(err)
	}
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "näme", CodeID: "ab", DebugID: id, InfoAge: 3, BuildID: "abcd", Main: true, Version: 4, Hash: "x"}
	ref := blob.Sum([]byte("x"))
	text, err := formatFacts([]fact{{Object: o, Arch: "x86", Features: []string{"debug"}, DebugSize: 7, SHA256: ref.String(), Size: 9}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := entries(stages.StageFile{Path: "a/näme", Facts: text})
	if err != nil || len(list) != 1 {
		t.Fatalf("facts: %v, %v; want one object", list, err)
	}
	e := list[0]
	if e.Object != o || e.Ref != ref || e.Size != 9 || e.Arch != "x86" || e.DebugSize != 7 || len(e.Features) != 1 || e.Path != "a/näme" || len(e.Aliases) == 0 {
		t.Errorf("entry: %+v, want the object %+v", e, o)
	}
	for _, bad := range []string{"", "{}", "[]", "null", `[{"SHA256":"x"}]`, "\x00"} {
		if _, err := entries(stages.StageFile{Facts: bad}); err == nil {
			t.Errorf("facts %q: no error", bad)
		}
	}
}

// TestMarks: contents of concurrent requests are recorded together, each caller
// gets the error of its write.
func TestMarks(t *testing.T) {
	t.Parallel()
	var m marks
	writes, recorded := 0, 0
	first, release := make(chan struct{}), make(chan struct{})
	m.write = func(_ context.Context, list []stages.StageArrival) error {
		if writes++; writes == 1 {
			close(first)
			<-release
		}
		recorded += len(list)
		if writes == 2 {
			return errors.New("refused")
		}
		return nil
	}
	const n = maxMarks
	errs := make([]error, n+1)
	var wg sync.WaitGroup
	wg.Go(func() { errs[n] = m.put(t.Context(), stages.StageArrival{}) })
	<-first
	var waiting sync.WaitGroup
	waiting.Add(n)
	for i := range n {
		wg.Go(func() {
			waiting.Done()
			errs[i] = m.put(t.Context(), stages.StageArrival{Stage: fmt.Sprint(i)})
		})
	}
	waiting.Wait()
	close(release)
	wg.Wait()
	if errs[n] != nil || recorded != n+1 {
		t.Errorf("%d contents recorded, the first with %v; want %d without an error", recorded, errs[n], n+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.put(ctx, stages.StageArrival{}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request: %v, want context.Canceled or success", err)
	}
}

// TestMarksLeft: a caller that leaves while it waits has its content recorded, and
// those behind it get their turn.
func TestMarksLeft(t *testing.T) {
	t.Parallel()
	var m marks
	recorded := 0
	first, release := make(chan struct{}), make(chan struct{})
	m.write = func(_ context.Context, list []stages.StageArrival) error {
		if recorded == 0 {
			close(first)
			<-release
		}
		recorded += len(list)
		return nil
	}
	errs := make(chan error, 2)
	go func() { errs <- m.put(t.Context(), stages.StageArrival{}) }()
	<-first
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.put(ctx, stages.StageArrival{}); !errors.Is(err, context.Canceled) {
		t.Errorf("put of a caller that leaves: %v, want context.Canceled", err)
	}
	go func() { errs <- m.put(t.Context(), stages.StageArrival{}) }()
	close(release)
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("put: %v, want no error", err)
		}
	}
	if err := m.put(t.Context(), stages.StageArrival{}); err != nil || recorded != 4 {
		t.Errorf("%d contents recorded, the last with %v; want 4 without an error", recorded, err)
	}
}

// TestValidate: texts of a stage that are refused.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec Spec
		ok   bool
	}{
		{Spec{}, true},
		{Spec{Labels: Labels{Product: "Game", Comment: "two\nlines"}}, true},
		{Spec{Labels: Labels{Product: "Ga\nme"}}, false},
		{Spec{Labels: Labels{Product: "Ga\x00me"}}, false},
		{Spec{Labels: Labels{Version: "\xff"}}, false},
		{Spec{Labels: Labels{Branch: strings.Repeat("x", 257)}}, false},
		{Spec{Key: strings.Repeat("x", 513)}, false},
		{Spec{Build: Build{Commit: "a\x7f"}}, false},
	} {
		if err := validate(c.spec); (err == nil) != c.ok {
			t.Errorf("%+v: %v, want valid: %t", c.spec, err, c.ok)
		}
	}
}
