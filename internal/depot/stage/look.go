package stage

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// soleKinds are the kinds of files of which a product should have one for each id.
var soleKinds = []symfile.Kind{symfile.PE, symfile.PDB, symfile.PDB20, symfile.PortablePDB, symfile.Breakpad}

// judgeOther notes if the product has other bytes with the id of the object, and returns
// why the object is refused for that; empty if it is not.
func (k *fact) judgeOther(ctx context.Context, s *Stages, product string, ref blob.Ref) (refused string, err error) {
	o := k.Object
	if k.Other, err = s.db.HasOther(ctx, product, o, ref); err != nil {
		return "", err
	}
	if k.Other && s.limits.DenyOther && slices.Contains(soleKinds, o.Kind) {
		return fmt.Sprintf("product %q has other bytes for %s with the id %s", product, o.Name, idsOf(o)[0]), nil
	}
	return "", nil
}

// holdings are the contents that a caller may have without sending them.
type holdings struct {
	staged  map[blob.Ref][]stages.StageFile // of the stage
	known   map[blob.Ref][]stages.KnownFile // of whose objects all are visible
	objects map[blob.Ref][]record.Stored    // visible ones
	// lost are files of the stage that its transaction has and that cannot be read back.
	lost []stages.StageKey
}

// look looks up contents in a stage and in the products that the caller may read. The zero row
// is no stage.
func (s *Stages) look(ctx context.Context, c Caller, row stages.StageRow, refs []blob.Ref) (h holdings, err error) {
	h = holdings{
		staged: map[blob.Ref][]stages.StageFile{}, known: map[blob.Ref][]stages.KnownFile{}, objects: map[blob.Ref][]record.Stored{},
	}
	staged, err := s.db.FilesOf(ctx, row.ID, refs)
	if err != nil {
		return h, err
	}
	for _, f := range staged {
		h.staged[f.Ref] = append(h.staged[f.Ref], f)
	}
	known, err := s.db.Known(ctx, refs)
	if err != nil {
		return h, err
	}
	asked := slices.Clip(refs)
	for _, f := range staged {
		asked = append(asked, arrivedRefs(f)...)
	}
	for _, k := range known {
		facts, err := parseFacts(k.Facts)
		if err != nil {
			return h, err
		}
		for _, f := range facts {
			o, err := f.content()
			if err != nil {
				return h, err
			}
			asked = append(asked, o.Ref)
		}
	}
	reads := map[string]bool{}
	last := record.Stored{}
	if err := s.db.Visible(ctx, asked, func(o stages.VisibleObject) {
		may, ok := reads[o.Product]
		if !ok {
			may = c.Read(o.Product)
			reads[o.Product] = may
		}
		if !may || last.Ref == o.Ref && last.Object == o.Object {
			return
		}
		last = o.Stored
		h.objects[o.Ref] = append(h.objects[o.Ref], o.Stored)
	}); err != nil {
		return h, err
	}
	lost, err := dropLost(ctx, s.depot, h.objects)
	if err != nil {
		return h, err
	}
	if row.Collects { // what has arrived is in the transaction, and no longer in the stage
		for ref, files := range h.staged {
			h.staged[ref] = slices.DeleteFunc(files, func(f stages.StageFile) bool {
				if !slices.ContainsFunc(arrivedRefs(f), func(r blob.Ref) bool { return slices.Contains(lost, r) }) {
					return false
				}
				h.lost = append(h.lost, f.Key())
				return true
			})
		}
	}
	for _, k := range known {
		facts, err := parseFacts(k.Facts)
		if err != nil {
			return h, err
		}
		all := true
		for _, f := range facts {
			o, err := f.content()
			all = all && err == nil && len(h.objects[o.Ref]) > 0
		}
		if all {
			h.known[k.Ref] = append(h.known[k.Ref], k)
		}
	}
	return h, nil
}

// dropLost drops the contents whose stored bytes cannot be read back: their files are sent
// again, which heals them. It returns which they are.
func dropLost(ctx context.Context, d Depot, objects map[blob.Ref][]record.Stored) (lost []blob.Ref, err error) {
	list := make([]record.Content, 0, len(objects))
	for ref, of := range objects {
		list = append(list, record.Content{Ref: ref, Size: of[0].Size})
	}
	lost, err = d.Lost(ctx, list)
	for _, ref := range lost {
		delete(objects, ref)
	}
	return lost, err
}

// arrivedRefs returns the contents of the objects in a file that has arrived.
func arrivedRefs(f stages.StageFile) []blob.Ref {
	if f.State != stages.StageArrived {
		return nil
	}
	facts, err := parseFacts(f.Facts)
	if err != nil {
		return nil
	}
	return factRefs(facts)
}

