// Package wire holds the HTTP header fields and the JSON messages that symdepot servers,
// workers and commands exchange: jobs, pushes, tokens, sign-in, retention, lists. Names of
// fields are in Go's canonical form.
package wire

import "encoding/json"

// Header fields between servers.
const (
	// Hop lists the ids of the servers that a request has passed, in order,
	// separated by commas. A server that finds its own id answers 404: two
	// servers that use each other as upstream would otherwise wait for each
	// other. In a response to another symdepot server it holds the server's own
	// id.
	Hop = "X-Symdepot-Hop"
	// Loop marks a 404 that only means that the request reached a server a
	// second time. Such a miss must not be remembered.
	Loop = "X-Symdepot-Loop"
)

// SignIn begins the text of each answer 401 to a program that requests symbol files; the
// URL of the server follows.
const SignIn = "sign in with: symdepot login "

// Token carries a token, as an alternative to Authorization.
const Token = "X-Symdepot-Token"

// Authentication schemes of Authorization and WWW-Authenticate. Receivers compare
// them without regard to case (RFC 9110 section 11.1).
const (
	Basic     = "Basic"     // RFC 7617
	Bearer    = "Bearer"    // RFC 6750
	Negotiate = "Negotiate" // RFC 4559
)

// Header fields of the job API.
const (
	Worker  = "X-Symdepot-Worker"  // the worker's name
	Lease   = "X-Symdepot-Lease"   // the secret of one lease
	Version = "X-Symdepot-Version" // the version of the tool that made a result
	SHA256  = "X-Symdepot-Sha256"  // the result's SHA-256 in hex
	Detail  = "X-Symdepot-Detail"  // the tool's output, for people
)

// Header fields of the debuginfod protocol (elfutils, debuginfod(8)), as
// elfutils spells them on the wire. Some clients compare them literally, so
// responses must not use Go's canonical form.
const (
	DebuginfodSize    = "X-DEBUGINFOD-SIZE"
	DebuginfodFile    = "X-DEBUGINFOD-FILE"
	DebuginfodArchive = "X-DEBUGINFOD-ARCHIVE"
	// DebuginfodSignature is the IMA signature of the file, in hex, from its RPM package.
	// elfutils' code spells it so on both sides; its manual has one more hyphen.
	DebuginfodSignature = "X-DEBUGINFOD-IMASIGNATURE"
)

// DepotHeader is the header field of /healthz and /readyz that tells the depot of a server
// from every other depot. Its value says nothing else of the depot.
const DepotHeader = "Symdepot-Depot"

// JobsPath is the path of the job API below a server's base URL:
//
//	POST lease            leases jobs; waits until there is one
//	POST ID/heartbeat     renews a lease
//	GET  ID/input         the input file of the job
//	POST ID/complete      the body is the result
//	POST ID/fail          the job failed; the body is a Failure
//	POST ID/release       gives the job back
//	POST bye              the worker stops
//
// 409 means that the worker no longer holds the lease, 410 that the job has
// failed because its input file is not found, and 422 that the body is not a valid
// result. Any other failure may be retried.
const JobsPath = "/-/worker/"

// LeaseRequest is the body of a lease request.
type LeaseRequest struct {
	Worker string `json:"worker"`
	// Abilities are what the worker can do, at most MaxAbilities. The server ignores
	// those of kinds that it does not have, unless it has none of them.
	Abilities []Ability `json:"abilities"`
	Slots     int       `json:"slots"`        // number of jobs that it can start now
	Wait      int       `json:"wait_seconds"` // how long to wait for the first job
}

// MaxAbilities is how many abilities a worker may have.
const MaxAbilities = 32

// Ability is one thing that a worker can make. The words and numbers are those of
// the kind of job.
type Ability struct {
	Kind    string `json:"kind"`
	Variant int    `json:"variant"`
	Version string `json:"version"` // version of the tool
}

// LeaseAnswer is the response to a lease request.
type LeaseAnswer struct {
	Jobs []Job `json:"jobs"`
}

// Job is one leased job.
type Job struct {
	ID    int64  `json:"id"`
	Token string `json:"token"` // the secret of the lease, returned in the field Lease
	// Kind, Key and Variant identify the work; see Ability.
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Variant int    `json:"variant"`
	// Input is what the kind tells its workers about the job, as JSON.
	Input json.RawMessage `json:"input"`
	// Attempts is the number of leases of the job so far.
	Attempts int `json:"attempts"`
	// Seconds is the time after which the lease ends unless it is renewed.
	Seconds int64 `json:"lease_seconds"`
}

// InputVerb is the last segment of the path of a job's input file.
const InputVerb = "input"

// Failure is the body of a failure.
type Failure struct {
	Class   string `json:"class"`             // a word of the kind, or ClassInfra
	Version string `json:"version,omitempty"` // version of the tool
	Detail  string `json:"detail"`            // for people, at most 8 KiB
}

// ClassInfra is the class of a failure of the worker's machine, in every kind.
const ClassInfra = "infra"

// JobEnded is the body of a 410: the server has ended the job.
type JobEnded struct {
	Class  string `json:"class"`
	Detail string `json:"detail"`
}

// Paths of the API for files that a client has.
const (
	IdentifyPath = APIPath + "/identify"
	MatchPath    = APIPath + "/match"
)

// Match is the body of a request for what the depot has of files.
type Match struct {
	Files []MatchFile `json:"files"`
}

// MatchFile is a file by its name and id, in any spelling.
type MatchFile struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}
