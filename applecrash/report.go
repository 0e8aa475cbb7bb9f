// Package applecrash reads the crash reports that Apple's systems and reporters in their form
// write: text (.crash), and JSON behind a line of JSON (.ips, since macOS 12 and iOS 15).
//
// Such a report has the stacks of all threads as addresses, and the images that were loaded with
// their UUIDs; the system has walked the stacks already. Names that the reporter knew are kept.
// The package looks nothing up.
//
// Reading survives any input within the limits. What cannot be read of a damaged report is left
// out, and Report.Problems says so.
//
// The package is not yet promised: it may change in any version.
package applecrash

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
)

// ErrNotReport is wrapped by the error for anything except a crash report of Apple's systems.
var ErrNotReport = errors.New("not a crash report of Apple's systems")

// Limits of a report. Reports of real programs have below 2 MiB.
const (
	MaxBytes   = 16 << 20
	MaxThreads = 10_000
	MaxImages  = 50_000
	MaxFrames  = 200_000 // of all threads
)

// SniffLen is the number of bytes that Detect needs at most.
const SniffLen = 512

// Report is a crash report.
type Report struct {
	Incident string // the id of the report
	Process  string
	PID      int64
	Path     string // of the program, on the machine of the crash
	Bundle   string // identifier of the program's bundle
	Version  string // of the program, as the report says it
	// Arch is the processor as Breakpad names it: arm64, x86_64, arm, x86; empty if it is unknown.
	Arch string
	// OS is macos, ios, tvos, watchos or visionos; empty if it is unknown.
	OS                 string
	OSVersion, OSBuild string
	// OSName is the line of the report about the system, unchanged.
	OSName string
	Device string    // model of the machine
	Time   time.Time // of the crash, in UTC; zero if it is unknown
	// Exception is the reason of the crash as the report says it.
	Exception Exception
	// Info has the lines "Application Specific Information": the texts of assertions and of
	// uncaught exceptions.
	Info string
	// Crashed is the index in Threads of the thread that crashed; -1 if it is unknown.
	Crashed int
	Threads []Thread
	// LastException has the stack at which an exception of Objective-C or Swift was thrown, which
	// nobody caught: the stack of the crashed thread is that of abort then. It is empty if there is none.
	LastException []Frame
	Images        []Image
	// Problems describe what could not be read.
	Problems []string

	frames   int // of all threads
	searched int // images that were compared with frames
	crashed  int // number of the crashed thread in the head of the text, plus one; zero: none
}

// Exception is the reason of a crash.
type Exception struct {
	Type        string // EXC_BAD_ACCESS, or a signal in reports of other reporters
	Signal      string // SIGSEGV
	Codes       string // 0x0000000000000001, 0x0000000000000000
	Subtype     string // KERN_INVALID_ADDRESS at 0x0000000000000000
	Message     string
	Termination string // Namespace SIGNAL, Code 11
}

// String returns the exception as the text form has it: EXC_BAD_ACCESS (SIGSEGV).
func (e Exception) String() string {
	if e.Signal == "" || e.Signal == e.Type {
		return e.Type
	}
	return strings.TrimSpace(e.Type + " (" + e.Signal + ")")
}

// Details returns what the report says besides the type: the message, or the codes with the address.
func (e Exception) Details() string {
	for _, s := range []string{e.Message, e.Subtype, e.Codes} {
		if s != "" {
			return s
		}
	}
	return ""
}

// Thread is the stack of a thread.
type Thread struct {
	Index   int    // as the report numbers the thread
	ID      uint64 // of the system; zero if the report does not have it
	Name    string
	Queue   string // the dispatch queue
	Crashed bool
	Frames  []Frame // innermost first
	// Registers are in the order of the report.
	Registers []Register
}

// Register is a register of a thread.
type Register struct {
	Name  string // in lower case
	Value uint64
}

// Frame is one call.
type Frame struct {
	// Address is the instruction of the innermost frame, and where the call returns of others.
	Address uint64
	// Image is the index in Images; -1 if no image holds the address.
	Image int
	// Module is the name that a text has in the frame; empty if the reporter did not know it.
	Module string
	// Symbol, SymbolOffset, File and Line are what the reporter knew of the place.
	Symbol       string
	SymbolOffset uint64
	File         string
	Line         uint32
	// Inlined marks a call that the compiler inlined: its caller is the next frame, of the same address.
	Inlined bool
}

// Image is one loaded image.
type Image struct {
	Base, Size uint64 // in bytes; a Size of zero is unknown
	Name       string // base name
	Path       string // on the machine of the crash
	UUID       debugid.GUID
	Arch       string // as Apple writes it: arm64e, x86_64; empty if the report does not have it
	Version    string
}

// Holds reports whether an address is in an image.
func (i Image) Holds(address uint64) bool { return address-i.Base < i.Size }

// Detect reports whether a file that begins with head, its first SniffLen bytes, can be a report.
func Detect(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if bytes.HasPrefix(head, []byte("{")) {
		for _, key := range []string{`"bug_type"`, `"incident_id"`, `"incident"`, `"usedImages"`, `"faultingThread"`} {
			if bytes.Contains(head, []byte(key)) {
				return true
			}
		}
		return false
	}
	for _, key := range []string{"Incident Identifier:", "CrashReporter Key:", "Process:", "Translated Report", "Hardware Model:"} {
		if bytes.HasPrefix(head, []byte(key)) || bytes.Contains(head, []byte("\n"+key)) {
			return true
		}
	}
	return false
}

