package engine

import "time"

// Peer is another process that answers requests for downloads.
type Peer struct {
	ID      string // random
	Address string // host:port
}

// Pause is a time before which an upstream must not be asked.
type Pause struct {
	Upstream string
	Until    time.Time // by the clock of this machine
	Why      string
}

// Shared is what a process has last learned about the others on its database.
type Shared struct {
	Self  string    // the id of this process among the Peers
	Asked time.Time // when the question was sent
	// Current means that this process may answer from memory. Without it, MissEpoch
	// and the numbers may be outdated.
	Current bool
	// Peers are the processes that have announced an address, this one included,
	// ordered by id.
	Peers []Peer
	// Nodes is the number of processes that know the generation, and Lag how many
	// generations the slowest of them is behind.
	Nodes, Lag int64
	// MissEpoch rises when misses are forgotten.
	MissEpoch uint64
	Pauses    []Pause
	// Facts are the texts that the other processes tell, see Watch.Tell.
	Facts []string
}

// Pool describes the connections to the database server.
type Pool struct {
	InUse, Idle, Most int64
	// Waits counts the times that all connections were in use, WaitTime the time
	// that was spent waiting for one.
	Waits    int64
	WaitTime time.Duration
}
