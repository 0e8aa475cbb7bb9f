package index

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index/engine"
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
	// Manifest identifies the list of all files that were pushed; zero for other
	// transactions.
	Manifest blob.Ref
	// Stage is the stage that is committed; nil for none.
	Stage *StageCommit
	// Time is the time of the transaction; zero means now.
	Time time.Time
	// Origin is where the transaction was imported from; nil if it was made
	// here.
	Origin *Origin
	// Entries are the files, in order. One object may occur several times.
	Entries []Entry
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

// compareTry orders files that only try builds have after others.
func (s *Stored) compareTry(o *Stored) int {
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
	// Product is that of the newest transaction; Catalog sets it.
	Product string
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

// Flags in the object table. Never renumber them.
const (
	flagNoDBI = 1 << iota
	flagCompanion
	flagMain
)

// objectColumns are the columns that scanObject reads, of object o and content
// c.
const objectColumns = `o.id, o.content_id, o.kind, o.role, o.name, o.code_name, o.code_id, o.debug_id, o.info_age, o.build_id,
 o.of_kind, o.flags, o.version, o.hash, o.arch, o.features, o.debug_size, c.sha256, c.size`

// scanObject reads objectColumns into s, and the columns after them into more.
func scanObject(scan engine.Scan, s *Stored, more ...any) error {
	o := &s.Object
	var debug, features, build string
	var flags int
	ref := []byte(nil)
	dest := [20]any{&s.id, &s.contentID, &o.Kind, &o.Role, &o.Name, &o.CodeName, &o.CodeID, &debug, &o.InfoAge, &build,
		&o.Of, &flags, &o.Version, &o.Hash, &s.Arch, &features, &s.DebugSize, &ref, &s.Size}
	if err := scan(append(dest[:19:19], more...)...); err != nil {
		return err
	}
	if debug != "" {
		id, err := debugid.ParseBreakpad(debug)
		if err != nil {
			return err
		}
		o.DebugID = id
	}
	o.BuildID = debugid.BuildID(build)
	o.NoDBI, o.DebugCompanion, o.Main = flags&flagNoDBI != 0, flags&flagCompanion != 0, flags&flagMain != 0
	s.Features = strings.Fields(features)
	return scanRef(ref, &s.Ref)
}

func objectFlags(o symfile.Object) int {
	f := 0
	if o.NoDBI {
		f |= flagNoDBI
	}
	if o.DebugCompanion {
		f |= flagCompanion
	}
	if o.Main {
		f |= flagMain
	}
	return f
}
