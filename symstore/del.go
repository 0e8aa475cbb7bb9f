package symstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// DelResult counts what a Del did.
type DelResult struct {
	ID      ID  // of the deletion
	Entries int // of the deleted transaction
	Removed int // files that no transaction refers to any more
	Kept    int // keys that other transactions still refer to
	Missing int // keys without any file
	// Deferred counts the removed files that other programs hold open. They are
	// still there, and the first writer after these programs removes them.
	Deferred int
	// Held and Waited are as in AddResult.
	Held, Waited time.Duration
}

// Del deletes a transaction: its lines in refs.ptr, and the files and pointers
// that no other transaction holds. Transactions of tools that write no refs.ptr
// hold their files by their records in 000Admin. The error wraps
// ErrNoTransaction, and nothing is changed, if no live transaction has the id. It
// wraps ErrDamaged if the transaction's file is truncated or unreadable, because
// the files of the missing entries would never be deleted.
//
// If another program holds a file open in a way that forbids its removal, as
// debuggers do on Windows, Del waits for two seconds. If the file is still held
// then, the transaction is deleted, and a later Add, Del, Check, Repair or Convert
// removes the file. Until then, readers find it, and Check notes it.
func (s *Store) Del(ctx context.Context, id ID) (DelResult, error) {
	var result DelResult
	if s.flat {
		return result, fmt.Errorf("%w: %s", ErrNotStore, s.dir)
	}
	if s.opt.ReadOnly {
		return result, ErrReadOnly
	}
	entries, err := s.Entries(id)
	if err != nil {
		return result, err
	}
	// Reading all transactions may take long. It is done before the lock, and
	// under the lock only for newer transactions.
	own := &owners{disk: &s.disk, id: id, keys: keySet(entries), seen: map[ID]bool{}}
	if err := own.scan(ctx); err != nil {
		return result, err
	}
	ws, err := s.journal.open()
	if err != nil {
		return result, err
	}
	d := &deleter{s: s, ws: ws, id: id, entries: entries, owners: own, result: &result}
	began := time.Now()
	p, err := d.run(ctx, began)
	defer ws.release()
	if err != nil {
		if !errors.Is(err, ErrLockLost) {
			ws.discard()
		}
		return result, err
	}
	result.ID, result.Entries = p.ID, len(entries)
	return result, ws.settle(p)
}

func keySet(entries []Entry) map[string]bool {
	keys := make(map[string]bool, len(entries))
	for _, e := range entries {
		keys[symfile.Fold(e.Name+"/"+e.Key)] = true
	}
	return keys
}

// owners finds the other live transactions that list the same keys.
type owners struct {
	disk *disk
	id   ID // the transaction to be deleted
	keys map[string]bool
	seen map[ID]bool     // transactions that were read
	of   map[string][]ID // by folded name and key
}

// scan reads the live transactions that were not read before.
func (o *owners) scan(ctx context.Context) error {
	if o.of == nil {
		o.of = map[string][]ID{}
	}
	for t, err := range o.disk.transactions(false) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || t.Deletes != 0 || t.Pointer || t.ID == o.id || o.seen[t.ID] {
			continue // an unreadable line has no transaction
		}
		entries, _, _, err := o.disk.readEntries(t.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		o.seen[t.ID] = true
		for _, e := range entries {
			if k := symfile.Fold(e.Name + "/" + e.Key); o.keys[k] {
				o.of[k] = append(o.of[k], t.ID)
			}
		}
	}
	return nil
}

// held reports whether any live transaction without a line in refs lists the
// key.
func (o *owners) held(key string, live map[ID]bool, refs []Ref) bool {
	return slices.ContainsFunc(o.of[key], func(id ID) bool {
		return live[id] && !slices.ContainsFunc(refs, func(r Ref) bool { return r.ID == id })
	})
}

type deleter struct {
	s       *Store
	ws      *workspace
	id      ID
	entries []Entry
	owners  *owners
	live    map[ID]bool
	result  *DelResult
}

func (d *deleter) run(ctx context.Context, began time.Time) (*plan, error) {
	l, err := d.s.journal.lock(ctx)
	if err != nil {
		return nil, err
	}
	locked := time.Now()
	d.result.Waited = locked.Sub(began)
	defer func() {
		l.unlock()
		d.result.Held = time.Since(locked)
	}()
	if _, err := d.s.Entries(d.id); err != nil {
		return nil, err // deleted by another writer meanwhile
	}
	if err := d.owners.scan(ctx); err != nil {
		return nil, err
	}
	adm, err := d.s.readAdmin()
	if err != nil {
		return nil, err
	}
	p, err := d.makePlan(adm)
	if err != nil {
		return nil, err
	}
	if err := d.ws.commit(l, p); err != nil {
		return nil, err
	}
	d.result.Deferred = len(d.ws.held)
	_ = d.s.touch(pingmeFile) // only a hint to clients
	return p, nil
}

