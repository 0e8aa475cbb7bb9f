package stackwalk_test

import (
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/stackwalk"
)

// BenchmarkWalk walks 40 threads of 25 frames each by rules as those of real functions.
func BenchmarkWalk(b *testing.B) {
	list := make([]uint64, 25*8)
	for i := 7; i < len(list)-8; i += 8 {
		list[i], list[i-1] = at+0x20, uint64(i)
	}
	p := &process{regions: words(8, list...), rules: map[int]func(uint64) (functab.Rules, bool){code: table(cfi(
		".cfa: $rsp 8 + .ra: .cfa -8 + ^", ".cfa: $rsp 16 + $rbp: .cfa -16 + ^", ".cfa: $rsp 64 + $rbx: .cfa -24 + ^",
	))}}
	w := walker(b, "x86_64", "linux", p, stackwalk.Limits{})
	regs := registers{"rip": at + 0x10, "rsp": stackAt, "rbp": 1}
	frames := 0
	for b.Loop() {
		frames = 0
		for range 40 {
			s, err := w.Walk(b.Context(), stackwalk.Thread{Registers: regs})
			if err != nil {
				b.Fatal(err)
			}
			frames += len(s.Frames)
		}
	}
	if frames < 40*24 {
		b.Fatalf("%d frames in 40 threads", frames)
	}
	b.ReportMetric(float64(frames), "frames")
}
