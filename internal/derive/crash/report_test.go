package crash

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

// nothing is a source without files.
type nothing struct{}

func (nothing) Module(context.Context, symbolicate.ModuleQuery) (*symbolicate.Module, error) {
	return nil, fs.ErrNotExist
}

func (nothing) Unwind(context.Context, symbolicate.ModuleQuery) (*symbolicate.Unwind, error) {
	return nil, fs.ErrNotExist
}

// TestReport: a crash report has its own names where there are no files.
func TestReport(t *testing.T) {
	for _, file := range []string{"app.crash", "app.ips"} {
		data, err := os.ReadFile("../../../applecrash/testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Analyze(t.Context(), func(ctx context.Context, r Resolver) (*Walk, error) {
			return WalkFile(ctx, bytes.NewReader(data), int64(len(data)), r)
		}, nothing{}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := Print(&out, a.Stacks(), AllThreads); err != nil {
			t.Fatal(err)
		}
		const want = `
Thread 0 (0)
   0  libsystem_kernel.dylib!mach_msg2_trap + 0x8  context
   1  Space Game!main + 0x40  [main.m:16]  prewalked
   2  dyld!start + 0x938  prewalked

Thread 1 (1, worker), crashed
   0  Space Game + 0x1234  context
   1  0x10  prewalked
   2  Space Game!-[Door open:] + 0x0  [Door.mm:77]  prewalked

Thread 2 (0, Last Exception Backtrace)
   0  Space Game + 0x1234  prewalked
   1  libsystem_kernel.dylib + 0x1000  prewalked

These modules lack files:
  Space Game: add the dSYM of Space Game, UUID 4c4c441f-5555-3144-a169-abafe82da5e5
`
		if got := out.String(); !strings.Contains(got, want) || !strings.HasPrefix(got, "Crash:    EXC_BAD_ACCESS (SIGSEGV) at 0x10\n") {
			t.Errorf("%s: got\n%s\nwant the address 0x10 and\n%s", file, got, want)
		}
		n := a.Native()
		if n.CrashReason != "EXC_BAD_ACCESS (SIGSEGV)" || n.Details != "assertion failed: door != nil\n  in room 7" || n.System.Device != "Mac14,2" ||
			n.System.OSName != "macOS" || n.System.OSVersion != "14.4" || n.System.OSBuild != "23E214" || !n.Crashed {
			t.Errorf("%s: %+v", file, n.NativeCrash)
		}
	}
}
