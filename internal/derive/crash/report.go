package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/symdepot/symdepot/applecrash"
	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/stackwalk"
)

// name returns what a crash report says of a frame; nothing for that of a dump.
func (r *Reported) name() (function, offset, file string, line int) {
	if r == nil || r.Function == "" {
		return "", "", "", 0
	}
	return r.Function, hex(r.Offset), r.File, int(r.Line)
}

// KindReport is the kind of a crash report of Apple's systems.
const KindReport dump.Kind = "applecrashreport"

// lastException is the name of the stack at which an exception was thrown that nobody caught.
const lastException = "Last Exception Backtrace"

// Reported is what a crash report itself says of a frame.
type Reported struct {
	Function string
	Offset   uint64
	File     string
	Line     uint32
	Module   string // the name of the file, if the report has no image at the address
}

// readReport returns a crash report of Apple's systems as the walk of a dump: the system has walked the
// stacks already. The error is that of r or of the Resolver, or wraps dump.ErrNotDump.
func readReport(r io.Reader, res Resolver) (*Walk, error) {
	report, err := applecrash.Read(r)
	if errors.Is(err, applecrash.ErrNotReport) {
		return nil, fmt.Errorf("%w: %w", dump.ErrNotDump, err)
	}
	if err != nil {
		return nil, err
	}
	p := dump.Process{Dump: dump.Dump{Kind: KindReport, Arch: report.Arch, OS: report.OS, Time: report.Time, Problems: report.Problems}}
	p.Version, p.PID = report.OSVersion, uint32(max(0, report.PID))
	if report.OSBuild != "" {
		p.Version += " " + report.OSBuild
	}
	for i := range report.Images {
		im := &report.Images[i]
		p.Modules = append(p.Modules, dump.Module{Path: im.Path, Name: im.Name, Base: im.Base, Size: im.Size, UUID: im.UUID})
	}
	if err := res.Modules(&p); err != nil {
		return nil, err
	}
	w := &Walk{Process: p, Modules: p.Modules, Device: report.Device, Details: detailsOf(report)}
	w.Process.Modules = nil
	w.Requesting = report.Crashed
	w.Assertion = report.Info
	if reason := report.Exception.String(); reason != "" {
		w.Exception = &dump.Exception{Reason: reason, Address: faultAddress(&report.Exception)}
	}
	for i := range report.Threads {
		w.Threads = append(w.Threads, reportThread(&report.Threads[i]))
	}
	if len(report.LastException) > 0 {
		t := Thread{Name: lastException, Frames: reportFrames(report.LastException, stackwalk.Prewalked)}
		w.Threads = append(w.Threads, t)
		w.Thrown = len(w.Threads)
	}
	return w, nil
}

// WalkFile is WalkDump for a dump, or returns what a crash report of Apple's systems
// says. Errors are those of WalkDump.
func WalkFile(ctx context.Context, r io.ReaderAt, size int64, res Resolver) (*Walk, error) {
	head := make([]byte, applecrash.SniffLen)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if dump.Detect(head[:n]) == "" && applecrash.Detect(head[:n]) {
		return readReport(io.NewSectionReader(r, 0, size), res)
	}
	return WalkDump(ctx, r, size, res)
}

// detailsOf returns what Symbolicator calls the details of a crash.
func detailsOf(r *applecrash.Report) string {
	if r.Info != "" {
		return r.Info
	}
	return r.Exception.Details()
}

var faultAt = regexp.MustCompile(` at 0x([0-9a-fA-F]{1,16})\b`)

// faultAddress returns the address that could not be accessed; zero if the report does not say it.
func faultAddress(e *applecrash.Exception) uint64 {
	for _, text := range []string{e.Subtype, e.Message, e.Codes} {
		if m := faultAt.FindStringSubmatch(text); m != nil {
			n, _ := strconv.ParseUint(m[1], 16, 64)
			return n
		}
	}
	return 0
}

func reportThread(from *applecrash.Thread) Thread {
	t := Thread{ID: uint64(from.Index), Name: from.Name, Registers: map[string]uint64{}, Frames: reportFrames(from.Frames, stackwalk.Context)}
	for _, g := range from.Registers {
		t.Registers[g.Name] = g.Value
	}
	return t
}

// reportFrames returns the frames of a stack, without those of inlined functions: the debug information
// has them. trust is that of the first one.
func reportFrames(frames []applecrash.Frame, trust stackwalk.Trust) (list []Frame) {
	for i := range frames {
		f := &frames[i]
		if f.Inlined {
			continue
		}
		said := &Reported{Function: f.Symbol, Offset: f.SymbolOffset, File: f.File, Line: f.Line}
		if f.Image < 0 {
			said.Module = f.Module
		}
		list = append(list, Frame{PC: f.Address, Module: f.Image, Trust: trust, Reported: said})
		trust = stackwalk.Prewalked
	}
	return list
}
