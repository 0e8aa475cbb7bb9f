//go:build ignore

// Stepdump runs a Windows program under its own debugger and writes minidumps of
// it with MiniDumpWriteDump at chosen places of a module:
//
//	stepdump OUT NUMBER MODULE ADDRESSES PROGRAM [ARGUMENT...]
//
// MODULE is the file of the program or of a DLL that it loads. ADDRESSES is a file
// of relative addresses in hex, each the first byte of an instruction; each place
// is dumped once. A crash is dumped too. OUT-01.dmp and so on are written, at most
// NUMBER. Wine's MiniDumpWriteDump writes no CodeView records: stepdump adds them.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

var (
	kernel32    = syscall.NewLazyDLL("kernel32.dll")
	dbghelp     = syscall.NewLazyDLL("dbghelp.dll")
	waitDebug   = kernel32.NewProc("WaitForDebugEvent")
	contDebug   = kernel32.NewProc("ContinueDebugEvent")
	readMemory  = kernel32.NewProc("ReadProcessMemory")
	writeMemory = kernel32.NewProc("WriteProcessMemory")
	getContext  = kernel32.NewProc("GetThreadContext")
	setContext  = kernel32.NewProc("SetThreadContext")
	terminate   = kernel32.NewProc("TerminateProcess")
	writeDump   = dbghelp.NewProc("MiniDumpWriteDump")
)

const wide = unsafe.Sizeof(uintptr(0)) == 8

// The offsets in a CONTEXT and in a DEBUG_EVENT of this processor.
func layout() (size, flags, ip, event, record int, all uint32) {
	if wide {
		return 1232, 0x30, 0xF8, 16, 152, 0x10001F
	}
	return 716, 0, 0xB8, 12, 80, 0x1003F
}

type debugger struct {
	out     string
	left    int
	number  int
	process uintptr
	pid     uint32
	threads map[uint32]uintptr
	places  []uint64 // relative addresses of the module
	stamp   uint32
	size    uint32
	entry   uintptr
	base    uintptr
	bytes   map[uintptr]byte // what stood at a breakpoint
	hit     map[uintptr]bool // breakpoints that were reached
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "stepdump:", err)
		os.Exit(1)
	}
}

func (d *debugger) read(at uintptr, p []byte) bool {
	var n uintptr
	r, _, _ := readMemory.Call(d.process, at, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(unsafe.Pointer(&n)))
	return r != 0 && n == uintptr(len(p))
}

func (d *debugger) write(at uintptr, b byte) {
	var n uintptr
	writeMemory.Call(d.process, at, uintptr(unsafe.Pointer(&b)), 1, uintptr(unsafe.Pointer(&n)))
}

func (d *debugger) stop(at uintptr) {
	var b [1]byte
	if _, ok := d.bytes[at]; !ok && d.read(at, b[:]) && b[0] != 0xCC {
		d.bytes[at] = b[0]
		d.write(at, 0xCC)
	}
}

// loaded sets a breakpoint at the entry of the module when that is mapped: its
// code is relocated when the breakpoint is reached.
func (d *debugger) loaded(base uintptr) {
	head := make([]byte, 4096)
	if d.base != 0 || !d.read(base, head) {
		return
	}
	stamp, size, entry := header(head)
	if stamp == d.stamp && size == d.size {
		d.base, d.entry = base, base+uintptr(entry)
		if entry == 0 {
			d.all()
			return
		}
		d.stop(d.entry)
	}
}

func header(p []byte) (stamp, size, entry uint32) {
	pe := binary.LittleEndian.Uint32(p[0x3C:])
	if int(pe)+0x60 > len(p) {
		return 0, 0, 0
	}
	return binary.LittleEndian.Uint32(p[pe+8:]), binary.LittleEndian.Uint32(p[pe+0x50:]), binary.LittleEndian.Uint32(p[pe+0x28:])
}

func (d *debugger) all() {
	for _, a := range d.places {
		d.stop(d.base + uintptr(a))
	}
}

