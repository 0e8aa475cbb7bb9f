// Package upstream implements the sources of package fetch for remote places:
// symbol servers over HTTP and buckets of object stores. Its guard bounds requests
// and stops them while a source fails. Its Dialer opens all connections of the
// program, and refuses addresses that only the operator may name.
package upstream

import "github.com/symdepot/symdepot/internal/fetch"

// Names of package fetch, to which the interface of a source belongs.
type (
	// Source is what this package implements.
	Source = fetch.Source
	// Traits are the properties and the optional abilities of a source.
	Traits = fetch.Traits
	// Ask is a request to a source.
	Ask = fetch.Ask
	// Resume is the part of an Ask for the rest of a file.
	Resume = fetch.Resume
	// Reply is the answer of a source.
	Reply = fetch.Reply
	// Class says why a source gave no file.
	Class = fetch.Class
	// Failure is the error of a source that gave no file.
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
