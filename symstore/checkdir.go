package symstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// keyDir compares one folder with the transactions that list it.
func (c *checker) keyDir(k *keyDir) {
	claims := c.claims[symfile.Fold(k.name+"/"+path.Base(k.dir))]
	for _, cl := range claims {
		cl.met = true
	}
	before, unlisted := len(c.found), c.unlisted
	c.quarantine(k)
	refs := c.liveRefs(k)
	refs = c.missingRefs(k, refs, claims)
	rewrite := len(c.found) > before || c.unlisted > unlisted
	if anyFile(refs) && k.stored() == "" {
		refs = c.fileLost(k, refs, claims)
		rewrite = true
	}
	if len(refs) == 0 {
		c.unclaimed(k, claims)
		return
	}
	if rewrite {
		p := k.leaf(refsLeaf)
		had := p != ""
		if !had {
			p = path.Join(k.dir, refsLeaf)
		}
		if had || c.anyRefs {
			c.ops = append(c.ops, op{Do: opWrite, Path: p, Data: printRefs(refs), Had: had})
		}
	}
	if !anyFile(refs) && k.stored() != "" && !c.isDeferred(k) {
		c.removeStored(k, Finding{Kind: FileUnneeded, Path: k.stored(), Detail: "only pointers are recorded"})
	}
	c.pointer(k, refs)
}

// quarantine moves files with wrong content out of the folder.
func (c *checker) quarantine(k *keyDir) {
	for _, leaf := range []string{k.leaf(k.name), k.leaf(layout.CabinetName(k.name))} {
		if leaf == "" || c.bad[leaf] == "" {
			continue
		}
		c.ops = append(c.ops, op{Do: opMove, From: leaf, Path: path.Join(quarantineDir, leaf)})
		delete(k.found, symfile.Fold(path.Base(leaf)))
	}
}

// liveRefs returns the lines of live transactions.
func (c *checker) liveRefs(k *keyDir) []Ref {
	for _, junk := range k.junk {
		c.add(Finding{Kind: RefLine, Path: k.leaf(refsLeaf), Detail: truncate.Text(decode(junk.raw)), Mendable: true})
	}
	var refs []Ref
	for _, r := range k.refs {
		if t := c.status[r.ID]; t != nil && t.live {
			refs = append(refs, r)
			continue
		}
		c.add(Finding{Kind: RefStray, ID: r.ID, Path: k.leaf(refsLeaf), Mendable: true})
	}
	return refs
}

// missingRefs adds the missing lines of transactions that list the folder. A
// store in which no folder has a refs.ptr does not use these files.
func (c *checker) missingRefs(k *keyDir, refs []Ref, claims []*claim) []Ref {
	for _, cl := range claims {
		if slices.ContainsFunc(refs, func(r Ref) bool { return r.ID == cl.id }) {
			continue
		}
		if !cl.pointer && k.stored() == "" {
			cl.lost = true
			c.add(Finding{Kind: FileLost, ID: cl.id, Path: k.dir, Detail: "the folder holds no file", Mendable: true})
			continue
		}
		r := Ref{ID: cl.id, Pointer: cl.pointer, Path: cl.entry.Source, Type: typeOfStored(&c.s.disk, k)}
		r.Compressed = !r.Pointer && k.leaf(k.name) == ""
		at, _ := slices.BinarySearchFunc(refs, r, func(a, b Ref) int { return int(int64(a.ID) - int64(b.ID)) })
		refs = slices.Insert(refs, at, r)
		switch {
		case !c.anyRefs:
		case len(c.status[cl.id].refs) == 0:
			c.unlisted++
		default:
			c.add(Finding{Kind: RefMissing, ID: cl.id, Path: path.Join(k.dir, refsLeaf), Mendable: true})
		}
	}
	return refs
}

// fileLost removes the records of a file that is missing.
func (c *checker) fileLost(k *keyDir, refs []Ref, claims []*claim) []Ref {
	var left []Ref
	for _, r := range refs {
		if r.Pointer {
			left = append(left, r)
			continue
		}
		c.add(Finding{Kind: FileLost, ID: r.ID, Path: k.dir, Detail: "refs.ptr lists the missing file", Mendable: true})
		for _, cl := range claims {
			if cl.id == r.ID {
				cl.lost = true
			}
		}
	}
	return left
}

