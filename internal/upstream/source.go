package upstream

import "github.com/symdepot/symdepot/internal/fetch"

// The interface of a source and its errors belong to package fetch, which uses
// them.
type (
	// Source is what this package implements.
	Source = fetch.Source
	// Traits are the properties and the optional abilities of a source.
	Traits = fetch.Traits
	// Ask is a question to a source, Resume a part of it, Reply the answer.
	Ask    = fetch.Ask
	Resume = fetch.Resume
	Reply  = fetch.Reply
	// Class says why a source gave no file, Failure is the error with it.
	Class   = fetch.Class
	Failure = fetch.Failure
	// Status are the counters of a source and the state of its circuit breaker.
	Status = fetch.Status
)

// The classes of failures.
const (
	ClassNone      = fetch.ClassNone
	ClassAbsent    = fetch.ClassAbsent
	ClassForbidden = fetch.ClassForbidden
	ClassTimeout   = fetch.ClassTimeout
	ClassBroken    = fetch.ClassBroken
	ClassTooLarge  = fetch.ClassTooLarge
	ClassBusy      = fetch.ClassBusy
	ClassSkipped   = fetch.ClassSkipped
)

// ClassOf returns the class of an error that a Source returned.
func ClassOf(err error) Class { return fetch.ClassOf(err) }
