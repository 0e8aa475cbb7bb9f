//go:build !linux && !darwin && !windows

package durable

import "errors"

// Space is not known on this system: errors.ErrUnsupported.
func Space(string) (total, free int64, err error) { return 0, 0, errors.ErrUnsupported }
