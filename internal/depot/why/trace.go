// Package why explains why a request finds a file or does not.
package why

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// Tracer explains why a request finds a file or does not. It runs the lookup itself
// with a recorder. It asks no upstream, counts and makes nothing, and changes neither
// remembered misses nor the times of use.
type Tracer struct{ p Parts }

// Parts are what a Tracer looks into. The functions are those with which the depot answers
// requests.
type Parts struct {
	DB       *index.DB
	Fetch    *fetch.Fetcher
	Cold     *coldstore.Cold
	Symbols  *symbolicate.Service
	SymCache *symcachework.Service

	Open         func(ctx context.Context, scope answer.Scope, req layout.Request, exact bool, rec *answer.Recorder) (*answer.File, error)
	OpenMade     func(context.Context, symbolicate.Answer) (*answer.File, error)
	Get          func(context.Context, answer.Question) (*answer.File, error)
	DownloadAnew func(context.Context, answer.Question) (*answer.File, error)
	// Served lists files of a folded name in served folders, at most limit.
	Served func(ctx context.Context, scope answer.Scope, name string, limit int) []record.Found
	// Form returns what a tool has made of a content; fs.ErrNotExist: nothing yet.
	Form func(ctx context.Context, ref blob.Ref, tool transcode.Tool) (record.Content, error)
	// Compresses reports whether contents of a size are compressed, HasCabinets whether
	// files of a kind are asked for in cabinets, and MakesCabinets whether these are made.
	Compresses    func(size int64) bool
	HasCabinets   func(symfile.Kind) bool
	MakesCabinets bool
}

// New returns a Tracer.
func New(p Parts) *Tracer { return &Tracer{p} }

// TraceAsk is a request to explain.
type TraceAsk struct {
	Scope    answer.Scope
	Segments []string // of the decoded path, without a token
	Prefixes []string // configured ones; see layout.Route
	// Beyond also says what the scope hides: for administrators.
	Beyond bool
	// HexAge and Redirect are those of the server's configuration of SymCache files.
	HexAge, Redirect bool
	// Headers returns the header fields of the answer with a file; may be nil.
	Headers func(*layout.Request, *answer.File) map[string][]string
}

// Verdict is the result of a Trace.
type Verdict string

// The verdicts.
const (
	VerdictFound    Verdict = "found"
	VerdictRedirect Verdict = "redirect"    // the client is told the path with the debug id
	VerdictMakes    Verdict = "made"        // a request has the file made, and waits for it
	VerdictSources  Verdict = "sources"     // a request asks upstreams, which may have the file
	VerdictAbsent   Verdict = "absent"      // not found
	VerdictNotPath  Verdict = "not-path"    // the path is none of a symbol file
	VerdictFails    Verdict = "unavailable" // the index or the store does not answer
)

// Trace is an explained request.
type Trace struct {
	Verdict Verdict
	// Status is that of the answer now; 0 if that depends on upstreams.
	Status  int
	Headers map[string][]string

	Request layout.Request
	Tries   []layout.Try
	Lookups []answer.TracedLookup
	// Namesakes have the requested name and other ids. OtherAges have the requested GUID and
	// another age: those of the requested name first, then by age. Removed were removed. Hidden exist outside of the scope.
	Namesakes []answer.LookupHit
	OtherAges []answer.LookupHit
	// Ageless is set if the request has a GUID without an age; OtherAges are then the
	// PDBs of the GUID.
	Ageless bool
	// Portable are the portable PDBs of the module of which a Breakpad or GSYM file is
	// requested: they have no such form.
	Portable []answer.LookupHit
	Removed  []lifecycle.RemovedFile
	Hidden   []HiddenFile
	Folders  []answer.TracedFolder
	// Fetches is set if there are upstreams; Sources are those that the caller may
	// use. Known: all of them are known to lack the file, until KnownUntil.
	Fetches    bool
	Sources    []fetch.UpstreamOutlook
	Known      bool
	KnownUntil time.Time
	Forms      []TracedForm
	// NoMaker is set if a SymCache file is requested, and no transcoder, worker or server
	// makes any.
	NoMaker bool
	// File describes the file that answers; nil if there is none.
	File *TracedFile
	// Redirect is the path of VerdictRedirect.
	Redirect string
	// Err is the reason of VerdictFails.
	Err error
}

