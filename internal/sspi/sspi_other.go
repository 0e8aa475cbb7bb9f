//go:build !windows

package sspi

func begin(string) (Login, error) { return nil, ErrUnsupported }
