package dump

import (
	"fmt"
	"strings"
)

// Exceptions of Windows with parameters that say more.
const (
	accessViolation    = 0xc0000005
	inPageError        = 0xc0000006
	stackBufferOverrun = 0xc0000409
)

// windowsExceptions are the names of exceptions (winnt.h), of statuses
// (ntstatus.h) that are seen in crashes, and of codes that compilers, runtimes
// and crash reporters raise.
var windowsExceptions = map[uint32]string{
	0x80000001: "EXCEPTION_GUARD_PAGE", 0x80000002: "EXCEPTION_DATATYPE_MISALIGNMENT", 0x80000003: "EXCEPTION_BREAKPOINT",
	0x80000004: "EXCEPTION_SINGLE_STEP", accessViolation: "EXCEPTION_ACCESS_VIOLATION", inPageError: "EXCEPTION_IN_PAGE_ERROR",
	0xc0000008: "EXCEPTION_INVALID_HANDLE", 0xc000001d: "EXCEPTION_ILLEGAL_INSTRUCTION",
	0xc0000025: "EXCEPTION_NONCONTINUABLE_EXCEPTION", 0xc0000026: "EXCEPTION_INVALID_DISPOSITION",
	0xc000008c: "EXCEPTION_BOUNDS_EXCEEDED", 0xc000008d: "EXCEPTION_FLT_DENORMAL_OPERAND",
	0xc000008e: "EXCEPTION_FLT_DIVIDE_BY_ZERO", 0xc000008f: "EXCEPTION_FLT_INEXACT_RESULT",
	0xc0000090: "EXCEPTION_FLT_INVALID_OPERATION", 0xc0000091: "EXCEPTION_FLT_OVERFLOW", 0xc0000092: "EXCEPTION_FLT_STACK_CHECK",
	0xc0000093: "EXCEPTION_FLT_UNDERFLOW", 0xc0000094: "EXCEPTION_INT_DIVIDE_BY_ZERO", 0xc0000095: "EXCEPTION_INT_OVERFLOW",
	0xc0000096: "EXCEPTION_PRIV_INSTRUCTION", 0xc00000fd: "EXCEPTION_STACK_OVERFLOW", 0xc0000194: "EXCEPTION_POSSIBLE_DEADLOCK",
	0xe0000008: "Out of Memory", 0xe06d7363: "Unhandled C++ Exception", 0xe0434352: "MANAGED_EXCEPTION_CODE_V4",
	0x0517a7ed: "Simulated Exception",

	0x40000015: "STATUS_FATAL_APP_EXIT", 0x40010005: "DBG_CONTROL_C", 0x80000005: "STATUS_BUFFER_OVERFLOW",
	0xc0000001: "STATUS_UNSUCCESSFUL", 0xc0000002: "STATUS_NOT_IMPLEMENTED", 0xc000000d: "STATUS_INVALID_PARAMETER",
	0xc000000e: "STATUS_NO_SUCH_DEVICE", 0xc0000017: "STATUS_NO_MEMORY", 0xc0000018: "STATUS_CONFLICTING_ADDRESSES",
	0xc0000022: "STATUS_ACCESS_DENIED", 0xc0000034: "STATUS_OBJECT_NAME_NOT_FOUND", 0xc000003e: "STATUS_DATA_ERROR",
	0xc000007b: "STATUS_INVALID_IMAGE_FORMAT", 0xc000007f: "STATUS_DISK_FULL", 0xc000009a: "STATUS_INSUFFICIENT_RESOURCES",
	0xc000009c: "STATUS_DEVICE_DATA_ERROR", 0xc000009d: "STATUS_DEVICE_NOT_CONNECTED", 0xc00000b5: "STATUS_IO_TIMEOUT",
	0xc00000bb: "STATUS_NOT_SUPPORTED", 0xc00000c4: "STATUS_UNEXPECTED_NETWORK_ERROR", 0xc000012d: "STATUS_COMMITMENT_LIMIT",
	0xc0000135: "STATUS_DLL_NOT_FOUND", 0xc0000138: "STATUS_ORDINAL_NOT_FOUND", 0xc0000139: "STATUS_ENTRYPOINT_NOT_FOUND",
	0xc000013a: "STATUS_CONTROL_C_EXIT", 0xc0000142: "STATUS_DLL_INIT_FAILED", 0xc0000185: "STATUS_IO_DEVICE_ERROR",
	0xc0000218: "STATUS_CANNOT_LOAD_REGISTRY_FILE", 0xc0000221: "STATUS_IMAGE_CHECKSUM_MISMATCH", 0xc0000374: "STATUS_HEAP_CORRUPTION",
	stackBufferOverrun: "STATUS_STACK_BUFFER_OVERRUN", 0xc0000417: "STATUS_INVALID_CRUNTIME_PARAMETER",
	0xc0000420: "STATUS_ASSERTION_FAILURE", 0xc0000428: "STATUS_INVALID_IMAGE_HASH", 0xc000041d: "STATUS_FATAL_USER_CALLBACK_EXCEPTION",
	0xc06d007e: "VCPP_EXCEPTION_MODULE_NOT_FOUND", 0xc06d007f: "VCPP_EXCEPTION_PROC_NOT_FOUND",
}

