package dump

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"
	"time"
)

// Process is what a crash dump has of a process: enough to walk its stacks.
type Process struct {
	Dump
	// Version is the version and build of the operating system, as the dump
	// says it.
	Version string
	// CPUs is the number of processors of the machine; zero if it is unknown.
	CPUs int
	// CPUInfo describes the processor: family, model, stepping.
	CPUInfo string
	// PID is the number of the process; zero if it is unknown.
	PID uint32
	// Uptime is the age of the process when the dump was made, to the second;
	// zero if it is unknown.
	Uptime time.Duration
	// Threads are in the order of the dump.
	Threads []Thread
	// Requesting is the index in Threads of the thread that crashed or that
	// asked for the dump; -1 if it is unknown.
	Requesting int
	// Exception is the reason of the dump; nil if it is not of a crash.
	Exception *Exception
	// Assertion is the failed assertion of the program: its text and place.
	Assertion string
	// Annotations are values that the program or its crash reporter stored.
	Annotations []Annotation
	// AddressMask has the bits of a pointer that are an address; the others may
	// hold a pointer authentication code. Zero if the dump does not say.
	AddressMask uint64
	// Memory is the part of the memory that the dump has.
	Memory Memory
}

// Thread is one thread at the time of the dump.
type Thread struct {
	ID   uint64
	Name string // empty if the dump does not have it
	// Registers are those at the exception for the thread that crashed.
	Registers Registers
	// Stack is the part of the stack that the dump lists; Memory has its bytes.
	Stack Range
	// Writer reports that the thread wrote the dump and is none of the program.
	Writer bool
	// Problem says which part of the thread could not be read; empty if all was.
	Problem string
}

// Range is a range of addresses.
type Range struct{ Address, Size uint64 }

// Contains reports whether address is in r.
func (r Range) Contains(address uint64) bool { return address-r.Address < r.Size }

// Exception is the reason of a crash.
type Exception struct {
	// Code and Flags are the numbers of the operating system: an exception code
	// of Windows, a signal and its si_code, or an exception of Mach and its
	// first code.
	Code, Flags uint32
	// Address is the address that could not be accessed, or that of the
	// instruction.
	Address    uint64
	Parameters []uint64
	Thread     uint64 // its ID
	// Reason is the exception in words, for example
	// EXCEPTION_ACCESS_VIOLATION_WRITE or SIGSEGV / SEGV_MAPERR.
	Reason string
}

// Annotation is a value that the program or its crash reporter stored.
type Annotation struct {
	// Module is the name of the module that has stored the value; empty for the
	// process.
	Module      string
	Name, Value string
}

// Limits of a process. Text is limited for all names and values together.
const (
	maxThreads     = 100_000
	maxAnnotations = 10_000
)

// Open reads the process of the dump of size bytes in r. The errors are those
// of Read, but a dump with threads and without modules is not an error. The
// Process reads its memory from r.
func Open(r io.ReaderAt, size int64) (*Process, error) {
	s := &source{r: r, size: size, left: readLimit}
	p, err := s.process()
	if s.err != nil {
		return nil, fmt.Errorf("read a dump: %w", s.err)
	}
	return p, err
}

// OpenFile is Open for a file on disk. The caller closes the Closer after the
// last use of the memory. Its errors are those of ReadFile.
func OpenFile(path string) (*Process, io.Closer, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := Open(f, size)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, f, nil
}

func (s *source) process() (*Process, error) {
	kind, err := s.kind()
	if err != nil {
		return nil, err
	}
	if kind == Minidump {
		return openMinidump(s)
	}
	return openCore(s)
}

// Memory is the part of the memory of a process that a dump has. It may be used
// by several goroutines if the reader of the dump may.
type Memory struct {
	parts   []region // sorted, disjoint, and within the file
	regions []Region // sorted by address
	file    *memoryFile
}

// memoryFile reads the dump for small reads in larger pieces.
type memoryFile struct {
	r   io.ReaderAt
	mu  sync.Mutex
	buf []byte // the last piece read ahead
	off uint64 // of buf
	err error  // the first of r
}

// memoryAhead is the number of bytes that a small read of memory reads.
const memoryAhead = 16 << 10