// HiddenFile is a file that answers a lookup outside of the scope.
type HiddenFile struct {
	answer.LookupHit
	Products []string
}

// FormState is the state of a form of a content.
type FormState string

// The states.
const (
	FormHeld      FormState = "here"
	FormPossible  FormState = "possible"  // it can be made
	FormBeingMade FormState = "making"    // a job makes it
	FormFailed    FormState = "failed"    // it could not be made
	FormUseless   FormState = "useless"   // it was tried, and is too large or not smaller
	FormNever     FormState = "never"     // it is not made here
	FormNoWorker  FormState = "no-worker" // only a worker could make it, and there is none
)

// TracedForm is a form in which a file can be asked for.
type TracedForm struct {
	Name   string // zstd, gzip, cabinet, sym, gsym or symcache 3.1.0
	State  FormState
	Size   int64
	From   string // the files of which it is made
	Job    int64
	Detail string
	Until  time.Time // of FormFailed
}

// TracedFile is a file that answers.
type TracedFile struct {
	Object     symfile.Object
	Ref        blob.Ref // zero: it has not been hashed
	Size       int64
	Number     int64  // of the transaction; 0: none
	Upstream   string // of a cached file
	Added      time.Time
	Folder     string // of a file of a served folder: the folder; empty of another server's
	Served     bool   // it is in a served folder
	InPlace    bool   // that folder is a watched one
	Made       bool
	Substitute bool
	// Cold is how the content is stored if its plain bytes are not.
	Cold *coldstore.ColdContent
}

// Limits of what a trace lists.
const (
	maxNear    = 10
	maxRemoved = 5
)

// Trace explains a request. The error is that of ctx: failures of the depot are part
// of the result.
func (t *Tracer) Trace(ctx context.Context, ask TraceAsk) (*Trace, error) {
	tr := &Trace{Fetches: t.p.Fetch.Enabled()}
	ctx = coldstore.Uncounted(ctx) // looking is not using
	var err error
	tr.Request, tr.Tries, err = layout.Explain(ask.Segments, ask.Prefixes...)
	if err != nil {
		tr.Verdict, tr.Status = VerdictNotPath, 404
		return tr, nil //nolint:nilerr // that is what the trace says
	}
	if tr.Request.Form == layout.FormSymCache {
		err = t.symCache(ctx, &ask, tr)
	} else {
		err = t.file(ctx, &ask, tr)
	}
	if err == nil && (tr.Verdict == VerdictAbsent || tr.Verdict == VerdictSources) {
		err = t.near(ctx, &ask, tr)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		tr.Verdict, tr.Status, tr.Err = VerdictFails, 500, err
		if content.IsAway(err) || content.IsDenied(err) {
			tr.Status = 503
		}
	}
	return tr, nil
}

