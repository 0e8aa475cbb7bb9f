package dump

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stream types and record sizes of a process, by Windows (minidumpapiset.h),
// Breakpad and Crashpad.
const (
	streamThreads     = 3
	streamException   = 6
	streamThreadsEx   = 8
	streamCommentA    = 10
	streamCommentW    = 11
	streamMisc        = 15
	streamMemoryInfo  = 16
	streamThreadNames = 24
	streamBreakpad    = 0x47670001
	streamAssertion   = 0x47670002
	streamLinuxStatus = 0x47670004
	streamLinuxMaps   = 0x47670009
	streamCrashpad    = 0x43500001
	streamMacCrash    = 0x4d7a0001

	threadSize, threadExSize = 48, 64
	threadNameSize           = 12
	exceptionSize            = 168
	maxParameters            = 15
	memoryInfoSize           = 48
	maxMemoryInfo            = 4096     // a record
	maxMaps                  = 16 << 20 // bytes of text
	systemSize               = 56
)

// miniProcess is the process of a minidump while it is read.
type miniProcess struct {
	*minidump
	*Process
	contexts window // of threads
	number   uint16 // of the processor
	ids      map[uint64]int
	stacks   []region // of threads, which may be missing in the list of memory
}

func openMinidump(s *source) (*Process, error) {
	process := &Process{Requesting: -1}
	m, err := startMinidump(s, &process.Dump)
	if err != nil {
		return nil, err
	}
	_, hasThreads := m.streams[streamThreads]
	_, hasMore := m.streams[streamThreadsEx]
	if err := m.modules(); err != nil {
		if !hasThreads && !hasMore {
			return nil, err
		}
		m.problem("%v", err)
	}
	m.unloaded()
	p := &miniProcess{minidump: m, Process: process, contexts: window{s: s}, ids: map[uint64]int{}}
	p.machine()
	p.misc()
	p.threads(streamThreads, threadSize)
	if len(p.Threads) == 0 {
		p.threads(streamThreadsEx, threadExSize)
	}
	p.threadNames()
	p.breakpad()
	p.exception()
	p.comments()
	p.crashpad()
	p.macCrash()
	regions := p.memoryInfo()
	if len(regions) == 0 {
		regions = p.linuxMaps()
	}
	process.Memory = newMemory(s, append(m.mem.regions, p.stacks...), regions)
	p.findStacks()
	return process, nil
}

// stream returns the first n bytes of a stream. It returns nil if the dump does
// not have the stream.
func (p *miniProcess) stream(typ uint32, n int, what string) []byte {
	st, ok := p.streams[typ]
	if !ok {
		return nil
	}
	if int64(st.size) < int64(n) {
		p.problem("the %s is cut short", what)
		return nil
	}
	b, err := p.list.bytes(st.at, n)
	p.damaged(what, err)
	return b
}

// problem notes a problem of the dump.
func (p *miniProcess) problem(format string, args ...any) { p.minidump.problem(format, args...) }

// machine reads the rest of the system information.
func (p *miniProcess) machine() {
	st, ok := p.streams[streamSystem]
	if !ok || st.size < systemSize {
		return
	}
	b, err := p.list.bytes(st.at, systemSize)
	if err != nil {
		return // system has told it
	}
	b = slices.Clone(b)
	le := binary.LittleEndian
	p.number, p.CPUs = le.Uint16(b), int(b[6])
	level, revision := le.Uint16(b[2:]), le.Uint16(b[4:])
	switch p.minidump.Arch {
	case "x86", "x86_64":
		p.CPUInfo = fmt.Sprintf("family %d model %d stepping %d", level, revision>>8, revision&0xff)
		if vendor := strings.TrimRight(string(b[32:44]), "\x00"); p.minidump.Arch == "x86" && vendor != "" {
			p.CPUInfo = cString(b[32:44]) + " " + p.CPUInfo
		}
	case "arm":
		p.CPUInfo = fmt.Sprintf("ARMv%d", level)
	}
	number := fmt.Sprintf("%d.%d.%d", le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:]))
	build := ""
	if at := le.Uint32(b[24:]); at != 0 {
		build, _ = p.name(at)
	}
	if release, ok := strings.CutPrefix(build, "Linux "); ok && number == "0.0.0" {
		// Breakpad has the text of uname only; its last word is the processor.
		p.Version = release[:max(0, strings.LastIndexByte(release, ' '))]
		return
	}
	p.Version = strings.TrimRight(number+" "+build, " ")
}

