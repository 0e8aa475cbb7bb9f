package symcachework

import (
	"context"

	"github.com/symdepot/symdepot/symcache"
)

// Ask is a request for a SymCache file.
type Ask struct {
	Products []string // that the client may see; nil is all
	Request  symcache.Request
	// Exceeds is the version that the client has; zero: none.
	Exceeds symcache.Version
	// AllowsRetry means that the client prefers to retry later than to wait; Head,
	// that it wants no content and never waits.
	AllowsRetry, Head bool
	// HexAge also looks for the age read as hex, if no file of the decimal age is
	// held.
	HexAge bool
	// Only, if not zero, is the version of the one file that is wanted.
	Only symcache.Version
	// HeldOnly answers with held files only: nothing is made and nobody is asked.
	HeldOnly bool
	// Via are the servers that the request has passed, this one last.
	Via []string
	// Client is the address of the client, without the port. It bounds the work of
	// one client. Empty: no client in particular.
	Client string
	// Hold holds the request while its file is made or downloaded: it calls wait,
	// which returns when the work has ended or its context ends. gaveUp means that
	// the client cannot wait any longer. If Hold is nil, it cannot wait at all.
	Hold func(ctx context.Context, wait func(ctx context.Context) error) (gaveUp bool, err error)
}
