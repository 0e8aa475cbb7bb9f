package cluster

import (
	"syscall"
)

// Windows has no signals that suspend and resume a process. The tests that use
// them need a PostgreSQL server, which is not tested on Windows.
const signalStop, signalContinue = syscall.Signal(19), syscall.Signal(18)
