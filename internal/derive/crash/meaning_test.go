package crash

import (
	"strings"
	"testing"
)

// TestMeaning: the sentence for a reason. Near zero, the address of memory says more.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason  string
		address uint64
		known   bool
		want    string
		null    bool
	}{
		{"EXCEPTION_ACCESS_VIOLATION_WRITE", 0x45, true, "wrote to memory", true},
		{"EXCEPTION_ACCESS_VIOLATION_READ", 0x10000, true, "read memory", false},
		{"EXCEPTION_ACCESS_VIOLATION_EXEC", 0, true, "no code may run", true},
		{"EXCEPTION_ACCESS_VIOLATION", 1 << 40, true, "used memory", false},
		{"EXCEPTION_STACK_OVERFLOW", 0, true, "The stack was used up", false},
		{"EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_FATAL_APP_EXIT", 0, true, "ended itself", false},
		{"EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_STACK_COOKIE_CHECK_FAILURE", 0, true, "beyond a variable on the stack", false},
		{"EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_GUARD_ICALL_CHECK_FAILURE", 0, true, "was damaged", false},
		{"STATUS_HEAP_CORRUPTION", 0, true, "The heap was damaged", false},
		{"Unhandled C++ Exception", 0, true, "C++", false},
		{"EXCEPTION_INT_DIVIDE_BY_ZERO", 0, true, "divided by zero", false},
		{"EXCEPTION_FLT_DIVIDE_BY_ZERO", 0, true, "floating-point", false},
		{"EXCEPTION_INT_OVERFLOW", 0, true, "too large", false},
		{"SIGFPE / FPE_INTDIV", 0, true, "divided by zero", false},
		{"SIGFPE", 0, true, "A calculation failed", false},
		{"SIGFPE / FPE_FLTINV", 0, true, "floating-point", false},
		{"SIGSEGV / SEGV_MAPERR", 0, true, "there is no memory", true},
		{"SIGSEGV / SEGV_ACCERR", 1 << 32, true, "only be read", false},
		{"SIGSEGV / SI_KERNEL", 0, true, "no memory can have", false},
		{"SIGBUS / BUS_ADRERR", 0, true, "from its file", false},
		{"SIGABRT / SI_TKILL", 0, true, "ended itself", false},
		{"EXC_BAD_ACCESS / KERN_INVALID_ADDRESS", 0x10, true, "there is no memory", true},
		{"EXC_BAD_ACCESS (SIGSEGV)", 0, false, "may not use", false},
		{"EXC_CRASH (SIGABRT)", 0, false, "ended itself", false},
		{"EXC_RESOURCE / RESOURCE_TYPE_MEMORY / 0x0 / 0x0", 0, true, "not enough memory", false},
		{"DUMP_REQUESTED", 0, true, "had not crashed", false},
		{"SIGPIPE", 0, true, "", false},
		{"unknown 0x00000001 / 0x00000002", 0, true, "", false},
		{"", 0, true, "", false},
	} {
		got := meaning(c.reason, c.address, c.known)
		if !strings.Contains(got, c.want) || c.want == "" && got != "" || strings.Contains(got, "a pointer was null") != c.null {
			t.Errorf("%s at %#x means %q, want %q, a null pointer %v", c.reason, c.address, got, c.want, c.null)
		}
	}
}
