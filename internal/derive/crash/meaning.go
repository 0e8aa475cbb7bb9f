package crash

import "regexp"

// nullPage is where the first addresses end at which no system has memory by default: 64 KiB.
const nullPage = 64 << 10

// meanings say in a sentence what reasons mean, those of dumps and of crash reports. The first that fits
// counts. access means that the address is that of memory, so that one near zero says more.
var meanings = []struct {
	reason *regexp.Regexp
	access bool
	text   string
}{
	{regexp.MustCompile(`^EXCEPTION_ACCESS_VIOLATION_READ`), true,
		"The program read memory that is not there, or that it may not read."},
	{regexp.MustCompile(`^EXCEPTION_ACCESS_VIOLATION_WRITE`), true,
		"The program wrote to memory that is not there, or that it may not change."},
	{regexp.MustCompile(`^EXCEPTION_ACCESS_VIOLATION_EXEC`), true, "The program went on at an address where no code may run."},
	{regexp.MustCompile(`^EXCEPTION_ACCESS_VIOLATION`), true,
		"The program used memory that is not there, or that it may not use."},
	{regexp.MustCompile(`^EXCEPTION_IN_PAGE_ERROR|BUS_ADRERR`), false,
		"Memory could not be read from its file: the disk or the connection failed, or the file was cut short."},
	{regexp.MustCompile(`^EXCEPTION_STACK_OVERFLOW`), false,
		"The stack was used up: by a recursion without an end, or by large variables."},
	{regexp.MustCompile(`FAST_FAIL_(FATAL_APP_EXIT|INVALID_ARG)`), false,
		"The program ended itself, because it had found a fault."},
	{regexp.MustCompile(`FAST_FAIL_STACK_COOKIE|FAST_FAIL_LEGACY_GS`), false,
		"A function wrote beyond a variable on the stack."},
	{regexp.MustCompile(`^EXCEPTION_STACK_BUFFER_OVERRUN`), false,
		"A check found that the state of the program was damaged, and ended it."},
	{regexp.MustCompile(`^STATUS_HEAP_CORRUPTION`), false,
		"The heap was damaged before: by a write beyond the end of a block, or by the use of a block that had been freed."},
	{regexp.MustCompile(`^STATUS_INVALID_CRUNTIME_PARAMETER`), false,
		"A function of the C library was called with an argument that is not valid."},
	{regexp.MustCompile(`^STATUS_(DLL_NOT_FOUND|ENTRYPOINT_NOT_FOUND|ORDINAL_NOT_FOUND|DLL_INIT_FAILED)|^VCPP_EXCEPTION`), false,
		"A library, or a function of one, was not found or could not be started."},
	{regexp.MustCompile(`^(STATUS_NO_MEMORY|STATUS_COMMITMENT_LIMIT|Out of Memory)|RESOURCE_TYPE_MEMORY`), false,
		"There was not enough memory."},
	{regexp.MustCompile(`^Unhandled C\+\+ Exception`), false, "An exception of C++ was thrown that nothing caught."},
	{regexp.MustCompile(`^MANAGED_EXCEPTION_CODE`), false, "An exception of .NET was thrown that nothing caught."},
	{regexp.MustCompile(`UNCAUGHT_NS_EXCEPTION`), false, "An exception of Objective-C was thrown that nothing caught."},
	{regexp.MustCompile(`INT_DIVIDE_BY_ZERO|FPE_INTDIV|EXC_I386_DIV`), false, "A whole number was divided by zero."},
	{regexp.MustCompile(`_FLT_|FPE_FLT|EXC_ARM_FP|^EXC_ARITHMETIC`), false,
		"A calculation with floating-point numbers failed."},
	{regexp.MustCompile(`^SIGFPE$`), false, "A calculation failed, such as a division by zero."},
	{regexp.MustCompile(`_INT_OVERFLOW|FPE_INTOVF`), false, "A whole number became too large."},
	{regexp.MustCompile(`^EXCEPTION_(ILLEGAL|PRIV)_INSTRUCTION|SIGILL|^EXC_BAD_INSTRUCTION`), false,
		"The processor met an instruction that it cannot carry out. Compilers put one where a program must not come."},
	{regexp.MustCompile(`^EXCEPTION_BREAKPOINT|SIGTRAP|^EXC_BREAKPOINT`), false,
		"The program came to a breakpoint. Compilers and checks put one where a program must not come."},
	{regexp.MustCompile(`^SIGSEGV / SEGV_MAPERR|KERN_INVALID_ADDRESS`), true,
		"The program used an address at which there is no memory."},
	{regexp.MustCompile(`^SIGSEGV / SEGV_ACCERR|KERN_PROTECTION_FAILURE`), true,
		"The program used memory in a way that is not allowed there, such as a write to memory that can only be read."},
	{regexp.MustCompile(`^SIGSEGV / SI_KERNEL|EXC_I386_GPFLT`), false,
		"The program used an address that no memory can have. The dump does not have this address."},
	{regexp.MustCompile(`EXC_ARM_PAC_FAIL`), false, "A pointer was changed by something that does not know its signature."},
	{regexp.MustCompile(`^SIGSEGV|^EXC_BAD_ACCESS`), true,
		"The program used memory that is not there, or that it may not use."},
	{regexp.MustCompile(`^SIGBUS|EXCEPTION_DATATYPE_MISALIGNMENT|EXC_ARM_(DA|SP)_ALIGN`), false,
		"The program used memory at an address that does not fit the size of what it read or wrote, or beyond the end of a file."},
	{regexp.MustCompile(`SIGABRT`), false,
		"The program ended itself: after an assertion, or an exception that nothing caught."},
	{regexp.MustCompile(`^SIGSYS`), false, "The program made a system call that it may not make."},
	{regexp.MustCompile(`^EXC_RESOURCE`), false, "The program used more of something than the system lets it have."},
	{regexp.MustCompile(`^EXC_GUARD`), false,
		"The program used something that is guarded, such as a file of another part of it."},
	{regexp.MustCompile(`^(DUMP_REQUESTED|Simulated Exception)`), false,
		"The program asked for the dump, and had not crashed."},
}

// meaning says the reason of a crash in a sentence for people; empty for one that is not known. known means that
// the address is.
func meaning(reason string, address uint64, known bool) string {
	for _, m := range meanings {
		switch {
		case !m.reason.MatchString(reason):
		case m.access && known && address < nullPage:
			return m.text + " The address is near zero: probably a pointer was null."
		default:
			return m.text
		}
	}
	return ""
}
