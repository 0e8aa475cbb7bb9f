// Package upstream implements the sources of package fetch for remote places:
// symbol servers over HTTP and buckets of object stores. Its guard bounds requests
// and stops them while a source fails. Its Dialer opens all connections of the
// program, and refuses addresses that only the operator may name.
package upstream
