// Package record is what the rows of an index hold, and what the packages that read and
// write them share: transactions, entries, objects and contents as values, the columns that
// make them, the scope of a caller, and the counters of the state.
package record

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Tx is a transaction to commit.
type Tx struct {
	// Kind is the kind of transaction: "add".
	Kind                      string
	Product, Version, Comment string
	Who, Host                 string // account and machine
	Tool                      string // program and version
	// Branch and Class are of a push, and say which rules keep the transaction.
	Branch, Class string
	// Build describes the job that made the files, as JSON; empty if unknown.
	Build string
	// Labels are further names of the transaction.
	Labels map[string]string
	// Manifest identifies the list of all files, with their labels and contents; zero if
	// the way in has none.
	Manifest blob.Ref
	// Again, if not nil, lets the newest transaction with equal labels and manifest stand
	// for this one: none is made, the number is that of the other one, and Again is set.
	// A Stage has its own.
	Again *bool
	// Stage is the stage that is committed; nil for none.
	Stage *StageCommit
	// Time is the time of the transaction; zero means now.
	Time time.Time
	// Origin is where the transaction was imported from; nil if it was made
	// here.
	Origin *Origin
	// Entries are the files, in order. One object may occur several times.
	Entries []Entry
	// Also, if not nil, writes what else is true as soon as the transaction of the number has
	// the files, in the same write. It is called too if an equal transaction stands for this one.
	Also func(w *engine.Write, number int64) error
}

// Origin identifies the transaction of another store that was imported.
type Origin struct {
	Store  string    `json:"store"`  // the store's address
	Number string    `json:"number"` // as the store spells it
	Time   time.Time `json:"time,omitzero"`
}

// Entry is one file of a transaction.
type Entry struct {
	Object    symfile.Object
	Arch      string
	Features  []string // single words
	DebugSize int64    // bytes of debug information
	Ref       blob.Ref
	Size      int64 // bytes of the content
	// Aliases find the object; there is at least one.
	Aliases []symfile.Alias
	Path    string // as given to add
	Archive string // the archive that contained it, or empty
	ModTime time.Time
	// Signature is the IMA signature of the content in hex, or empty.
	Signature string
}

// Stored is one object in the index, with the newest transaction in scope that
// holds it.
type Stored struct {
	Object    symfile.Object
	Arch      string
	Features  []string
	DebugSize int64
	Ref       blob.Ref
	Size      int64
	Number    int64     // number of that transaction; 0 for a cached file
	Added     time.Time // time of the transaction or of the download
	// ModTime is the modification time of the file, as the transaction or the
	// upstream recorded it; zero if unknown.
	ModTime time.Time
	// Path and Archive are where the transaction got the object from.
	Path, Archive string
	// Source is the upstream of a cached file; empty if a transaction holds the
	// object too.
	Source string
	// Try means that only transactions of try builds hold the object.
	Try bool

	id, contentID int64
}

// Row is the number of the object in its table, for the packages that read the tables.
func (s *Stored) Row() int64 { return s.id }

// ContentRow is the number of its content in its table.
func (s *Stored) ContentRow() int64 { return s.contentID }

// CompareTry orders files that only try builds have after others.
func (s *Stored) CompareTry(o *Stored) int {
	switch {
	case s.Try == o.Try:
		return 0
	case s.Try:
		return 1
	}
	return -1
}

// Hit is one result of a lookup.
type Hit struct {
	Stored
	// Role has the roles in which the object answers the looked-up key.
	Role symfile.Role
	// Signature is the IMA signature of the content in hex, or empty.
	Signature string
}

// Found is one result of a search.
type Found struct {
	Stored
	// Transactions are those in scope that hold the object, newest first; none
	// for a cached file.
	Transactions []int64
	// Product and Version are those of the newest transaction; package lists sets them.
	Product, Version string
	// InPlace is set for an object in a watched folder, by the depot: it has a Path,
	// perhaps an Archive, and no Ref.
	InPlace bool
	Away    bool // the watched folder is away: nothing of it is served
	// Cold is how a cold content is stored; nil: it is plain, or that was not asked.
	Cold *Cold
}

