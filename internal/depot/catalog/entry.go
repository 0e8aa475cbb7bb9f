package catalog

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/derive/publicform"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Entry is a content with all that is known of it.
type Entry struct {
	Ref     blob.Ref
	Size    int64
	Objects []EntryObject // in the order of their names, at most 100
	// MoreObjects says that there are others.
	MoreObjects bool
	Forms       []EntryForm
	// Cold is how a cold content is stored; nil: it is plain.
	Cold *coldstore.ColdContent
}

// EntryObject is an object in a content.
type EntryObject struct {
	record.Found
	// Holders are the live transactions in scope that hold the object, newest first,
	// at most 100; MoreHolders says that there are others.
	Holders     []Holder
	MoreHolders bool
	// Downloads are the upstreams from which it was downloaded.
	Downloads []Download
	// Partners are the other files of the same module, and the names of those that are
	// missing.
	Partners []Partner
	// Siblings are other objects of the same name, without the Partners, of the newest ten;
	// MoreSiblings says that there are others.
	Siblings     []record.Found
	MoreSiblings bool
}

// Holder is a transaction that holds an object.
type Holder struct {
	Transaction record.Transaction
	Path        string // from which it was added; may reveal details of the build machine
	Archive     string
	Holds       []lifecycle.Hold // ended ones included
	// Ends is the earliest time at which the retention policy removes the transaction
	// because of its age, and Rule the class that says so; zero if it does not. Other
	// rules of the class may keep it for longer.
	Ends time.Time
	Rule string
}

// Download is the origin of a cached file.
type Download struct {
	Upstream string
	URL      string // without credentials
	Tag      string // entity tag
	Fetched  time.Time
}

// Partner is another file of a module.
type Partner struct {
	Kind symfile.Kind
	// Role tells partners of one kind apart: symfile.Executable, Debug or another one.
	Role symfile.Role
	// Name is that of a held file, or the usual one if the file is missing: the index
	// does not record by which name a file refers to another.
	Name string
	ID   string         // as its tools spell it
	Held []record.Found // newest first; none: it is missing
}

// EntryForm is a content that was made of another one, or that could not be made.
type EntryForm struct {
	Name    string   // such as "zstd", "cabinet", "sym", "gsym", "symcache 3"
	Ref     blob.Ref // zero: there is none
	Size    int64
	Tool    string // with the version
	Made    time.Time
	Failure string    // why it could not be made
	Until   time.Time // of the failure: when it is tried again; zero: it is not
	// Removed is what was taken away for a public form; none: nothing, or it is not recorded.
	Removed []publicform.Removed
	// Same: the content is its own public form.
	Same bool
}

// Without says what was taken away for a public form, for people; empty: nothing.
func (f *EntryForm) Without() string { return publicform.Without(f.Removed) }

// Limits of the lists of an entry.
const (
	maxObjects  = 100
	maxHolders  = 100
	maxSiblings = 10
)

// Entry returns a content. If the scope includes no object of it, the error is
// fs.ErrNotExist.
func (c *Catalog) Entry(ctx context.Context, scope answer.Scope, ref blob.Ref) (*Entry, error) {
	l, err := c.db.Lists.Listing(ctx, scope.Index())
	if err != nil {
		return nil, err
	}
	found, more, err := l.OfContent(ctx, ref, maxObjects)
	if err != nil {
		return nil, err
	}
	if err := coldstore.Mark(ctx, c.db, scope.Index(), found); err != nil {
		return nil, err
	}
	e := &Entry{Ref: ref, Size: found[0].Size, MoreObjects: more, Cold: found[0].Cold}
	policy, err := c.policy(ctx)
	if err != nil {
		c.log.Warn("cannot say when builds end", "error", err)
	}
	files, err := l.Downloads(ctx, ref)
	if err != nil {
		return nil, err
	}
	var downloads []Download
	for _, f := range files {
		downloads = append(downloads, Download{f.Source, f.URL, f.Tag, f.Fetched})
	}
	for _, o := range found {
		x := EntryObject{Found: o, Downloads: downloads}
		holders, more, err := l.Holders(ctx, o, 0, maxHolders)
		if err != nil {
			return nil, err
		}
		x.MoreHolders = more
		for _, h := range holders {
			x.Holders = append(x.Holders, newHolder(h, policy.Policy))
		}
		if x.Partners, err = partners(ctx, l, o); err != nil {
			return nil, err
		}
		if x.Siblings, x.MoreSiblings, err = l.Siblings(ctx, o, maxSiblings); err != nil {
			return nil, err
		}
		// The name of a source bundle is that of its module: it is one of the partners already.
		x.Siblings = slices.DeleteFunc(x.Siblings, func(s record.Found) bool {
			return slices.ContainsFunc(x.Partners, func(p Partner) bool {
				return slices.ContainsFunc(p.Held, func(h record.Found) bool { return h.Ref == s.Ref })
			})
		})
		e.Objects = append(e.Objects, x)
	}
	made, failures, err := l.Forms(ctx, ref)
	if err != nil {
		return nil, err
	}
	if e.Forms, err = entryForms(record.Content{Ref: ref, Size: e.Size}, made, failures); err != nil {
		return nil, err
	}
	return e, nil
}

