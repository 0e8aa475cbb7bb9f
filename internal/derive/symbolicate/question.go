package symbolicate

import (
	"context"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Hold waits for the end of a piece of work: it calls wait, which returns when the
// work or its context has ended. gaveUp means that the client cannot wait any
// longer.
type Hold func(ctx context.Context, wait func(ctx context.Context) error) (gaveUp bool, err error)

// Ask is a request for a file that can be made of the files of a module.
type Ask struct {
	Products []string // that the client may see; nil is all
	Format   Format
	Module   ModuleQuery
	// Client is the address of the client, without the port. It bounds the work of
	// one client. Empty: no client in particular.
	Client string
	// Via are the servers that the request has passed, this one last; Local leaves
	// out the upstreams.
	Via   []string
	Local bool
	// Hold holds the request while its file is made; nil: it cannot wait.
	Hold Hold

	unfit []blob.Ref // .sym files of which nothing could be made
}

// Answer is the answer to an Ask.
type Answer struct {
	// Redirect is the path of the module's symbol file in Breakpad's layout, for a
	// client that knows only the code id. Nothing else is set then.
	Redirect string
	Content  record.Content
	Source   blob.Ref // of which the content was made; zero: a file of a tree
	Cached   *record.Hit
	Object   symfile.Object
	From     string // the files of which it was made, for people
	Code     string // file name of the program, or empty
	Arch     string // Breakpad's word for the processor, or empty if it is unknown
	// Missing names the files that the others refer to and that were not found, for
	// people.
	Missing []string
}

// FormatOf returns the format that a request asks for, and the module. ok is false
// for requests for other files.
func FormatOf(req *layout.Request) (format Format, q ModuleQuery, ok bool) {
	switch {
	case req.Form == layout.FormGSYM:
		format = GSYM
	case req.Form == layout.FormFile && len(req.Lookups) > 0 && req.Lookups[0].Role == symfile.Symbols:
		format = Breakpad
	default:
		return 0, q, false
	}
	if len(req.Lookups) == 0 {
		return 0, q, false
	}
	q.DebugFile, q.DebugID = req.Name, req.Lookups[0].ID
	return format, q, true
}
