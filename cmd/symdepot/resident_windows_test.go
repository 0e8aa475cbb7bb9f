package main

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

// resident returns a process's peak and present resident memory in MiB.
func resident(t *testing.T, pid int) (peak, now float64) {
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
