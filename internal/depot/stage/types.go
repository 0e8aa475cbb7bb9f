package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// NamedOwner and a name are Caller.ID of the stages of before there were owners.
const NamedOwner = stages.NamedOwner

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

// again asks whether the caller may still add files to a stage.
func (c Caller) again(ctx context.Context, row stages.StageRow) error {
	if c.Again == nil {
		return nil
	}
	return c.Again(ctx, row.Product)
}

// ClassTry is the class of try builds.
const ClassTry = record.ClassTry

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
	// Base is a stored content that a content to send may be much like, so that it may come
	// as a recipe; zero: none.
	Base blob.Ref
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
	Place(ctx context.Context, c record.Content, r io.Reader) error
	// Lost returns those of some contents that the index lists whose stored bytes cannot be
	// read back.
	Lost(ctx context.Context, list []record.Content) ([]blob.Ref, error)
	// OpenStored opens a content that the index lists.
	OpenStored(ctx context.Context, c record.Content) (blob.File, error)
	// Commit makes the contents of files durable, then commits tx. It does not
	// remove the files. If a content of tx is neither among the files nor stored, the
	// error is a *MissingError. The answer will call the accepted entries stored: if tx
	// lacks one, nothing is committed. Before success all entries of tx are looked up
	// as requests look them up. An entry that tx lacks or that is not found is a
	// *LostError.
	Commit(ctx context.Context, tx record.Tx, files []File, accepted []record.Entry) (number int64, err error)
	// Confirm looks up the entries of a transaction that was committed before. One
	// that is not found is a *LostError.
	Confirm(ctx context.Context, number int64, accepted []record.Entry) error
	// Space returns the size of the disk with the folder of the stages and the bytes
	// that are free.
	Space() (total, free int64, err error)
	// CheckClass returns an error with the known classes if the retention policy does
	// not have a class.
	CheckClass(ctx context.Context, class string) error
}

// File is a content in a file of the folder of the stages.
type File struct {
	record.Content
	// Path is absolute. It is empty if the file was not found: an interrupted commit
	// may have stored the content.
	Path string
}

// MissingError is the error of a commit of contents that are not there.
type MissingError struct{ Refs []blob.Ref }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%d contents are missing, the first is %s", len(e.Refs), e.Refs[0])
}

// Peers are the other servers of a depot on several machines. The parts of a
// stage are on one of them, its owner: the others forward requests for parts to
// it. Whole contents are in the bucket, and every server accepts them.
type Peers interface {
	// Live reports whether a server is at work. known is false while that is not
	// known.
	Live(node string) (live, known bool)
	// Send sends a question with a body to a server, and returns the answer of its
	// Stages.Answer. An error of the body is returned unchanged; for all
	// others the error is ErrNoAnswer.
	Send(ctx context.Context, node string, question []byte, body io.Reader) (answer []byte, err error)
}

// ErrNoAnswer means that another server did not answer, or its answer ended early.
var ErrNoAnswer = errors.New("the other server does not answer")

// Parts lists which parts of a content have arrived.
type Parts struct {
	Part   int64  // bytes of each part but the last
	Length int64  // of the content
	Got    string // numbers from 0, in order, as in "0-11,13"
}

// maxMissing is the number of contents that State and Commit list as missing.
const maxMissing = 1000

// Limits of the texts of a stage, in bytes.
const (
	maxLabel   = 256
	maxComment = 4096
	maxKey     = 512
	maxPath    = 1024
)

// collecting is how many times as many stages a caller may have that collect: they
// end by themselves within minutes.
const collecting = 32

// Committed is the outcome of a commit.
type Committed struct {
	Transaction int64     `json:"build"`
	Files       int64     `json:"files"`       // that are visible now
	KnownBytes  int64     `json:"known_bytes"` // of files that were not sent
	NewBytes    int64     `json:"new_bytes"`   // of files that were sent
	Refused     []Refused `json:"refused"`     // the first 1,000
	// Flags are what the rules for links to source files note about files, the first
	// 1,000.
	Flags []Flag `json:"flags,omitempty"`
	// Other counts the files with an object of whose id the product had other bytes.
	Other int64 `json:"other_bytes,omitempty"`
	// Again means that the transaction existed before: it has the same labels and
	// files.
	Again bool `json:"again,omitempty"`
}

// Flag is a note about a file that was committed.
type Flag struct {
	Path string `json:"path"`
	Note string `json:"note"`
}

// Refused is a file that was not committed.
type Refused struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Commit is a request to commit a stage.
type Commit struct {
	// Files is the number of files that the stage must have; 0 is any.
	Files int64
	// Manifest is the hash that the stage must have, in hex, see Manifest; empty is
	// any.
	Manifest string
	// Partial commits although files were refused; otherwise that is an error.
	Partial bool
	// Anew makes a transaction even if there is one with the same labels and
	// manifest.
	Anew bool
	// Needs are the numbers of transactions that are kept as long as this one, at most
	// MaxNeeds.
	Needs []int64
	// Accepted are the files that the answer will call accepted. If the transaction lacks
	// one, or a request does not find it, the error is a Refusal of the kind Lost.
	Accepted []Receipt
}

// Arrived describes a file of PutNew.
type Arrived struct {
	record.Content
	SHA1    string           // of the file, in lower-case hex
	Other   bool             // the product had another object with the same id
	Had     bool             // the caller could read all objects of the file before
	Objects []symfile.Object // in the file
	Receipt Receipt
	// Transaction is that of a stage that collects, in which the file is visible now.
	Transaction int64
}

// OtherNote tells the uploader that the product had other bytes with an id of the file;
// empty if it had none.
func (a *Arrived) OtherNote() string {
	if !a.Other {
		return ""
	}
	names := make([]string, 0, len(a.Objects))
	for _, o := range a.Objects[:min(len(a.Objects), 5)] {
		names = append(names, strings.Join(append([]string{o.Name}, idsOf(o)[:min(len(idsOf(o)), 1)]...), " "))
	}
	return "the product had other bytes with the same id; both are kept: " + strings.Join(names, ", ")
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
	where := "the build would not have"
	if e.Transaction != 0 {
		where = fmt.Sprintf("build %d does not have", e.Transaction)
	}
	return fmt.Sprintf("%s %d of the files that were accepted; the first is %s with the id %s. This is a fault of the server: "+
		"keep the files, and report it with the log of the server", where, e.Files, e.Path, e.ID)
}
