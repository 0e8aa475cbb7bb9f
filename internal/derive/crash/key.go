package crash

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// maxKey is how many functions a key has.
const maxKey = 6

// keyFrames are the functions that make the key of a crash: those of the crashed thread from the
// first one on that is not a part of the runtime, inlined ones as all others, so that it does not
// matter what a compiler inlines, up to the function with which a program or a thread begins. A frame
// without a name counts by its module, unless that is a part of the system, which differs from machine
// to machine. Frames that were found by a search of the stack end the list, for the stack holds old
// addresses too: unless there is nothing else.
func keyFrames(t *wire.StackThread) (list []string) {
	var runtime []string // the names that were skipped
	for i := range t.Frames {
		f := &t.Frames[i]
		if (f.Trust == "scan" || f.Trust == "cfi_scan") && len(list) > 0 {
			break
		}
		for _, name := range names(f) {
			if len(list) == maxKey {
				return list
			}
			if len(list) == 0 && runtimeNames().MatchString(name) {
				runtime = append(runtime, name)
				continue
			}
			if n := len(list); n == 0 || list[n-1] != name { // recursion has any depth
				list = append(list, name)
			}
			if entries.MatchString(name) {
				return list
			}
		}
	}
	if len(list) == 0 {
		return runtime[:min(len(runtime), maxKey)]
	}
	return list
}

// names are the functions of a frame in the form of keys, innermost first.
func names(f *wire.StackFrame) (list []string) {
	for _, in := range f.Inlines {
		list = append(list, KeyName(in.Function))
	}
	switch {
	case f.Function != "" && !functab.IsMarker(f.Function):
		return append(list, KeyName(f.Function))
	case f.Module != "" && !isSystem(f.Module):
		return append(list, strings.ToLower(f.Module)+"!")
	}
	return list
}

// keyOf is the key of a list of functions: 16 hexadecimal digits; empty without functions.
func keyOf(list []string) string {
	if len(list) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	return fmt.Sprintf("%x", sum[:8])
}

var (
	// clones are what compilers append to the names of parts and copies of functions: GCC and LLVM
	// with a dot, demanglers in brackets, Rust's hash.
	clones = regexp.MustCompile(`(\.(cold|part|isra|constprop|lto_priv|llvm|localalias|clone|hot|unlikely|` +
		`resume|destroy|cleanup)(\.\d+)*)+$` +
		`|\s*\[(clone )?\.[^\]]*\]|\s*\(\.[a-z_.0-9]+\)|::h[0-9a-f]{16}$|\[abi:[^\]]*\]`)
	// numbers are the numbers of lambdas, closures and blocks, which change with the code around.
	ordinals = regexp.MustCompile(`(\{lambda\([^)]*\)#|lambda_|\$_|\{\{?closure|\.func|_block_invoke|'lambda)[0-9a-f#.]*`)
)

// KeyName is a function's name as keys have it: without the arguments of templates and generics, the
// list of parameters, the return type of a template, and what compilers append to copies and parts.
func KeyName(name string) string {
	name = clones.ReplaceAllString(name, "")
	name = ordinals.ReplaceAllString(name, "$1")
	if inner, rest, ok := cutBrackets(name); ok { // <Type as Trait>::method of Rust
		return "<" + KeyName(inner) + ">" + withoutNested(rest)
	}
	return withoutNested(name)
}

// cutBrackets cuts a name that begins with a part in angle brackets.
func cutBrackets(name string) (inner, rest string, ok bool) {
	if !strings.HasPrefix(name, "<") {
		return "", "", false
	}
	depth := 0
	for i := range len(name) {
		switch {
		case name[i] == '<':
			depth++
		case name[i] == '>' && name[i-1] != '-':
			if depth--; depth == 0 {
				return name[1:i], name[i+1:], true
			}
		}
	}
	return "", "", false
}

// withoutNested leaves out the parts of a name in angle brackets, and the list of parameters with what
// follows. It keeps the brackets of operators, and parts such as (anonymous namespace).
func withoutNested(name string) string {
	var b strings.Builder
	depth, from := 0, 0
	for i := 0; i < len(name); i++ {
		c, before := name[i], name[:i]
		operator := strings.HasSuffix(before, "operator") || strings.HasSuffix(before, "operator<") ||
			strings.HasSuffix(before, "operator-") ||
			strings.HasSuffix(before, "operator>")
		switch {
		case depth == 0 && operator, c == '>' && depth == 0:
		case c == '<':
			if depth == 0 {
				b.WriteString(strings.TrimSuffix(name[from:i], "::"))
			}
			depth++
		case c == '>' && name[i-1] != '-':
			if depth--; depth == 0 {
				from = i + 1
			}
		case c == '(' && depth == 0 && i > 0 && !strings.HasSuffix(before, "::") && !strings.HasSuffix(before, ".") &&
			!strings.HasPrefix(name[i:], "(anonymous"):
			return strings.TrimSpace(b.String() + name[from:i])
		}
	}
	if depth > 0 { // the brackets do not match: the name is kept
		return name
	}
	return strings.TrimSpace(b.String() + name[from:])
}

