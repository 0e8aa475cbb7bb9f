package applecrash_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/applecrash"
)

func read(t *testing.T, file string) *applecrash.Report {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := applecrash.Read(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return r
}

// stack is the stack of a thread as text.
func stack(r *applecrash.Report, frames []applecrash.Frame) (list []string) {
	for _, f := range frames {
		line := fmt.Sprintf("%#x", f.Address)
		if f.Image >= 0 {
			im := r.Images[f.Image]
			line = fmt.Sprintf("%s+%#x", im.Name, f.Address-im.Base)
		}
		if f.Symbol != "" {
			line += fmt.Sprintf(" %s+%d", f.Symbol, f.SymbolOffset)
		}
		if f.File != "" {
			line += fmt.Sprintf(" %s:%d", f.File, f.Line)
		}
		list = append(list, line)
	}
	return list
}

// TestForms reads the same crash in both forms.
func TestForms(t *testing.T) {
	for _, file := range []string{"app.crash", "app.ips"} {
		r := read(t, filepath.Join("testdata", file))
		want := applecrash.Report{
			Incident: "7A1D3C02-4F55-4E0B-9A57-0F6B1D2C3E4F", Process: "Space Game", PID: 4711, Bundle: "com.example.spacegame",
			Version: "2.5 (1042)", Arch: "arm64", OS: "macos", OSVersion: "14.4", OSBuild: "23E214", OSName: "macOS 14.4 (23E214)", Device: "Mac14,2",
		}
		for _, c := range []struct{ what, got, want string }{
			{"incident", r.Incident, want.Incident}, {"process", r.Process, want.Process}, {"bundle", r.Bundle, want.Bundle},
			{"version", r.Version, want.Version}, {"processor", r.Arch, want.Arch}, {"system", r.OS, want.OS},
			{"version of the system", r.OSVersion, want.OSVersion}, {"build of the system", r.OSBuild, want.OSBuild},
			{"line of the system", r.OSName, want.OSName}, {"device", r.Device, want.Device},
			{"path", r.Path, "/Applications/Space Game.app/Contents/MacOS/Space Game"},
			{"exception", r.Exception.String(), "EXC_BAD_ACCESS (SIGSEGV)"},
			{"termination", r.Exception.Termination, "Namespace SIGNAL, Code 11 Segmentation fault: 11"},
			{"information", r.Info, "assertion failed: door != nil\n  in room 7"},
			{"time", r.Time.Format(time.RFC3339Nano), "2026-03-01T11:30:45.5Z"},
			{"number of the process", fmt.Sprint(r.PID), "4711"},
			{"problems", strings.Join(r.Problems, "; "), ""},
			{"last exception", strings.Join(stack(r, r.LastException), ", "), "Space Game+0x1234, libsystem_kernel.dylib+0x1000"},
		} {
			if c.got != c.want {
				t.Errorf("%s: %s: %q, want %q", file, c.what, c.got, c.want)
			}
		}
		if len(r.Threads) != 2 || r.Crashed != 1 {
			t.Fatalf("%s: %d threads, number %d crashed; want 2 and 1", file, len(r.Threads), r.Crashed)
		}
		if main := r.Threads[0]; main.Queue != "com.apple.main-thread" || main.Name != "" || main.Crashed {
			t.Errorf("%s: the first thread is %+v, want the queue com.apple.main-thread", file, main)
		}
		if worker := r.Threads[1]; worker.Queue != "" || worker.Name != "worker" || !worker.Crashed {
			t.Errorf("%s: the second thread is %+v, want the name worker", file, worker)
		}
		for i, want := range [][]string{
			{"libsystem_kernel.dylib+0xabc mach_msg2_trap+8", "Space Game+0x4010 main+64 main.m:16", "dyld+0xe0 start+2360"},
			{"Space Game+0x1234", "0x10", "Space Game+0x1400 -[Door open:]+0 Door.mm:77"},
		} {
			got := stack(r, r.Threads[i].Frames)
			if !slices.Equal(got, want) {
				t.Errorf("%s: stack %d is %q, want %q", file, i, got, want)
			}
		}
		have := map[string]uint64{}
		for _, reg := range r.Threads[1].Registers {
			have[reg.Name] = reg.Value
		}
		for name, v := range map[string]uint64{"x1": 0x1f0000001, "pc": 0x104ab1234, "cpsr": 0x60001000, "far": 0x10, "esr": 0x92000006} {
			if have[name] != v {
				t.Errorf("%s: register %s is %#x, want %#x", file, name, have[name], v)
			}
		}
		if len(have) != 10 {
			t.Errorf("%s: %d registers, want 10", file, len(have))
		}
		im := r.Images[0]
		if im.Base != 0x104ab0000 || im.Size != 0x20000 || im.Version != "2.5" || im.UUID.String() != "4c4c441f-5555-3144-a169-abafe82da5e5" {
			t.Errorf("%s: the first image is %+v", file, im)
		}
		if dyld := r.Images[2]; dyld.Arch != "arm64e" || dyld.Name != "dyld" {
			t.Errorf("%s: the third image is %+v, want dyld of arm64e", file, dyld)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		head string
		want bool
	}{
		{"Incident Identifier: 1\n", true},
		{"\xef\xbb\xbfProcess: x [1]\n", true},
		{"-------------------------------------\nTranslated Report (Full Report Below)\n", true},
		{`{"app_name":"x","bug_type":"309"}`, true},
		{`{"name":"x"}`, false},
		{"MDMP", false},
		{"", false},
	} {
		if got := applecrash.Detect([]byte(c.head)); got != c.want {
			t.Errorf("%q: %t, want %t", c.head, got, c.want)
		}
	}
}

func TestNoReport(t *testing.T) {
	for _, s := range []string{"", "MDMP", "{", "{}", "{}\n{}", "Process: x [1]\n", `{"threads":1}`, "{\"bug_type\":\"151\"}\n{\"build\":\"x\"}"} {
		if _, err := applecrash.Read(strings.NewReader(s)); !errors.Is(err, applecrash.ErrNotReport) {
			t.Errorf("%q: error %v, want ErrNotReport", s, err)
		}
	}
}

// TestLimits reads reports with more than the limits of threads, frames and images.
func TestLimits(t *testing.T) {
	var text, js strings.Builder
	for i := range 11_000 {
		fmt.Fprintf(&text, "Thread %d:\n", i)
		for k := range 20 {
			fmt.Fprintf(&text, "%d x 0x%x f + 1\n", k, 0xffffffff00000000+uint64(i*64+k))
		}
		text.WriteString("\n")
	}
	text.WriteString("Binary Images:\n")
	for i := range 51_000 {
		fmt.Fprintf(&text, "0x%x - 0x%x a <0123456789abcdef0123456789abcdef> /a\n", i*4096, i*4096+1)
	}
	js.WriteString(`{"threads":[` + strings.Repeat(`{"frames":[]},`, 20_000) + `{}],"usedImages":[` + strings.Repeat("{},", 60_000) + "{}]}")
	for _, s := range []string{text.String(), js.String()} {
		start := time.Now()
		r, err := applecrash.Read(strings.NewReader(s))
		if err != nil {
			t.Fatal(err)
		}
		frames := 0
		for _, thread := range r.Threads {
			frames += len(thread.Frames)
		}
		if len(r.Threads) != applecrash.MaxThreads || len(r.Images) != applecrash.MaxImages || frames > applecrash.MaxFrames || len(r.Problems) == 0 {
			t.Errorf("%d threads, %d images, %d frames, problems %q; want the limits and a problem for each", len(r.Threads), len(r.Images), frames, r.Problems)
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("it took %v, want 10 s at most", d)
		}
	}
	if _, err := applecrash.Read(bytes.NewReader(make([]byte, applecrash.MaxBytes+1))); !errors.Is(err, applecrash.ErrNotReport) {
		t.Errorf("a report above the limit: error %v, want ErrNotReport", err)
	}
}

// TestIPS compares both forms of real .ips files: JSON, and text behind the line of JSON.
func TestIPS(t *testing.T) {
	for _, file := range reports(t, "*.ips") {
		r := read(t, file)
		if r.Crashed < 0 || len(r.Threads[r.Crashed].Registers) < 20 || r.OS == "" || r.Time.IsZero() || r.Exception.Type == "" {
			t.Errorf("%s: crashed %d, system %q, time %v, exception %q; want all of them", filepath.Base(file), r.Crashed, r.OS, r.Time, r.Exception)
		}
		if pc := r.Threads[r.Crashed].Frames[0].Address; !slices.ContainsFunc(r.Threads[r.Crashed].Registers, func(g applecrash.Register) bool {
			return (g.Name == "pc" || g.Name == "rip") && g.Value == pc
		}) {
			t.Errorf("%s: the crashed thread begins at %#x, which is not its pc", filepath.Base(file), pc)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range []string{"app.crash", "app.ips"} {
		data, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := applecrash.Read(bytes.NewReader(data))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20+uint64(len(data))*20 {
			t.Fatalf("%d bytes of memory for a report of %d bytes", n, len(data))
		}
		if err != nil {
			if !errors.Is(err, applecrash.ErrNotReport) {
				t.Fatalf("error %v, want ErrNotReport", err)
			}
			return
		}
		if r.Crashed >= len(r.Threads) || len(r.Threads) > applecrash.MaxThreads || len(r.Images) > applecrash.MaxImages {
			t.Fatalf("crashed %d of %d threads, %d images", r.Crashed, len(r.Threads), len(r.Images))
		}
		for _, thread := range r.Threads {
			for _, frame := range thread.Frames {
				if frame.Image >= len(r.Images) {
					t.Fatalf("a frame names image %d of %d", frame.Image, len(r.Images))
				}
			}
		}
	})
}
