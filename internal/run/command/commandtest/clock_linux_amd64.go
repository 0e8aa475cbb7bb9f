package commandtest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// turnClock turns the clock of this process by whole seconds: everything that asks
// for the time of the day gets a different one, in all packages. Monotonic time stays.
//
// Programs ask through code that the kernel maps into each process, the vDSO. Its
// function clock_gettime is replaced by one that asks by a system call and adds the
// difference. The returned function changes the difference while the program runs.
func turnClock(by time.Duration) (jump func(by time.Duration), err error) {
	image, err := vdso()
	if err != nil {
		return nil, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	// Go never calls the other function, so its code can be overwritten.
	entry, room := at["__vdso_clock_gettime"], at["__vdso_gettimeofday"]
	code := []byte{
		0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi
		0x75, 0x10, // jne: it is not the time of the day
		0x90, 0x90, 0x90, // nop: the seconds are at a multiple of 8, so that they change at once
		0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, seconds
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	}
	const seconds = 16
	binary.LittleEndian.PutUint64(code[seconds:], uint64(by/time.Second))
	if entry == 0 || room == 0 || entry%8 != 0 || room%8 != 0 || entry+8 > uint64(len(image)) || room+uint64(len(code)) > uint64(len(image)) {
		return nil, errors.New("the vDSO has other functions")
	}
	if err := syscall.Mprotect(image, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return nil, fmt.Errorf("make the vDSO writable: %w", err)
	}
	copy(image[room:], code)
	// Other threads may be asking, so the jump is written at once.
	branch := [8]byte{0xe9, 5: 0x90, 6: 0x90, 7: 0x90}
	binary.LittleEndian.PutUint32(branch[1:], uint32(room-(entry+5)))
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&image[entry])), binary.LittleEndian.Uint64(branch[:]))
	return func(by time.Duration) {
		atomic.StoreInt64((*int64)(unsafe.Pointer(&image[room+seconds])), int64(by/time.Second))
	}, nil
}

// SignalJump tells a process whose clock is turned to turn it to the other side.
const SignalJump = syscall.SIGUSR2

// onJump calls fn for each signalJump.
func onJump(fn func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, SignalJump)
	go func() {
		for range c {
			fn()
		}
	}()
}

// vdso returns the memory of the vDSO.
func vdso() ([]byte, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		var start, end uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
			return nil, err
		}
		// The address of memory that Go does not manage.
		return unsafe.Slice(*(**byte)(unsafe.Pointer(&start)), end-start), nil
	}
	return nil, errors.New("there is no vDSO")
}
