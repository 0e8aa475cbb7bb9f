package intake

import (
	"os"
	"time"
)

// aliveFile is touched every minute while a handler has the folder.
const aliveFile = "alive"

// alone finds out whether this process has seen all requests of the clients: another
// server may have answered some, or the process before this one.
type alone struct {
	file   string
	shared bool
	now    func() time.Time
	from   time.Time // requests of earlier processes were before this time
}

// newAlone returns an alone that counts requests of the last while.
func newAlone(file string, last time.Duration, shared bool, now func() time.Time) *alone {
	a := &alone{file: file, shared: shared, now: now}
	if info, err := os.Stat(file); err == nil && now().Sub(info.ModTime()) < last {
		a.from = now().Add(last)
	}
	a.touch()
	return a
}

// touch records for the next process that this one was running. If that fails, the next one
// only believes clients less often.
func (a *alone) touch() {
	now := a.now()
	if os.Chtimes(a.file, now, now) != nil {
		_ = os.WriteFile(a.file, nil, 0o600) // see above
	}
}

// knowsAll reports whether a request that this process does not know was not made.
func (a *alone) knowsAll() bool { return !a.shared && !a.now().Before(a.from) }
