package stage

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// Kind is the kind of a Refusal.
type Kind int

// The kinds of refusals, with the HTTP status that fits.
const (
	NotFound  Kind = iota + 1 // 404: there is no such stage of the caller
	Invalid                   // 400: the request contradicts itself or the protocol
	TooLarge                  // 413: the file or the stage is above a limit
	Quota                     // 413 or 507: the product would be above its quota
	TooMany                   // 429: the caller has too many open stages
	Busy                      // 503: try again later
	NoSpace                   // 507: the disk is full
	Conflict                  // 409: the stage is committed, or contents are missing
	WrongHash                 // 422: the bytes do not have the announced hash or size
	Forbidden                 // 403
	NotSymbol                 // 422: the file is no symbol file with an id, or has another id than announced
	Lost                      // 500: files that were accepted are not in the transaction
)

// Refusal is an error that a client can do something about.
type Refusal struct {
	Kind Kind
	Text string // for users
	// Missing are contents to send again before the commit, at most 1,000.
	Missing []blob.Ref
}

func (r *Refusal) Error() string { return r.Text }

func refuse(k Kind, format string, v ...any) *Refusal {
	return &Refusal{Kind: k, Text: fmt.Sprintf(format, v...)}
}

func notFound(id string) *Refusal {
	return refuse(NotFound, "there is no stage %.40q: it has expired or was deleted", id)
}

func noSuchContent(ref blob.Ref) *Refusal {
	return refuse(Conflict, "no file of the stage has the content %s: check it first", ref)
}

func wrongContent(is, want blob.Ref) *Refusal {
	return refuse(WrongHash, "the content has SHA-256 %s, not %s", is, want)
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func wrongClass(c Caller) *Refusal {
	return refuse(Forbidden, "the credentials are for the class %q only", c.Class)
}

func noSuchNeed(n int64) *Refusal {
	return refuse(Invalid, "the push needs build %d, which does not exist or was removed", n)
}

func overQuota(product string, sum, most int64) *Refusal {
	name := fmt.Sprintf("product %q", product)
	if product == "" {
		name = "the files without a product"
	}
	return refuse(Quota, "%s would hold %d bytes: %d more than the quota of %d", name, sum, sum-most, most)
}

func missingRefusal(refs []blob.Ref) *Refusal {
	return &Refusal{
		Kind: Conflict, Text: fmt.Sprintf("contents are missing, among them %s: send them and commit again", refs[0]),
		Missing: refs,
	}
}
