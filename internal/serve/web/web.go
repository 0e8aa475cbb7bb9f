// Package web answers requests for the server's own addresses below /-/: the
// JSON API and the pages for people. The server authenticates the client of a request
// before it hands the request over, and before the body is read.
package web

import "slices"

// The first segments of own addresses, after "-". None of them is the key of a
// symbol file, so that a module named "-" is found. The workers' API, worker, is
// answered by the server.
var words = []string{
	"about", "api", "assets", "audit", "builds", "connect", "crashes", "device", "disk", "docs", "events", "file", "identify", "jobs", "login",
	"logout", "missing", "oauth", "prefs", "product", "products", "publish", "retention", "search",
	"signins", //nolint:misspell // a word of addresses
	"src", "symbolicate", "tokens", "trace", "upstreams", "version", "worker",
}

// Claims reports whether a path, given as decoded segments, is an own address
// and no symbol file's: "-", alone or before one of a closed list of words.
func Claims(segs []string) bool {
	if len(segs) == 0 || segs[0] != "-" {
		return false
	}
	if len(segs) == 1 {
		return true
	}
	_, ok := slices.BinarySearch(words, segs[1])
	return ok
}

// IsAPI reports whether a claimed path is one of the JSON API, which API.Serve
// answers.
func IsAPI(segs []string) bool { return Claims(segs) && len(segs) > 1 && segs[1] == "api" }

// MatchPath compares segments with a path in which "*" is any segment, and returns the
// segments in place of "*".
func MatchPath(path, segs []string) (args []string, ok bool) {
	if len(segs) != len(path) {
		return nil, false
	}
	for i, s := range path {
		switch s {
		case "*":
			args = append(args, segs[i])
		case segs[i]:
		default:
			return nil, false
		}
	}
	return args, true
}
