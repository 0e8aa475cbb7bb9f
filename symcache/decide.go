package symcache

import (
	"slices"

	"github.com/symdepot/symdepot/internal/base/sorting"
)

// State is the input of Decide besides the requested version: the state of the
// server and the headers of the request.
type State struct {
	// Held are the versions for which the server has a file of the key.
	Held []Version
	// Producible are the versions that transcoders, workers and upstreams can
	// provide. Decide uses only the newest version of each major.
	Producible []Version
	// Failed are the versions of Producible that are known to fail for this key:
	// all of them if the PDB is not found.
	Failed []Version
	// GaveUp reports that the job for this key failed temporarily, or that the
	// client has reached the limit of its waiting time. Decide then answers this
	// request at once; the next request starts a new attempt.
	GaveUp bool
	// Exceeds is the result of ParseExceeds, the version that the client has; zero
	// if it has no file. Decide then answers NotModified wherever it would otherwise
	// answer NotFound for good.
	Exceeds Version
	// AllowsRetry is the result of the function AllowsRetry.
	AllowsRetry bool
	// Head reports a HEAD request, which never waits.
	Head bool
	// Upgrade allows Decide to send an existing file and to make a newer version
	// in the background.
	Upgrade bool
}

// Action is what to do with a request.
type Action uint8

// The actions.
const (
	// NotFound: 404 without Retry-After. The client tries its next server.
	NotFound Action = iota
	// Send: 200 or 302 with the file of Decision.Version.
	Send
	// NotModified: 304. No version that is newer than the version of the client can
	// be given, now or later.
	NotModified
	// ComeAgain: queue Decision.Make, 404 with Retry-After.
	ComeAgain
	// Wait: queue Decision.Make, hold the request until the job ends and call
	// Decide again; after a time limit, call Decide with GaveUp.
	Wait
)

func (a Action) String() string {
	switch a {
	case NotFound:
		return "not found"
	case Send:
		return "send"
	case NotModified:
		return "not modified"
	case ComeAgain:
		return "come again"
	case Wait:
		return "wait"
	}
	return "unknown action"
}

// Decision is the answer to a request.
type Decision struct {
	Action Action
	// Version is the version of the file to send; with NotModified, the version
	// that the server holds for the client; zero: none.
	Version Version
	// Make is the version to make, once for each key and major; zero: none. With
	// Send it is an upgrade in the background.
	Make Version
	// Why names the rule that was applied, for logs.
	Why string
}

// Decide returns the answer to a request with a valid path and valid headers. It
// applies the rules in the order of the protocol: a held file that the client can
// read, and that is newer than its own, is always sent, even if a newer version
// could be made. A client with a file of its own learns that nothing is newer, also
// if the server holds nothing and makes nothing: with NotFound, it would make the
// file once more.
func Decide(request Version, s State) Decision {
	if request.Compare(MinVersion) < 0 {
		return Decision{Action: NotFound, Why: "version below " + MinVersion.String()}
	}
	nothing := Decision{Action: NotFound}
	if !s.Exceeds.IsZero() {
		nothing.Action = NotModified
		nothing.Version, _ = Best(s.Held, request, Version{})
	}
	if s.Exceeds.Compare(request) >= 0 {
		nothing.Why = "the client has that version or a newer one"
		return nothing
	}
	offers := newestOfEachMajor(s.Producible, request)
	usable := slices.DeleteFunc(slices.Clone(offers), func(v Version) bool {
		return slices.Contains(s.Failed, v) || v.Compare(s.Exceeds) <= 0
	})
	if v, ok := Best(s.Held, request, s.Exceeds); ok {
		d := Decision{Action: Send, Version: v, Why: "held"}
		// Best prefers the requested version, so a newer one may also be held.
		newer := func(h Version) bool { return CanRead(request, h) && h.Compare(usable[0]) >= 0 }
		if s.Upgrade && !s.GaveUp && len(usable) > 0 && !slices.ContainsFunc(s.Held, newer) {
			d.Make = usable[0]
		}
		return d
	}
	switch {
	case len(offers) > 0 && offers[0].Compare(s.Exceeds) <= 0:
		nothing.Why = "no newer version can be made"
		return nothing
	case len(offers) == 0:
		nothing.Why = "no such version can be made"
		return nothing
	case len(usable) == 0:
		nothing.Why = "known to fail"
		return nothing
	case s.GaveUp:
		return Decision{Action: NotFound, Why: "temporary failure or time limit"}
	case s.Head || Async(request, s.AllowsRetry):
		return Decision{Action: ComeAgain, Make: usable[0], Why: "being made"}
	}
	return Decision{Action: Wait, Make: usable[0], Why: "being made"}
}

// newestOfEachMajor returns the versions that can be made for a request, the best
// one first. After a failure Decide tries the next lower major, but no older
// version of the same major.
func newestOfEachMajor(makes []Version, request Version) []Version {
	var offers []Version
	for _, v := range makes {
		if CanRead(request, v) {
			offers = append(offers, v)
		}
	}
	sorting.By(offers, func(a, b Version) int { return b.Compare(a) })
	return slices.CompactFunc(offers, func(a, b Version) bool { return a.Major == b.Major })
}
