//go:build !unix

package xz

func newRoom(n int) []byte { return make([]byte, n) }
func freeRoom([]byte)      {}
