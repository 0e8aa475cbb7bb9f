package symstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// The kinds of changes.
const (
	whatAdd    = "add"
	whatDel    = "del"
	whatRepair = "repair"
)

// publish makes the staged files visible as one transaction.
func (a *adder) publish(ctx context.Context) (*plan, error) {
	began := time.Now()
	l, err := a.s.journal.lock(ctx)
	if err != nil {
		return nil, err
	}
	locked := time.Now()
	a.result.Waited = locked.Sub(began)
	defer func() {
		l.unlock()
		a.result.Held = time.Since(locked)
	}()
	adm, err := a.s.readAdmin()
	if err != nil {
		return nil, err
	}
	if err := a.sameRefs(adm); err != nil {
		return nil, err
	}
	for {
		id, err := adm.next()
		if err != nil {
			return nil, err
		}
		p, err := a.makePlan(ctx, adm, id)
		if err != nil {
			return nil, err
		}
		err = a.ws.commit(l, p)
		if errors.Is(err, errNumberTaken) {
			adm.max = id // another tool, which takes no lock, has taken the number
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = a.s.touch(pingmeFile) // only a hint to clients
		return p, nil
	}
}

// makePlan lists the steps: the transaction file, which reserves the number;
// the files and their refs.ptr files; history.txt, server.txt and lastid.txt. A
// crash between two steps leaves unrecorded files, but no records of missing
// files.
func (a *adder) makePlan(ctx context.Context, adm *admin, id ID) (*plan, error) {
	p := &plan{Version: planVersion, What: whatAdd, ID: id}
	t := a.s.newTargets(a.ws.dirs)
	var entries []Entry
	var folders, rest []op
	whole := map[*group]bool{} // groups that have a step
	for _, it := range a.items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, k := range it.keys {
			at := t.at(k.Key.Name, k.Key.Key)
			entries = append(entries, Entry{Name: k.Key.Name, Key: k.Key.Key, Source: it.source})
			sp := k.spot
			if sp == nil || at.key || at.spelled != sp.name {
				ops, err := a.keyOps(at.dir, at.spelled, id, it, k)
				if err != nil {
					return nil, err
				}
				rest = append(rest, ops...)
				continue
			}
			folders = append(folders, sp.ops(at, whole)...)
		}
	}
	line := Transaction{
		ID: id, Pointer: a.opt.Pointer, Time: a.start,
		Product: a.opt.Product, Version: a.opt.Version, Comment: a.opt.Comment,
	}.line()
	p.Ops = append(p.Ops, op{Do: opCreate, Path: txFile(id), Data: printEntries(entries)})
	p.Ops = append(p.Ops, folders...)
	p.Ops = append(p.Ops, rest...)
	if a.noRefs && !a.s.NoRefs() {
		p.Ops = append(p.Ops, op{Do: opWrite, Path: noRefsFile, Data: []byte(noRefsText)})
	}
	p.Ops = append(p.Ops,
		op{Do: opAppend, Path: historyFile, Data: []byte(line), Had: a.s.exists(historyFile)},
		op{Do: opAppend, Path: serverFile, Data: []byte(line), Had: a.s.exists(serverFile)})
	p.Ops = append(p.Ops, a.s.numberOps(id)...)
	return p, nil
}

// ops returns the step that publishes a staged folder. If the name is new to
// the store, one step publishes all folders of the group.
func (sp *spot) ops(at place, whole map[*group]bool) []op {
	g := sp.group
	switch {
	case g == nil || at.name || g.split:
		return []op{{Do: opFolder, Path: at.dir, From: sp.Rel}}
	case whole[g]:
		return nil
	}
	whole[g] = true
	return []op{{Do: opFolder, Path: path.Dir(at.dir), From: g.rel}}
}

