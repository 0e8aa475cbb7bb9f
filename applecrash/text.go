package applecrash

import (
	"bytes"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
)

// The lines of the text form. Names of modules and threads may contain spaces.
var (
	threadLine  = regexp.MustCompile(`^Thread (\d+)( name| Crashed| Highlighted)?:(:?)\s*(.*)$`)
	stateLine   = regexp.MustCompile(`^Thread (\d+) crashed with .*(?:State|state)`)
	frameLine   = regexp.MustCompile(`^(\d+)\s+(.*?)\s+0x([0-9a-fA-F]{1,16})(?:\s+(.*))?$`)
	imageLine   = regexp.MustCompile(`^\s*0x([0-9a-fA-F]{1,16})\s+-\s+0x([0-9a-fA-F]{1,16})\s+\+?(.*?)\s*<([0-9a-fA-F-]{32,36})>\s*(.*)$`)
	offsetPart  = regexp.MustCompile(`^(.*?)\s*\+\s*(\d+)(?:\s+\((.*)\))?$`)
	sourcePart  = regexp.MustCompile(`^(.*?)(?:\s+\(in [^)]*\))?\s+\(([^():]+):(\d+)\)$`)
	registerOne = regexp.MustCompile(`([A-Za-z][A-Za-z0-9_]{0,11}):\s*(?:0x)?([0-9a-fA-F]{1,16})\b`)
	addressOne  = regexp.MustCompile(`0x[0-9a-fA-F]{1,16}`)
)

// textReader reads the text form line by line.
type textReader struct {
	*Report

	part   func(line string) bool // reads a line of the present part; false: the part has ended
	frames *[]Frame               // of the present stack
	thread *Thread
	names  map[int]string // of threads, from lines "Thread N name:"
	info   []string
}

// maxLine bounds a line. The longest of real reports are images with their paths.
const maxLine = 16 << 10

// readText reads the text form.
func (r *Report) readText(data []byte) error {
	t := &textReader{Report: r, names: map[int]string{}}
	t.part = t.header
	for raw := range bytes.Lines(data) {
		if len(raw) > maxLine {
			r.problem("a line of %d bytes is left out", len(raw))
			continue
		}
		t.line(strings.TrimRight(strings.ToValidUTF8(string(raw), "\uFFFD"), "\r\n"))
	}
	t.Info = strings.TrimSpace(strings.Join(t.info, "\n"))
	return nil
}

// line reads a line: one that begins a part, or one of the present part.
func (t *textReader) line(line string) {
	switch {
	case stateLine.MatchString(line):
		t.beginRegisters(stateLine.FindStringSubmatch(line)[1])
	case threadLine.MatchString(line):
		t.beginThread(threadLine.FindStringSubmatch(line))
	case strings.HasPrefix(line, "Last Exception Backtrace:"), strings.HasPrefix(line, "Application Specific Backtrace "):
		t.frames, t.thread = &t.LastException, nil
		t.part = t.stack
	case strings.HasPrefix(line, "Application Specific Information:"):
		t.part = t.information
		t.information(strings.TrimPrefix(line, "Application Specific Information:"))
	case strings.HasPrefix(line, "Binary Images:"):
		t.part = t.image
	default:
		if !t.part(line) {
			t.part = t.header
			t.header(line)
		}
	}
}

// header reads a line "Key: value".
func (t *textReader) header(line string) bool {
	key, value, ok := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	if !ok || value == "" {
		return true
	}
	switch strings.ToLower(strings.TrimSpace(key)) {
	case "incident identifier":
		t.Incident = value
	case "process":
		t.Process, t.PID = value, 0
		if i := strings.LastIndex(value, " ["); i > 0 && strings.HasSuffix(value, "]") {
			t.Process = value[:i]
			t.PID, _ = strconv.ParseInt(value[i+2:len(value)-1], 10, 64)
		}
	case "path":
		t.Path = value
	case "identifier":
		t.Bundle = value
	case "version":
		t.Version = value
	case "code type":
		t.Arch = arch(value)
	case "hardware model":
		t.Device = value
	case "os version":
		t.setOS(value)
	case "date/time":
		t.setTime(value)
	case "crashed thread", "triggered by thread":
		t.setCrashed(value)
	default:
		t.exception(strings.ToLower(key), value)
	}
	return true
}

