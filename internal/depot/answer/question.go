package answer

import (
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

// Question is a request with what is known of its client.
type Question struct {
	Scope   Scope
	Request layout.Request
	// Checksum is the value of a SymbolChecksum header, or empty.
	Checksum string
	// Via are the servers that the request has passed, this one last.
	Via []string
	// Origin describes the client to debuginfod upstreams.
	Origin fetch.Origin
	// Client is the client's address, under which its downloads from upstreams are
	// counted; empty: only the limit of all downloads holds.
	Client string
	// Local leaves out the upstreams: only what the depot and its trees have, or what is
	// made of it, is answered. If there are upstreams, nothing is made: the request came
	// back to this server, and the first one makes the file.
	Local bool
	// CodeFile and CodeID name the program of a module whose symbol file is asked for, if
	// the client knows them.
	CodeFile, CodeID string
	// Turn bounds lookups, not downloads: it is entered before the index and the trees are
	// searched, and before a file is made, and left after that. Nil: nothing is bounded.
	Turn *limit.Turn
	// Hold holds the request while a file is made for it; nil: it does not wait, and gets
	// only what was made before.
	Hold symbolicate.Hold
	// Held stands for the Hold of Turn.
	Held bool
}

// Download returns the question as upstreams are asked it.
func (q Question) Download() fetch.Question {
	return fetch.Question{Products: q.Scope.Products, Request: q.Request, Checksum: q.Checksum, Via: q.Via, Origin: q.Origin, Client: q.Client}
}
