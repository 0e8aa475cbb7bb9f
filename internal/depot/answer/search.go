package answer

import (
	"context"
	"errors"
	"io/fs"
)

// Places are places where the file that answers a request can be.
type Places uint8

// The places.
const (
	// Added are the files of transactions, and what is derived of them: sections, cabinets,
	// records of a symbol store, source files that debug information names.
	Added Places = 1 << iota
	// Watched are the folders of builds and packages that this server or another one indexes
	// where they lie.
	Watched
	// Cached are downloaded files that the depot keeps.
	Cached
	// Served are the trees that are served in place.
	Served
	// Upstreams are servers, buckets and folders from which files are downloaded.
	Upstreams
	// Renamed are cached files of another name than the requested one that have its id.
	Renamed
	// Made are files that are made for a request, of other files of the module: .sym and GSYM
	// files, source bundles.
	Made
)

// Groups of places.
const (
	Here       = Added | Watched | Cached | Served // no other server is asked, but those that share the depot
	InPlace    = Watched | Served                  // nothing of it is stored in the depot
	Elsewhere  = Upstreams | Renamed | Made        // after what is Here
	Everywhere = Here | Elsewhere
)

// order is the order in which the places are asked. It holds for every request for one file,
// whoever asks: debuggers, commands, traces, and those who make other files of it.
//
// Symbolication joins several files of a module, and chooses among those of the index by their
// rows (symbolicate, find): cached files are not behind watched ones there. For InPlace it keeps
// to this order.
var order = [...]Places{Added, Watched, Cached, Served, Upstreams, Renamed, Made}

// Searcher looks into one place.
type Searcher interface {
	// Look returns the file that a place has. If it has none, the error is fs.ErrNotExist,
	// with its reason. No file and no error mean that the place was passed over, or that it
	// gives no reason. Any other error ends the search.
	Look(ctx context.Context, place Places) (*File, error)
}

// Search asks some places in their order, and returns the first file. If no place has it, the
// error is fs.ErrNotExist with the reason of the last one that gave one.
func Search(ctx context.Context, among Places, s Searcher) (*File, error) {
	notFound := fs.ErrNotExist
	for _, place := range order {
		if among&place == 0 {
			continue
		}
		f, err := s.Look(ctx, place)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case err != nil:
			notFound = err
		case f != nil:
			return f, nil
		}
	}
	return nil, notFound
}