// misc reads the number and the times of the process.
func (p *miniProcess) misc() {
	const hasPID, hasTimes = 1, 2
	if b := p.stream(streamMisc, 24, "information on the process"); b != nil {
		flags := binary.LittleEndian.Uint32(b[4:])
		if flags&hasPID != 0 {
			p.PID = binary.LittleEndian.Uint32(b[8:])
		}
		if start := binary.LittleEndian.Uint32(b[12:]); flags&hasTimes != 0 && start != 0 && !p.minidump.Time.IsZero() {
			p.Uptime = max(0, p.minidump.Time.Sub(time.Unix(int64(start), 0)))
		}
	}
	if p.PID == 0 {
		p.PID = p.linuxPID()
	}
}

// linuxPID reads the line "Pid:" of the copy of /proc/PID/status.
func (p *miniProcess) linuxPID() uint32 {
	st, ok := p.streams[streamLinuxStatus]
	if !ok {
		return 0
	}
	b, err := p.loose.bytes(st.at, int(min(st.size, 4<<10)))
	if err != nil {
		p.damaged("status of the process", err)
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "Pid:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
			return uint32(n)
		}
	}
	return 0
}

// threads reads a list of threads.
func (p *miniProcess) threads(typ uint32, size int) {
	st, ok := p.streams[typ]
	if !ok {
		return
	}
	n, at, err := p.count(st, size)
	if err != nil {
		p.damaged("list of threads", err)
		return
	}
	p.Threads = make([]Thread, 0, p.s.maxItems(uint64(n), int64(size), maxThreads))
	le := binary.LittleEndian
	for i := range uint64(n) {
		if i == maxThreads {
			p.problem("%d threads are listed; the first %d are read", n, maxThreads)
			return
		}
		b, err := p.list.bytes(at+i*uint64(size), size)
		if err != nil {
			p.problem("the list of %d threads ends after %d: %v", n, i, err)
			return
		}
		t := Thread{ID: uint64(le.Uint32(b)), Stack: Range{le.Uint64(b[24:]), uint64(le.Uint32(b[32:]))}}
		if off := uint64(le.Uint32(b[36:])); off != 0 && t.Stack.Size > 0 {
			p.stacks = append(p.stacks, region{addr: t.Stack.Address, size: t.Stack.Size, off: off})
		}
		if t.Registers, err = p.registers(le.Uint32(b[40:]), le.Uint32(b[44:])); err != nil {
			t.Problem = "the registers cannot be read: " + err.Error()
		}
		if _, ok := p.ids[t.ID]; !ok {
			p.ids[t.ID] = len(p.Threads)
		}
		p.Threads = append(p.Threads, t)
	}
}

// registers reads the registers of a thread from its context record: size bytes at the offset at of the
// dump. The error says why they cannot be read.
func (p *miniProcess) registers(size, at uint32) (Registers, error) {
	c, ok := contexts[p.number]
	r := Registers{Arch: c.arch}
	if !ok {
		return r, fmt.Errorf("the processor (number %d) is not supported", p.number)
	}
	if size == 0 || at == 0 {
		return r, fmt.Errorf("the dump does not have them")
	}
	if int64(size) < int64(c.size) {
		return r, fmt.Errorf("they have %d bytes, not %d", size, c.size)
	}
	b, err := p.contexts.bytes(uint64(at), c.size)
	if err != nil {
		return r, err
	}
	if flags := binary.LittleEndian.Uint32(b[c.at:]); flags&c.flags == 0 {
		return r, fmt.Errorf("their flags, %#x, are of another processor", flags)
	}
	r.fill(binary.LittleEndian, b, c.places)
	return r, nil
}

