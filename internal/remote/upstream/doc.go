// Package upstream implements the upstreams of package fetch for remote servers:
// symbol servers over HTTP and buckets of object stores. Its guard limits
// requests and stops them while an upstream fails. Its Dialer opens all outbound
// connections of the program, and rejects addresses that only the operator may
// name.
package upstream
