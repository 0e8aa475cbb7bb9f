package wire

import "time"

// PushPath is the path of the push API below a server's base URL:
//
//	GET    (the path itself)                   the Limits of a push
//	POST   stages                              opens a stage; the body is a PushSpec
//	GET    stages/ID                           the PushState of a stage
//	DELETE stages/ID                           abandons it
//	POST   stages/ID/check                     the body is a list of PushEntry, the answer one of PushVerdict
//	PUT    stages/ID/contents                  several whole contents: their list, see AppendContents, and then the
//	                                           bytes of one after the other; the answer is a list of PushVerdict
//	PUT    stages/ID/contents/SHA256           a whole content
//	GET    stages/ID/contents/SHA256/parts     the PushParts that have arrived; with all of them the content has
//	PUT    stages/ID/contents/SHA256/parts/N   a part of a content
//	GET    stages/ID/blocks/SHA256             the blocks of a stored content, for recipes from it
//	POST   stages/ID/commit                    the body is a PushCommit, the answer a PushCommitted
//
// Every request may be repeated. Errors are a Problem.
const PushPath = "/-/api/v1/push"

// UploadLength is the header field with the length in bytes of the content that
// a part belongs to.
const UploadLength = "Upload-Length"

// UploadBase is the header field with the SHA-256 of the stored content from which the body, a
// recipe, makes a content or a part of one.
const UploadBase = "Upload-Base"

// ProblemType precedes the word in the type of a Problem.
const ProblemType = "urn:symdepot:problem:"

// Problem is the body of an error (RFC 9457).
type Problem struct {
	Type    string            `json:"type"`
	Title   string            `json:"title"`
	Status  int               `json:"status"`
	Detail  string            `json:"detail,omitempty"`
	Request string            `json:"request,omitempty"` // the number of the request in the server's log
	Fields  map[string]string `json:"fields,omitempty"`  // wrong members of the request
	Missing []string          `json:"missing,omitempty"` // SHA-256 of contents that a commit lacks, 1,000 at most
}

// PushLimits are the limits of a push. Times are in seconds, sizes in bytes.
type PushLimits struct {
	Version    int      `json:"version"` // of the protocol: 1
	MaxFile    int64    `json:"max_file"`
	MaxFiles   int64    `json:"max_files"`
	MaxBytes   int64    `json:"max_bytes,omitempty"`  // of one push
	CheckBatch int      `json:"check_batch"`          // entries of one check
	Part       int64    `json:"part"`                 // size of all parts of a content but the last
	WholeBelow int64    `json:"whole_below"`          // contents from this size on should be sent in parts
	Encodings  []string `json:"encodings"`            // content codings of contents and parts
	Blocks     string   `json:"blocks,omitempty"`     // how contents are cut into blocks for recipes; empty: there are none
	BareParts  bool     `json:"bare_parts,omitempty"` // a part needs no Content-Digest: the content is hashed as a whole
	// Several and SeveralBytes are how many contents one request may have, and the sum of their sizes;
	// zero: each has a request of its own.
	Several      int         `json:"several,omitempty"`
	SeveralBytes int64       `json:"several_bytes,omitempty"`
	Idle         int64       `json:"idle"`             // a stage expires after this time without a request
	Longest      int64       `json:"longest"`          // and after this time in any case
	Quotas       []PushQuota `json:"quotas,omitempty"` // of the products that the caller may write to
}

// PushQuota is the quota of a product.
type PushQuota struct {
	Product string `json:"product"`
	Bytes   int64  `json:"bytes"`
	Used    int64  `json:"used"`
}

// PushSpec describes the transaction that a push makes.
type PushSpec struct {
	Product string `json:"product"`
	Version string `json:"version"`
	Branch  string `json:"branch,omitempty"`
	Class   string `json:"class,omitempty"`
	Comment string `json:"comment,omitempty"`
	// Key names the stage: the same key of the same principal is the same stage.
	Key string `json:"key,omitempty"`
	// Join: several clients push into the stage.
	Join  bool       `json:"join,omitempty"`
	CIJob *PushCIJob `json:"ci_job,omitempty"`
}

