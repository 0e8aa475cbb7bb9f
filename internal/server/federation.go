package server

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/fetch"
)

// maxAgent is how many bytes of a client's User-Agent debuginfod upstreams
// receive.
const maxAgent = 256

// origin returns what debuginfod upstreams learn about a client, as from elfutils'
// servers: its User-Agent, and X-Forwarded-For with its address appended.
func origin(r *http.Request) fetch.Origin {
	o := fetch.Origin{Agent: r.UserAgent()}
	if len(o.Agent) > maxAgent {
		o.Agent = ""
	}
	for _, v := range r.Header["X-Forwarded-For"] {
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" && len(o.Forwarded) < maxHops {
				o.Forwarded = append(o.Forwarded, s)
			}
		}
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		o.Forwarded = append(o.Forwarded, host)
	}
	return o
}

// federate searches the debuginfod upstreams. It does not forward a request that
// has passed this server before, or that has passed too many servers.
func (s *metadataSearch) federate(ctx context.Context, x *exchange, r *http.Request, key, value string) (list []depot.Metadata, complete bool) {
	if !s.depot.Fetches() {
		return nil, true
	}
	via, loop := s.via(r)
	if loop {
		return nil, true
	}
	return s.depot.UpstreamMetadata(ctx, depot.Question{Scope: x.caller.scope, Via: via, Origin: origin(r)}, key, value)
}