// Holders lists the live transactions in scope that hold an object of a content,
// newest first. after is the number of the last one of the page before; 0: none.
func (c *Catalog) Holders(
	ctx context.Context, scope answer.Scope, ref blob.Ref, after int64, limit int,
) (list []Holder, more bool, err error) {
	l, err := c.db.Lists.Listing(ctx, scope.Index())
	if err != nil {
		return nil, false, err
	}
	found, _, err := l.OfContent(ctx, ref, maxObjects)
	if err != nil {
		return nil, false, err
	}
	policy, err := c.policy(ctx)
	if err != nil {
		c.log.Warn("cannot say when builds end", "error", err)
	}
	limit = pageLimit(limit)
	have := map[int64]bool{}
	for _, o := range found {
		holders, others, err := l.Holders(ctx, o, after, limit)
		if err != nil {
			return nil, false, err
		}
		more = more || others
		for _, h := range holders {
			if !have[h.Number] {
				have[h.Number] = true
				list = append(list, newHolder(h, policy.Policy))
			}
		}
	}
	sorting.By(list, func(a, b Holder) int { return int(b.Transaction.Number - a.Transaction.Number) })
	if len(list) > limit {
		list, more = list[:limit], true
	}
	return list, more, nil
}

// newHolder says when a transaction ends by a policy; nil is none.
func newHolder(h lists.HolderTx, p *retention.Policy) Holder {
	x := Holder{Transaction: h.Transaction, Path: h.Path, Archive: h.Archive, Holds: h.Holds}
	if p == nil || h.Collecting {
		return x
	}
	t := lifecycle.AsRetained(&h.Transaction)
	class := p.ClassOf(&t)
	rules, some := p.Rules(class)
	age := max(rules.KeepWithin, rules.KeepUsed)
	if !some || age == 0 {
		return x
	}
	arrived := t.Arrived
	if arrived.IsZero() {
		arrived = t.Time
	}
	ends := arrived.Add(time.Duration(max(age, p.MinAge)))
	for _, hold := range h.Holds {
		switch last := hold.Until.AddDate(0, 0, 1); {
		case hold.Until.IsZero():
			return x
		case last.After(ends):
			ends = last
		}
	}
	x.Ends, x.Rule = ends, class
	return x
}

// roleOf is the role by which a partner is listed.
func roleOf(r symfile.Role) symfile.Role {
	for _, one := range []symfile.Role{symfile.Executable, symfile.Debug, symfile.Symbols, symfile.Sources} {
		if r&one != 0 {
			return one
		}
	}
	return r
}

// partners returns the other files of the module of an object.
func partners(ctx context.Context, l lists.Listing, o record.Found) ([]Partner, error) {
	ids, wants := partnersOf(o.Object)
	found, err := l.Partners(ctx, o, ids)
	if err != nil {
		return nil, err
	}
	var list []Partner
	for _, f := range found {
		kind, role := f.Object.Kind, roleOf(f.Object.Role)
		i := slices.IndexFunc(list, func(p Partner) bool { return p.Kind == kind && p.Role == role })
		if i < 0 {
			i = len(list)
			list = append(list, Partner{Kind: kind, Role: role, Name: f.Object.Name, ID: partnerID(f.Object)})
		}
		list[i].Held = append(list[i].Held, f)
	}
	for _, w := range wants {
		fits := func(f record.Found) bool { return family(f.Object.Kind) == family(w.Kind) && f.Object.Role&w.Role != 0 }
		if !slices.ContainsFunc(found, fits) {
			list = append(list, w)
		}
	}
	return list, nil
}

// family is the kind of PDB for all kinds of PDBs.
func family(k symfile.Kind) symfile.Kind {
	switch k {
	case symfile.PDB20, symfile.PortablePDB, symfile.MSFZ:
		return symfile.PDB
	case symfile.DBG:
		return symfile.PE
	}
	return k
}

