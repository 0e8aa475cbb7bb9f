// Package upstream implements the sources of package fetch for remote servers:
// symbol servers over HTTP and buckets of object stores. Its guard limits
// requests and stops them while a source fails. Its Dialer opens all outbound
// connections of the program, and rejects addresses that only the operator may
// name.
package upstream
