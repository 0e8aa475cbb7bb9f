package durable

import (
	"errors"
	"time"
)

// busyWait is how long an operation waits for programs that hold files open.
const busyWait = 2 * time.Second

// errPending is the error of IsBusy for a file that is already deleted.
var errPending = errors.New("another program holds the deleted file open")

// RetryHeld calls do for each file and, for two seconds, again and again for
// those that other programs hold open. It waits once for all files together. It
// returns the files that are still held: they are unchanged, and the caller
// records them, so that a later call finishes the work. An error of do that is not
// one of [IsBusy] ends the calls.
func RetryHeld(names []string, do func(name string) error) (held []string, err error) {
	deadline := time.Now().Add(busyWait)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		held = nil
		for _, name := range names {
			err := do(name)
			if err != nil && !IsBusy(err) {
				return nil, err
			}
			if err != nil {
				held = append(held, name)
			}
		}
		if len(held) == 0 || time.Now().After(deadline) {
			return held, nil
		}
		names = held
		time.Sleep(wait)
	}
}
