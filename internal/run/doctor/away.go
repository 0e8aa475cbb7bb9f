package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// store says what is wrong with the bucket of a depot.
func store(name string, err error) Finding {
	text := strings.ReplaceAll(strings.ReplaceAll(err.Error(), name+": ", ""), "; "+bucket.NoBucketAdvice, "")
	f := Finding{
		Area: "object store", State: Fault,
		Text: fmt.Sprintf("%s: %s; files that are not in the local cache cannot be served", name, text),
	}
	var e *bucket.Error
	right := errors.As(err, &e) && errors.Is(err, fs.ErrPermission)
	if right && (e.Op == "put" || e.Op == "delete") {
		f.Text = fmt.Sprintf("%s: %s; nothing can be added", name, text)
	}
	switch {
	case errors.Is(err, bucket.ErrNoBucket):
		f.Do = bucket.NoBucketAdvice + " (depot.blobs; AWS_ENDPOINT_URL)"
	case errors.Is(err, bucket.ErrClock), strings.Contains(text, "clock"):
		f.Do = "synchronize the clocks of this machine and of the store (NTP)"
	case errors.Is(err, bucket.ErrCredentials):
		f.Do = "set the credentials of the store (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the like)"
	case right && e.Code == "AccessDenied":
		f.Do = "give these credentials the right to put, get, list and delete objects below the prefix"
	case right:
		f.Do = "check the credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the like), and their rights to put, " +
			"get, list and delete objects"
	case e != nil && e.Status == 0, e == nil && strings.Contains(text, "not answered within"):
		f.Do = "check that the store runs, its address (AWS_ENDPOINT_URL), the network, the proxy (HTTPS_PROXY) and the firewall"
	default:
		f.Do = "look at the log of the store; it must keep what is written, and answer puts, gets, lists and deletes"
	}
	return f
}

// databaseAway says why a database server cannot be used.
func databaseAway(name string, err error) Finding {
	f := Finding{Area: "database", State: Fault, Text: err.Error() + "; every lookup fails", Do: "look at the log of the database server"}
	if e, ok := errors.AsType[*home.ConnectError](err); ok {
		f.Text, f.Do = fmt.Sprintf("%s: %s; every lookup fails", name, e.What), e.Do
		if e.Said != "" {
			f.Text = fmt.Sprintf("%s: %s (%s); every lookup fails", name, e.What, e.Said)
		}
	}
	return f
}
