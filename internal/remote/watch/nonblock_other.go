//go:build !unix

package watch

const nonblock = 0