// Content is a content with its size.
type Content struct {
	Ref  blob.Ref
	Size int64
}

// Unreferenced is a content without references.
type Unreferenced struct {
	Content
	// Cold means that its plain bytes are not stored.
	Cold bool
	// Derived is the size of what was made from it, and Stored the space of both.
	Derived, Stored int64
	Since           time.Time // when it lost the last one, or the end of the trash that holds it
}

// Transaction is a committed transaction.
type Transaction struct {
	Number  int64     `json:"number"`
	Kind    string    `json:"kind"`
	Product string    `json:"product"`
	Version string    `json:"version"`
	Comment string    `json:"comment"`
	Who     string    `json:"who"`
	Host    string    `json:"host"`
	Tool    string    `json:"tool"`
	Time    time.Time `json:"time"`
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"` // sum of the files' sizes
	Origin  *Origin   `json:"origin,omitempty"`
	// Branch, Class, Build (JSON) and Labels are those of Tx.
	Branch string            `json:"branch,omitempty"`
	Class  string            `json:"class,omitempty"`
	Build  json.RawMessage   `json:"build,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Arrived is the time of the commit; zero for transactions of older versions.
	Arrived time.Time `json:"-"`
	// Collecting means that files are still added to the transaction.
	Collecting bool `json:"collecting,omitempty"`
	// Removed is the time of its removal; zero if it has not been removed.
	Removed time.Time `json:"removed,omitzero"`
	// TrashUntil is the time until which a removed transaction can be restored; zero
	// if it cannot.
	TrashUntil time.Time `json:"trash_until,omitzero"`
}

// TxFile is one file of a transaction.
type TxFile struct {
	Object    symfile.Object
	Arch      string
	Features  []string
	DebugSize int64
	Ref       blob.Ref
	Size      int64
	Path      string
	Archive   string
	ModTime   time.Time
	Cold      *Cold // how a cold content is stored; nil: it is plain
}

// Cold is the record of a cold content.
type Cold struct {
	Content         // as clients get it
	File    Content // the cold file
	// Base is what the cold file is a delta to; nil for a key.
	Base *Content
	Made time.Time
	// PlainSince is since when the plain bytes are stored too; zero if they are not.
	PlainSince time.Time
}

// Tool identifies a program that makes one content from another. A new version
// makes its results again.
type Tool struct {
	Name    string
	Version int
}

// ErrNotUploaded means that a commit refers to a content that is neither known
// nor uploaded: its lease has expired, or the content was dropped meanwhile. The
// caller uploads it and commits again.
var ErrNotUploaded = errors.New("the content has not been uploaded")

// Upload is an upload of a content to a place.
type Upload struct {
	Place string
	Content
	// Damage is what a process has found wrong with the object, see Damages; "" is
	// nothing. Only Of sets it.
	Damage string
}

// StageCommit is the commit of a stage, as a part of that of a transaction.
type StageCommit struct {
	ID string
	// Changes are those of the stage whose files the transaction has. If it has
	// others meanwhile, the error is ErrStageClosed.
	Changes int64
	// Collect adds the files to the transaction of the stage, or makes one, and
	// leaves the stage open.
	Collect bool
	// Anew makes a transaction even if there is an equal one. Otherwise the number
	// of that is returned, and Again set.
	Anew, Again bool
	// Result returns what to keep as the result of the commit.
	Result func(number int64, again bool) string
	// Needs are transactions that are kept as long as this one. If one does not exist or was
	// removed, the error is a *NeedError.
	Needs []int64
	// Quota limits the bytes of the product; 0 is none. Above it the error is a
	// *QuotaError.
	Quota int64
}
