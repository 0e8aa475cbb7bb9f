package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// stores reports the state of the database and of the bucket of a depot that has
// them.
type stores struct {
	depot interface {
		Stores(ctx context.Context) depot.StoreStatus
	}
}

var (
	descDatabaseUp      = prometheus.NewDesc("symdepot_database_up", "1 while this server knows the current generation of the index in the database; 0: it answers nothing from memory, and lookups wait or get 503.", nil, nil)
	descReplicas        = prometheus.NewDesc("symdepot_database_replica_lookups_total", "Lookups of this server on replicas of the database: answered by one, or repeated on the primary because the replica was behind or failed.", []string{"result"}, nil)
	descIndexWaits      = prometheus.NewDesc("symdepot_index_wait_seconds", "Time that writers of the index waited: for other writers (lock) and for the disk (commit); of an index in a database the whole transaction.", []string{"for"}, nil)
	descBucketUp        = prometheus.NewDesc("symdepot_bucket_up", "1 if the object store answered the last request of this server; 0: files of the local cache are served, others get 503.", nil, nil)
	descBucketForeign   = prometheus.NewDesc("symdepot_bucket_foreign", "1 if another copy of the database owns the objects of the bucket, so that this one deletes none until symdepot gc --claim.", nil, nil)
	descBucketDownloads = prometheus.NewDesc("symdepot_bucket_downloads_total", "Contents that this server has downloaded from the bucket.", nil, nil)
	descBucketUploads   = prometheus.NewDesc("symdepot_bucket_uploads_total", "Contents that this server has uploaded to the bucket.", nil, nil)
	descBucketFailures  = prometheus.NewDesc("symdepot_bucket_failures_total", "Requests of this server that the object store has not answered, or has refused.", nil, nil)
	descLocalFiles      = prometheus.NewDesc("symdepot_bucket_cache_files", "Contents in the local cache of the bucket.", nil, nil)
	descLocalBytes      = prometheus.NewDesc("symdepot_bucket_cache_bytes", "Bytes in the local cache of the bucket.", nil, nil)
	descLocalLimit      = prometheus.NewDesc("symdepot_bucket_cache_limit_bytes", "Size above which contents are evicted from the local cache of the bucket.", nil, nil)
)

// Describe implements prometheus.Collector.
func (stores) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDatabaseUp, descReplicas, descIndexWaits, descBucketUp, descBucketForeign, descBucketDownloads, descBucketUploads, descBucketFailures, descLocalFiles, descLocalBytes, descLocalLimit} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c stores) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), holdingsTimeout)
	defer cancel()
	st := c.depot.Stores(ctx)
	value := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v)
	}
	is := func(d *prometheus.Desc, yes bool) {
		v := 0.0
		if yes {
			v = 1
		}
		value(d, prometheus.GaugeValue, v)
	}
	if st.Database {
		is(descDatabaseUp, st.DatabaseUp)
		if r := st.Replicas; r.Hosts > 0 {
			for result, n := range map[string]uint64{"answered": r.Answered, "behind": r.Behind, "failed": r.Failed} {
				ch <- prometheus.MustNewConstMetric(descReplicas, prometheus.CounterValue, float64(n), result)
			}
		}
	}
	if st.Waits != nil {
		waits(ch, st.Waits, st.Database)
	}
	b := st.Bucket
	if b == nil {
		return
	}
	is(descBucketUp, b.Up)
	is(descBucketForeign, b.Foreign)
	value(descBucketDownloads, prometheus.CounterValue, float64(b.Downloads))
	value(descBucketUploads, prometheus.CounterValue, float64(b.Uploads))
	value(descBucketFailures, prometheus.CounterValue, float64(b.Failures))
	value(descLocalFiles, prometheus.GaugeValue, float64(b.Cache.Files))
	value(descLocalBytes, prometheus.GaugeValue, float64(b.Cache.Bytes))
	value(descLocalLimit, prometheus.GaugeValue, float64(b.Cache.Limit))
}

// waits reports how long writers of the index waited.
func waits(ch chan<- prometheus.Metric, w *depot.IndexWaits, database bool) {
	counts := map[string]depot.WaitCount{"lock": w.Lock(), "commit": w.Commit()}
	if database {
		counts = map[string]depot.WaitCount{"transaction": w.Transaction()}
	}
	for what, c := range counts {
		buckets := make(map[float64]uint64, len(c.Up))
		for i, n := range c.Up {
			buckets[depot.WaitBounds[i]] = n
		}
		ch <- prometheus.MustNewConstHistogram(descIndexWaits, c.Count, c.Sum.Seconds(), buckets, what)
	}
}
