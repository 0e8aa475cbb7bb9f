// Package stage keeps stages: open pushes that are not yet a transaction.
//
// A client opens a stage, lists the files that it has, sends the contents that are
// asked for, and commits. Nothing is visible before the commit, all of it
// afterwards. Every call may be repeated, and every stage survives the end of the
// process: its rows are in the index, its bytes in files of a folder or, for a
// depot with a bucket, at their places there.
//
// A stage of a protocol without an end collects: each of its files is visible at
// once, and all of them are one transaction.
package stage

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/stages"
)

// Open opens a stage, or finds the one with the key: then again is true, and the
// stage may be committed already. The labels must be those of the first time.
func (s *Stages) Open(ctx context.Context, c Caller, spec Spec) (st State, again bool, err error) {
	if err := validate(spec); err != nil {
		return State{}, false, err
	}
	if !c.Write(spec.Product) {
		return State{}, false, refuse(Forbidden, "%s may not add files to product %q", c.Name, spec.Product)
	}
	if c.ID == "" { // nobody would find the stage again
		return State{}, false, refuse(Forbidden, "a stage needs a caller, and nothing identifies this one")
	}
	if c.Class != "" && c.Class != spec.Class {
		return State{}, false, wrongClass(c)
	}
	if spec.Class != "" {
		if err := s.depot.CheckClass(ctx, spec.Class); errors.Is(err, engine.ErrUnavailable) {
			return State{}, false, err
		} else if err != nil {
			return State{}, false, refuse(Invalid, "%v", err)
		}
	}
	key := spec.Key
	switch {
	case spec.Collect:
		sum := sha256.Sum256([]byte(strings.Join([]string{spec.Product, spec.Version, spec.Branch, spec.Class}, "\x00")))
		key = "collect:" + hex.EncodeToString(sum[:])
	case key != "":
		key = "key:" + key
	case spec.Join:
		return State{}, false, refuse(Invalid, "a stage that several jobs join needs a key")
	}
	build, err := json.Marshal(spec.Build)
	if err != nil {
		return State{}, false, err
	}
	if spec.Build == (Build{}) {
		build = nil
	}
	most := s.limits.Open
	if spec.Collect {
		most *= collecting
	}
	row, again, err := s.db.Open(ctx, stages.StageRow{
		ID: rand.Text(), Caller: c.Name, Owner: c.ID, Key: key, Product: spec.Product, Version: spec.Version,
		Branch: spec.Branch, Class: spec.Class,
		Comment: spec.Comment, Build: string(build), Collects: spec.Collect, Joins: spec.Join, Node: s.node,
	}, most)
	if errors.Is(err, stages.ErrTooManyStages) {
		return State{}, false, refuse(TooMany, "%s has %d open stages, the limit; commit or delete one, or wait until they expire", c.Name, most)
	}
	if err != nil {
		return State{}, false, err
	}
	if again && (row.Product != spec.Product || row.Version != spec.Version || row.Branch != spec.Branch || row.Class != spec.Class) {
		return State{}, false, refuse(Conflict,
			"the stage with key %q was opened for product %q, version %q, branch %q and class %q; use another key",
			spec.Key, row.Product, row.Version, row.Branch, row.Class)
	}
	return s.state(row), again, nil
}

func validate(spec Spec) error {
	for _, t := range []struct {
		what, text string
		most       int
	}{
		{"product", spec.Product, maxLabel}, {"version", spec.Version, maxLabel}, {"branch", spec.Branch, maxLabel},
		{"class", spec.Class, maxLabel},
		{"comment", spec.Comment, maxComment}, {"key", spec.Key, maxKey}, {"build ci", spec.Build.CI, maxLabel},
		{"build url", spec.Build.URL, maxComment},
		{"build commit", spec.Build.Commit, maxLabel}, {"build run", spec.Build.Run, maxLabel}, {"build attempt", spec.Build.Attempt, maxLabel},
	} {
		switch {
		case len(t.text) > t.most:
			return refuse(Invalid, "the %s has %d bytes, and the limit is %d", t.what, len(t.text), t.most)
		case !utf8.ValidString(t.text) || strings.ContainsFunc(t.text,
			func(r rune) bool { return r < 0x20 && (r != '\n' && r != '\t' || t.most != maxComment) || r == 0x7f }):
			return refuse(Invalid, "the %s has control characters or is not UTF-8", t.what)
		}
	}
	return nil
}

// State describes a stage.
func (s *Stages) State(ctx context.Context, c Caller, id string) (State, error) {
	row, err := s.row(ctx, c, id)
	if err != nil {
		return State{}, err
	}
	st := s.state(row)
	if st.Phase == PhaseCommitted {
		return st, nil
	}
	n, err := s.db.Count(ctx, id)
	if err != nil {
		return st, err
	}
	st.Have, st.Got, st.Refused = n[stages.StageKnown].Files, n[stages.StageArrived].Files, n[stages.StageRefused].Files
	st.Missing, err = s.db.Missing(ctx, id, maxMissing)
	return st, err
}

// Abandon ends an open stage: nothing of it becomes visible.
func (s *Stages) Abandon(ctx context.Context, c Caller, id string) error {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return err
	}
	if row.Collects {
		if _, err := s.db.End(ctx, id, s.now().Add(24*time.Hour)); err != nil {
			return err
		}
		err = s.db.Clear(ctx, id)
	} else {
		err = s.db.Delete(ctx, id)
	}
	s.dropSpool(id)
	return s.explain(ctx, err, id)
}
