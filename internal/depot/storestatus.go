package depot

import (
	"context"

	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/index/engine"
)

// StoreStatus describes the services that a depot needs besides its folder.
type StoreStatus struct {
	// Database is set if the index is in a database; DatabaseUp if this process
	// knows its current generation, so that it answers from memory.
	Database, DatabaseUp bool
	// Replicas counts the lookups that went to replicas of the database.
	Replicas ReplicaStatus
	// Waits count how long writers of the index waited.
	Waits *IndexWaits
	// Nodes describes the servers on the database; nil if the index is in a file.
	Nodes *nodes.Status
	// Bucket describes the bucket of the contents; nil if they are on disk.
	Bucket *BucketStatus
}

// ReplicaStatus counts what replicas of the database did for this process.
type ReplicaStatus = engine.ReplicaStatus

// IndexWaits count how long writers of the index waited.
type IndexWaits = engine.Waits

// WaitCount counts waits; the bounds of its buckets are WaitBounds, in seconds.
type WaitCount = engine.WaitCount

// WaitBounds are the bounds of the buckets of a WaitCount, in seconds.
var WaitBounds = engine.WaitBounds[:]

// BucketStatus describes a bucket.
type BucketStatus = bucketstore.Status

// BucketCache describes the local cache of a bucket.
type BucketCache = bucketstore.Usage

// Stores returns the state of the database and of the bucket, as far as this
// process has noticed. It sends no request.
func (d *Depot) Stores(ctx context.Context) StoreStatus {
	s := StoreStatus{Database: d.InDatabase(), Waits: d.db.Waits}
	if s.Database {
		_, err := d.filter.Generation(ctx)
		s.DatabaseUp = err == nil
		s.Replicas = d.db.Nodes.Replicas()
	}
	if n, ok := d.Nodes.Status(); ok {
		s.Nodes = &n
	}
	if v, ok := coldstore.BucketStore(d.blobs); ok {
		st := v.Status()
		s.Bucket = &st
	}
	return s
}

// OneWait returns a context in which the lookups of one request together wait at most
// once for a database that does not answer.
func OneWait(ctx context.Context) context.Context { return engine.OneWait(ctx) }

// InDatabase reports whether the index of the depot is in a database.
func (d *Depot) InDatabase() bool { return engine.IsURL(d.home.Name) }
