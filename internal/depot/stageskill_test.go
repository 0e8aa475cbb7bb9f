package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// stageChild makes the test binary a process that pushes into the depot named, to
// be killed.
const stageChild = "SYMDEPOT_DEPOT_TEST_PUSH"

// pushForever pushes one version after the other, each with some files of its own
// and some that all share, whole and in parts, and prints each request and each
// number.
func pushForever(dir string) error {
	ctx := context.Background()
	d, err := Open(ctx, dir, Options{Stages: stage.Limits{Part: 200}})
	if err != nil {
		return err
	}
	for v := byte(1); v < 200; v++ {
		fmt.Println("opening", v)
		st, _, err := d.Stages().Open(ctx, pusher("ci"), killSpec(v))
		if err != nil {
			return err
		}
		if st.Phase == stage.PhaseCommitted {
			continue
		}
		files := killFiles(v)
		verdicts, err := d.Stages().Check(ctx, pusher("ci"), st.ID, entriesOf(files))
		if err != nil {
			return err
		}
		fmt.Println("checked")
		for i, f := range files {
			if verdicts[i].Answer != stage.Send {
				continue
			}
			ref := blob.Sum(f.body)
			if i%2 == 0 {
				if _, err := d.Stages().Put(ctx, pusher("ci"), st.ID, ref, bytes.NewReader(f.body)); err != nil {
					return err
				}
			}
			for n := 0; i%2 == 1 && n*200 < len(f.body); n++ {
				if err := d.Stages().PutPart(ctx, pusher("ci"), st.ID, ref, int64(len(f.body)), n, bytes.NewReader(f.body[n*200:min(n*200+200, len(f.body))])); err != nil {
					return err
				}
			}
			fmt.Println("put")
		}
		done, err := d.Stages().Commit(ctx, pusher("ci"), st.ID, stage.Commit{Files: int64(len(files))})
		if err != nil {
			return err
		}
		fmt.Println("committed", v, done.Transaction)
	}
	return nil
}

func killSpec(v byte) stage.Spec {
	return stage.Spec{Labels: stage.Labels{Product: "P", Version: fmt.Sprint(v)}, Key: fmt.Sprint(v)}
}

func killFiles(v byte) []file {
	shared, _ := symbols(4, 0)
	own, _ := symbols(6, v)
	for i := range own {
		own[i].path = fmt.Sprintf("%d/%s", v, own[i].path)
	}
	return append(own, shared...)
}