// findStacks completes the stacks that the list of threads has no size of: the
// lists of full dumps do not.
func (p *miniProcess) findStacks() {
	for i := range p.Threads {
		t := &p.Threads[i]
		if t.Stack.Size == 0 {
			var ok bool
			if t.Stack, ok = p.Memory.Range(t.Stack.Address); !ok {
				t.Stack, ok = p.Memory.Range(t.Registers.SP())
			}
			if !ok && t.Problem == "" {
				t.Problem = "the dump does not have the stack"
			}
		}
	}
}

func (p *miniProcess) threadNames() {
	st, ok := p.streams[streamThreadNames]
	if !ok {
		return
	}
	n, at, err := p.count(st, threadNameSize)
	for i := uint64(0); err == nil && i < uint64(min(n, maxThreads)); i++ {
		var b []byte
		if b, err = p.list.bytes(at+i*threadNameSize, threadNameSize); err != nil {
			break
		}
		if k, ok := p.ids[uint64(binary.LittleEndian.Uint32(b))]; ok {
			if off := binary.LittleEndian.Uint64(b[4:]); off < 1<<32 {
				p.Threads[k].Name, err = p.name(uint32(off))
			}
		}
	}
	p.damaged("list of the names of threads", err)
}

// breakpad reads which thread asked for the dump and which one wrote it, and the
// failed assertion.
func (p *miniProcess) breakpad() {
	const hasWriter, hasRequesting = 1, 2
	if b := p.stream(streamBreakpad, 12, "information of Breakpad"); b != nil {
		valid := binary.LittleEndian.Uint32(b)
		if k, ok := p.ids[uint64(binary.LittleEndian.Uint32(b[4:]))]; ok && valid&hasWriter != 0 {
			p.Threads[k].Writer = true
		}
		if k, ok := p.ids[uint64(binary.LittleEndian.Uint32(b[8:]))]; ok && valid&hasRequesting != 0 {
			p.Requesting = k
		}
	}
	const text = 256 // each of expression, function and file
	if b := p.stream(streamAssertion, 3*text+8, "assertion"); b != nil {
		b = slices.Clone(b)
		expression, function, file := utf16Text(b[:text]), utf16Text(b[text:2*text]), utf16Text(b[2*text:3*text])
		line, kind := binary.LittleEndian.Uint32(b[3*text:]), binary.LittleEndian.Uint32(b[3*text+4:])
		p.Assertion = assertion(expression, function, file, line, kind)
	}
}

// assertion describes a failed assertion. Windows also calls a handler for
// invalid parameters and pure virtual calls; release builds tell it nothing.
func assertion(expression, function, file string, line, kind uint32) string {
	text := map[uint32]string{1: "invalid parameter", 2: "pure virtual function call"}[kind]
	if expression != "" {
		text = strings.TrimPrefix(text+": "+expression, ": ")
	}
	if function != "" {
		text += " in " + function
	}
	if file != "" {
		text += fmt.Sprintf(" at %s:%d", file, line)
	}
	return strings.TrimSpace(text)
}

// exception reads the reason of the dump. Its registers are those of the crash,
// while those of the list of threads may be of the handler.
func (p *miniProcess) exception() {
	b := p.stream(streamException, exceptionSize, "exception")
	if b == nil {
		return
	}
	le := binary.LittleEndian
	e := &Exception{Thread: uint64(le.Uint32(b)), Code: le.Uint32(b[8:]), Flags: le.Uint32(b[12:]), Address: le.Uint64(b[24:])}
	for i := range min(le.Uint32(b[32:]), maxParameters) {
		e.Parameters = append(e.Parameters, le.Uint64(b[40+8*i:]))
	}
	if p.minidump.OS == "windows" && (e.Code == accessViolation || e.Code == inPageError) && len(e.Parameters) >= 2 {
		e.Address = e.Parameters[1]
	}
	if c := processors[p.minidump.Arch]; c != nil && c.size == 4 {
		e.Address = uint64(uint32(e.Address)) // some writers extend the sign
	}
	e.Reason = reason(p.minidump.OS, p.minidump.Arch, e)
	p.Exception = e
	k, ok := p.ids[e.Thread]
	if !ok {
		p.problem("the exception is of thread %d, which the dump does not have", e.Thread)
		return
	}
	p.Requesting, p.Threads[k].Writer = k, false
	r, err := p.registers(le.Uint32(b[160:]), le.Uint32(b[164:]))
	if err != nil {
		p.problem("the registers of the exception cannot be read: %v", err)
		return
	}
	p.Threads[k].Registers, p.Threads[k].Problem = r, ""
}