// exception reads a line about the reason of the crash.
func (t *textReader) exception(key, value string) {
	e := &t.Exception
	switch key {
	case "exception type":
		e.Type = value
		if kind, signal, ok := strings.Cut(value, " ("); ok {
			e.Type, e.Signal = kind, strings.TrimSuffix(signal, ")")
		}
	case "exception codes":
		if strings.Contains(value, " at 0x") && e.Subtype == "" { // older reports have two such lines
			e.Subtype = value
		}
		if e.Codes == "" || e.Codes == e.Subtype {
			e.Codes = value
		}
	case "exception subtype":
		e.Subtype = value
	case "exception message":
		e.Message = value
	case "termination reason":
		e.Termination = value
	}
}

// setCrashed reads the number of the crashed thread, which is above the threads.
func (t *textReader) setCrashed(value string) {
	word, _, _ := strings.Cut(value, " ")
	if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < MaxThreads {
		t.crashed = n + 1
	}
}

// beginThread reads the line above a stack, or the line with the name of the thread above that.
func (t *textReader) beginThread(m []string) {
	index, err := strconv.Atoi(m[1])
	if err != nil {
		return
	}
	name := strings.TrimSpace(m[4])
	if m[2] == " name" {
		if len(t.names) < MaxThreads {
			t.names[index] = name
		}
		t.part = t.header
		return
	}
	if name == "" {
		name = t.names[index]
	}
	delete(t.names, index)
	thread := Thread{Index: index, Crashed: m[2] == " Crashed" || t.crashed == index+1}
	if queue, ok := strings.CutPrefix(name, "Dispatch queue:"); ok {
		thread.Queue = strings.TrimSpace(queue)
	} else {
		thread.Name, thread.Queue, _ = strings.Cut(name, " Dispatch queue: ")
		thread.Name, thread.Queue = strings.TrimSpace(thread.Name), strings.TrimSpace(thread.Queue)
	}
	t.thread, t.frames = nil, nil
	if t.addThread(thread) {
		t.thread = &t.Threads[len(t.Threads)-1]
		t.frames = &t.thread.Frames
	}
	t.part = t.stack
}

// stack reads a frame. An empty line ends the stack.
func (t *textReader) stack(line string) bool {
	if strings.TrimSpace(line) == "" {
		return len(*t.into()) == 0
	}
	m := frameLine.FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return t.addresses(line)
	}
	f := Frame{Address: hex(m[3]), Image: -1, Module: m[2]}
	if strings.Trim(f.Module, "?") == "" {
		f.Module = ""
	}
	f.source(m[4])
	t.add(f)
	return true
}

// into returns the list of the present stack, or a list that nobody reads.
func (t *textReader) into() *[]Frame {
	if t.frames == nil {
		t.frames = new([]Frame)
	}
	return t.frames
}

func (t *textReader) add(f Frame) {
	if frames := t.into(); t.spendFrame() {
		*frames = append(*frames, f)
	}
}

// addresses reads a stack without names: "(0x18b8fafd8 0x18a35c538 …)".
func (t *textReader) addresses(line string) bool {
	if !strings.HasPrefix(strings.TrimSpace(line), "(0x") {
		return false
	}
	for _, a := range addressOne.FindAllString(line, -1) {
		t.add(Frame{Address: hex(a[2:]), Image: -1})
	}
	return true
}