// TestPushKilled kills processes that push at random moments: nothing partial is
// visible, what was acknowledged is there, a rerun finishes, and nothing staged is
// left after that.
func TestPushKilled(t *testing.T) {
	symtest.Unraced(t, "starts and kills processes for some seconds")
	t.Parallel()
	if testing.Short() {
		t.Skip("starts and kills processes for some seconds: run it without -short")
	}
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := Open(t.Context(), dir, Options{Stages: stage.Limits{Part: 200}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	rng := rand.New(rand.NewPCG(symtest.Seed(t, 1), 2))
	committed := map[byte]int64{}
	var last byte // opened by a process that was killed, perhaps while it was open
	rounds := 12
	for range rounds {
		w := startChild(t, stageChild, dir, 1+rng.IntN(25), time.Duration(rng.IntN(8))*time.Millisecond)
		w.killed(t, func(line string) bool {
			var v byte
			var n int64
			if _, err := fmt.Sscanf(line, "committed %d %d", &v, &n); err == nil {
				committed[v] = n
			}
			if _, err := fmt.Sscanf(line, "opening %d", &v); err == nil {
				last = max(last, v)
				return false // this is no request
			}
			return true
		})
		for v := byte(1); v < 200; v++ {
			own, paths := symbols(6, v)
			seen := 0
			for i := range own {
				if _, _, err := get(t, d, answer.Scope{}, paths[i]); err == nil {
					seen++
				}
			}
			if seen != 0 && seen != len(own) {
				t.Fatalf("version %d: %d of %d files are visible, want none or all", v, seen, len(own))
			}
			if committed[v] != 0 && seen == 0 {
				t.Fatalf("version %d was acknowledged as build %d and is not visible", v, committed[v])
			}
			if seen == 0 && committed[v] == 0 {
				break // it pushes in order
			}
		}
	}
	if len(committed) == 0 {
		t.Error("no push was acknowledged before its process was killed: the test shows nothing")
	}
	// Reruns finish, with the same numbers, and send nothing again.
	for v := byte(1); v <= last; v++ {
		var n int64
		if err := pushAll(t.Context(), d, pusher("ci"), killSpec(v), killFiles(v), &n); err != nil {
			t.Fatalf("rerun of version %d: %v", v, err)
		}
		if committed[v] != 0 && committed[v] != n {
			t.Errorf("rerun of version %d: build %d, want %d", v, n, committed[v])
		}
	}
	wantClean(t, d)
	if err := errors.Join(d.Stages().Expire(t.Context()), d.Stages().Sweep(t.Context())); err != nil {
		t.Error(err)
	}
	wantEmpty(t, d)
}

// TestPushHostile: very many empty files, and very many stages.
func TestPushHostile(t *testing.T) {
	t.Parallel()
	stages, empty := 300, 5_000
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		stages, empty = 10_000, 100_000
	}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Stages: stage.Limits{Open: stages}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := pusher("ci")
	id := openStage(t, d, c, stage.Spec{Key: "0"})
	for n := 0; n < empty; n += 5000 {
		list := make([]stage.Entry, 5000)
		for i := range list {
			list[i] = stage.Entry{Path: fmt.Sprintf("empty/%d.pdb", n+i), Ref: blob.Sum(nil)}
		}
		v, err := d.Stages().Check(t.Context(), c, id, list)
		if err != nil || v[0].Answer != stage.Refuse {
			t.Fatalf("empty files: %v, want refusals", err)
		}
	}
	r := wantRefusal(t, "commit of empty files", second(d.Stages().Commit(t.Context(), c, id, stage.Commit{})), stage.NotSymbol)
	if !strings.Contains(r.Text, "empty file") {
		t.Errorf("commit of empty files: %q, want a refusal of the empty file", r.Text)
	}
	for n := 1; n < stages; n++ {
		openStage(t, d, c, stage.Spec{Key: fmt.Sprint(n)})
	}
	if len(symTestDirs(t, d)) != 0 {
		t.Error("stages without contents have folders")
	}
	_, _, err = d.Stages().Open(t.Context(), c, stage.Spec{})
	wantRefusal(t, "one more stage", err, stage.TooMany)
	if err := d.Stages().Abandon(t.Context(), c, id); err != nil {
		t.Error(err)
	}
	wantClean(t, d)
}

func symTestDirs(t *testing.T, d *Depot) []os.DirEntry {
	t.Helper()
	list, _ := os.ReadDir(filepath.Join(d.dir, "staged")) // missing: none
	return list
}

// TestPushFullDisk: a full disk refuses contents and loses nothing.
func TestPushFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	c := pusher("ci")
	files, paths := symbols(3, 1)
	id := openStage(t, d, c, stage.Spec{})
	announced(t, d, c, id, files)
	putAll(t, d, c, id, files[:2])
	full, err := Open(t.Context(), dir, Options{Stages: stage.Limits{Free: 1 << 62}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	_, err = full.Stages().Put(t.Context(), c, id, blob.Sum(files[2].body), &failingReader{errors.New("the body was read")})
	wantRefusal(t, "a content for a full disk", err, stage.NoSpace)
	many, err := Open(t.Context(), dir, Options{Stages: stage.Limits{Staged: 700}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = many.Close() }()
	_, err = many.Stages().Put(t.Context(), c, id, blob.Sum(files[2].body), &failingReader{errors.New("the body was read")})
	wantRefusal(t, "a content above the bytes of all stages", err, stage.NoSpace)
	other := openStage(t, many, c, stage.Spec{})
	announced(t, many, c, other, files[2:])
	_, err = many.Stages().Put(t.Context(), c, other, blob.Sum(files[2].body), &failingReader{errors.New("the body was read")})
	wantRefusal(t, "a content of another stage above the bytes of all stages", err, stage.Busy)
	putAll(t, d, c, id, files[2:])
	if _, err := full.Stages().Commit(t.Context(), c, id, stage.Commit{}); err != nil {
		t.Errorf("commit: %v", err)
	}
	wantVisible(t, d, files, paths, true)
}