// memoryInfo reads the list of mappings of Windows.
func (p *miniProcess) memoryInfo() []Region {
	b := p.stream(streamMemoryInfo, 16, "list of mappings")
	if b == nil {
		return nil
	}
	le := binary.LittleEndian
	head, item, n := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint64(b[8:])
	if head < 16 || item < memoryInfoSize || head > maxMemoryInfo || item > maxMemoryInfo {
		p.problem("the list of mappings cannot be read")
		return nil
	}
	at := p.streams[streamMemoryInfo].at + head
	if n > maxRegions {
		p.problem("%d mappings are listed; the first %d are read", n, maxRegions)
	}
	regions := make([]Region, 0, p.s.maxItems(n, int64(item), maxRegions))
	for i := range min(n, maxRegions) {
		b, err := p.list.bytes(at+i*item, memoryInfoSize)
		if err != nil {
			p.problem("the list of %d mappings ends after %d: %v", n, i, err)
			break
		}
		r := Region{Range: Range{le.Uint64(b), le.Uint64(b[24:])}}
		const reserved, free = 0x2000, 0x10000
		r.Reserved, r.Free = le.Uint32(b[32:]) == reserved, le.Uint32(b[32:]) == free
		// The protection is one bit: no access, then read, write, copy on write,
		// and the same with execution.
		protection := le.Uint32(b[36:]) & 0xff
		r.Read, r.Write, r.Execute = protection&0xee != 0, protection&0xcc != 0, protection&0xf0 != 0
		regions = append(regions, r)
	}
	return regions
}

// linuxMaps reads the copy of /proc/PID/maps.
func (p *miniProcess) linuxMaps() []Region {
	st, ok := p.streams[streamLinuxMaps]
	if !ok || p.s.size < 0 || st.at > uint64(p.s.size) {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(limited{p.s}, int64(st.at), int64(min(st.size, maxMaps))))
	if err != nil {
		p.damaged("list of mappings", err)
	}
	var regions []Region
	last := ""
	for line := range strings.Lines(string(text)) {
		r, ok := parseMap(line)
		if !ok {
			continue
		}
		if len(regions) == maxRegions {
			p.problem("more than %d mappings are listed; the rest is not read", maxRegions)
			break
		}
		if r.Name == last {
			r.Name = last // shared
		} else if p.s.keep(r.Name) != nil {
			r.Name = ""
		} else {
			r.Name = strings.Clone(r.Name)
		}
		last = r.Name
		regions = append(regions, r)
	}
	return regions
}

// limited reads the dump within the limits of the source.
type limited struct{ s *source }

func (l limited) ReadAt(p []byte, off int64) (int, error) {
	end := max(0, min(int64(len(p)), l.s.size-off))
	if err := l.s.readAt(p[:end], uint64(off)); err != nil {
		return 0, err
	}
	if end < int64(len(p)) {
		return int(end), io.EOF
	}
	return int(end), nil
}

// parseMap parses a line of /proc/PID/maps.
func parseMap(line string) (r Region, ok bool) {
	var fields [5]string
	rest := strings.TrimRight(line, "\n")
	for i := range fields {
		fields[i], rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	from, to, _ := strings.Cut(fields[0], "-")
	start, err := strconv.ParseUint(from, 16, 64)
	end, err2 := strconv.ParseUint(to, 16, 64)
	if err != nil || err2 != nil || end <= start || len(fields[1]) < 3 {
		return r, false
	}
	r.Range, r.Name = Range{start, end - start}, strings.ToValidUTF8(strings.TrimLeft(rest, " "), "\uFFFD")
	r.Read, r.Write, r.Execute = fields[1][0] == 'r', fields[1][1] == 'w', fields[1][2] == 'x'
	return r, true
}
