package crash

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// maxKey is how many functions a key has.
const maxKey = 6

// keyFrames are the functions that make the key of a crash: those of the crashed thread from the
// first one on that is not a part of the runtime, inlined ones as all others, so that it does not
// matter what a compiler inlines. A frame without a name counts by its module. Frames that were
// found by a search of the stack end the list, for the stack holds old addresses too: unless there
// is nothing else.
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
			if len(list) == 0 && isRuntime(name, f.Module) {
				runtime = append(runtime, name)
				continue
			}
			if n := len(list); n == 0 || list[n-1] != name { // recursion has any depth
				list = append(list, name)
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
	case f.Function != "" && !strings.HasPrefix(f.Function, "<"):
		return append(list, KeyName(f.Function))
	case f.Module != "":
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
	clones = regexp.MustCompile(`(\.(cold|part|isra|constprop|lto_priv|llvm|localalias|clone|hot|unlikely|resume|destroy|cleanup)(\.\d+)*)+$` +
		`|\s*\[(clone )?\.[^\]]*\]|\s*\(\.[a-z_.0-9]+\)|::h[0-9a-f]{16}$|\[abi:[^\]]*\]`)
	// numbers are the numbers of lambdas, closures and blocks, which change with the code around.
	ordinals = regexp.MustCompile(`(\{lambda\([^)]*\)#|lambda_|\$_|\{\{?closure|\.func|_block_invoke|'lambda)[0-9a-f#.]*`)
)

// KeyName is a function's name as keys have it: without the arguments of templates and generics, the
// list of parameters, the return type of a template, and what compilers append to copies and parts.
func KeyName(name string) string {
	name = clones.ReplaceAllString(name, "")
	name = ordinals.ReplaceAllString(name, "$1")
	name = withoutNested(name)
	return strings.TrimSpace(name)
}

// withoutNested leaves out the parts of a name in angle brackets, and the list of parameters. It
// keeps the brackets of operators, and anonymous parts such as (anonymous namespace).
func withoutNested(name string) string {
	var b strings.Builder
	depth, from := 0, 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '<' && depth == 0 && strings.HasSuffix(name[:i], "operator"), c == '<' && depth == 0 && strings.HasSuffix(name[:i], "operator<"),
			c == '>' && depth == 0:
		case c == '<':
			if depth == 0 {
				b.WriteString(name[from:i])
			}
			depth++
		case c == '>' && depth > 0 && !strings.HasSuffix(name[:i], "-"):
			if depth--; depth == 0 {
				from = i + 1
			}
		case c == '(' && depth == 0 && i > 0 && !strings.HasSuffix(name[:i], "::") && !strings.HasSuffix(name[:i], "operator") &&
			!strings.HasPrefix(name[i:], "(anonymous"):
			b.WriteString(name[from:i])
			return b.String()
		}
	}
	if depth > 0 { // the brackets do not match: the name is kept
		return name
	}
	b.WriteString(name[from:])
	return b.String()
}

// runtimeNames are functions that only say that a program ends, not why: they are left out at the
// beginning of keys.
var runtimeNames = regexp.MustCompile(`(?i)^(` + strings.Join([]string{
	// POSIX and the C library
	`_*(abort|raise|gsignal|kill|tgkill|pthread_kill|_*pthread_kill(_implementation|_internal)?|abort_message|assert(_fail|_fail_base|2|_rtn)?)`,
	`_*(stack_chk_fail(_local)?|fortify_fail|chk_fail|libc_message|libc_fatal|malloc_printerr|kernel_vsyscall|restore_rt|sigtramp|libc_start_call_main_abort)`,
	`_*(cxa_throw|cxa_rethrow|cxa_bad_cast|cxa_pure_virtual|gxx_personality.*|unwind_(raiseexception|resume.*)|terminate)`,
	`std::(terminate|__terminate|rethrow_exception|__throw_.*|unexpected)`, `__gnu_cxx::__verbose_terminate_handler`, `demangling_terminate_handler`,
	`__cxxabiv1::.*`, `_*objc_(exception_throw|terminate|fatal).*`, `-\[nsexception raise\]`, `__exceptionpreprocess`,
	// Windows
	`_?(raiseexception|rtlraiseexception|rtlraisestatus|rtldispatchexception|rtlunwind(ex)?|kiuserexceptiondispatch(er)?|rtlfailfast.*|rtlreportfatalfailure)`,
	`_*(cxxthrowexception|invalid_parameter.*|invoke_watson.*|call_reportfault|fastfail|report_gsfailure|scrt_fastfail|purecall|amsg_exit|crtdbgreport.*)`,
	`(unhandledexceptionfilter|rtlreportexception.*|rtlpreportheap.*|rtlpheap.*failure|debugbreak|dbgbreakpoint|terminateprocess|exitprocess|nt(zw)?terminateprocess)`,
	`(nt|zw)(waitfor\w+|raiseexception|raiseharderror)`, `common_assert_to_.*`, `_wassert`,
	// Rust
	`core::panicking::.*`, `core::(option|result)::(expect|unwrap)_.*failed`, `std::panicking::.*`, `std::sys_common::backtrace::.*`, `std::sys::backtrace::.*`,
	`_*rust_(begin_unwind|start_panic|panic.*|end_short_backtrace.*)`, `rust_panic.*`, `alloc::alloc::handle_alloc_error.*`, `std::process::abort`,
	// Go
	`runtime\.(gopanic|throw|fatalthrow|fatalpanic|fatal|sigpanic|dieFromSignal|raise|crash|panic\w*|goPanic\w*|systemstack|sigtrampgo|sigfwdgo|sighandler|badsignal)(\.abi0)?`,
	// Crash reporters, sanitizers and checks
	`google_breakpad::.*`, `crashpad::.*`, `logging::(logmessage::.*|checkerror::.*)`, `base::(debug::|immediatecrash).*`, `__(asan|ubsan|tsan|msan|sanitizer)_?.*`,
	`google::logmessage.*`, `absl::.*(logmessage.*|raw_logging_internal.*)`, `mozalloc_abort`, `moz_crash.*`, `swift_(runtime.*|fatalerror.*)`, `_assertionfailure.*`,
}, "|") + `)$`)

// isRuntime reports whether a function is left out at the beginning of a key.
func isRuntime(name, module string) bool {
	return runtimeNames.MatchString(name) || strings.HasSuffix(name, "!") && isSystem(module)
}

// isSystem reports whether a module is a part of the system, of which a frame without a name says
// nothing: its kernel interface and its C library.
func isSystem(module string) bool {
	module = strings.ToLower(module)
	for _, p := range []string{"ntdll.", "kernelbase.", "libc.so", "libc-", "libsystem_kernel", "libsystem_pthread", "libsystem_c.", "linux-gate", "linux-vdso", "win32u."} {
		if strings.HasPrefix(module, p) {
			return true
		}
	}
	return false
}