// Region describes a range of addresses as the operating system mapped it.
type Region struct {
	Range
	Read, Write, Execute bool
	// NoProtection reports that the dump does not say what Read, Write and
	// Execute are: a core does not for files that it leaves out.
	NoProtection bool
	// Free reports that nothing is mapped; Reserved that the range has no
	// memory yet.
	Free, Reserved bool
	// Name is the mapped file, or the kernel's name as [stack].
	Name string
}

// ReadMemory copies the memory at address to p, as much as the dump has without
// a gap, and returns the number of bytes. The rest of p is untouched.
func (m *Memory) ReadMemory(p []byte, address uint64) int {
	n := 0
	for n < len(p) {
		at := address + uint64(n)
		i := sort.Search(len(m.parts), func(i int) bool { return m.parts[i].addr > at }) - 1
		if at < address || i < 0 || at-m.parts[i].addr >= m.parts[i].size {
			break
		}
		part := m.parts[i]
		in := at - part.addr
		some := p[n:min(uint64(len(p)), uint64(n)+part.size-in)]
		if !m.file.read(some, part.off+in, part.off+part.size) {
			break
		}
		n += len(some)
	}
	return n
}

// read fills p from off; the piece that is read ahead ends at end.
func (f *memoryFile) read(p []byte, off, end uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(p) > memoryAhead/4 {
		n, err := f.r.ReadAt(p, int64(off))
		return n == len(p) || f.failed(err)
	}
	if off < f.off || off-f.off > uint64(len(f.buf)) || len(p) > len(f.buf)-int(off-f.off) {
		if f.buf == nil {
			f.buf = make([]byte, 0, memoryAhead)
		}
		n, err := f.r.ReadAt(f.buf[:min(memoryAhead, end-off)], int64(off))
		f.off, f.buf = off, f.buf[:n]
		if n < len(p) {
			return f.failed(err)
		}
	}
	copy(p, f.buf[off-f.off:])
	return true
}

func (f *memoryFile) failed(err error) bool {
	if f.err == nil {
		f.err = err
	}
	return false
}

// Err returns the first error of the reader of the dump. Memory that the dump
// does not have is not an error.
func (m *Memory) Err() error {
	if m.file == nil {
		return nil
	}
	m.file.mu.Lock()
	defer m.file.mu.Unlock()
	return m.file.err
}

// Range returns the range around address that the dump has in one piece.
func (m *Memory) Range(address uint64) (Range, bool) {
	i := sort.Search(len(m.parts), func(i int) bool { return m.parts[i].addr > address }) - 1
	if i < 0 || address-m.parts[i].addr >= m.parts[i].size {
		return Range{}, false
	}
	return Range{m.parts[i].addr, m.parts[i].size}, true
}

// Region returns the mapping that contains address. Not all dumps have the list
// of them.
func (m *Memory) Region(address uint64) (Region, bool) {
	i := sort.Search(len(m.regions), func(i int) bool { return m.regions[i].Address > address }) - 1
	if i < 0 || !m.regions[i].Contains(address) {
		return Region{}, false
	}
	return m.regions[i], true
}

// newMemory makes the memory of a process. Of parts that overlap the first
// counts; parts beyond the end of the file are dropped.
func newMemory(s *source, parts []region, regions []Region) Memory {
	m := Memory{file: &memoryFile{r: s.r}, regions: regions}
	size := uint64(max(s.size, 0))
	parts = slices.Clone(parts)
	slices.SortStableFunc(parts, func(a, b region) int { return compare(a.addr, b.addr) })
	end := uint64(0) // of the parts so far
	for _, p := range parts {
		if p.off >= size {
			continue
		}
		p.size = min(p.size, size-p.off, ^uint64(0)-p.addr)
		if p.addr < end {
			if p.addr+p.size <= end {
				continue
			}
			p.off, p.size, p.addr = p.off+end-p.addr, p.addr+p.size-end, end
		}
		if p.size > 0 {
			m.parts = append(m.parts, p)
			end = p.addr + p.size
		}
	}
	slices.SortStableFunc(m.regions, func(a, b Region) int { return compare(a.Address, b.Address) })
	return m
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// annotate adds a value. It returns false when no more may be kept.
func (p *Process) annotate(s *source, module, name, value string) bool {
	if len(p.Annotations) >= maxAnnotations || s.keep(name) != nil || s.keep(value) != nil {
		p.problem("the dump has more annotations than are read")
		return false
	}
	p.Annotations = append(p.Annotations, Annotation{Module: module, Name: name, Value: value})
	return true
}