// fastFails are the codes of __fastfail from 0 on (winnt.h), without their
// prefix FAST_FAIL_. A dash is a number that is not used.
var fastFails = strings.Fields(`LEGACY_GS_VIOLATION VTGUARD_CHECK_FAILURE STACK_COOKIE_CHECK_FAILURE CORRUPT_LIST_ENTRY
	INCORRECT_STACK INVALID_ARG GS_COOKIE_INIT FATAL_APP_EXIT RANGE_CHECK_FAILURE UNSAFE_REGISTRY_ACCESS GUARD_ICALL_CHECK_FAILURE
	GUARD_WRITE_CHECK_FAILURE INVALID_FIBER_SWITCH INVALID_SET_OF_CONTEXT INVALID_REFERENCE_COUNT - - - INVALID_JUMP_BUFFER
	MRDATA_MODIFIED CERTIFICATION_FAILURE INVALID_EXCEPTION_CHAIN CRYPTO_LIBRARY INVALID_CALL_IN_DLL_CALLOUT INVALID_IMAGE_BASE
	DLOAD_PROTECTION_FAILURE UNSAFE_EXTENSION_CALL DEPRECATED_SERVICE_INVOKED INVALID_BUFFER_ACCESS INVALID_BALANCED_TREE
	INVALID_NEXT_THREAD GUARD_ICALL_CHECK_SUPPRESSED APCS_DISABLED INVALID_IDLE_STATE MRDATA_PROTECTION_FAILURE
	UNEXPECTED_HEAP_EXCEPTION INVALID_LOCK_STATE GUARD_JUMPTABLE INVALID_LONGJUMP_TARGET INVALID_DISPATCH_CONTEXT INVALID_THREAD
	INVALID_SYSCALL_NUMBER INVALID_FILE_OPERATION LPAC_ACCESS_DENIED GUARD_SS_FAILURE LOADER_CONTINUITY_FAILURE
	GUARD_EXPORT_SUPPRESSION_FAILURE INVALID_CONTROL_STACK SET_CONTEXT_DENIED INVALID_IAT HEAP_METADATA_CORRUPTION
	PAYLOAD_RESTRICTION_VIOLATION LOW_LABEL_ACCESS_DENIED ENCLAVE_CALL_FAILURE UNHANDLED_LSS_EXCEPTON ADMINLESS_ACCESS_DENIED
	UNEXPECTED_CALL CONTROL_INVALID_RETURN_ADDRESS UNEXPECTED_HOST_BEHAVIOR FLAGS_CORRUPTION VEH_CORRUPTION ETW_CORRUPTION RIO_ABORT
	INVALID_PFN GUARD_ICALL_CHECK_FAILURE_XFG CAST_GUARD HOST_VISIBILITY_CHANGE KERNEL_CET_SHADOW_STACK_ASSIST
	PATCH_CALLBACK_FAILED NTDLL_PATCH_FAILED INVALID_FLS_DATA`)

// mipsSignals are the signals that MIPS numbers differently, by the usual
// number. Zero is a signal that others do not have.
var mipsSignals = map[uint32]uint32{7: 0, 10: 7, 12: 31, 16: 10, 17: 12, 18: 17}

// signals of Linux by number from 1 on.
var signals = strings.Fields(`SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM
	SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR
	SIGSYS`)

