package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
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
// difference.
func turnClock(by time.Duration) error {
	image, err := vdso()
	if err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
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
		0x75, 0x0d, // jne: it is not the time of the day
		0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, seconds
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	}
	binary.LittleEndian.PutUint64(code[13:], uint64(by/time.Second))
	if entry == 0 || room == 0 || entry%8 != 0 || entry+8 > uint64(len(image)) || room+uint64(len(code)) > uint64(len(image)) {
		return errors.New("the vDSO has other functions")
	}
	if err := syscall.Mprotect(image, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC); err != nil {
		return fmt.Errorf("make the vDSO writable: %w", err)
	}
	copy(image[room:], code)
	// Other threads may be asking, so the jump is written at once.
	jump := [8]byte{0xe9, 5: 0x90, 6: 0x90, 7: 0x90}
	binary.LittleEndian.PutUint32(jump[1:], uint32(room-(entry+5)))
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&image[entry])), binary.LittleEndian.Uint64(jump[:]))
	return nil
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