// context returns the CONTEXT of a thread, which wants 16 bytes of alignment.
func (d *debugger) context(tid uint32) []byte {
	size, flags, _, _, _, all := layout()
	p := make([]byte, size+16)
	p = p[16-uintptr(unsafe.Pointer(&p[0]))%16:][:size]
	binary.LittleEndian.PutUint32(p[flags:], all)
	if r, _, err := getContext.Call(d.threads[tid], uintptr(unsafe.Pointer(&p[0]))); r == 0 {
		fail(fmt.Errorf("GetThreadContext: %w", err))
	}
	return p
}

// dump writes a minidump whose exception is that of an event.
func (d *debugger) dump(tid uint32, record []byte, context []byte) {
	if d.left == 0 {
		return
	}
	d.left--
	d.number++
	name := fmt.Sprintf("%s-%02d.dmp", d.out, d.number)
	f, err := os.Create(name)
	fail(err)
	pointers := [2]uintptr{uintptr(unsafe.Pointer(&record[0])), uintptr(unsafe.Pointer(&context[0]))}
	info := make([]byte, 16) // packed to 4 bytes
	binary.LittleEndian.PutUint32(info, tid)
	*(*uintptr)(unsafe.Pointer(&info[4])) = uintptr(unsafe.Pointer(&pointers))
	r, _, err := writeDump.Call(d.process, uintptr(d.pid), f.Fd(), 0, uintptr(unsafe.Pointer(&info[0])), 0, 0)
	runtime.KeepAlive(pointers)
	if r == 0 {
		fmt.Fprintf(os.Stderr, "stepdump: MiniDumpWriteDump: %v\n", err)
	}
	fail(f.Close())
	fail(addCodeView(name))
}

func main() {
	runtime.LockOSThread()
	if len(os.Args) < 6 {
		fail(fmt.Errorf("usage: stepdump OUT NUMBER MODULE ADDRESSES PROGRAM [ARGUMENT...]"))
	}
	n, err := strconv.Atoi(os.Args[2])
	fail(err)
	d := &debugger{out: os.Args[1], left: n, threads: map[uint32]uintptr{}, bytes: map[uintptr]byte{}, hit: map[uintptr]bool{}}
	image, err := os.ReadFile(os.Args[3])
	fail(err)
	d.stamp, d.size, _ = header(image)
	text, err := os.ReadFile(os.Args[4])
	fail(err)
	for _, w := range strings.Fields(string(text)) {
		a, err := strconv.ParseUint(w, 16, 32)
		fail(err)
		d.places = append(d.places, a)
	}
	line := make([]string, 0, len(os.Args))
	for _, a := range os.Args[5:] {
		line = append(line, syscall.EscapeArg(a))
	}
	command, err := syscall.UTF16PtrFromString(strings.Join(line, " "))
	fail(err)
	var start syscall.StartupInfo
	start.Cb = uint32(unsafe.Sizeof(start))
	var child syscall.ProcessInformation
	const debugOnlyThis = 2
	fail(syscall.CreateProcess(nil, command, nil, nil, false, debugOnlyThis, nil, nil, &start, &child))
	d.process, d.pid = uintptr(child.Process), child.ProcessId
	d.threads[child.ThreadId] = uintptr(child.Thread)
	d.run()
	fmt.Printf("%d dumps of %s\n", d.number, filepath.Base(os.Args[3]))
}