// signalCodes are the values of si_code from 1 on for a signal.
var signalCodes = map[string][]string{
	"SIGILL":  strings.Fields("ILL_ILLOPC ILL_ILLOPN ILL_ILLADR ILL_ILLTRP ILL_PRVOPC ILL_PRVREG ILL_COPROC ILL_BADSTK ILL_BADIADDR"),
	"SIGTRAP": strings.Fields("TRAP_BRKPT TRAP_TRACE TRAP_BRANCH TRAP_HWBKPT TRAP_UNK TRAP_PERF"),
	"SIGFPE":  strings.Fields("FPE_INTDIV FPE_INTOVF FPE_FLTDIV FPE_FLTOVF FPE_FLTUND FPE_FLTRES FPE_FLTINV FPE_FLTSUB"),
	"SIGSEGV": strings.Fields("SEGV_MAPERR SEGV_ACCERR SEGV_BNDERR SEGV_PKUERR"),
	"SIGBUS":  strings.Fields("BUS_ADRALN BUS_ADRERR BUS_OBJERR BUS_MCEERR_AR BUS_MCEERR_AO"),
	"SIGSYS":  strings.Fields("SYS_SECCOMP SYS_USER_DISPATCH"),
}

// signalSources are the values of si_code that any signal may have.
var signalSources = map[int32]string{0x80: "SI_KERNEL", -1: "SI_QUEUE", -2: "SI_TIMER", -3: "SI_MESGQ", -4: "SI_ASYNCIO", -5: "SI_SIGIO",
	-6: "SI_TKILL", -7: "SI_DETHREAD", -60: "SI_ASYNCNL"}

// Exceptions of Mach (mach/exception_types.h) and the one that Crashpad raises.
var (
	machExceptions = map[uint32]string{1: "EXC_BAD_ACCESS", 2: "EXC_BAD_INSTRUCTION", 3: "EXC_ARITHMETIC", 4: "EXC_EMULATION",
		5: "EXC_SOFTWARE", 6: "EXC_BREAKPOINT", 7: "EXC_SYSCALL", 8: "EXC_MACH_SYSCALL", 9: "EXC_RPC_ALERT", 10: "EXC_CRASH",
		11: "EXC_RESOURCE", 12: "EXC_GUARD"}
	machResources = []string{"", "RESOURCE_TYPE_CPU", "RESOURCE_TYPE_WAKEUPS", "RESOURCE_TYPE_MEMORY", "RESOURCE_TYPE_IO",
		"RESOURCE_TYPE_THREADS", "", ""}
	machGuards = []string{"GUARD_TYPE_NONE", "GUARD_TYPE_MACH_PORT", "GUARD_TYPE_FD", "GUARD_TYPE_USER", "GUARD_TYPE_VN",
		"GUARD_TYPE_VIRT_MEMORY", "GUARD_TYPE_REJECTED_SC", ""}
)

const simulatedMach = 0x43507378

// machCodes are the first codes of exceptions of Mach, by processor: "" is every
// processor, x86 is x86_64 too.
var machCodes = map[string]map[uint32]string{
	"EXC_BAD_ACCESS": {1: "KERN_INVALID_ADDRESS", 2: "KERN_PROTECTION_FAILURE", 5: "KERN_FAILURE", 8: "KERN_NO_ACCESS",
		9: "KERN_MEMORY_FAILURE", 10: "KERN_MEMORY_ERROR", 50: "KERN_CODESIGN_ERROR"},
	"EXC_BAD_ACCESS arm64": {0x101: "EXC_ARM_DA_ALIGN", 0x102: "EXC_ARM_DA_DEBUG", 0x103: "EXC_ARM_SP_ALIGN", 0x104: "EXC_ARM_SWP",
		0x105: "EXC_ARM_PAC_FAIL"},
	"EXC_BAD_ACCESS x86":        {13: "EXC_I386_GPFLT"},
	"EXC_BAD_ACCESS ppc":        {0x101: "EXC_PPC_VM_PROT_READ", 0x102: "EXC_PPC_BADSPACE", 0x103: "EXC_PPC_UNALIGNED"},
	"EXC_BAD_INSTRUCTION arm64": {1: "EXC_ARM_UNDEFINED"},
	"EXC_BAD_INSTRUCTION x86": {1: "EXC_I386_INVOP", 10: "EXC_I386_INVTSSFLT", 11: "EXC_I386_SEGNPFLT", 12: "EXC_I386_STKFLT",
		13: "EXC_I386_GPFLT", 17: "EXC_I386_ALIGNFLT"},
	"EXC_ARITHMETIC arm64": {1: "EXC_ARM_FP_IO", 2: "EXC_ARM_FP_DZ", 3: "EXC_ARM_FP_OF", 4: "EXC_ARM_FP_UF", 5: "EXC_ARM_FP_IX",
		6: "EXC_ARM_FP_ID"},
	"EXC_ARITHMETIC x86": {1: "EXC_I386_DIV", 2: "EXC_I386_INTO", 3: "EXC_I386_NOEXT", 4: "EXC_I386_EXTOVR", 5: "EXC_I386_EXTERR",
		6: "EXC_I386_EMERR", 7: "EXC_I386_BOUND", 8: "EXC_I386_SSEEXTERR"},
	"EXC_SOFTWARE":         {0x10002: "SIGABRT", 0xdeadc0de: "UNCAUGHT_NS_EXCEPTION", 1: "EXC_PPC_TRAP", 0x10100: "EXC_PPC_MIGRATE"},
	"EXC_BREAKPOINT arm64": {1: "EXC_ARM_BREAKPOINT"},
	"EXC_BREAKPOINT x86":   {1: "EXC_I386_SGL", 2: "EXC_I386_BPT"},
	"EXC_BREAKPOINT ppc":   {1: "EXC_PPC_BREAKPOINT"},
}

