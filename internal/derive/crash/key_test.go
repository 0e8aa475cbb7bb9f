package crash

import (
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// TestKeyName: what differs between builds of one program is not in the names of keys.
func TestKeyName(t *testing.T) {
	for name, want := range map[string]string{
		"main":                      "main",
		"walk(node*, int)":          "walk",
		"walk.cold":                 "walk",
		"walk.part.0.isra.3":        "walk",
		"walk [clone .constprop.0]": "walk",
		"walk.llvm.1234567890":      "walk",
		"walk(int) (.cold)":         "walk",
		"std::vector<int, std::allocator<int>>::push_back(int&&)": "std::vector::push_back",
		"(anonymous namespace)::CrashFunction":                    "(anonymous namespace)::CrashFunction",
		"a::(anonymous namespace)::f<int>(int)":                   "a::(anonymous namespace)::f",
		"ns::operator<<(std::ostream&, ns::t const&)":             "ns::operator<<",
		"ns::t::operator->() const":                               "ns::t::operator->",
		"ns::t::operator()(int) const":                            "ns::t::operator()",
		"std::__cxx11::basic_string[abi:cxx11]::size":             "std::__cxx11::basic_string::size",
		"core::ptr::write_volatile::<u8>":                         "core::ptr::write_volatile",
		"crash_client::real_main::{closure#1}":                    "crash_client::real_main::{closure}",
		"<alloc::vec::Vec<u8> as core::ops::Drop>::drop":          "<alloc::vec::Vec as core::ops::Drop>::drop",
		"<fn() as core::ops::function::FnOnce<()>>::call_once":    "<fn>::call_once",
		"tiny::run::h0123456789abcdef":                            "tiny::run",
		"main.(*Server).Serve":                                    "main.(*Server).Serve",
		"main.run.func1.2":                                        "main.run.func",
		"-[AppDelegate crash:]":                                   "-[AppDelegate crash:]",
		"f<":                                                      "f<",
		"<":                                                       "<",
		"":                                                        "",
	} {
		if got := KeyName(name); got != want {
			t.Errorf("KeyName(%q) is %q, want %q", name, got, want)
		}
	}
}

func FuzzKeyName(f *testing.F) {
	f.Add("std::vector<int>::f(int) [clone .cold]")
	f.Add("<a as b<c>>::d->e")
	f.Fuzz(func(t *testing.T, name string) {
		if once := KeyName(name); len(once) > len(name) {
			t.Errorf("KeyName(%q) is longer: %q", name, once)
		}
	})
}

// TestKeyFrames: the key begins behind the functions that end a program, and ends with its first one.
func TestKeyFrames(t *testing.T) {
	named := func(names ...string) (list []wire.StackFrame) {
		for _, n := range names {
			list = append(list, wire.StackFrame{Function: n, Trust: "cfi", Module: "app"})
		}
		return list
	}
	inlined := wire.StackFrame{
		Function: "work", Trust: "context", Module: "app", Inlines: []wire.StackInline{{Function: "load<int>"}, {Function: "walk.cold"}},
	}
	for what, c := range map[string]struct {
		frames []wire.StackFrame
		want   []string
	}{
		"abort":   {named("__pthread_kill_implementation", "raise", "abort", "check(int)", "main", "__libc_start_call_main"), []string{"check", "main"}},
		"panic":   {named("core::panicking::panic_fmt", "core::option::unwrap_failed", "app::run", "app::main"), []string{"app::run", "app::main"}},
		"Windows": {named("RtlUnwindEx", "_CxxThrowException", "f", "g", "BaseThreadInitThunk", "RtlUserThreadStart"), []string{"f", "g", "BaseThreadInitThunk"}},
		".NET": {
			named("raise", "abort", "PROCAbort", "EEPolicy::HandleFatalError(unsigned int)", "SystemNative::GenericFailFast", "SystemNative::FailFast(StringObject*)",
				"System.Environment.FailFast", "Shop.Cart.Compare", "System.Array.Sort", "Shop.Program.Main"),
			[]string{"Shop.Cart.Compare", "System.Array.Sort", "Shop.Program.Main"},
		},
		"recursion":    {named("a", "b", "b", "b", "c"), []string{"a", "b", "c"}},
		"inlined":      {append([]wire.StackFrame{inlined}, named("main")...), []string{"load", "walk", "work", "main"}},
		"long":         {named("a", "b", "c", "d", "e", "f", "g"), []string{"a", "b", "c", "d", "e", "f"}},
		"only runtime": {named("raise", "abort"), []string{"raise", "abort"}},
		"scan":         {[]wire.StackFrame{{Function: "f", Trust: "context", Module: "app"}, {Function: "old", Trust: "scan", Module: "app"}}, []string{"f"}},
		"only scan":    {[]wire.StackFrame{{Trust: "context", Module: "libc.so.6"}, {Function: "f", Trust: "scan", Module: "app"}}, []string{"f"}},
		"no names": {[]wire.StackFrame{
			{Trust: "context", Module: "ntdll.dll"}, {Trust: "cfi", Module: "Game.exe"}, {Trust: "cfi", Function: "<unknown in x.dll>", Module: "x.dll"},
		}, []string{"game.exe!", "x.dll!"}},
		"nothing": {nil, nil},
	} {
		if got := keyFrames(&wire.StackThread{Frames: c.frames}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	if a, b := keyOf([]string{"a", "b"}), keyOf([]string{"ab"}); a == b || len(a) != 16 || keyOf(nil) != "" {
		t.Errorf("keys %q and %q, want two of 16 digits; of nothing %q, want none", a, b, keyOf(nil))
	}
}