// file traces a request for a file, as a server answers it.
func (t *Tracer) file(ctx context.Context, ask *TraceAsk, tr *Trace) error {
	req := tr.Request
	rec := &answer.Recorder{}
	f, err := t.p.Open(ctx, ask.Scope, req, tr.Fetches, rec)
	tr.Lookups, tr.Folders = rec.Lookups, rec.Folders
	if err == nil {
		return t.found(ctx, ask, tr, f)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.explain(ctx, ask, tr); err != nil {
		return err
	}
	s := &elsewhere{t: t, ask: ask, tr: tr}
	f, err = answer.Search(ctx, answer.Elsewhere, s)
	switch {
	case err == nil:
		return t.found(ctx, ask, tr, f)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return s.made
}

// elsewhere says, place by place, what a request does that the depot and its folders do not
// answer.
type elsewhere struct {
	t    *Tracer
	ask  *TraceAsk
	tr   *Trace
	asks bool  // a request asks upstreams
	made error // why it is not known whether the file can be made
}

// Look implements answer.Searcher.
func (s *elsewhere) Look(ctx context.Context, place answer.Places) (f *answer.File, err error) {
	tr := s.tr
	switch place {
	case answer.Upstreams:
		if tr.Fetches && len(tr.Request.Lookups) > 0 {
			s.asks, err = s.t.outlook(ctx, s.ask, tr)
		}
	case answer.Renamed:
		other := func(l answer.TracedLookup) bool { return l.Outcome == answer.CachedOtherName }
		if s.asks || !slices.ContainsFunc(tr.Lookups, other) {
			return nil, nil
		}
		if f, err = s.t.p.Open(ctx, s.ask.Scope, tr.Request, false, &answer.Recorder{}); err == nil {
			f.Substitute = true
		}
	case answer.Made:
		tr.Verdict, tr.Status = VerdictAbsent, 404
		if s.asks {
			tr.Verdict, tr.Status = VerdictSources, 0
		}
		s.made = s.t.made(ctx, s.ask, tr)
	}
	return f, err
}

// found describes the file that answers, and closes it.
func (t *Tracer) found(ctx context.Context, ask *TraceAsk, tr *Trace, f *answer.File) error {
	defer func() { _ = f.Close() }()
	if f.Redirect != "" {
		tr.Verdict, tr.Status, tr.Redirect = VerdictRedirect, 302, f.Redirect
		return nil
	}
	tr.Verdict, tr.Status = VerdictFound, 200
	tr.File = &TracedFile{Object: f.Object, Ref: f.Ref, Size: f.Size, Made: f.Made, Substitute: f.Substitute}
	if f.Volatile {
		tr.File.Served, tr.File.InPlace = true, f.InPlace
		for i := range tr.Folders {
			if tr.Folders[i].Found() {
				tr.File.Folder = tr.Folders[i].Dir
			}
		}
	} else {
		var err error
		if tr.File.Cold, err = t.p.Cold.Traced(ctx, ask.Scope.Index(), f.Ref); err != nil {
			return err
		}
	}
	for i := range tr.Lookups {
		l := &tr.Lookups[i]
		for _, h := range l.Hits {
			if h.Ref == f.Source || h.Ref == f.Ref {
				if l.Outcome == answer.NoSection {
					l.Outcome = answer.Hit
				}
				tr.File.Number, tr.File.Upstream, tr.File.Added = h.Number, h.Source, h.Added
			}
		}
	}
	if ask.Headers != nil {
		tr.Headers = ask.Headers(&tr.Request, f)
	}
	return t.forms(ctx, tr, f)
}

// forms lists the forms of a stored file.
func (t *Tracer) forms(ctx context.Context, tr *Trace, f *answer.File) error {
	if !f.Whole || f.Packed || f.Made {
		return nil
	}
	add := func(name string, tool transcode.Tool, can bool) error {
		c, err := t.p.Form(ctx, f.Ref, tool)
		l := TracedForm{Name: name, State: FormHeld, Size: c.Size}
		switch {
		case errors.Is(err, fs.ErrNotExist) && can && tr.File.Cold == nil: // see forms.produce
			l.State = FormPossible
		case errors.Is(err, fs.ErrNotExist):
			l.State = FormNever
		case err != nil:
			return err
		case c.Size == 0:
			l.State = FormUseless
		}
		tr.Forms = append(tr.Forms, l)
		return nil
	}
	fits := t.p.Compresses(f.Size)
	err := errors.Join(add("zstd", transcode.Zstd, fits), add("gzip", transcode.Gzip, fits))
	if t.p.HasCabinets(f.Object.Kind) {
		err = errors.Join(err, add("cabinet", transcode.Cab, t.p.MakesCabinets))
	}
	return err
}

// explain finds out why lookups have found nothing.
func (t *Tracer) explain(ctx context.Context, ask *TraceAsk, tr *Trace) error {
	db, scope := t.p.DB, ask.Scope.Index()
	for i := range tr.Lookups {
		l := &tr.Lookups[i]
		if l.Outcome != answer.NoHit {
			continue
		}
		wide := symfile.Lookup{Name: l.Name, ID: l.ID, Role: ^symfile.Role(0)}
		hits, err := db.Lookup(ctx, scope, wide)
		if err != nil {
			return err
		}
		if len(hits) > 0 {
			l.Outcome, l.Hits = answer.OtherRole, hits
			continue
		}
		if wide.Name = ""; l.Name != "" {
			if hits, err = db.Lookup(ctx, scope, wide); err != nil {
				return err
			}
			if len(hits) > 0 {
				l.Outcome, l.Hits = answer.OtherName, hits
			}
		}
	}
	return nil
}

// outlook finds out which upstreams would be asked.
func (t *Tracer) outlook(ctx context.Context, ask *TraceAsk, tr *Trace) (asks bool, err error) {
	var list []layout.Request
	switch req := tr.Request; req.Form {
	case layout.FormFile, layout.FormSource, layout.FormCabinet:
		list = append(list, req)
	case layout.FormSection: // see downloadSection
		for _, l := range req.Lookups {
			list = append(list, layout.Request{Form: layout.FormFile, Layout: req.Layout, Lookups: []symfile.Lookup{l}})
		}
		if slices.ContainsFunc(tr.Lookups, func(l answer.TracedLookup) bool { return l.Outcome == answer.NoSection }) {
			return false, nil // the file is here
		}
	}
	tr.Known = len(list) > 0
	for _, req := range list {
		o, err := t.p.Fetch.Outlook(ctx, fetch.Question{Products: ask.Scope.Products, Request: req})
		if err != nil {
			return false, err
		}
		if asks = asks || o.Asks(); len(tr.Sources) == 0 || o.Asks() {
			tr.Sources, tr.KnownUntil = o.Upstreams, o.Until
		}
		tr.Known = tr.Known && o.Known
	}
	// A cabinet is answered later: its request only starts the download of the file.
	return asks && tr.Request.Form != layout.FormCabinet, nil
}

// made finds out whether the file can be made of other files of its module.
func (t *Tracer) made(ctx context.Context, ask *TraceAsk, tr *Trace) error {
	format, module, ok := symbolicate.FormatOf(&tr.Request)
	if !ok || !t.p.Symbols.Makes() {
		return nil
	}
	form := TracedForm{Name: format.String()}
	defer func() {
		if form.State != "" {
			tr.Forms = append(tr.Forms, form)
		}
	}()
	rec := &answer.Recorder{}
	o, err := t.p.Symbols.Outlook(answer.WithRecorder(ctx, rec), symbolicate.Ask{Products: ask.Scope.Products, Format: format, Module: module})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	form.From = o.From
	switch {
	case o.Made:
		f, err := t.p.OpenMade(answer.WithRecorder(ctx, rec), o.Answer)
		if errors.Is(err, fs.ErrNotExist) {
			form.State = FormPossible // it was damaged or evicted, and is made again
			break
		}
		if err != nil {
			return err
		}
		if form.State, form.Size = FormHeld, f.Size; f.Redirect != "" {
			form.State = ""
		}
		if tr.Verdict == VerdictSources {
			tr.Status = 200 // upstreams come first
			return f.Close()
		}
		return t.found(ctx, ask, tr, f)
	case o.Failed != nil:
		form.State, form.Detail, form.Until = FormFailed, o.Failed.Detail, o.Failed.Until
		return nil
	case o.TooLarge != nil:
		form.State, form.Detail = FormNoWorker, o.TooLarge.Error()
		return nil
	case o.Job != 0:
		form.State, form.Job = FormBeingMade, o.Job
	default:
		form.State = FormPossible
	}
	tr.Verdict, tr.Status = VerdictMakes, 200
	return nil
}

// symCache traces a request of the SymCache protocol.
func (t *Tracer) symCache(ctx context.Context, ask *TraceAsk, tr *Trace) error {
	req := tr.Request.SymCache
	o, err := t.p.SymCache.Outlook(ctx, symcachework.Ask{Products: ask.Scope.Products, Request: req, HexAge: ask.HexAge})
	if err != nil {
		return err
	}
	for _, v := range o.Held {
		tr.Forms = append(tr.Forms, TracedForm{Name: "symcache " + v.String(), State: FormHeld})
	}
	for _, v := range o.Producible {
		l := TracedForm{Name: "symcache " + v.String(), State: FormPossible}
		if slices.Contains(o.Failed, v) {
			l.State = FormFailed
		}
		if !slices.Contains(o.Held, v) {
			tr.Forms = append(tr.Forms, l)
		}
	}
	tr.NoMaker = len(o.Producible) == 0 && !o.FromServers
	tr.Lookups = t.pdbLookup(&o)
	tr.Verdict, tr.Status = VerdictAbsent, 404
	switch {
	case o.Action == symcache.Send:
		if tr.Verdict, tr.Status = VerdictFound, 200; ask.Redirect {
			tr.Status = 302
		}
		tr.File = &TracedFile{Object: symfile.Object{Kind: symfile.SymCache, Role: symfile.SymCacheFile, Name: req.Key.Name}, Size: -1}
		if tr.Headers == nil {
			tr.Headers = map[string][]string{"Content-Type": {symcache.ContentType(o.Version)}}
		}
	case o.Action != symcache.Wait && o.Action != symcache.ComeAgain:
	case o.PDB != nil || o.InTree:
		tr.Verdict, tr.Status = VerdictMakes, 200
	default:
		return t.symCacheSources(ctx, ask, tr, &o)
	}
	return nil
}

// symCacheSources finds out who would be asked for a SymCache file, or for the PDB of
// which it would be made.
func (t *Tracer) symCacheSources(ctx context.Context, ask *TraceAsk, tr *Trace, o *symcachework.Outlook) error {
	if o.FromServers {
		for _, u := range t.p.SymCache.Servers() {
			l := fetch.UpstreamOutlook{Name: u.Source.Name(), Rank: u.Rank}
			if status := u.Source.Traits().Status; status != nil {
				s := status()
				l.Open, l.Until, l.Why = s.Open, s.Until, s.Why
			}
			tr.Sources = append(tr.Sources, l)
		}
	} else if tr.Fetches {
		pdb, err := layout.Route([]string{o.Key.Name, o.Key.ID.Breakpad(), o.Key.Name})
		if err != nil {
			return nil //nolint:nilerr // no upstream can have it
		}
		l, err := t.p.Fetch.Outlook(ctx, fetch.Question{Products: ask.Scope.Products, Request: pdb})
		if err != nil {
			return err
		}
		tr.Sources, tr.Known, tr.KnownUntil = l.Upstreams, l.Known, l.Until
	}
	if !tr.Known && slices.ContainsFunc(tr.Sources, func(u fetch.UpstreamOutlook) bool { return u.Asked() }) {
		tr.Verdict, tr.Status = VerdictSources, 0
	}
	return nil
}

// pdbLookup is the lookup of the PDB of a SymCache file.
func (t *Tracer) pdbLookup(o *symcachework.Outlook) []answer.TracedLookup {
	asked := symfile.Lookup{Name: symfile.Fold(o.Key.Name), ID: symfile.Fold(o.Key.ID.Breakpad()), Role: symfile.Debug}
	l := answer.TracedLookup{Lookup: asked, Outcome: answer.NoHit}
	switch {
	case o.PDB != nil:
		l.Outcome, l.Hits = answer.Hit, []record.Hit{*o.PDB}
	case o.InTree:
		l.Outcome = answer.Hit
	}
	return []answer.TracedLookup{l}
}

// near lists what comes near the file that was not found.
func (t *Tracer) near(ctx context.Context, ask *TraceAsk, tr *Trace) (err error) {
	db, scope, req := t.p.DB, ask.Scope.Index(), &tr.Request
	var served []record.Found
	if name := symfile.Fold(req.Name); name != "" && !strings.ContainsAny(name, "*?") {
		if tr.Namesakes, err = index.Namesakes(ctx, db, scope, name, maxNear); err != nil {
			return err
		}
		served = t.p.Served(ctx, ask.Scope, name, maxNear)
	}
	for _, f := range served[:min(len(served), maxNear-len(tr.Namesakes))] {
		tr.Namesakes = append(tr.Namesakes, record.Hit{Stored: f.Stored, Role: f.Object.Role})
	}
	q := record.Query{}
	lookups := req.Lookups
	if req.Form == layout.FormSource && len(lookups) > 0 {
		lookups = fetch.SourceRequest(*req).Lookups
	}
	for _, l := range lookups {
		if !slices.Contains(q.IDs, l.ID) {
			q.IDs = append(q.IDs, l.ID)
		}
	}
	if err := t.relatives(ctx, scope, tr, served); err != nil {
		return err
	}
	if len(q.IDs) > 0 {
		if tr.Removed, err = db.Trash.Find(ctx, scope, q, maxRemoved); err != nil {
			return err
		}
	}
	if ask.Beyond && !scope.All {
		return t.hidden(ctx, lookups, tr)
	}
	return nil
}

// relatives lists the files of the requested GUID that do not answer. served are the files of
// served folders that have the requested name.
func (t *Tracer) relatives(ctx context.Context, scope record.Scope, tr *Trace, served []record.Found) error {
	req := &tr.Request
	key, ageless, ok := moduleKey(req)
	if !ok {
		return nil
	}
	found, err := t.p.DB.Find(ctx, scope, record.Query{Prefix: key.GUID.Lower()}, 4*maxNear)
	if err != nil {
		return err
	}
	_, _, functions := symbolicate.FormatOf(req)
	tr.Ageless = ageless
	for _, f := range append(found, served...) {
		o, h := &f.Object, record.Hit{Stored: f.Stored, Role: f.Object.Role}
		portable := o.Kind == symfile.PortablePDB
		switch {
		case o.DebugID.GUID != key.GUID:
		case functions && portable:
			tr.Portable = append(tr.Portable, h)
		case ageless && !portable && o.Kind != symfile.PDB && o.Kind != symfile.MSFZ:
		case portable && slices.Contains(o.PortableIDs(), key.GUID.Upper()+strconv.FormatUint(uint64(key.Age), 16)):
		case portable && key.Age == math.MaxUint32: // symfile.PortableAge
		case o.Role&(symfile.Executable|symfile.Debug) == symfile.Executable:
		case ageless || o.DebugID.Age != key.Age:
			tr.OtherAges = append(tr.OtherAges, h)
		}
	}
	name := symfile.Fold(req.Name)
	sorting.Stable(tr.OtherAges, func(a, b answer.LookupHit) int {
		other := func(h answer.LookupHit) int {
			if symfile.Fold(h.Object.Name) == name {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(other(a), other(b)), cmp.Compare(a.Object.DebugID.Age, b.Object.DebugID.Age))
	})
	tr.OtherAges = tr.OtherAges[:min(len(tr.OtherAges), maxNear)]
	tr.Namesakes = slices.DeleteFunc(tr.Namesakes, func(h answer.LookupHit) bool {
		return slices.ContainsFunc(append(slices.Clip(tr.OtherAges), tr.Portable...), func(o answer.LookupHit) bool {
			return o.Ref == h.Ref && (o.Ref != blob.Ref{} || o.Path == h.Path) // files of served folders have no Ref
		})
	})
	return nil
}

// moduleKey returns the GUID and the age of a request for the files of a module.
func moduleKey(req *layout.Request) (key layout.PDBAge, ageless, ok bool) {
	if req.Age != nil {
		return *req.Age, false, true
	}
	for _, l := range req.Lookups {
		if id, err := debugid.ParseBreakpad(l.ID); err == nil && len(l.ID) > 32 {
			return layout.PDBAge{GUID: id.GUID, Age: id.Age}, false, true
		}
		if guid, err := debugid.ParseGUID(l.ID); err == nil && len(l.ID) == 32 {
			return layout.PDBAge{GUID: guid}, true, true
		}
	}
	return layout.PDBAge{}, false, false
}

// hidden lists the files that answer in other products.
func (t *Tracer) hidden(ctx context.Context, lookups []symfile.Lookup, tr *Trace) error {
	for _, l := range lookups {
		hits, err := t.p.DB.Lookup(ctx, record.Scope{All: true}, l)
		if err != nil {
			return err
		}
		for _, h := range hits {
			if len(tr.Hidden) == maxNear || slices.ContainsFunc(tr.Hidden, func(o HiddenFile) bool { return o.Ref == h.Ref }) {
				continue
			}
			products, err := t.p.DB.ContentProducts(ctx, h.Ref)
			if err != nil {
				return err
			}
			tr.Hidden = append(tr.Hidden, HiddenFile{h, products})
		}
	}
	return nil
}

// Ask asks the upstreams for the file of a request once, also those that are
// remembered to lack it, and waits for the download. The error says nothing to
// clients: Trace explains what is there now.
func (t *Tracer) Ask(ctx context.Context, q answer.Question, prefixes []string, segs []string) error {
	var err error
	if q.Request, err = layout.Route(segs, prefixes...); err != nil {
		return err
	}
	if q.Request.Form == layout.FormSymCache {
		return fs.ErrNotExist // such files are made by their own protocol
	}
	get := t.p.Get
	if q.Request.Form == layout.FormFile {
		before, err := t.Trace(ctx, TraceAsk{Scope: q.Scope, Segments: segs, Prefixes: prefixes})
		if err != nil {
			return err
		}
		remembers := before.Known || slices.ContainsFunc(before.Sources, func(u fetch.UpstreamOutlook) bool { return u.Miss != nil })
		if before.File == nil && remembers {
			get = t.p.DownloadAnew
		}
	}
	f, err := get(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if !f.Growing {
		return nil
	}
	for off := int64(0); ; {
		n, err := f.Arrived(off)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		off += n
	}
}