// find sets the state of a file by the contents that are held.
func (s *Stages) find(ctx context.Context, h holdings, product string, f *stages.StageFile) error {
	base := symfile.BaseName(f.Path)
	for _, k := range h.staged[f.Ref] {
		if k.Size != f.Size && k.Path != f.Path {
			return refuse(Invalid, "%s: content %s has %d bytes in %s, not %d", f.Path, f.Ref, k.Size, k.Path, f.Size)
		}
		if k.Size != f.Size || k.Kind != f.Kind || k.ID != f.ID || symfile.BaseName(k.Path) != base {
			continue
		}
		if k.State == stages.StageArrived || k.State == stages.StageRefused {
			f.State, f.Facts, f.Reason = k.State, k.Facts, k.Reason
			return nil
		}
	}
	for _, k := range h.known[f.Ref] {
		if f.Kind != "" || k.Size != f.Size || k.Name != symfile.Fold(base) {
			continue
		}
		facts, err := parseFacts(k.Facts)
		if err != nil {
			return err
		}
		return s.accept(ctx, product, f, facts)
	}
	for _, o := range h.objects[f.Ref] {
		if o.Size != f.Size {
			return refuse(Invalid, "%s: content %s has %d bytes, not %d", f.Path, f.Ref, o.Size, f.Size)
		}
		facts := []fact{{Object: o.Object, Arch: o.Arch, Features: o.Features, DebugSize: o.DebugSize, SHA256: f.Ref.String(), Size: o.Size}}
		if isFile(o.Object, *f, base) && isSimple(facts, f.Ref, base) {
			return s.accept(ctx, product, f, facts)
		}
	}
	if len(h.objects[f.Ref]) == 0 {
		return nil
	}
	facts, err := s.storedFacts(ctx, f)
	if err != nil || facts == nil {
		return err
	}
	return s.accept(ctx, product, f, facts)
}

// isFile reports whether a file of a name is the object: of the kind that the client
// forces, with the id that it gives to a file of that kind, or of no forced kind.
func isFile(o symfile.Object, f stages.StageFile, base string) bool {
	kind := symfile.KindUnknown
	for _, k := range objfile.ForcedKinds {
		if o.Kind == k {
			kind = k
		}
	}
	want, err := objfile.ParseForced(f.Kind)
	switch {
	case err != nil || want != kind || !namesItself(o, base):
		return false
	case want != symfile.KindUnknown:
		return contradicts(f.ID, []symfile.Object{o}) == ""
	}
	return true
}

// storedFacts identifies a file by the stored bytes. It returns nil if these have
// several objects, or are in a bucket: the client sends the file then.
func (s *Stages) storedFacts(ctx context.Context, f *stages.StageFile) ([]fact, error) {
	if s.depot.InBucket() {
		return nil, nil
	}
	b, err := s.depot.OpenStored(ctx, f.Content)
	if err != nil {
		if isNotExist(err) {
			err = nil
		}
		return nil, err
	}
	defer func() { _ = b.Close() }() // only read
	objs, err := s.depot.Identify(b, f.Size, f.Path, f.Kind, forcedID(*f))
	if err != nil {
		if s.depot.Refuses(err) {
			err = nil
		}
		return nil, err
	}
	if len(objs) != 1 || !isWhole(objs[0], f.Size) {
		return nil, nil
	}
	return []fact{newFact(objs[0], f.Content)}, nil
}

// storedLinks judges the links of stored objects. The error wraps fs.ErrNotExist if they
// are not on this machine.
func storedLinks(ctx context.Context, d Depot, product, path string, facts []fact) (refused string, err error) {
	for _, k := range facts {
		if k.Object.Kind != symfile.PDB {
			continue
		}
		if d.InBucket() {
			return "", fs.ErrNotExist
		}
		c, err := k.content()
		if err != nil {
			return "", err
		}
		b, err := d.OpenStored(ctx, c)
		if err != nil {
			return "", err
		}
		_, refused, err = d.JudgeLinks(product, path, b, objfile.Object{Object: k.Object, Size: c.Size})
		_ = b.Close() // only read
		if refused != "" || err != nil {
			return refused, err
		}
	}
	return "", nil
}

// accept accepts a file with these objects without its bytes, unless its id differs, or
// the product refuses links in it or has other bytes with its id: another product may
// have kept it.
func (s *Stages) accept(ctx context.Context, product string, f *stages.StageFile, facts []fact) error {
	var objects []symfile.Object
	for _, k := range facts {
		objects = append(objects, k.Object)
	}
	if f.Kind == "" {
		if reason := contradicts(f.ID, objects); reason != "" {
			f.State, f.Reason = stages.StageRefused, reason
			return nil
		}
	}
	if s.depot.RefusesLinks(product) {
		reason, err := storedLinks(ctx, s.depot, product, f.Path, facts)
		if isNotExist(err) {
			return nil // the file is sent
		}
		if reason != "" {
			f.State, f.Reason = stages.StageRefused, reason
		}
		if reason != "" || err != nil {
			return err
		}
	}
	for i := range facts {
		c, err := facts[i].content()
		if err != nil {
			return err
		}
		reason, err := facts[i].judgeOther(ctx, s, product, c.Ref)
		if reason != "" {
			f.State, f.Reason = stages.StageRefused, reason
		}
		if reason != "" || err != nil {
			return err
		}
	}
	if text, err := formatFacts(facts); err == nil {
		f.State, f.Facts = stages.StageKnown, text
	}
	return nil
}

// quota refuses files whose contents would bring a product above its quota.
func (s *Stages) quota(ctx context.Context, row stages.StageRow, files []stages.StageFile) error {
	most := s.limits.Quotas[row.Product]
	if most <= 0 {
		return nil
	}
	used, err := s.db.ProductBytes(ctx, row.Product)
	if err != nil {
		return err
	}
	awaited, err := s.db.AwaitedBytes(ctx, row.ID)
	if err != nil {
		return err
	}
	sum := used + awaited + row.Staged
	counted := map[blob.Ref]bool{}
	for _, f := range files {
		if f.State == stages.StageAwaited && !counted[f.Ref] {
			counted[f.Ref] = true
			sum += f.Size
		}
	}
	if sum > most {
		return overQuota(row.Product, sum, most)
	}
	return nil
}
