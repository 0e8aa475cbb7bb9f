package stacktext

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// found prints the addresses of a text: the number of the line from 1 on, the module with its
// id, the offset, and "ret" for that of the instruction behind a call.
func found(s Stack) string {
	var b strings.Builder
	for i, l := range s.Lines {
		if l.Address == nil {
			continue
		}
		m := s.Modules[l.Address.Module]
		fmt.Fprintf(&b, "%d %s", i+1, m.Name)
		if m.ID != "" {
			b.WriteString("/" + m.ID)
		}
		fmt.Fprintf(&b, "+%#x", l.Address.Offset)
		if l.Address.Return {
			b.WriteString(" ret")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// texts are stacks in the form in which real programs print them.
var texts = []struct{ name, text, want string }{
	{"places of symdepot symbolicate", "app.pdb/F9EFE0B6AE7500394C4C44205044422E1+0x1010\n  libfoo.so/0a1b2c3d4e5f60718293+1139 and a word", `1 app.pdb/F9EFE0B6AE7500394C4C44205044422E1+0x1010
2 libfoo.so/0a1b2c3d4e5f60718293+0x1139
`},
	{"tombstone", `*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
Build fingerprint: 'Android/aosp/generic:14/UP1A/1:userdebug/test-keys'
signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000000
    x0  0000000000000000  x1  0000007fd4f3e5c8
backtrace:
      #00 pc 0000000000001139  /data/app/~~q==/com.example-x==/lib/arm64/libfoo.so (crash_here+12) (BuildId: ab1ecbcf2a1b3c4d5e6f708192a3b4c5d6e7f809)
      #01 pc 000000000000a2b0  /data/app/com.example/base.apk!libbar.so (offset 0x3000) (BuildId: 00112233445566778899aabbccddeeff00112233)
      #02 pc 00044a1c  /system/lib/libc.so
      #03 pc 0000000000000f00  <anonymous:0000007fd4f3e000>`, `6 libfoo.so/ab1ecbcf2a1b3c4d5e6f708192a3b4c5d6e7f809+0x1139
7 libbar.so/00112233445566778899aabbccddeeff00112233+0xa2b0
8 libc.so+0x44a1c
`},
	{"minidump_stackwalk", `Thread 0 (crashed)
 0  app + 0x1139
    rax = 0x0000000000000000   rdx = 0x00007ffd2d5f1a48
    Found by: given as instruction pointer in context
 1  libc.so.6!__libc_start_main + 0xf3
 2  My App + 0x2000

Loaded modules:
0x55d0c0de0000 - 0x55d0c0de4fff  app  ???  (main)  (WARNING: No symbols, app, AA45ACAD1B2331BA43D7AF433767C61F0)`, `2 app/AA45ACAD1B2331BA43D7AF433767C61F0+0x1139
6 My App+0x2000
`},
	{"crash report of macOS", `Thread 0 Crashed::  Dispatch queue: com.apple.main-thread
0   MyApp                         	       0x104ab3039 0x104ab0000 + 12345
1   MyApp                         	0x0000000104ab3f00 main + 96
2   libsystem_c.dylib             	0x00000001a0001000 abort + 180
3   dyld                          	0x00000001a0c3be50 start + 2544

Binary Images:
       0x104ab0000 -        0x104acffff com.example.MyApp (1.0) <4c4c441f-5555-3144-a169-abafe82da5e5> /Applications/My App.app/Contents/MacOS/MyApp
       0x1a0000000 -        0x1a007ffff libsystem_c.dylib arm64  <0123456789abcdef0123456789abcdef> /usr/lib/system/libsystem_c.dylib`, `2 MyApp/4c4c441f-5555-3144-a169-abafe82da5e5+0x3039
3 MyApp/4c4c441f-5555-3144-a169-abafe82da5e5+0x3f00 ret
4 libsystem_c.dylib/0123456789abcdef0123456789abcdef+0x1000 ret
`},
	{"macOS without images", "1   MyApp   0x0000000104abcdef 0x104ab0000 + 12345", "1 MyApp+0x3039 ret\n"},
	{"backtrace_symbols", `./app(+0x1139) [0x55d0c0de1139]
/usr/lib/libfoo.so(+0x22) [0x7f0000000022]
/lib/x86_64-linux-gnu/libc.so.6(__libc_start_main+0xf3) [0x7f3c2d5f10b3]`, "1 app+0x1139 ret\n2 libfoo.so+0x22 ret\n"},
	{"WinDbg", " # Child-SP          RetAddr               Call Site\n00 0000008a`c11ff8d8 00007ff6`1a2b1234     app+0x1010\n01 0000008a`c11ff8e0 00007ffb`00001111     app!+0x2234\n02 0000008a`c11ff8f0 00000000`00000000     ntdll!RtlUserThreadStart+0x21",
		"2 app+0x1010\n3 app+0x2234 ret\n"},
	{"plain", "app+0x1234\napp!+0x1234\n/opt/x/app+0x10 what\ndo_one+0x12/0x30\nx(y)+0x10", "1 app+0x1234\n2 app+0x1234\n3 app+0x10\n"},
	{"coredump of systemd", `Module /usr/bin/app from rpm app-1.0-1.x86_64
Module libfoo.so from deb foo-1.0.amd64 with build-id 00112233445566778899aabbccddeeff00112233
Stack trace of thread 4711:
#0  0x00007f3c2d5f10b3 n/a (libfoo.so + 0x1139)
#1  0x000055d0c0de1139 main (app + 0x2000)
#2  0x00007f3c2d4e10b3 __libc_start_main (libc.so.6 + 0x270b3)`, `4 libfoo.so/00112233445566778899aabbccddeeff00112233+0x1139
5 app+0x2000 ret
6 libc.so.6+0x270b3 ret
`},
	{"AddressSanitizer", `==1==ERROR: AddressSanitizer: SEGV on unknown address
    #0 0x55d0c0de1139  (/tmp/a.out+0x1139) (BuildId: 00112233445566778899aabbccddeeff00112233)
    #1 0x7f3c2d4e10b3 in __libc_start_main (/lib/libc.so.6+0x270b3)`, "2 a.out/00112233445566778899aabbccddeeff00112233+0x1139\n3 libc.so.6+0x270b3\n"},
	{"GDB with its mappings", `#0  0x0000555555555139 in ?? () from /tmp/app
#1  0x00007ffff7c29d90 in ?? () from /lib/x86_64-linux-gnu/libc.so.6
#2  0x00007ffff7ffffff in ?? ()
          Start Addr           End Addr       Size     Offset  Perms  objfile
      0x555555554000     0x555555555000     0x1000        0x0  r--p   /tmp/app
      0x555555555000     0x555555556000     0x1000     0x1000  r-xp   /tmp/app
      0x7ffff7c28000     0x7ffff7dbd000   0x195000    0x28000  r-xp   /lib/x86_64-linux-gnu/libc.so.6`, "1 app+0x1139\n2 libc.so.6+0x29d90 ret\n"},
	{"Rust with /proc/PID/maps", `   0:     0x55d0c0de1139 - <unknown>
   1:     0x55d0c0de2000 - <unknown>
55d0c0de0000-55d0c0de1000 r--p 00000000 08:01 131 /tmp/my app
55d0c0de1000-55d0c0de4000 r-xp 00001000 08:01 131 /tmp/my app`, "1 my app+0x1139\n2 my app+0x2000 ret\n"},
	{"Go", "goroutine 1 [running]:\nmain.main()\n\t/tmp/x.go:4 +0x1d\nexit status 2", ""},
	{"no stack", "hello + world\n\n1 + 2 = 3\n#include <x.h>", ""},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range texts {
		for _, text := range []string{c.text, strings.ReplaceAll(c.text, "\n", "\r\n") + "\r\n"} {
			s, err := Parse(text)
			if got := found(s); err != nil || got != c.want {
				t.Errorf("%s:\n%s%v; want\n%s", c.name, got, err, c.want)
			}
			if want := strings.Count(c.text, "\n") + 1; len(s.Lines) != want {
				t.Errorf("%s: %d lines, want %d", c.name, len(s.Lines), want)
			}
		}
	}
}

// TestUnplaced counts the frames of GDB whose module the text does not place.
func TestUnplaced(t *testing.T) {
	t.Parallel()
	s, err := Parse("#0  0x00007ffff7c29d90 in ?? () from /lib/libc.so.6\n#1  0x0000555555555139 in ?? ()\n")
	if err != nil || s.Unplaced != 2 || found(s) != "" {
		t.Errorf("%d frames are not placed, %q, error %v; want 2 and no address", s.Unplaced, found(s), err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"bytes", strings.Repeat("x", MaxBytes+1), "the text is longer than 1 MiB"},
		{"lines", strings.Repeat("\n", MaxLines+1), "the text has more than 10000 lines"},
		{"addresses", strings.Repeat("app+0x10\n", MaxAddresses+1), "the text has more than 1000 addresses"},
		{"none", strings.Repeat("app+0x10\n", MaxAddresses), ""},
	} {
		_, err := Parse(c.text)
		if _, limit := errors.AsType[LimitError](err); limit != (c.want != "") || limit && err.Error() != c.want {
			t.Errorf("too many %s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzParse: every address belongs to a module with a name, and no line is lost.
func FuzzParse(f *testing.F) {
	for _, c := range texts {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		var lines []string
		for _, l := range s.Lines {
			lines = append(lines, l.Text)
			if l.Address != nil && (l.Address.Module >= len(s.Modules) || s.Modules[l.Address.Module].Name == "") {
				t.Errorf("the line %q has an address in the module %d of %d, want one with a name", l.Text, l.Address.Module, len(s.Modules))
			}
		}
		want := strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\r\n", "\n")
		if got := strings.ReplaceAll(strings.Join(lines, "\n"), "\r", ""); got != strings.ReplaceAll(want, "\r", "") {
			t.Errorf("the lines are %q, want %q", got, want)
		}
	})
}
