//go:build !(linux && amd64)

package commandtest

import (
	"errors"
	"syscall"
	"time"
)

// turnClock turns the clock of this process, where that is possible.
func turnClock(time.Duration) (jump func(time.Duration), err error) {
	return nil, errors.ErrUnsupported
}

// SignalJump is not sent where clocks cannot be turned.
const SignalJump = syscall.SIGINT

func onJump(func()) {}
