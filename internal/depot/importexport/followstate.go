package importexport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/public"
)

const (
	// ownFolder is the folder of a target that has what Follow keeps there.
	ownFolder = ".symdepot"
	// statePath is the file of the state.
	statePath   = ownFolder + "/export.json"
	stateFormat = 1
)

// followState says in a target what the target has, so that a follower goes on where the last one
// ended. Without it, the target is compared file by file.
type followState struct {
	Format int    `json:"format"`
	Depot  string `json:"depot"` // depot.Fingerprint
	// Options is a hash of the options that decide which bytes are under which path. Whoever may
	// read the target may read the state, so it has no names.
	Options string `json:"options"`
	Forms   int    `json:"forms,omitempty"` // public.Version of the public forms
	// Builds are the builds whose files the target has. While others are written, Adding are
	// the builds whose files it is to have, and it has these up to the path Done.
	Builds map[int64]builtFiles `json:"builds"`
	Adding map[int64]builtFiles `json:"adding,omitempty"`
	Done   string               `json:"done,omitempty"`
	// Incomplete: the bytes of some files could not be had.
	Incomplete bool `json:"incomplete,omitempty"`
}

// builtFiles are the number and the bytes of the files of a build, and 1 if it is of class try, whose
// files give way to others.
type builtFiles [3]int64

// less reports whether a build has lost files, or its files no longer have the same place.
func (b builtFiles) less(than builtFiles) bool {
	return b[0] < than[0] || b[1] < than[1] || b[2] != than[2]
}

func buildsOf(txs []depot.Transaction) map[int64]builtFiles {
	m := make(map[int64]builtFiles, len(txs))
	for _, tx := range txs {
		b := builtFiles{tx.Files, tx.Bytes}
		if answer.RankedIn(tx, depot.TxFile{}).Try {
			b[2] = 1
		}
		m[tx.Number] = b
	}
	return m
}

// added returns the builds of now that are not in before.
func added(before, now map[int64]builtFiles) []int64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(n int64) bool { _, ok := before[n]; return ok })
}

// options returns followState.Options.
func (f *follower) options() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %v %v %q", f.layout.Name(), f.opt.Compress, f.opt.Lower, f.opt.Public, f.opt.Product))
	return hex.EncodeToString(sum[:16])
}

// forms returns the version of the public forms that are written; 0: none.
func (f *follower) forms() int {
	if f.opt.Public {
		return public.Version
	}
	return 0
}

// start finds out what the target has.
func (f *follower) start(ctx context.Context) error {
	f.state = followState{Format: stateFormat, Depot: f.d.Fingerprint(), Options: f.options()}
	data, err := f.w.read(ctx, statePath)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, bucket.ErrNoBucket) {
		return f.compare(ctx, false)
	}
	if err != nil {
		return err
	}
	var old followState
	if err := json.Unmarshal(data, &old); err != nil {
		return f.stateError("is damaged: " + err.Error())
	}
	switch {
	case old.Format != stateFormat:
		return f.stateError(fmt.Sprintf("has format %d; this program writes format %d", old.Format, stateFormat))
	case old.Depot != f.state.Depot:
		return f.stateError("is of another depot")
	case old.Options != f.state.Options:
		return term.UsageError(f.to.name() + " was written with another --layout, --audience, --product, --compress or --lower: " +
			"use the same ones, or another target")
	}
	// They stay until the target has been brought to what the depot has.
	f.state.Builds, f.state.Forms = old.Builds, old.Forms
	if old.Forms != f.forms() || old.Incomplete {
		return f.compare(ctx, true)
	}
	txs, err := f.list(ctx)
	if err != nil {
		return err
	}
	f.builds = old.Builds
	_, gone := f.changed(txs)
	f.builds = old.Adding
	_, goneToo := f.changed(txs)
	f.builds = nil
	if len(gone)+len(goneToo) > 0 {
		return f.compare(ctx, true) // the depot no longer says what files they had
	}
	return f.restore(ctx, txs, &old)
}

// stateError is the error for a state that cannot be used.
func (f *follower) stateError(why string) error {
	return term.UsageError(fmt.Sprintf("%s: %s %s: delete that file to have the target compared with this depot, or use another target",
		f.to.name(), statePath, why))
}

// restore fills in what the target has by a state, all of whose builds the depot still has.
func (f *follower) restore(ctx context.Context, txs []depot.Transaction, old *followState) error {
	now := buildsOf(txs)
	fill := func(builds map[int64]builtFiles, until string) error {
		p := f.newPlan()
		for _, tx := range txs {
			if b, ok := builds[tx.Number]; ok && b == now[tx.Number] {
				if err := p.add(ctx, tx); err != nil {
					return err
				}
			}
		}
		list, err := p.places()
		for _, x := range list {
			if until == "" || x.path <= until {
				f.have[x.path] = x.file.Ref
			}
		}
		return err
	}
	if err := fill(old.Builds, ""); err != nil {
		return err
	}
	if old.Done != "" {
		if err := fill(old.Adding, old.Done); err != nil {
			return err
		}
	}
	f.builds = old.Builds
	return nil
}

// compare fills in which paths the target has, so that each file is compared. A file that no build
// has is removed if the target is known to be of a follower, by its state; otherwise it may belong to
// somebody else.
func (f *follower) compare(ctx context.Context, ours bool) error {
	txs, err := f.list(ctx)
	if err != nil {
		return err
	}
	p := f.newPlan()
	for _, tx := range txs {
		if err := p.add(ctx, tx); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	for at, x := range p.byPath {
		name, _ := f.packing(x)
		known[at], known[name] = true, true
	}
	return f.w.list(ctx, "", func(name string) error {
		if known[name] || strings.HasPrefix(name, ownFolder+"/") || !f.isFile(name) {
			return nil // what a web server has beside the files stays
		}
		if !ours {
			return term.UsageError(fmt.Sprintf("%s has the file %s, which no build has: use an empty folder or prefix, or delete such files",
				f.to.name(), name))
		}
		f.have[name] = blob.Ref{}
		return nil
	})
}

// save writes the state.
func (f *follower) save(ctx context.Context) error {
	if err := f.claim.check(); err != nil {
		return err
	}
	f.state.Incomplete = len(f.failed) > 0
	data, err := json.Marshal(&f.state)
	if err != nil {
		return err
	}
	return f.w.replace(ctx, statePath, data)
}

// isFile reports whether a name of the target is that of a file in its layout.
func (f *follower) isFile(name string) bool {
	_, err := f.layout.Parse(name)
	return err == nil
}