// unclaimed handles a folder to which no transaction refers.
func (c *checker) unclaimed(k *keyDir, claims []*claim) {
	live := slices.ContainsFunc(claims, func(cl *claim) bool { return !cl.lost })
	if live {
		return // a store without refs.ptr files
	}
	if k.stored() != "" && len(k.refs) == 0 {
		if c.isDeferred(k) {
			return
		}
		if !c.opt.RemoveStray && (!c.anyRefs || c.isOlder(k)) {
			c.unrecorded++
			return
		}
		c.removeStored(k, Finding{Kind: FileStray, Path: k.stored(), Detail: "no transaction lists it"})
		return
	}
	c.ops = append(c.ops, k.opsToKeep(nil, false)...)
}

// isOlder reports whether a folder without refs.ptr has not changed since the first
// transaction: the store was filled before anybody kept records of it. Records have
// whole seconds.
func (c *checker) isOlder(k *keyDir) bool {
	if k.hasRefs() || c.first.IsZero() {
		return false
	}
	info, err := c.s.root.Stat(k.dir)
	older := err == nil && info.ModTime().Before(c.first.Add(time.Second))
	if older {
		c.older++
	}
	return older
}

// isDeferred reports whether all stored files of a folder are to be removed as soon
// as other programs close them. It notes each.
func (c *checker) isDeferred(k *keyDir) bool {
	var notes []Finding
	for _, o := range k.removeStored() {
		if !c.defers(k.name, path.Base(k.dir), o.Path) {
			return false
		}
		notes = append(notes, Finding{
			Kind: FileHeld, Path: o.Path, Detail: "deleted, but another program holds it open: the first writer after that removes it", Note: true,
		})
	}
	c.found = append(c.found, notes...)
	return true
}

// defers reports whether a stored file is in the list of deferred removals.
func (c *checker) defers(name, key, leaf string) bool {
	return slices.ContainsFunc(c.deferred, func(e deferred) bool { return e.is(name, key, path.Base(leaf)) })
}

// removeStored removes a file. A stray file is removed only with RemoveStray.
func (c *checker) removeStored(k *keyDir, f Finding) {
	if f.Kind == FileStray && !c.opt.RemoveStray {
		c.add(f)
		return
	}
	ops := k.removeStored()
	if f.Kind == FileStray {
		for _, leaf := range []string{k.leaf(pointerLeaf), k.leaf(refsLeaf)} {
			if leaf != "" {
				ops = append(ops, op{Do: opRemove, Path: leaf, Had: true})
			}
		}
		for dir := k.dir; dir != "."; dir = path.Dir(dir) {
			ops = append(ops, op{Do: opRmdir, Path: dir})
		}
	}
	c.add(f, ops...)
}

// pointer compares file.ptr with the last line of refs.ptr.
func (c *checker) pointer(k *keyDir, refs []Ref) {
	last := refs[len(refs)-1]
	have := k.leaf(pointerLeaf)
	if !last.Pointer {
		if have != "" {
			c.add(Finding{Kind: PointerWrong, Path: have, Detail: "the last line of refs.ptr is a file"}, op{Do: opRemove, Path: have, Had: true})
		}
		return
	}
	write := op{Do: opWrite, Path: path.Join(k.dir, pointerLeaf), Data: []byte(last.Path)}
	if have == "" {
		c.add(Finding{Kind: PointerWrong, ID: last.ID, Path: write.Path, Detail: "it is missing"}, write)
		return
	}
	data, err := c.s.readText(have)
	p := parsePointer(data)
	if err != nil || p.Target != last.Path && (p.Target != "" || !isMessage(data)) {
		write.Path, write.Had = have, true
		c.add(Finding{Kind: PointerWrong, ID: last.ID, Path: have, Detail: fmt.Sprintf("its target is %q", truncate.Text(p.Target))}, write)
	}
}

