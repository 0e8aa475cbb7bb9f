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
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/objfile"
)

// NamedOwner and a name are Caller.ID of the stages of before there were owners.
const NamedOwner = index.NamedOwner

// Caller is the principal that pushes.
type Caller struct {
	// ID identifies the principal. Stages belong to it: for others they do not exist.
	// Two principals never have the same one, while they may have one name.
	ID string
	// Name is for messages and for people who read lists.
	Name string
	// Read and Write report whether the caller may read and add files of a product.
	Read, Write func(product string) bool
	// Again asks whether the credentials of the principal still count and may add files
	// to a product: rights are looked up when they are used. Read and Write are those of
	// the beginning. Nil: it is not asked.
	Again func(ctx context.Context, product string) error
	// Class, if not empty, is that of all stages of the caller and of all transactions
	// that its commits may refer to.
	Class string
}

// ClassTry is the class of try builds.
const ClassTry = index.ClassTry

// Labels name what a transaction is filed under.
type Labels struct{ Product, Version, Branch, Class, Comment string }

// Build describes the job that made the files.
type Build struct {
	CI      string `json:"ci,omitempty"`
	URL     string `json:"url,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Run     string `json:"run,omitempty"`
	Attempt string `json:"attempt,omitempty"`
	// Verified means that the claims of a verified token say so, not the request.
	Verified bool `json:"verified,omitempty"`
}

// Spec describes a stage to open.
type Spec struct {
	Labels
	// Key names the stage: the same key of the same caller is the same stage. Empty
	// means a stage of its own.
	Key string
	// Join means that several clients of the caller add files to the stage, which
	// they find by its Key.
	Join  bool
	Build Build
	// Collect makes each file visible at once. All files that a caller sends with
	// the same labels are one transaction, which ends when none has come for five
	// minutes. Key is not used.
	Collect bool
}

// Entry is a file that a client has.
type Entry struct {
	// Path is relative, with slashes. A member of an archive has the path of the
	// archive, a slash and its own path.
	Path string
	Size int64 // bytes
	Ref  blob.Ref
	// As is one of the words of objfile.ParseForced, or empty. ID is the id that the
	// client has found in the file, or empty; the file must have it.
	As, ID  string
	ModTime time.Time // zero if unknown
}

// Answers of Check.
const (
	Have   = "have"   // the content need not be sent
	Send   = "send"   // the content is needed
	Refuse = "refuse" // the file is not wanted
)

// Verdict answers an Entry.
type Verdict struct {
	Answer string
	Reason string // of a refusal
}

// Phases of a stage.
const (
	PhaseOpen      = "open"
	PhaseCommitted = "committed"
)

// State describes a stage.
type State struct {
	ID, Phase string
	Labels
	Expires      time.Time
	Files, Bytes int64 // of all checked files
	// Have counts the files whose contents the depot had, Got those whose contents
	// have arrived, Refused those that were refused.
	Have, Got, Refused int64
	Missing            []blob.Ref // the first 1,000 that have not arrived
	Transaction        int64      // 0 before the commit
	// Node is the server that has the parts of the stage: others forward requests
	// to it. It is empty if there is only one.
	Node string
}

// Limits of stages. Zero values mean the defaults.
type Limits struct {
	MaxFile    int64 // bytes of a file; 16 GiB
	MaxFiles   int64 // of a stage; a million
	MaxBytes   int64 // sum of the sizes of a stage's files; 256 GiB
	CheckBatch int   // entries of a Check; 5,000
	Part       int64 // bytes of each part but the last; 16 MiB
	WholeBelow int64 // files of up to this size are sent whole; 32 MiB
	Open       int   // open stages of a caller; 32
	// Staged limits the bytes of all stages together. The default is a tenth of the
	// disk, at most 64 GiB.
	Staged int64
	// Free is how many bytes of the disk stay free. The default is a twentieth of the
	// disk, at most 10 GiB.
	Free    int64
	Idle    time.Duration // a stage expires that long after its last request; a day
	Longest time.Duration // and in any case that long after it was opened; a week
	Quiet   time.Duration // a stage that collects ends that long after its last file; five minutes
	// Quotas limit the bytes that the transactions of a product hold, each content
	// counted once. A product without one has no limit.
	Quotas map[string]int64
	// DenyOther refuses PE, PDB and Breakpad files if the product has other bytes with
	// their id. Otherwise they are counted.
	DenyOther bool
	// Used are the quotas of the products that a caller may add to, in the answer of
	// Stages.Limits.
	Used []ProductQuota
}

// ProductQuota is the quota of a product, in bytes.
type ProductQuota struct {
	Product     string
	Bytes, Used int64
}

func (l Limits) withDefaults() Limits {
	l.MaxFile = cmp.Or(l.MaxFile, 16<<30)
	l.MaxFiles = cmp.Or(l.MaxFiles, 1_000_000)
	l.MaxBytes = cmp.Or(l.MaxBytes, 256<<30)
	l.CheckBatch = cmp.Or(l.CheckBatch, 5_000)
	l.Part = cmp.Or(l.Part, 16<<20)
	l.WholeBelow = cmp.Or(l.WholeBelow, 32<<20)
	l.Open = cmp.Or(l.Open, 32)
	l.Idle = cmp.Or(l.Idle, 24*time.Hour)
	l.Longest = cmp.Or(l.Longest, 7*24*time.Hour)
	l.Quiet = cmp.Or(l.Quiet, 5*time.Minute)
	return l
}

// knownLife is how long it is remembered which objects a file has.
const knownLife = 400 * 24 * time.Hour

// Depot is the part of the depot that stages use.
type Depot interface {
	// Identify returns the objects in a file of size bytes that clients can request:
	// at least one, or an error. as and id are those of an Entry.
	Identify(f io.ReaderAt, size int64, path, as, id string) ([]objfile.Object, error)
	// RefusesLinks reports whether a product refuses files because of their links to
	// source files.
	RefusesLinks(product string) bool
	// JudgeLinks applies the rules of a product for links to source files to an object
	// of a file: flags are notes, and refused says why the product does not take it.
	JudgeLinks(product, path string, f io.ReaderAt, o objfile.Object) (flags []string, refused string, err error)
	// Refuses reports whether an error of Identify concerns the file alone.
	Refuses(err error) bool
	// ObjectReader returns the bytes of an object in a file.
	ObjectReader(f io.ReaderAt, size int64, o objfile.Object) io.Reader
	// InBucket reports whether contents are kept in a bucket.
	InBucket() bool
	// Place brings a content to its place in the bucket, where a commit finds it.
	Place(ctx context.Context, c index.Content, r io.Reader) error
	// Lost returns those of some contents that the index lists whose stored bytes cannot be
	// read back.
	Lost(ctx context.Context, list []index.Content) ([]blob.Ref, error)
	// OpenStored opens a content that the index lists.
	OpenStored(ctx context.Context, c index.Content) (blob.File, error)
	// Commit makes the contents of files durable, then commits tx. It does not
	// remove the files. If a content of tx is neither among the files nor stored, the
	// error is a *MissingError. The answer will call the accepted entries stored: if tx
	// lacks one, nothing is committed. Before success all entries of tx are looked up
	// as requests look them up. An entry that tx lacks or that is not found is a
	// *LostError.
	Commit(ctx context.Context, tx index.Tx, files []File, accepted []index.Entry) (number int64, err error)
	// Confirm looks up the entries of a transaction that was committed before. One
	// that is not found is a *LostError.
	Confirm(ctx context.Context, number int64, accepted []index.Entry) error
	// Space returns the size of the disk with the folder of the stages and the bytes
	// that are free.
	Space() (total, free int64, err error)
	// CheckClass returns an error with the known classes if the retention policy does
	// not have a class.
	CheckClass(ctx context.Context, class string) error
}

// File is a content in a file of the folder of the stages.
type File struct {
	index.Content
	// Path is absolute. It is empty if the file was not found: an interrupted commit
	// may have stored the content.
	Path string
}

// MissingError is the error of a commit of contents that are not there.
type MissingError struct{ Refs []blob.Ref }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d contents are missing, the first is %s", len(e.Refs), e.Refs[0])
}

// LostError is the error for files that were accepted and are not found in their
// transaction with the bytes that were sent. It is always a fault of the server.
type LostError struct {
	// Transaction is zero if nothing was committed.
	Transaction int64
	Files       int
	// Path and ID are those of the first file.
	Path, ID string
}

func (e *LostError) Error() string {
	where := "the transaction would not have"
	if e.Transaction != 0 {
		where = fmt.Sprintf("transaction %d does not have", e.Transaction)
	}
	return fmt.Sprintf("%s %d of the files that were accepted; the first is %s with the id %s. This is a fault of the server: "+
		"keep the files, and report it with the log of the server", where, e.Files, e.Path, e.ID)
}

// Options of New.
type Options struct {
	// Dir is the folder of the staged bytes. It exists and is on the file system of
	// the depot's contents.
	Dir string
	// Node names this server among those of one depot; empty if there is only one.
	Node string
	// Peers are the others; nil: this server does not reach them.
	Peers  Peers
	Limits Limits
	// Perm is the mode of new files, which the umask reduces; zero is 0600.
	Perm fs.FileMode
	Log  *slog.Logger
	Now  func() time.Time
}

// Stages are the stages of a depot. Their methods may be called by many
// goroutines, and several processes may have the same depot.
//
// An error that a client can do something about is a *Refusal.
type Stages struct {
	db     index.Stages
	depot  Depot
	node   string
	peers  Peers
	limits Limits
	log    *slog.Logger
	now    func() time.Time

	spool    spool
	marks    marks
	partials partials
}

// New returns the stages of a depot.
func New(db index.Stages, depot Depot, opt Options) *Stages {
	limits := opt.Limits.withDefaults()
	s := &Stages{
		db: db, depot: depot, node: opt.Node, peers: opt.Peers, limits: limits, log: opt.Log, now: opt.Now,
		partials: partials{all: map[partialKey]*partial{}},
		spool:    spool{db: db, depot: depot, dir: opt.Dir, limits: limits, perm: cmp.Or(opt.Perm, 0o600), began: time.Now(), now: opt.Now},
	}
	s.marks.write = db.Arrive
	return s
}

// Limits returns the limits, and the quotas of the products that the caller may
// add to.
func (s *Stages) Limits(ctx context.Context, c Caller) (Limits, error) {
	l := s.limits
	l.Quotas = nil
	for product, most := range s.limits.Quotas {
		if !c.Write(product) {
			continue
		}
		used, err := s.db.ProductBytes(ctx, product)
		if err != nil {
			return l, err
		}
		l.Used = append(l.Used, ProductQuota{product, most, used})
	}
	slices.SortFunc(l.Used, func(a, b ProductQuota) int { return strings.Compare(a.Product, b.Product) })
	return l, nil
}

// collecting is how many times as many stages a caller may have that collect: they
// end by themselves within minutes.
const collecting = 32

// UploadDir is a folder of this server beside that of the staged bytes, for bodies
// of uploads that are not part of a stage yet. It may not exist.
func (s *Stages) UploadDir() string { return filepath.Join(filepath.Dir(s.spool.dir), "uploads") }

// Limits of the texts of a stage, in bytes.
const (
	maxLabel   = 256
	maxComment = 4096
	maxKey     = 512
	maxPath    = 1024
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
		if err := s.depot.CheckClass(ctx, spec.Class); errors.Is(err, index.ErrUnavailable) {
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
	row, again, err := s.db.Open(ctx, index.StageRow{
		ID: rand.Text(), Caller: c.Name, Owner: c.ID, Key: key, Product: spec.Product, Version: spec.Version, Branch: spec.Branch, Class: spec.Class,
		Comment: spec.Comment, Build: string(build), Collects: spec.Collect, Joins: spec.Join, Node: s.node,
	}, most)
	if errors.Is(err, index.ErrTooManyStages) {
		return State{}, false, refuse(TooMany, "%s has %d open stages, the limit; commit or delete one, or wait until they expire", c.Name, most)
	}
	if err != nil {
		return State{}, false, err
	}
	if again && (row.Product != spec.Product || row.Version != spec.Version || row.Branch != spec.Branch || row.Class != spec.Class) {
		return State{}, false, refuse(Conflict, "the stage with key %q was opened for product %q, version %q, branch %q and class %q; use another key", spec.Key, row.Product, row.Version, row.Branch, row.Class)
	}
	return s.state(row), again, nil
}

func validate(spec Spec) error {
	for _, t := range []struct {
		what, text string
		most       int
	}{
		{"product", spec.Product, maxLabel}, {"version", spec.Version, maxLabel}, {"branch", spec.Branch, maxLabel}, {"class", spec.Class, maxLabel},
		{"comment", spec.Comment, maxComment}, {"key", spec.Key, maxKey}, {"build ci", spec.Build.CI, maxLabel}, {"build url", spec.Build.URL, maxComment},
		{"build commit", spec.Build.Commit, maxLabel}, {"build run", spec.Build.Run, maxLabel}, {"build attempt", spec.Build.Attempt, maxLabel},
	} {
		switch {
		case len(t.text) > t.most:
			return refuse(Invalid, "the %s has %d bytes, and the limit is %d", t.what, len(t.text), t.most)
		case !utf8.ValidString(t.text) || strings.ContainsFunc(t.text, func(r rune) bool { return r < 0x20 && (r != '\n' && r != '\t' || t.most != maxComment) || r == 0x7f }):
			return refuse(Invalid, "the %s has control characters or is not UTF-8", t.what)
		}
	}
	return nil
}

// state returns the state of a stage without its counts.
func (s *Stages) state(row index.StageRow) State {
	st := State{ID: row.ID, Phase: PhaseOpen, Labels: Labels{row.Product, row.Version, row.Branch, row.Class, row.Comment},
		Files: row.Files, Bytes: row.Bytes, Transaction: row.Number, Node: row.Node}
	st.Expires = row.Used.Add(s.limits.Idle)
	if end := row.Opened.Add(s.limits.Longest); end.Before(st.Expires) {
		st.Expires = end
	}
	if row.Collects {
		st.Expires = row.Used.Add(s.limits.Quiet)
	}
	if !row.Closed.IsZero() {
		st.Phase, st.Expires = PhaseCommitted, row.Closed.Add(s.limits.Longest)
	}
	return st
}

// maxMissing is the number of contents that State and Commit list as missing.
const maxMissing = 1000

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
	st.Have, st.Got, st.Refused = n[index.StageKnown].Files, n[index.StageArrived].Files, n[index.StageRefused].Files
	st.Missing, err = s.db.Missing(ctx, id, maxMissing)
	return st, err
}

// row returns a stage of the caller. Those of others are not found.
func (s *Stages) row(ctx context.Context, c Caller, id string) (index.StageRow, error) {
	if len(id) != len(rand.Text()) || !filepath.IsLocal(id) {
		return index.StageRow{}, notFound(id)
	}
	row, err := s.db.Get(ctx, id)
	if err != nil || row.Owner != c.ID || c.ID == "" {
		if err == nil || isNotExist(err) {
			err = notFound(id)
		}
		return index.StageRow{}, err
	}
	if !c.Write(row.Product) {
		return index.StageRow{}, refuse(Forbidden, "%s may not add files to product %q any more", c.Name, row.Product)
	}
	if err := c.again(ctx, row); err != nil {
		return index.StageRow{}, err
	}
	// Jobs of one subject may have tokens for different classes.
	if c.Class != "" && c.Class != row.Class {
		return index.StageRow{}, wrongClass(c)
	}
	return row, nil
}

// again asks whether the caller may still add files to a stage.
func (c Caller) again(ctx context.Context, row index.StageRow) error {
	if c.Again == nil {
		return nil
	}
	return c.Again(ctx, row.Product)
}

func wrongClass(c Caller) *Refusal {
	return refuse(Forbidden, "the credentials are for the class %q only", c.Class)
}

// open returns an open stage of the caller.
func (s *Stages) open(ctx context.Context, c Caller, id string) (index.StageRow, error) {
	row, err := s.row(ctx, c, id)
	if err == nil && !row.Closed.IsZero() {
		err = refuse(Conflict, "the stage is committed as transaction %d", row.Number)
	}
	return row, err
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
