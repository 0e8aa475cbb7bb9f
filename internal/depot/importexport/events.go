package importexport

import (
	"github.com/symdepot/symdepot/objfile"
)

// EventKind says what happened to a file or a transaction.
type EventKind string

// Event is reported for each file and each transaction.
type Event struct {
	Kind   EventKind
	Path   string          // of the file
	Object *objfile.Object // for EventAdded and EventKnown
	// Restored: the stored bytes of the object were damaged or missing, and the
	// transaction replaces them.
	Restored bool
	// Detail is the reason, for the kinds that have one.
	Detail string
	// Own are the paths that a misplaced file belongs to.
	Own []string
	// Origin is the number of the foreign transaction, Number that in the
	// depot, for events of transactions; so are Product and Version.
	Origin           string
	Number           int64
	Product, Version string
	// Notable: the file is named in summaries.
	Notable bool
	// Unreadable: the file could not be read.
	Unreadable bool
	// noID: the file is intact and has no id, as object files of a build have none.
	noID bool
}

// Progress is called with the bytes done so far and their sum, -1 if unknown.
type Progress func(done, total int64)

// Tally counts objects or files and their bytes.
type Tally struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// The kinds of events. Their texts are part of the commands' JSON output.
const (
	EventAdded      EventKind = "added"        // an object with new content
	EventKnown      EventKind = "known"        // an object whose content was stored before
	EventSkipped    EventKind = "skipped"      // a file that was not added
	EventMisplaced  EventKind = "misplaced"    // a file under a path that its ids do not belong to
	EventImported   EventKind = "imported"     // a transaction
	EventEmpty      EventKind = "empty"        // a transaction without symbol files
	EventBefore     EventKind = "here already" // a transaction that was imported earlier
	EventWritten    EventKind = "written"      // a file of an export
	EventReplaced   EventKind = "replaced"     // a file of an export that had different content
	EventLeftOut    EventKind = "left out"     // an object that an export has no path for
	EventPrivate    EventKind = "private"      // a file without a public form, in an export for people outside
	EventRemoved    EventKind = "removed"      // a file that was removed from the target of an export
	EventShadowed   EventKind = "shadowed"     // an object whose path a better object has
	EventCollision  EventKind = "collision"    // a path that differs from a different path in case only
	EventFailedFile EventKind = "failed"       // a file that could not be written
)
