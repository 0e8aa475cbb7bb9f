//go:build !windows

package sspi

func begin(string, []byte) (Login, error) { return nil, ErrUnsupported }