func (d *debugger) run() {
	_, _, ip, at, recordSize, _ := layout()
	end := time.Now().Add(120 * time.Second)
	event := make([]byte, 256)
	for d.left > 0 && time.Now().Before(end) {
		if r, _, _ := waitDebug.Call(uintptr(unsafe.Pointer(&event[0])), 2000); r == 0 {
			continue
		}
		if os.Getenv("STEPDUMP_LOG") != "" {
			fmt.Fprintf(os.Stderr, "event %d of thread %x: %x at %x\n", event[0], event[8:10], event[at:at+4], event[at+16:at+24])
		}
		code, pid, tid := binary.LittleEndian.Uint32(event), binary.LittleEndian.Uint32(event[4:]), binary.LittleEndian.Uint32(event[8:])
		pointer := func(i int) uintptr { return *(*uintptr)(unsafe.Pointer(&event[at+i*int(unsafe.Sizeof(uintptr(0)))])) }
		status := uintptr(0x10002) // DBG_CONTINUE
		switch code {
		case 1: // an exception
			record := append([]byte(nil), event[at:at+recordSize]...)
			first := binary.LittleEndian.Uint32(event[at+recordSize:]) != 0
			exception := binary.LittleEndian.Uint32(record)
			address := *(*uintptr)(unsafe.Pointer(&record[8+unsafe.Sizeof(uintptr(0))]))
			breakpoint := exception == 0x80000003 || exception == 0x4000001F
			original, ours := d.bytes[address]
			switch {
			case breakpoint && (ours || d.hit[address]):
				if ours { // else another thread was there at the same time
					delete(d.bytes, address)
					d.hit[address] = true
					d.write(address, original)
				}
				context := d.context(tid)
				if wide {
					binary.LittleEndian.PutUint64(context[ip:], uint64(address))
				} else {
					binary.LittleEndian.PutUint32(context[ip:], uint32(address))
				}
				if r, _, err := setContext.Call(d.threads[tid], uintptr(unsafe.Pointer(&context[0]))); r == 0 {
					fail(fmt.Errorf("SetThreadContext: %w", err))
				}
				if address == d.entry {
					d.entry = 0
					d.all()
				} else if ours {
					d.dump(tid, record, context)
				}
			case breakpoint: // the loader's
			case !first:
				d.dump(tid, record, d.context(tid))
				d.left = 0
			default:
				status = 0x80010001 // DBG_EXCEPTION_NOT_HANDLED
			}
		case 2:
			d.threads[tid] = pointer(0)
		case 3:
			d.threads[tid] = pointer(2)
			d.loaded(pointer(3))
		case 5:
			if pid == d.pid {
				return
			}
		case 6:
			d.loaded(pointer(1))
		}
		contDebug.Call(uintptr(pid), uintptr(tid), status)
	}
	terminate.Call(d.process, 1)
}

// addCodeView appends the CodeView records of the modules to a minidump that has
// none.
func addCodeView(name string) error {
	p, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	u32 := func(at uint32) uint32 { return binary.LittleEndian.Uint32(p[at:]) }
	for i := range u32(8) {
		stream := u32(12) + 12*i
		if u32(stream) != 4 {
			continue
		}
		list := u32(stream + 8)
		for k := range u32(list) {
			m := list + 4 + 108*k
			if u32(m+76) != 0 {
				continue
			}
			path := u32(m + 20)
			units := make([]uint16, u32(path)/2)
			for j := range units {
				units[j] = binary.LittleEndian.Uint16(p[path+4+2*uint32(j):])
			}
			if cv := codeView(syscall.UTF16ToString(units)); cv != nil {
				binary.LittleEndian.PutUint32(p[m+76:], uint32(len(cv)))
				binary.LittleEndian.PutUint32(p[m+80:], uint32(len(p)))
				p = append(p, cv...)
			}
		}
	}
	return os.WriteFile(name, p, 0o644)
}

// codeView returns the CodeView record of a PE file.
func codeView(path string) []byte {
	p, err := os.ReadFile(path)
	if err != nil || len(p) < 4096 {
		return nil
	}
	defer func() { _ = recover() }() // a damaged file has none
	u32 := func(at uint32) uint32 { return binary.LittleEndian.Uint32(p[at:]) }
	pe := u32(0x3C)
	optional, sections := pe+24, uint32(binary.LittleEndian.Uint16(p[pe+6:]))
	directories := optional + 96
	if binary.LittleEndian.Uint16(p[optional:]) == 0x20B {
		directories = optional + 112
	}
	rva, size := u32(directories+6*8), u32(directories+6*8+4)
	table := optional + uint32(binary.LittleEndian.Uint16(p[pe+20:]))
	for i := range sections {
		s := table + 40*i
		if va := u32(s + 12); rva < va || rva >= va+u32(s+8) {
			continue
		}
		for at := rva - u32(s+12) + u32(s+20); size >= 28; at, size = at+28, size-28 {
			if u32(at+12) == 2 {
				return p[u32(at+24):][:u32(at+16)]
			}
		}
	}
	return nil
}
