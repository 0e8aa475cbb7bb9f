package nodes

import (
	"encoding/json"

	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// facts is what a server publishes for the other servers.
type facts struct {
	Name    string        `json:"name"`
	Policy  string        `json:"policy,omitempty"` // see auth.Gate.PolicyHash
	Workers []jobs.Worker `json:"workers,omitempty"`
	Watched []string      `json:"watched,omitempty"` // the products of its watched folders

	differ   []string            // of all others: the names of those with another policy
	watching map[string][]string // of all others: Watched by the addresses of the servers
}

// mostFacts limits the facts of a server, in bytes. Further workers are known to it
// only.
const mostFacts = 64 << 10

// text returns the facts in the form in which they are sent.
func (f facts) text() string {
	for {
		b, err := json.Marshal(f)
		if err != nil {
			return ""
		}
		if len(b) <= mostFacts {
			return string(b)
		}
		f.Workers = f.Workers[:len(f.Workers)/2]
	}
}
