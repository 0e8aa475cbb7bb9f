package symcache

import "slices"

// State is what a server knows when a request comes.
type State struct {
	// Held are the versions of the key's files that can be sent at once.
	Held []Version
	// Producible are the versions that transcoders, workers and other servers can
	// give. Of one major only the newest counts.
	Producible []Version
	// Failed are those of Producible that are known to fail for this key. If there
	// is no PDB, all do.
	Failed []Version
	// GaveUp says that the work for this key ended for reasons that will
	// pass, or that a client has waited for as long as it may: this request is
	// answered, and the next one begins anew.
	GaveUp bool
	// Exceeds is what ParseExceeds returned; zero means that the client has none.
	Exceeds Version
	// AllowsRetry is what AllowsRetry returned.
	AllowsRetry bool
	// Head says that the request is a HEAD, which never waits.
	Head bool
	// Upgrade lets a request for a file that could be newer have it made anew
	// behind the client's back.
	Upgrade bool
}

// Action is what to do with a request.
type Action uint8

// The actions.
const (
	// NotFound: 404 without Retry-After. The client asks its next server.
	NotFound Action = iota
	// Send: 200 or 302 with the file of Decision.Version.
	Send
	// NotModified: 304. There is nothing newer than the client has.
	NotModified
	// ComeAgain: queue Decision.Make, 404 with Retry-After.
	ComeAgain
	// Wait: queue Decision.Make and hold the request until the job ends, then
	// decide again; after too long a time decide with GaveUp.
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
	// Version is that of the file to send.
	Version Version
	// Make is the version to make, once for each key and major; zero for none.
	// With Send it is an upgrade, and no client waits for it.
	Make Version
	// Why names the rule, for logs.
	Why string
}

// Decide chooses the answer to a request whose path and headers are good. The
// order of its rules is that of the protocol: a file that may be sent always
// is, even if a newer one could be made.
func Decide(request Version, s State) Decision {
	if request.Compare(MinVersion) < 0 {
		return Decision{Action: NotFound, Why: "a version before " + MinVersion.String()}
	}
	_, holds := Best(s.Held, request, Version{})
	offers := newestOfEachMajor(s.Producible, request)
	usable := slices.DeleteFunc(slices.Clone(offers), func(v Version) bool {
		return slices.Contains(s.Failed, v) || !s.Exceeds.IsZero() && v.Compare(s.Exceeds) <= 0
	})
	if v, ok := Best(s.Held, request, s.Exceeds); ok {
		d := Decision{Action: Send, Version: v, Why: "held"}
		// The version sent may be an old one because the client asked for it.
		newer := func(h Version) bool { return CanRead(request, h) && h.Compare(usable[0]) >= 0 }
		if s.Upgrade && !s.GaveUp && len(usable) > 0 && !slices.ContainsFunc(s.Held, newer) {
			d.Make = usable[0]
		}
		return d
	}
	nothing := Decision{Action: NotFound}
	if holds { // all that is held is what the client has, or older
		nothing.Action = NotModified
	}
	switch {
	case !s.Exceeds.IsZero() && len(offers) > 0 && offers[0].Compare(s.Exceeds) <= 0:
		return Decision{Action: NotModified, Why: "nothing newer can be made"}
	case len(offers) == 0:
		nothing.Why = "nothing can make it"
		return nothing
	case len(usable) == 0:
		nothing.Why = "known to fail"
		return nothing
	case s.GaveUp:
		return Decision{Action: NotFound, Why: "given up for now"}
	case s.Head || Async(request, s.AllowsRetry):
		return Decision{Action: ComeAgain, Make: usable[0], Why: "being made"}
	}
	return Decision{Action: Wait, Make: usable[0], Why: "being made"}
}

// newestOfEachMajor returns what can be made for a request, the best first. If
// that fails, the next lower major is worth a try, an older version is not.
func newestOfEachMajor(makes []Version, request Version) []Version {
	var offers []Version
	for _, v := range makes {
		if CanRead(request, v) {
			offers = append(offers, v)
		}
	}
	slices.SortFunc(offers, func(a, b Version) int { return b.Compare(a) })
	return slices.CompactFunc(offers, func(a, b Version) bool { return a.Major == b.Major })
}