// keyOps lists the steps in the folder of one key.
func (a *adder) keyOps(dir, name string, id ID, it *item, k stagedKey) ([]op, error) {
	kd, err := readKeyDir(a.ws.dirs, dir, name)
	if err != nil {
		return nil, err
	}
	ref := Ref{ID: id, Pointer: a.opt.Pointer, Path: it.source, Type: k.Key.Type, Compressed: k.compressed}
	refs, wins := a.opt.Prefer.insert(kd.refs, ref)
	var ops []op
	if !a.opt.Pointer {
		put, kept, err := a.putOps(kd, it, k, wins)
		if err != nil {
			return nil, err
		}
		ops = put
		if kept != "" {
			ref.Compressed = symfile.Fold(path.Base(kept)) != symfile.Fold(name)
			refs, _ = a.opt.Prefer.insert(kd.refs, ref)
		}
	}
	refsToo := !a.noRefs || kd.hasRefs()
	if refsToo {
		ops = append(ops, op{
			Do: opWrite, Path: path.Join(dir, refsLeaf), Data: printRefs(append(kd.junk, refs...)),
			Had: kd.hasRefs(), New: kd.found == nil && a.opt.Pointer,
		})
	}
	if !wins {
		return ops, nil
	}
	old := kd.leaf(pointerLeaf)
	switch {
	case a.opt.Pointer:
		if old == "" {
			old = path.Join(dir, pointerLeaf)
		}
		ops = append(ops, op{
			Do: opWrite, Path: old, Data: a.opt.pointerContent(it.source), Had: kd.leaf(pointerLeaf) != "", New: kd.found == nil && !refsToo,
		})
	case old != "":
		ops = append(ops, op{Do: opRemove, Path: old, Had: true})
	}
	return ops, nil
}

// putOps lists the steps that store the file itself. kept is the existing file
// if it is not replaced.
func (a *adder) putOps(kd *keyDir, it *item, k stagedKey, wins bool) (ops []op, kept string, err error) {
	have := kd.stored()
	if have != "" && (a.opt.NoForceCopy || !wins) {
		return nil, have, nil
	}
	if have != "" {
		if err := a.replaces(kd, have, it); err != nil {
			return nil, "", err
		}
	}
	leaf, other := kd.name, layout.CabinetName(kd.name)
	if k.compressed {
		leaf, other = other, leaf
	}
	target := kd.leaf(leaf)
	had := target != ""
	if !had {
		target = path.Join(kd.dir, leaf)
	}
	ops = append(ops, op{Do: opPut, Path: target, From: k.staged, Had: had, New: kd.found == nil})
	if sibling := kd.leaf(other); sibling != "" && leaf != other {
		ops = append(ops, op{Do: opRemove, Path: sibling, Had: true})
	}
	return ops, "", nil
}

// replaces returns an error if the file must not replace an existing one.
func (a *adder) replaces(kd *keyDir, have string, it *item) error {
	info, err := a.s.root.Lstat(have)
	if err != nil {
		return wrapError(err)
	}
	if !info.Mode().IsRegular() {
		return errInTheWay(have)
	}
	if !a.opt.NoReplace {
		return nil
	}
	if err := a.hash(it); err != nil {
		return wrapError(err)
	}
	same, err := storedIs(&a.s.disk, have, kd.name, it.sum)
	if err != nil || same {
		return err
	}
	return errOtherContent(have, it.file.Path)
}

// storedIs reports whether a stored file, plain or compressed, has a content of
// this hash. A cabinet that cannot be decoded does not.
func storedIs(d *disk, leaf, name string, sum [32]byte) (bool, error) {
	f, err := d.openRegular(leaf)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	h := sha256.New()
	if symfile.Fold(path.Base(leaf)) != symfile.Fold(name) {
		err = unpack(f, info.Size(), h)
		return err == nil && [32]byte(h.Sum(nil)) == sum, nil
	}
	_, err = io.Copy(h, f)
	return [32]byte(h.Sum(nil)) == sum, err
}

func errInTheWay(name string) error {
	return fmt.Errorf("%w: %s is not a regular file", ErrExists, name)
}

func errOtherContent(have, given string) error {
	return fmt.Errorf("%w: the content of %s differs from that of %s", ErrExists, have, given)
}