// Read reads a report in either form. The error wraps ErrNotReport or that of r.
func Read(r io.Reader) (*Report, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: it is longer than %d MiB", ErrNotReport, MaxBytes>>20)
	}
	report := &Report{Crashed: -1}
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), " \t\r\n")
	if bytes.HasPrefix(data, []byte("{")) {
		err = report.readJSON(data)
	} else {
		err = report.readText(data)
	}
	if err != nil {
		return nil, err
	}
	if len(report.Threads) == 0 && len(report.Images) == 0 {
		return nil, fmt.Errorf("%w: it has neither threads nor images", ErrNotReport)
	}
	report.place()
	return report, nil
}

// place finds the images of the frames that name none, and the crashed thread.
func (r *Report) place() {
	for i := range r.Threads {
		r.placeFrames(r.Threads[i].Frames)
		if r.Threads[i].Crashed && r.Crashed < 0 {
			r.Crashed = i
		}
	}
	r.placeFrames(r.LastException)
	if r.Crashed >= 0 {
		r.Threads[r.Crashed].Crashed = true
	}
}

// maxSearches bounds the comparisons of placeFrames: real reports need some millions.
const maxSearches = 64 << 20

func (r *Report) placeFrames(frames []Frame) {
	last := -1
	for i := range frames {
		f := &frames[i]
		if f.Image >= 0 {
			continue
		}
		if last >= 0 && r.Images[last].Holds(f.Address) {
			f.Image = last
			continue
		}
		if r.searched += len(r.Images); r.searched > maxSearches {
			r.problem("there are too many frames and images to say which belong together")
			return
		}
		for k, im := range r.Images {
			if im.Holds(f.Address) {
				f.Image, last = k, k
				break
			}
		}
	}
}

// maxProblems bounds Report.Problems.
const maxProblems = 20

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// addImage adds an image, within the limit.
func (r *Report) addImage(im Image) bool {
	if len(r.Images) == MaxImages {
		r.problem("images after the first %d are left out", MaxImages)
		return false
	}
	r.Images = append(r.Images, im)
	return true
}

// addThread adds a thread, within the limit.
func (r *Report) addThread(t Thread) bool {
	if len(r.Threads) == MaxThreads {
		r.problem("threads after the first %d are left out", MaxThreads)
		return false
	}
	r.Threads = append(r.Threads, t)
	return true
}

// spendFrame reports whether one more frame is within the limit.
func (r *Report) spendFrame() bool {
	if r.frames == MaxFrames {
		r.problem("frames after the first %d are left out", MaxFrames)
		return false
	}
	r.frames++
	return true
}

// archs are the processors by the words of reports.
var archs = map[string]string{
	"arm-64": "arm64", "arm64": "arm64", "arm64e": "arm64", "arm64_32": "arm64_32", "arm": "arm", "armv7": "arm", "armv7s": "arm",
	"armv7k": "arm", "armv6": "arm", "x86-64": "x86_64", "x86_64": "x86_64", "x86_64h": "x86_64", "x86": "x86", "i386": "x86",
}

// arch returns the processor of a line such as "ARM-64 (Native)"; empty if it is unknown.
func arch(line string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	return archs[strings.ToLower(word)]
}

// systems are the systems by the words in front of their versions.
var systems = []struct{ word, os string }{
	{"macos", "macos"}, {"mac os x", "macos"}, {"os x", "macos"}, {"iphone os", "ios"}, {"ipados", "ios"}, {"ipad os", "ios"}, {"ios", "ios"},
	{"apple tvos", "tvos"}, {"tvos", "tvos"}, {"watch os", "watchos"}, {"watchos", "watchos"}, {"visionos", "visionos"}, {"xros", "visionos"},
}

// setOS reads a line such as "macOS 12.3 (21E230)" or "Mac OS X 10.14.0 (18A391)".
func (r *Report) setOS(line string) {
	r.OSName = line
	name, rest := line, ""
	if i := strings.IndexAny(line, "0123456789"); i >= 0 {
		name, rest = line[:i], line[i:]
	}
	name = strings.ToLower(strings.TrimSpace(name))
	for _, s := range systems {
		if strings.HasPrefix(name, s.word) {
			r.OS = s.os
			break
		}
	}
	version, build, ok := strings.Cut(rest, "(")
	r.OSVersion = strings.TrimSpace(version)
	if ok {
		r.OSBuild, _, _ = strings.Cut(build, ")")
		r.OSBuild = strings.TrimSpace(strings.TrimPrefix(r.OSBuild, "Build "))
	}
}

// setTime reads the time of the crash.
func (r *Report) setTime(s string) {
	for _, form := range []string{"2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05 Z0700", time.RFC3339Nano} {
		if t, err := time.Parse(form, strings.TrimSpace(s)); err == nil {
			r.Time = t.UTC()
			return
		}
	}
}