// partnerID is the id by which the tools of its system know a file.
func partnerID(o symfile.Object) string {
	switch {
	case o.BuildID != "":
		return string(o.BuildID)
	case o.Kind == symfile.MachO:
		return strings.ToUpper(o.DebugID.GUID.String())
	case o.Kind == symfile.PE && o.CodeID != "":
		return o.CodeID
	case o.DebugID.IsZero():
		return o.CodeID
	}
	return o.DebugID.Breakpad()
}

// partnersOf returns the folded ids under which the partners of an object are found,
// and the partners that a debugger needs besides it.
func partnersOf(o symfile.Object) (ids []string, wants []Partner) {
	want := func(kind symfile.Kind, role symfile.Role, name, id string) {
		wants = append(wants, Partner{Kind: kind, Role: role, Name: name, ID: id})
	}
	stem := strings.TrimSuffix(o.Name, path.Ext(o.Name))
	debug := ""
	if !o.DebugID.IsZero() {
		debug = o.DebugID.Breakpad()
		ids = append(ids, symfile.Fold(debug))
	}
	switch o.Kind {
	case symfile.PE, symfile.DBG:
		if debug != "" && o.Role&symfile.Debug == 0 {
			want(symfile.PDB, symfile.Debug, stem+".pdb", debug)
		}
	case symfile.PDB, symfile.PDB20, symfile.MSFZ:
		ids = append(ids, o.PDBIDs()...)
		if debug != "" {
			want(symfile.PE, symfile.Executable, stem, debug)
		}
	case symfile.PortablePDB:
		ids = append(ids, o.PortableIDs()...)
		if debug != "" {
			want(symfile.PE, symfile.Executable, stem, o.DebugID.GUID.Upper()+"1")
		}
	case symfile.ELF, symfile.WASM, symfile.MachO:
		id := string(o.BuildID)
		name := strings.TrimSuffix(o.Name, ".debug")
		other := name + ".debug"
		if o.Kind == symfile.MachO {
			ids, id, other = append(ids, o.MachUUID()), strings.ToUpper(o.DebugID.GUID.String()), name
		} else {
			ids = append(ids, o.BuildIDs()...)
		}
		switch {
		case o.Hash != "" || o.IsRelocatable():
		case o.Role&symfile.Debug == 0:
			want(o.Kind, symfile.Debug, other, id)
		case o.Role&symfile.Executable == 0:
			want(o.Kind, symfile.Executable, name, id)
		}
	case symfile.Breakpad:
		if debug != "" && o.Of == symfile.PE {
			want(symfile.PDB, symfile.Debug, o.Name, debug)
		} else if debug != "" && o.Of != symfile.KindUnknown {
			want(o.Of, symfile.Debug, o.Name, o.CodeID)
		}
	}
	for i := range ids {
		ids[i] = symfile.Fold(ids[i])
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	slices.Sort(ids)
	return slices.Compact(ids), wants
}

// entryForms names what was made of a content, and what could not be made.
func entryForms(of record.Content, made []lists.DerivedForm, failures []queue.Failure) (list []EntryForm, err error) {
	for _, m := range made {
		f := EntryForm{Name: formName(m.Tool), Ref: m.Ref, Size: m.Size, Tool: fmt.Sprintf("%s %d", m.Tool.Name, m.Tool.Version), Made: m.Made}
		if m.Tool.Name == publicform.Kind {
			if f.Removed, err = publicform.ReadNote(m.Note); err != nil {
				return nil, err
			}
		}
		if publicform.IsUnchanged(m.Tool) {
			f.Name, f.Ref, f.Size, f.Same = publicform.Kind, of.Ref, of.Size, true
		} else if m.Ref == (blob.Ref{}) {
			f.Failure = "the result was not worth keeping"
		}
		list = append(list, f)
	}
	for _, x := range failures {
		f := EntryForm{Name: x.Tool, Tool: strings.TrimSpace(x.Tool + " " + x.Version), Failure: x.Detail, Until: x.Until}
		if x.Tool == symcachework.Kind && x.Version != "" {
			f.Name += " " + strings.SplitN(x.Version, ".", 2)[0]
		}
		list = append(list, f)
	}
	return list, nil
}

// formName is the name of what a tool makes, for people.
func formName(t record.Tool) string {
	switch t.Name {
	case transcode.Cab.Name:
		return "cabinet"
	case symcachework.Kind:
		return t.Name + " " + strconv.Itoa(t.Version>>16)
	}
	return symbolicate.FormOf(t.Name)
}