// reason says an exception in the words of minidump-stackwalk.
func reason(os, arch string, e *Exception) string {
	text := ""
	switch os {
	case "windows":
		text = windowsReason(e)
	case "linux", "android":
		signal := e.Code
		if n, ok := mipsSignals[signal]; ok && strings.HasPrefix(arch, "mips") {
			signal = n
		}
		text = signalReason(signal, e.Flags)
	case "macos", "ios":
		text = machReason(arch, e)
	}
	if text == "" {
		text = fmt.Sprintf("unknown 0x%08x / 0x%08x", e.Code, e.Flags)
	}
	return text
}

func windowsReason(e *Exception) string {
	parameter := func(i int) uint64 {
		if i < len(e.Parameters) {
			return e.Parameters[i]
		}
		return 1 << 32 // none of the known values
	}
	name, ok := windowsExceptions[e.Code]
	if !ok {
		return fmt.Sprintf("unknown 0x%08x", e.Code)
	}
	access := map[uint64]string{0: "_READ", 1: "_WRITE", 8: "_EXEC"}[parameter(0)]
	switch {
	case e.Code == accessViolation:
		return name + access
	case e.Code == inPageError && len(e.Parameters) >= 3 && access != "":
		status, ok := windowsExceptions[uint32(parameter(2))]
		if !ok {
			status = fmt.Sprintf("0x%08x", uint32(parameter(2)))
		}
		return name + access + " / " + status
	case e.Code == stackBufferOverrun && len(e.Parameters) >= 1:
		code := uint32(parameter(0))
		if uint64(code) < uint64(len(fastFails)) && fastFails[code] != "-" {
			return "EXCEPTION_STACK_BUFFER_OVERRUN / FAST_FAIL_" + fastFails[code]
		}
		return fmt.Sprintf("EXCEPTION_STACK_BUFFER_OVERRUN / 0x%08x", code)
	}
	return name
}

func signalReason(signal, code uint32) string {
	const dumpRequested = 0xffffffff // Breakpad, for a dump without a crash
	var name string
	switch {
	case signal == dumpRequested:
		name = "DUMP_REQUESTED"
	case signal == 0 || signal > uint32(len(signals)):
		return ""
	default:
		name = signals[signal-1]
	}
	if code == 0 { // of a user
		return name
	}
	if codes := signalCodes[name]; code <= uint32(len(codes)) {
		return name + " / " + codes[code-1]
	}
	if source := signalSources[int32(code)]; source != "" {
		return name + " / " + source
	}
	return fmt.Sprintf("%s / 0x%08x", name, code)
}

func machReason(arch string, e *Exception) string {
	if e.Code == simulatedMach {
		return "Simulated Exception"
	}
	name, ok := machExceptions[e.Code]
	if !ok {
		return ""
	}
	var kind string
	switch name {
	case "EXC_RESOURCE":
		kind = machResources[e.Flags>>29]
	case "EXC_GUARD":
		kind = machGuards[e.Flags>>29]
	default:
		if kind = machCodes[name][e.Flags]; kind == "" {
			kind = machCodes[name+" "+strings.TrimSuffix(arch, "_64")][e.Flags]
		}
		if kind != "" {
			return name + " / " + kind
		}
	}
	if kind != "" && len(e.Parameters) >= 3 {
		return fmt.Sprintf("%s / %s / 0x%016x / 0x%016x", name, kind, e.Parameters[1], e.Parameters[2])
	}
	return fmt.Sprintf("%s / 0x%08x", name, e.Flags)
}