// source reads what follows the address of a frame: "0x10864e000 + 5384491", "main + 64 (main.m:16)" or
// "main (in App) (main.m:16)". The base of the image says nothing new.
func (f *Frame) source(s string) {
	if strings.Trim(s, "?") == "" {
		return
	}
	place := ""
	if m := offsetPart.FindStringSubmatch(s); m != nil {
		if strings.HasPrefix(m[1], "0x") {
			return
		}
		f.Symbol, place = m[1], m[3]
		f.SymbolOffset, _ = strconv.ParseUint(m[2], 10, 64)
	} else if m := sourcePart.FindStringSubmatch(s); m != nil {
		f.Symbol, place = m[1], m[2]+":"+m[3]
	} else {
		f.Symbol = s
	}
	if file, line, ok := strings.Cut(place, ":"); ok {
		f.File = file
		n, _ := strconv.ParseUint(line, 10, 32)
		f.Line = uint32(n)
	}
}

// beginRegisters reads the line above the registers of a thread. They may stand below the last stack.
func (t *textReader) beginRegisters(number string) {
	t.thread = nil
	for i := len(t.Threads) - 1; i >= 0; i-- {
		if strconv.Itoa(t.Threads[i].Index) == number {
			t.thread = &t.Threads[i]
			break
		}
	}
	t.part = t.registers
}

// registers reads a line of registers. An empty line ends the part.
func (t *textReader) registers(line string) bool {
	if strings.TrimSpace(line) == "" || t.thread == nil {
		return t.thread != nil && len(t.thread.Registers) == 0
	}
	all := registerOne.FindAllStringSubmatch(line, -1)
	if all == nil {
		return false
	}
	for _, m := range all {
		if len(t.thread.Registers) < maxRegisters {
			t.thread.Registers = append(t.thread.Registers, Register{strings.ToLower(m[1]), hex(m[2])})
		}
	}
	return true
}

// maxRegisters bounds the registers of a thread; ARM64 has 36.
const maxRegisters = 128

// information reads a line of the texts that the program left. An empty line ends them.
func (t *textReader) information(line string) bool {
	if strings.TrimSpace(line) == "" && len(t.info) > 0 {
		return false
	}
	if line != "" && len(t.info) < maxInfo {
		t.info = append(t.info, line)
	}
	return true
}

// image reads a line of the list of images. An empty line ends it.
func (t *textReader) image(line string) bool {
	if strings.TrimSpace(line) == "" {
		return len(t.Images) == 0
	}
	m := imageLine.FindStringSubmatch(line)
	if m == nil {
		if strings.HasPrefix(strings.TrimSpace(line), "0x") {
			t.problem("an image is left out: %.100s", line)
		}
		return true
	}
	id, err := debugid.ParseGUID(m[4])
	if err != nil {
		t.problem("an image is left out: %.100s", line)
		return true
	}
	im := Image{Base: hex(m[1]), Path: m[5], UUID: id, Name: m[3]}
	if end := hex(m[2]); end >= im.Base {
		im.Size = end - im.Base + 1 // zero: all addresses, which is the image of code in none
	}
	if i := strings.LastIndex(im.Name, " ("); i > 0 && strings.HasSuffix(im.Name, ")") {
		im.Version, im.Name = im.Name[i+2:len(im.Name)-1], im.Name[:i]
	}
	if archs[im.Version] != "" {
		im.Arch, im.Version = im.Version, ""
	}
	im.Name = strings.TrimSpace(im.Name)
	if i := strings.LastIndexByte(im.Name, ' '); i > 0 && archs[strings.ToLower(im.Name[i+1:])] != "" {
		im.Arch, im.Name = im.Name[i+1:], strings.TrimSpace(im.Name[:i])
	}
	if im.Path != "" && im.Path != "???" {
		im.Name = path.Base(im.Path)
	}
	t.addImage(im)
	return true
}

// hex returns the number of at most 16 hexadecimal digits.
func hex(s string) uint64 {
	n, _ := strconv.ParseUint(s, 16, 64)
	return n
}
