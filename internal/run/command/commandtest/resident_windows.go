package commandtest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryCounters is a PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	size, faults                                             uint32
	peakWorkingSet, workingSet                               uintptr
	peakPagedPool, pagedPool, peakNonPagedPool, nonPagedPool uintptr
	pagefile, peakPagefile                                   uintptr
}

// Resident returns a process's peak and present resident memory in MiB.
func Resident(t *testing.T, pid int) (peak, now float64) {
	t.Helper()
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_INFORMATION|windows.PROCESS_VM_READ, false, uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	c := memoryCounters{size: uint32(unsafe.Sizeof(memoryCounters{}))}
	get := windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")
	if ok, _, err := get.Call(uintptr(h), uintptr(unsafe.Pointer(&c)), uintptr(c.size)); ok == 0 {
		t.Fatalf("memory of process %d: %v, want success", pid, err)
	}
	return float64(c.peakWorkingSet) / (1 << 20), float64(c.workingSet) / (1 << 20)
}
