package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/nodes"
)

// nodeMetrics are those of a depot on several machines, as this server sees it. A depot in a
// folder has none of them.
func nodeMetrics(stores func(context.Context) depot.StoreStatus) *table[*nodes.Status] {
	type state = *nodes.Status
	type put = func(float64, ...string)
	read := func(ctx context.Context) (state, bool) {
		s := stores(ctx).Nodes
		return s, s != nil
	}
	return newTable(read,
		family[state]{"symdepot_database_connections", "Connections of this server to the database, by state.",
			prometheus.GaugeValue, []string{"state"},
			func(s state, put put) {
				put(float64(s.InUse), "in_use")
				put(float64(s.Idle), "idle")
			}},
		gauge("symdepot_database_connections_max", "The most connections that this server opens to the database.",
			func(s state) float64 { return float64(s.Most) }),
		counter("symdepot_database_waits_total",
			"Times that a query waited for a connection, because all were in use or a new one had to be made.",
			func(s state) float64 { return float64(s.Waits) }),
		counter("symdepot_database_wait_seconds_total", "Time that queries waited for a connection.",
			func(s state) float64 { return s.WaitTime.Seconds() }),
		gauge("symdepot_nodes_live",
			"Processes on the database of the depot that asked for its generation within two seconds, commands included.",
			func(s state) float64 { return float64(s.Live) }),
		gauge("symdepot_nodes_peers", "Servers, this one included, that download for each other.",
			func(s state) float64 { return float64(s.Peers) }),
		gauge("symdepot_nodes_other_policy", "Other servers whose policy of access differs from that of this one.",
			func(s state) float64 { return float64(s.Differ) }),
		gauge("symdepot_nodes_generation_lag", "How many generations the slowest other process was behind at the last question.",
			func(s state) float64 { return float64(s.Lag) }),
		gauge("symdepot_node_generation_age_seconds",
			"Time since this server sent the last question for the generation that was answered. Above two seconds it answers nothing from memory.",
			func(s state) float64 { return s.Age.Seconds() }),
		family[state]{"symdepot_peer_questions_total", "Questions between the servers of the depot: asked by this one; of these unanswered; " +
			"served to others; refused for lack of the secret or above the limit.", prometheus.CounterValue, []string{"result"},
			func(s state, put put) {
				put(float64(s.Questions.Asked), "asked")
				put(float64(s.Questions.Unanswered), "unanswered")
				put(float64(s.Questions.Served), "served")
				put(float64(s.Questions.Refused), "refused")
			}},
	)
}
