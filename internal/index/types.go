package index

import (
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Tx is a transaction to commit.
type Tx struct {
	// Kind is the word for what it does: "add".
	Kind                      string
	Product, Version, Comment string
	Who, Host                 string // the account, and the machine it worked on
	Tool                      string // program and version that made it
	// Time is when it was made; zero takes the index's clock.
	Time time.Time
	// Origin says where the transaction was taken over from; nil for our own.
	Origin *Origin
	// Entries are its files, in order. One object may come several times.
	Entries []Entry
}

// Origin is the transaction of another store that one of ours repeats.
type Origin struct {
	Store  string    `json:"store"`  // the store's address
	Number string    `json:"number"` // as it is spelled there
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
	// Aliases are the spellings under which the object is found; at least one.
	Aliases []symfile.Alias
	Path    string // as it was given to add
	Archive string // the archive it came from, or empty
	ModTime time.Time
}

// Stored is one object as the index holds it, with the newest of the
// transactions in scope that hold it.
type Stored struct {
	Object    symfile.Object
	Arch      string
	Features  []string
	DebugSize int64
	Ref       blob.Ref
	Size      int64
	Number    int64     // of that newest transaction; 0 if it was only fetched
	Added     time.Time // its time, or when it was fetched
	// ModTime is the last modification of the file itself, as that transaction
	// or the source of a cached file told it; zero if it did not.
	ModTime time.Time
	// Path and Archive are where that transaction had the object from.
	Path, Archive string
	// Source is where the object was fetched from; empty if it was added. What
	// was both counts as added.
	Source string

	id, contentID int64
}

// Hit is one answer to a lookup.
type Hit struct {
	Stored
	// Role has the roles in which the object answers under the key asked for.
	Role symfile.Role
}

// Found is one answer to a search.
type Found struct {
	Stored
	// Transactions in scope that hold it, newest first; none if it was only
	// fetched.
	Transactions []int64
}

// Content is one content.
type Content struct {
	Ref  blob.Ref
	Size int64
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
	// Removed is when it was removed; zero while it stands.
	Removed time.Time `json:"removed,omitzero"`
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
}

// Flags of the object table. Never renumber them.
const (
	flagNoDBI = 1 << iota
	flagCompanion
	flagMain
)

// objectColumns are what scanObject reads, from object o and content c.
const objectColumns = `o.id, o.content_id, o.kind, o.role, o.name, o.code_name, o.code_id, o.debug_id, o.info_age, o.build_id,
 o.of_kind, o.flags, o.version, o.hash, o.arch, o.features, o.debug_size, c.sha256, c.size`

// scanObject reads objectColumns into s, and what follows them into more.
func scanObject(scan func(...any) error, s *Stored, more ...any) error {
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
