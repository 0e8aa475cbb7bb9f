package depot

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot/cache"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/depot/storerecords"
	"github.com/symdepot/symdepot/internal/derive/arrivals"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/derive/symcachework"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// Options of Open. The zero value opens for reading and writing and makes the
// depot if it does not exist.
type Options struct {
	// MustExist makes a missing depot an error instead of making one.
	MustExist bool
	// MakeCabinets lets Work make the cabinet of a PE, PDB or DBG file after a
	// request for it. Cabinets that have been made are served in any case.
	MakeCabinets bool
	// Records are those of a symbol store that are answered about stored files.
	Records storerecords.Options
	// Sources are the folders that are searched, in order, for files that the
	// depot does not have. They have no product: a scope with the product ""
	// includes them. The caller closes them, after the depot.
	Sources []*tree.Folder
	// Upstreams are asked for files that neither the depot nor the Sources have.
	// Downloaded files are cached. The caller closes them, after the depot.
	Upstreams []Upstream
	// Limits, Lifetimes and Cache are for the Upstreams.
	Limits    Limits
	Lifetimes Lifetimes
	Cache     cache.Limits
	// Jobs configures the leases of background jobs; its Log and Now are not used.
	Jobs JobOptions
	// Transcode configures how SymCache files are made, SymCache the folders that
	// hold them besides the depot.
	Transcode TranscodeOptions
	SymCache  SymCacheOptions
	// Webhooks are told of files that crashes lacked when a build brings them.
	Webhooks []arrivals.Hook
	// KeepDumps is how long crash dumps are kept; zero: not at all.
	KeepDumps time.Duration
	// Symbols configures how Breakpad and GSYM files are made.
	Symbols SymbolsOptions
	// Dial connects to the server of a depot in a database; nil means a plain
	// connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Replicas are the URLs of standbys of the database that answer lookups.
	Replicas []string
	// Bucket keeps the contents of the depot; nil keeps them in its folder. An
	// existing depot must be opened with the same choice. The depot closes it.
	Bucket bucket.Bucket
	// Probe makes Open check that the store of the Bucket can keep contents: see
	// bucketstore.Options. It takes six requests.
	Probe bool
	// Local is the folder of this machine for temporary files and for recently
	// used contents of a Bucket; LocalSize limits the latter, in bytes (zero:
	// 50 GiB). A depot in a folder has a default.
	Local     string
	LocalSize int64
	// Group is the group of users that shares a new depot, by name: folders get
	// the mode 0770 and files 0660. Empty: only the owner may use a new depot,
	// 0700 and 0600. An existing depot keeps its modes.
	Group string
	// ScrubRate is how many bytes per second Work reads to check all stored
	// contents in the background; zero is 8 MiB, negative disables the check.
	ScrubRate int64
	// Cold configures how contents become cold.
	Cold coldstore.ColdOptions
	// Tracer records lookups, downloads and jobs; nil records nothing.
	Tracer *span.Tracer
	// Log receives events of the background; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil is the clock of the database, or time.Now for a depot in
	// a folder.
	Now func() time.Time
	// Stages limits unfinished pushes.
	Stages stage.Limits
	// Links are the rules for links to source files in PDBs that are added or pushed.
	Links srclink.Rules
	// Nodes connects this server with the others of a depot in a database.
	Nodes nodes.Options
	// Hooks are called at events of the background.
	Hooks Hooks
}

// Home returns those of the options that say where the depot is.
func (o *Options) Home() home.Options {
	return home.Options{
		MustExist: o.MustExist, Bucket: o.Bucket, Probe: o.Probe, Local: o.Local, LocalSize: o.LocalSize, Group: o.Group,
		Dial: o.Dial, Replicas: o.Replicas, Log: o.Log, Now: o.Now,
	}
}

// Hooks are functions for tests, which wait for events of a depot with them. nil
// is not called. They must not block.
type Hooks struct {
	// Refreshed is called when the filter of missing keys has been refreshed.
	Refreshed func()
	// Derived is called when Work has made a derived content, or has failed to.
	Derived func(forms.Form)
}

type (
	// Upstream is a server, bucket or folder that files are downloaded from, to be kept.
	Upstream = fetch.Upstream
	// Limits bound downloads.
	Limits = fetch.Limits
	// Lifetimes say for how long it is remembered why an upstream gave no file.
	Lifetimes = fetch.Lifetimes
	// UpstreamStatus are the counters of an upstream.
	UpstreamStatus = fetch.Status
	// MissFilter says which misses to forget.
	MissFilter = misses.MissFilter
)

type (
	// SymCacheAsk is a request for a SymCache file.
	SymCacheAsk = symcachework.Ask
	// SymCacheKey names the PDB that a SymCache file is made of.
	SymCacheKey = symcachework.SymCacheKey
	// SymCacheOptions name the SymCache folders beside the depot itself.
	SymCacheOptions = symcachework.FolderOptions
	// TranscodeOptions configure how SymCache files are made.
	TranscodeOptions = symcachework.MakeOptions
	// JobOptions configure the leases of jobs.
	JobOptions = jobs.Options
)

type (
	// SymbolsOptions configure how Breakpad and GSYM files are made.
	SymbolsOptions = symbolicate.Options
	// SymbolsAsk is a request for a file that can be made of the files of a module.
	SymbolsAsk = symbolicate.Ask
	// SymbolsWork makes symbol files and looks addresses up.
	SymbolsWork = symbolicate.Service
)