// makePlan lists the steps in the opposite order of an Add: records first.
func (d *deleter) makePlan(adm *admin) (*plan, error) {
	id, err := adm.next()
	if err != nil {
		return nil, err
	}
	d.live = map[ID]bool{}
	var rest []record
	for _, r := range adm.server {
		if r.err == nil && r.ID == d.id && r.Deletes == 0 {
			continue
		}
		rest = append(rest, r)
		if r.err == nil {
			d.live[r.ID] = true
		}
	}
	line := Transaction{ID: id, Deletes: d.id}.line()
	p := &plan{Version: planVersion, What: whatDel, ID: id, Ops: []op{
		{Do: opWrite, Path: serverFile, Data: printServer(rest), Had: d.s.exists(serverFile)},
		{Do: opAppend, Path: historyFile, Data: []byte(line), Had: d.s.exists(historyFile)},
	}}
	p.Ops = append(p.Ops, d.s.numberOps(id)...)
	p.Ops = append(p.Ops, op{Do: opMove, From: txFile(d.id), Path: txFile(d.id) + deletedExt})
	done := map[string]bool{}
	for _, e := range d.entries {
		k := symfile.Fold(e.Name + "/" + e.Key)
		if done[k] {
			continue
		}
		done[k] = true
		ops, err := d.keyOps(e, k)
		if err != nil {
			return nil, err
		}
		p.Ops = append(p.Ops, ops...)
	}
	return p, nil
}

// keyOps lists the steps in the folder of one key. The last remaining line of
// refs.ptr decides which file clients get.
func (d *deleter) keyOps(e Entry, key string) ([]op, error) {
	dir, name, ok := d.s.locate(e.Name, e.Key)
	if !ok {
		d.result.Missing++
		return nil, nil
	}
	kd, err := d.s.readKeyDir(dir, name)
	if err != nil {
		return nil, err
	}
	left := without(kd.refs, d.id)
	held := d.owners.held(key, d.live, kd.refs)
	if len(left) > 0 || held {
		d.result.Kept++
	} else {
		d.result.Removed++
	}
	return kd.opsToKeep(left, held), nil
}

// removeStored lists the steps that remove the stored file and its cabinet.
func (k *keyDir) removeStored() []op {
	var ops []op
	for _, name := range []string{k.name, layout.CabinetName(k.name)} {
		if p := k.leaf(name); p != "" && !slices.ContainsFunc(ops, func(o op) bool { return o.Path == p }) {
			ops = append(ops, op{Do: opRemove, Path: p, Had: true, Later: true})
		}
	}
	return ops
}

// opsToKeep lists the steps that make a folder agree with the remaining lines.
// held keeps the file although no line refers to it.
func (k *keyDir) opsToKeep(left []Ref, held bool) []op {
	var ops []op
	remove := func(name string) {
		if p := k.leaf(name); p != "" {
			ops = append(ops, op{Do: opRemove, Path: p, Had: true})
		}
	}
	write := func(name, content string) {
		p := k.leaf(name)
		had := p != ""
		if !had {
			p = path.Join(k.dir, name)
		}
		ops = append(ops, op{Do: opWrite, Path: p, Data: []byte(content), Had: had})
	}
	if len(left) > 0 {
		if len(left) != len(k.refs) {
			write(refsLeaf, string(printRefs(append(k.junk, left...))))
		}
		last := left[len(left)-1]
		switch before := k.refs[len(k.refs)-1]; {
		case last.Pointer && before.ID == last.ID && before.Pointer && k.leaf(pointerLeaf) != "":
			// The existing pointer, perhaps a message, is still right.
		case last.Pointer:
			write(pointerLeaf, last.Path)
		default:
			remove(pointerLeaf)
		}
	} else {
		remove(refsLeaf)
		if !held {
			remove(pointerLeaf)
		}
	}
	if !anyFile(left) && !held {
		ops = append(ops, k.removeStored()...)
	}
	if len(left) == 0 && !held {
		for dir := k.dir; dir != "."; dir = path.Dir(dir) {
			ops = append(ops, op{Do: opRmdir, Path: dir})
		}
	}
	return ops
}
