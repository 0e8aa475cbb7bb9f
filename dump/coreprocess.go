package dump

import "sort"

// Types of notes (elf.h) and the largest that is read.
const (
	noteStatus  = 1
	noteProcess = 3
	noteSignal  = 0x53494749 // "SIGI"
	notePACMask = 0x406      // of ARM64: the bits of a pointer that authenticate it
	maxNote     = 4 << 10
)

// coreProcess collects what a core file has of its process beside the modules.
type coreProcess struct {
	*Process
	c        *core
	regions  []Region
	signal   uint32 // that the first thread had when it stopped
	siginfo  bool   // the exception has been read
	main     string // name of the first thread of the process
	unread   bool   // a note of a thread could not be read
	overflow bool   // there are too many threads
}

// coreRegisters are the layouts of the registers in the status of a thread on
// Linux, from the start of the registers.
var coreRegisters = map[string][]placed{
	"x86_64": {{0, 8, []string{"r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "",
		"rip", "", "eflags", "rsp"}}},
	"x86":     {{0, 4, []string{"ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "", "", "", "", "", "eip", "", "eflags", "esp"}}},
	"arm":     {{0, 4, namesARM}},
	"arm64":   {{0, 8, namesARM64}},
	"mips":    {{24, 4, namesMIPS[:32]}, {152, 4, []string{"lo", "hi", "pc"}}},
	"mips64":  {{0, 8, namesMIPS[:32]}, {256, 8, []string{"lo", "hi", "pc"}}},
	"ppc":     {{0, 4, namesPPC[:32]}, {128, 4, []string{"srr0", "srr1", "", "ctr", "lr", "xer", "cr"}}},
	"ppc64":   {{0, 8, namesPPC[:32]}, {256, 8, []string{"srr0", "srr1", "", "ctr", "lr", "xer", "cr"}}},
	"riscv32": {{0, 4, namesRISCV}},
	"riscv64": {{0, 8, namesRISCV}},
}

func openCore(s *source) (*Process, error) {
	p := &coreProcess{Process: &Process{Requesting: -1}}
	p.c = &core{Dump: &p.Dump, s: s, more: p}
	if err := p.c.read(); err != nil {
		return nil, err
	}
	p.Memory = newMemory(s, p.c.mem.regions, p.regions)
	p.finish()
	return p.Process, nil
}

// finish sets what depends on all notes.
func (p *coreProcess) finish() {
	if p.unread {
		p.problem("the status of a thread is cut short; the thread is not listed")
	}
	if p.overflow {
		p.problem("there are more than %d threads; the rest is not read", maxThreads)
	}
	if len(p.Threads) == 0 {
		p.problem("no threads are read: the core of %s has no notes of threads as Linux writes them", orUnknown(p.OS))
		return
	}
	// The kernel and gdb write the thread that received the signal first.
	p.Requesting = 0
	if p.PID == 0 {
		p.PID = uint32(p.Threads[0].ID)
	}
	if p.Exception == nil && p.signal != 0 {
		p.Exception = &Exception{Code: p.signal}
	}
	const stop, stopTerminal = 19, 20 // a debugger or a user has stopped the process
	if e := p.Exception; e != nil && (e.Code == stop || e.Code == stopTerminal) {
		p.Exception = nil
	}
	if e := p.Exception; e != nil {
		e.Thread, e.Reason = p.Threads[0].ID, reason("linux", p.Arch, e)
	}
	for i := range p.Threads {
		t := &p.Threads[i]
		if t.ID == uint64(p.PID) {
			t.Name = p.main
		}
		var ok bool
		if t.Stack, ok = p.Memory.Range(t.Registers.SP()); !ok && t.Problem == "" {
			t.Problem = "the dump does not have the stack"
		}
	}
}

func orUnknown(os string) string {
	if os == "" {
		return "an unknown system"
	}
	return os
}

// segment adds the mapping of a program header.
func (p *coreProcess) segment(s segment) {
	p.regions = append(p.regions, Region{Range: Range{s.vaddr, s.memsz}, Read: s.flags&4 != 0, Write: s.flags&2 != 0,
		Execute: s.flags&segExecutable != 0})
}

// mapped names the mappings of files. It adds those that have no segment: gdb
// leaves out what can be read from the file again.
func (p *coreProcess) mapped(files []mapping) {
	sort.SliceStable(files, func(i, j int) bool { return files[i].start < files[j].start })
	sort.SliceStable(p.regions, func(i, j int) bool { return p.regions[i].Address < p.regions[j].Address })
	for i := range p.regions {
		at := p.regions[i].Address
		if k := sort.Search(len(files), func(k int) bool { return files[k].start > at }) - 1; k >= 0 && at < files[k].end {
			p.regions[i].Name = files[k].path
		}
	}
	segments := Memory{regions: p.regions}
	for _, f := range files {
		if _, ok := segments.Region(f.start); !ok && f.end > f.start {
			p.regions = append(p.regions, Region{Range: Range{f.start, f.end - f.start}, NoProtection: true, Name: f.path})
		}
	}
}

// note reads one note of Linux. Those of other systems have the same numbers but
// other owners.
func (p *coreProcess) note(owner string, typ uint32, w *window, at, size uint64) {
	read := map[uint32]func([]byte){noteStatus: p.status, noteProcess: p.process, noteSignal: p.siginfoNote}[typ]
	switch {
	case owner == "LINUX" && typ == notePACMask:
		read = p.mask
	case owner != "CORE" || read == nil:
		return
	}
	b, err := w.bytes(at, int(min(size, maxNote)))
	if err != nil {
		p.unread = p.unread || typ == noteStatus
		return
	}
	read(b)
}

// status reads an NT_PRSTATUS: one for each thread.
func (p *coreProcess) status(b []byte) {
	pid, registers := 32, 112
	if !p.c.h.is64 {
		pid, registers = 24, 72
	}
	if len(b) < registers {
		p.unread = true
		return
	}
	if len(p.Threads) == maxThreads {
		p.overflow = true
		return
	}
	order := p.c.h.order
	if len(p.Threads) == 0 {
		p.signal = uint32(order.Uint16(b[12:]))
	}
	t := Thread{ID: uint64(order.Uint32(b[pid:]))}
	places := coreRegisters[p.Arch]
	if places != nil {
		t.Registers.Arch = p.Arch
	}
	switch {
	case places == nil:
		t.Problem = "the registers of the processor " + p.Arch + " are not read"
	case !t.Registers.fill(order, b[registers:], places):
		t.Problem = "the registers are cut short"
	}
	p.Threads = append(p.Threads, t)
}

// process reads an NT_PRPSINFO: the number and the name of the process.
func (p *coreProcess) process(b []byte) {
	pid, name := 24, 40
	switch {
	case p.c.h.is64:
	case len(b) >= 128: // user ids of four bytes
		pid, name = 16, 32
	default:
		pid, name = 12, 28
	}
	if len(b) < name+16 || p.main != "" {
		return
	}
	p.PID, p.main = p.c.h.order.Uint32(b[pid:]), cString(b[name:name+16])
}

// siginfoNote reads an NT_SIGINFO: the signal, its cause and the address.
func (p *coreProcess) siginfoNote(b []byte) {
	at := 16
	if !p.c.h.is64 {
		at = 12
	}
	if len(b) < at+p.c.h.wordSize() || p.siginfo || len(p.Threads) > 1 {
		return // gdb writes one for each thread; the first counts
	}
	p.siginfo = true
	order := p.c.h.order
	code := 8
	if p.Arch == "mips" || p.Arch == "mips64" {
		code = 4 // and then the error number
	}
	e := &Exception{Code: order.Uint32(b), Flags: order.Uint32(b[code:])}
	if e.Code == 0 {
		return
	}
	if sent := int32(e.Flags) <= 0; !sent {
		e.Address = p.c.h.word(b[at:])
	}
	p.Exception = e
}

// mask reads an NT_ARM_PAC_MASK: the bits of data and of code pointers.
func (p *coreProcess) mask(b []byte) {
	if p.c.h.is64 && len(b) >= 16 && p.AddressMask == 0 {
		p.AddressMask = ^(p.c.h.order.Uint64(b) | p.c.h.order.Uint64(b[8:]))
	}
}
