//go:build !linux && !darwin && !windows

package durable

import "errors"

// Space returns errors.ErrUnsupported: this system has no call for it.
func Space(string) (total, free int64, err error) { return 0, 0, errors.ErrUnsupported }