// runtimeNames are functions that only say that a program ends, not why: they are left out at the
// beginning of keys. Few starts of the program need the expression, which is the largest of all.
var runtimeNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(` + strings.Join([]string{
		// POSIX and the C library
		`_*(abort|raise|gsignal|kill|tgkill|pthread_kill|_*pthread_kill(_implementation|_internal)?|abort_message)`,
		`_*(assert(_fail|_fail_base|2|_rtn)?)`,
		`_*(stack_chk_fail(_local)?|fortify_fail|chk_fail|libc_message|libc_fatal)`,
		`_*(malloc_printerr|kernel_vsyscall|restore_rt|sigtramp|libc_start_call_main_abort)`,
		`_*(cxa_throw|cxa_rethrow|cxa_bad_cast|cxa_pure_virtual|gxx_personality.*|unwind_(raiseexception|resume.*)|terminate)`,
		`std::(terminate|__terminate|rethrow_exception|__throw_.*|unexpected)`,
		`__gnu_cxx::__verbose_terminate_handler`, `demangling_terminate_handler`,
		`__cxxabiv1::.*`, `_*objc_(exception_throw|terminate|fatal).*`, `-\[nsexception raise\]`, `__exceptionpreprocess`,
		// Windows
		`_?(raiseexception|rtlraiseexception|rtlraisestatus|rtldispatchexception)`,
		`_?(rtlunwind(ex)?|kiuserexceptiondispatch(er)?|rtlfailfast.*|rtlreportfatalfailure)`,
		`_*(cxxthrowexception|invalid_parameter.*|invoke_watson.*|call_reportfault)`,
		`_*(fastfail|report_gsfailure|scrt_fastfail|purecall|amsg_exit|crtdbgreport.*)`,
		`(unhandledexceptionfilter|rtlreportexception.*|rtlpreportheap.*|rtlpheap.*failure)`,
		`(debugbreak|dbgbreakpoint|terminateprocess|exitprocess|nt(zw)?terminateprocess)`,
		`(nt|zw)(waitfor\w+|raiseexception|raiseharderror)`, `common_assert_to_.*`, `_wassert`,
		// Rust
		`core::panicking::.*`, `core::(option|result)::(expect|unwrap)_.*failed`, `std::panicking::.*`,
		`std::sys_common::backtrace::.*`, `std::sys::backtrace::.*`,
		`_*rust_(begin_unwind|start_panic|panic.*|end_short_backtrace.*)`, `rust_panic.*`,
		`alloc::alloc::handle_alloc_error.*`, `std::process::abort`,
		// Go
		`runtime\.(gopanic|throw|fatalthrow|fatalpanic|fatal|sigpanic|dieFromSignal|raise|crash|panic\w*)(\.abi0)?`,
		`runtime\.(goPanic\w*|systemstack|sigtrampgo|sigfwdgo|sighandler|badsignal)(\.abi0)?`,
		// .NET
		`(procabort|procendprocess|safeexitprocess|crashdumpandterminateprocess)`,
		`eepolicy::(handlefatalerror.*|logfatalerror|handleexitprocess.*)`,
		`systemnative::(generic)?failfast`, `(environment|exceptionnative)_failfast`, `system\.environment\.failfast`,
		`(il_throw|dispatchmanagedexception|unwindmanagedexceptionpass1)`, `system\.diagnostics\.debug(provider)?\.fail\w*`,
		// Crash reporters, sanitizers and checks
		`google_breakpad::.*`, `crashpad::.*`, `logging::(logmessage::.*|checkerror::.*)`,
		`base::(debug::|immediatecrash).*`, `__(asan|ubsan|tsan|msan|sanitizer)_?.*`,
		`google::logmessage.*`, `absl::.*(logmessage.*|raw_logging_internal.*)`,
		`mozalloc_abort`, `moz_crash.*`, `swift_(runtime.*|fatalerror.*)`, `_assertionfailure.*`,
	}, "|") + `)$`)
})

// entries are functions with which a program or a thread begins.
var entries = regexp.MustCompile(`^(w?main|w?WinMain|DllMain|_start|start|start_thread|clone3?|NSApplicationMain|UIApplicationMain|` +
	`_?(thread_start|pthread_start|pthread_body)|RtlUserThreadStart|BaseThreadInitThunk|` +
	`runtime\.(main|goexit)(\.abi0)?|std::rt::lang_start_internal)$`)

// system are the names of modules of operating systems: kernel interfaces, C libraries and loaders.
var system = regexp.MustCompile(`(?i)^(ntdll|kernelbase|kernel32|win32u|user32|ucrtbase|msvcrt|wow64\w*)\.dll$|` +
	`^(libc|libpthread|ld|ld-linux.*|ld-musl.*|libdl|linux-gate|linux-vdso|libc\.musl.*)([.-].*)?\.so(\.\d+)*$|` +
	`^(linker(64)?|linux-gate.*|linux-vdso.*)$|` +
	`^(libsystem_\w+|libdyld|dyld|libobjc\.A|libc\+\+abi)(\.dylib)?$`)

// isSystem reports whether a module is a part of the operating system.
func isSystem(module string) bool { return system.MatchString(module) }
