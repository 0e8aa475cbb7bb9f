//go:build !(linux && amd64)

package main

import (
	"errors"
	"time"
)

// turnClock turns the clock of this process, where that is possible.
func turnClock(time.Duration) error { return errors.ErrUnsupported }
