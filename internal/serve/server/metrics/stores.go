package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// databaseMetrics are those of the database of a depot that has one.
func databaseMetrics(stores func(context.Context) depot.StoreStatus) *table[depot.StoreStatus] {
	type state = depot.StoreStatus
	type put = func(float64, ...string)
	return newTable(func(ctx context.Context) (state, bool) { s := stores(ctx); return s, s.Database },
		gauge("symdepot_database_up", "1 while this server knows the current generation of the index in the database; "+
			"0: it answers nothing from memory, and lookups wait or get 503.",
			func(s state) float64 { return oneIf(s.DatabaseUp) }),
		family[state]{"symdepot_database_replica_lookups_total", "Lookups of this server on replicas of the database: " +
			"answered by one, or repeated on the primary because the replica was behind or failed.",
			prometheus.CounterValue, []string{"result"},
			func(s state, put put) {
				if r := s.Replicas; r.Hosts > 0 {
					put(float64(r.Answered), "answered")
					put(float64(r.Behind), "behind")
					put(float64(r.Failed), "failed")
				}
			}},
	)
}

// bucketMetrics are those of the bucket of a depot that has one.
func bucketMetrics(stores func(context.Context) depot.StoreStatus) *table[*depot.BucketStatus] {
	type state = *depot.BucketStatus
	read := func(ctx context.Context) (state, bool) {
		b := stores(ctx).Bucket
		return b, b != nil
	}
	return newTable(read,
		gauge("symdepot_bucket_up", "1 if the object store answered the last request of this server; "+
			"0: files of the local cache are served, others get 503.",
			func(b state) float64 { return oneIf(b.Up) }),
		gauge("symdepot_bucket_foreign", "1 if another copy of the database owns the objects of the bucket, "+
			"so that this one deletes none until symdepot gc --claim.",
			func(b state) float64 { return oneIf(b.Foreign) }),
		counter("symdepot_bucket_downloads_total", "Contents that this server has downloaded from the bucket.",
			func(b state) float64 { return float64(b.Downloads) }),
		counter("symdepot_bucket_uploads_total", "Contents that this server has uploaded to the bucket.",
			func(b state) float64 { return float64(b.Uploads) }),
		counter("symdepot_bucket_failures_total", "Requests of this server that the object store has not answered, or has refused.",
			func(b state) float64 { return float64(b.Failures) }),
		gauge("symdepot_bucket_cache_files", "Contents in the local cache of the bucket.",
			func(b state) float64 { return float64(b.Cache.Files) }),
		gauge("symdepot_bucket_cache_bytes", "Bytes in the local cache of the bucket.", func(b state) float64 { return float64(b.Cache.Bytes) }),
		gauge("symdepot_bucket_cache_limit_bytes", "Size above which contents are evicted from the local cache of the bucket.",
			func(b state) float64 { return float64(b.Cache.Limit) }),
	)
}

// indexWaits reports how long writers of the index waited.
type indexWaits struct {
	stores func(context.Context) depot.StoreStatus
}

var descIndexWaits = prometheus.NewDesc("symdepot_index_wait_seconds",
	"Time that writers of the index waited: for other writers (lock) and for the disk (commit); "+
		"of an index in a database the whole build.",
	[]string{"for"}, nil)

// Describe implements prometheus.Collector.
func (indexWaits) Describe(ch chan<- *prometheus.Desc) { ch <- descIndexWaits }

// Collect implements prometheus.Collector.
func (c indexWaits) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	st := c.stores(ctx)
	if st.Waits == nil {
		return
	}
	counts := map[string]depot.WaitCount{"lock": st.Waits.Lock(), "commit": st.Waits.Commit()}
	if st.Database {
		counts = map[string]depot.WaitCount{"build": st.Waits.Transaction()}
	}
	for what, c := range counts {
		buckets := make(map[float64]uint64, len(c.Up))
		for i, n := range c.Up {
			buckets[depot.WaitBounds[i]] = n
		}
		ch <- prometheus.MustNewConstHistogram(descIndexWaits, c.Count, c.Sum.Seconds(), buckets, what)
	}
}