// lostClaims handles entries whose folder is missing. A pointer can be
// restored, a file cannot.
func (c *checker) lostClaims() {
	target := c.s.newTargets(nil)
	made := map[string]bool{}
	for _, id := range c.ids() {
		for _, cl := range c.byTx[id] {
			if cl.met {
				continue
			}
			dir, _ := target.dir(cl.entry.Name, cl.entry.Key)
			if !cl.pointer || made[dir] {
				cl.lost = !cl.pointer
				c.add(Finding{Kind: FileLost, ID: id, Path: dir, Detail: "the folder is missing", Mendable: true})
				continue
			}
			made[dir] = true
			var refs []Ref
			for _, other := range c.claims[symfile.Fold(cl.entry.Name+"/"+cl.entry.Key)] {
				if other.pointer {
					refs = append(refs, Ref{ID: other.id, Pointer: true, Path: other.entry.Source, Type: guessType(cl.entry.Name)})
				}
			}
			c.add(Finding{Kind: PointerWrong, ID: id, Path: path.Join(dir, pointerLeaf), Detail: "the folder is missing"},
				op{Do: opWrite, Path: path.Join(dir, refsLeaf), Data: printRefs(refs)},
				op{Do: opWrite, Path: path.Join(dir, pointerLeaf), Data: []byte(refs[len(refs)-1].Path)})
		}
	}
}

// typeOfStored returns the type of a stored file, for a new line of refs.ptr.
func typeOfStored(d *disk, k *keyDir) Type {
	for _, r := range k.refs {
		if r.Type != "" {
			return r.Type
		}
	}
	leaf := k.leaf(k.name)
	if leaf == "" {
		return guessType(k.name)
	}
	f, err := d.openRegular(leaf)
	if err != nil {
		return guessType(k.name)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return guessType(k.name)
	}
	keys, err := Identify(f, info.Size(), k.name, true)
	if err != nil {
		return guessType(k.name)
	}
	return keys[0].Type
}

// verify reads a stored file. The kind is empty if the content is right, or if
// err is not about the content.
func verify(d *disk, leaf, name, key string) (FindingKind, error) {
	f, err := d.openRegular(leaf)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if err != nil && !fileEnd(err) {
		return "", err
	}
	head = head[:n]
	if !bytes.HasPrefix(head, []byte("MSCF")) {
		if symfile.Fold(path.Base(leaf)) != symfile.Fold(name) || otherwisePacked(head) {
			return "", nil // gzip, SZDD and others are not checked
		}
		return verifyKey(f, info.Size(), name, key)
	}
	tmp, err := os.CreateTemp("", "symdepot-check-")
	if err != nil {
		return "", err
	}
	defer func() {
		tmp.Close()
		_ = os.Remove(tmp.Name()) // on failure, the cleanup of the temporary folder removes it
	}()
	w := &storeWriter{tmp}
	err = unpack(f, info.Size(), w)
	var own *storeError
	if errors.As(err, &own) {
		return "", own.err
	}
	if err != nil {
		return CabinetBad, err
	}
	size, err := tmp.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	return verifyKey(tmp, size, name, key)
}

// otherwisePacked recognizes gzip, zstd, zip and SZDD, which some tools store
// under the plain name.
func otherwisePacked(head []byte) bool {
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "PK\x03\x04", "SZDD\x88\xf0\x27\x33"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}

// verifyKey checks that a file has the key under which it is stored.
func verifyKey(r io.ReaderAt, size int64, name, key string) (FindingKind, error) {
	objects, err := objfile.Identify(r, size, name, objfile.Options{})
	if errors.Is(err, objfile.ErrNotSymbolFile) || errors.Is(err, objfile.ErrBroken) {
		if !ofMicrosoft(key) {
			return "", nil // keyed by hash or by a rule of another tool
		}
		return ContentWrong, err
	}
	if err != nil {
		return "", err
	}
	request, err := layout.SymStore.Parse(name + "/" + key + "/" + name)
	if errors.Is(err, layout.ErrNoPath) {
		request.Lookups = nil
	}
	if len(request.Lookups) == 0 {
		return "", nil // a key of unknown form cannot be checked
	}
	for _, o := range objects {
		for _, alias := range o.Aliases() {
			for _, l := range request.Lookups {
				if l.ID == alias.ID {
					return "", nil
				}
			}
		}
	}
	return ContentWrong, fmt.Errorf("the file does not have the key %s of its folder", key)
}

// ofMicrosoft reports whether a key has the form of a PE image's or a PDB's.
func ofMicrosoft(key string) bool {
	return debugid.IsHex(key) && len(key) <= 40 && !strings.Contains(key, "-")
}