// PushCIJob says what made the files. The server records it as the client's
// claim.
type PushCIJob struct {
	CI      string `json:"ci,omitempty"`
	URL     string `json:"url,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Run     string `json:"run,omitempty"`
	Attempt string `json:"attempt,omitempty"`
}

// States of a stage.
const (
	StageOpen      = "open"
	StageCommitted = "committed"
)

// PushState is the state of a stage.
type PushState struct {
	ID          string    `json:"id"`
	State       string    `json:"state"`
	Product     string    `json:"product"`
	Version     string    `json:"version"`
	Branch      string    `json:"branch,omitempty"`
	Class       string    `json:"class,omitempty"`
	Comment     string    `json:"comment,omitempty"`
	Expires     time.Time `json:"expires,omitzero"`
	Files       int64     `json:"files"`
	Bytes       int64     `json:"bytes"`
	Have        int64     `json:"have"`
	Got         int64     `json:"got"`
	Refused     int64     `json:"refused"`
	Missing     []string  `json:"missing,omitempty"` // SHA-256, 1,000 at most
	Transaction int64     `json:"build,omitempty"`
}

// PushEntry is one file of a push.
type PushEntry struct {
	Path   string    `json:"path"` // relative, with slashes
	Size   int64     `json:"size"`
	SHA256 string    `json:"sha256"`
	As     string    `json:"as,omitempty"` // the kind and the id that the client claims
	ID     string    `json:"id,omitempty"`
	MTime  time.Time `json:"mtime,omitzero"`
}

// Answers of a check.
const (
	PushHave   = "have"   // the server has the content
	PushSend   = "send"   // the client must send it
	PushRefuse = "refuse" // the file cannot be pushed
)

// PushVerdict is the server's answer for one entry.
type PushVerdict struct {
	Answer string `json:"answer"`
	Reason string `json:"reason,omitempty"` // of a refusal
	// Base is the SHA-256 of a stored content that the file may be much like.
	Base string `json:"base,omitempty"`
}

// PushParts lists the parts of a content that have arrived.
type PushParts struct {
	Part   int64  `json:"part"` // size of all parts but the last
	Length int64  `json:"length"`
	Got    string `json:"got"` // ranges of part numbers from 0 on, such as "0-11,13"
}

// PushCommit asks for the transaction.
type PushCommit struct {
	Files int64 `json:"files"` // how many entries the stage has
	// Manifest is the SHA-256 in hex of the sorted lines "SHA256 SIZE PATH\n" of
	// all entries; empty: not checked.
	Manifest string `json:"manifest,omitempty"`
	Partial  bool   `json:"partial,omitempty"` // commit without the refused files
	Anew     bool   `json:"anew,omitempty"`    // also if an equal transaction exists
	// Needs are transactions that are kept as long as this one.
	Needs []int64 `json:"needs,omitempty"`
}

// PushCommitted is the result of a commit.
type PushCommitted struct {
	Transaction int64 `json:"build"`
	Again       bool  `json:"again,omitempty"` // the transaction existed before
	Files       int64 `json:"files"`
	KnownBytes  int64 `json:"known_bytes"`
	NewBytes    int64 `json:"new_bytes"`
	// OtherBytes counts the files of whose ids the product had other bytes.
	OtherBytes int64         `json:"other_bytes,omitempty"`
	Refused    []PushRefused `json:"refused,omitempty"`
	Flags      []PushFlag    `json:"flags,omitempty"` // notes about links to source files
}

// PushFlag is a note about a file of a transaction.
type PushFlag struct {
	Path string `json:"path"`
	Note string `json:"note"`
}

// PushRefused is a file that a transaction lacks.
type PushRefused struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}
