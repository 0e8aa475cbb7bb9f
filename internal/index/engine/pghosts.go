package engine

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pgHosts are the hosts of an address. New connections go to the host of the last
// one first: a host that does not answer costs time.
type pgHosts struct {
	lookup pgconn.LookupFunc

	mu    sync.Mutex
	names map[string]string // host by address; guarded by mu
	good  string            // host and port of the last connection; guarded by mu
}

// hostsOf returns the hosts of an address with their ports, in order.
func hostsOf(c *pgx.ConnConfig) []string {
	list := []string{hostPort(c.Host, c.Port)}
	for _, f := range c.Fallbacks { // a host without and with TLS is in the list twice
		if h := hostPort(f.Host, f.Port); !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	return list
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// preferLast has a pool begin with the host of the last connection.
func preferLast(cfg *pgxpool.Config) {
	h := &pgHosts{lookup: cfg.ConnConfig.LookupFunc, names: make(map[string]string)}
	cfg.ConnConfig.LookupFunc = h.find
	cfg.BeforeConnect, cfg.AfterConnect = h.order, h.note
}

// find looks up the addresses of a host.
func (h *pgHosts) find(ctx context.Context, host string) ([]string, error) {
	addresses, err := h.lookup(ctx, host)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range addresses {
		h.names[a] = host
	}
	return addresses, err
}

// note remembers the host of a connection.
func (h *pgHosts) note(_ context.Context, conn *pgx.Conn) error {
	ip, port, err := net.SplitHostPort(conn.PgConn().Conn().RemoteAddr().String())
	if err != nil {
		return nil // a socket in the file system
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name, ok := h.names[ip]
	if !ok {
		name = ip
	}
	h.good = net.JoinHostPort(name, port)
	return nil
}

// order moves the host of the last connection to the front.
func (h *pgHosts) order(_ context.Context, c *pgx.ConnConfig) error {
	h.mu.Lock()
	good := h.good
	h.mu.Unlock()
	all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	rank := func(f *pgconn.FallbackConfig) int {
		if strings.EqualFold(hostPort(f.Host, f.Port), good) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return rank(a) - rank(b) })
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	return nil
}
