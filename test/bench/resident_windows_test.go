package bench

import (
	"testing"

	"golang.org/x/sys/windows"
)

// cpuTime returns the processor seconds that a process has used.
func cpuTime(t *testing.T, pid int) float64 {
	t.Helper()
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_INFORMATION, false, uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var created, ended, system, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &ended, &system, &user); err != nil {
		t.Fatal(err)
	}
	ticks := func(f windows.Filetime) float64 { return float64(uint64(f.HighDateTime)<<32 | uint64(f.LowDateTime)) }
	return (ticks(system) + ticks(user)) / 1e7
}
