package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
)

// nodes reports the state of a depot on several machines, as this server sees it.
type nodes struct {
	depot interface {
		Stores(ctx context.Context) depot.StoreStatus
	}
}

var (
	descDBConns    = prometheus.NewDesc("symdepot_database_connections", "Connections of this server to the database, by state.", []string{"state"}, nil)
	descDBMost     = prometheus.NewDesc("symdepot_database_connections_max", "The most connections that this server opens to the database.", nil, nil)
	descDBWaits    = prometheus.NewDesc("symdepot_database_waits_total", "Times that a query waited for a connection, because all were in use or a new one had to be made.", nil, nil)
	descDBWaitTime = prometheus.NewDesc("symdepot_database_wait_seconds_total", "Time that queries waited for a connection.", nil, nil)
	descNodesLive  = prometheus.NewDesc("symdepot_nodes_live", "Processes on the database of the depot that asked for its generation within two seconds, commands included.", nil, nil)
	descNodesPeers = prometheus.NewDesc("symdepot_nodes_peers", "Servers, this one included, that download for each other.", nil, nil)
	descNodesRules = prometheus.NewDesc("symdepot_nodes_other_policy", "Other servers whose policy of access differs from that of this one.", nil, nil)
	descNodesLag   = prometheus.NewDesc("symdepot_nodes_generation_lag", "How many generations the slowest other process was behind at the last question.", nil, nil)
	descNodeAge    = prometheus.NewDesc("symdepot_node_generation_age_seconds", "Time since this server sent the last question for the generation that was answered. Above two seconds it answers nothing from memory.", nil, nil)
	descPeerAsked  = prometheus.NewDesc("symdepot_peer_questions_total", "Questions between the servers of the depot: asked by this one; of these unanswered; served to others; refused for lack of the secret or above the limit.", []string{"result"}, nil)
)

// Describe implements prometheus.Collector.
func (nodes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descDBConns, descDBMost, descDBWaits, descDBWaitTime, descNodesLive, descNodesPeers, descNodesRules, descNodesLag, descNodeAge, descPeerAsked} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. A depot in a folder has none of these.
func (c nodes) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), holdingsTimeout)
	defer cancel()
	s := c.depot.Stores(ctx).Nodes
	if s == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(descDBConns, float64(s.InUse), "in_use")
	gauge(descDBConns, float64(s.Idle), "idle")
	gauge(descDBMost, float64(s.Most))
	counter(descDBWaits, float64(s.Waits))
	counter(descDBWaitTime, s.WaitTime.Seconds())
	gauge(descNodesLive, float64(s.Live))
	gauge(descNodesPeers, float64(s.Peers))
	gauge(descNodesRules, float64(s.Differ))
	gauge(descNodesLag, float64(s.Lag))
	gauge(descNodeAge, s.Age.Seconds())
	q := s.Questions
	counter(descPeerAsked, float64(q.Asked), "asked")
	counter(descPeerAsked, float64(q.Unanswered), "unanswered")
	counter(descPeerAsked, float64(q.Served), "served")
	counter(descPeerAsked, float64(q.Refused), "refused")
}
