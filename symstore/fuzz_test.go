package symstore

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzTransactionLine(f *testing.F) {
	for _, s := range []string{
		`0000000003,add,file,09/06/2016,10:57:50,"peprods","1.0.1","",`, `0000000004,del,0000000001`,
		`0000000096,add,ptr,10/09/99,00:08:32,Windows Vista SP 1,x86 fre 1.156c-RTM-2,Added from \\mybuilds\symbols,`, `1,add,file,"`, `,,,`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseTransaction(s)
		if err != nil {
			return
		}
		if a.Time.IsZero() || a.Time.Year() > 9999 {
			return
		}
		line := a.line()
		if strings.ContainsAny(line, "\r\n") {
			t.Fatalf("%q has a line end, want one line", line)
		}
		b, err := parseTransaction(line)
		if err != nil || b.line() != line {
			t.Fatalf("%q then %q, %v; want no error and %v", line, b.line(), err, line)
		}
	})
}

func FuzzTransactionFile(f *testing.F) {
	f.Add([]byte("\"dummyprog.pdb\\F6301B4562FE4B4DB691192733ECE6B71\",\"F:\\symstore\\compstore\\dummyprog.pdb\"\r\n"))
	f.Add([]byte("\xef\xbb\xbf\"dummyprog.src\\5617D4FE8000\",\"/home/u/dummyprog.src\ncanon800.dbg\\35d9fd51b000,\\\\mybuilds\\x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, _, _ := parseEntries(data)
		for _, e := range list {
			if !validEntryName(e.Name) || !validKey(e.Key) {
				t.Fatalf("%+v, want validEntryName(e.Name), validKey(e.Key)", e)
			}
		}
		again, bad, cut := parseEntries(printEntries(list))
		if len(again) != len(list) || len(bad) > 0 || cut {
			t.Fatalf("%q: %d entries, then %d, %v; want the same again", data, len(list), len(again), bad)
		}
	})
}

func FuzzRefs(f *testing.F) {
	f.Add([]byte("0000000001,file,\"F:\\symstore\\compstore\\dummyprog.pdb\",pri,,Y,,\r\n0000000026,ptr,\\\\mybuilds\\symbols\\acpi.dbg\ngarbage"))
	f.Add([]byte("1,ptr,\"a\",,,,,"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, junk := parseRefs(data)
		again, _ := parseRefs(printRefs(append(junk, list...)))
		if len(again) != len(list) {
			t.Fatalf("%q: %d lines, then %d; want the same", data, len(list), len(again))
		}
		for i := range list {
			fresh := list[i]
			fresh.raw = nil
			if got, err := parseRef(fresh.line()); err == nil && (got.ID != fresh.ID || got.Pointer != fresh.Pointer) {
				t.Fatalf("%+v then %+v; want the same", fresh, got)
			}
		}
	})
}

func FuzzPointer(f *testing.F) {
	for _, s := range []string{`\\mybuilds\symbols\acpi.dbg`, "PATH:\\\\a\\b\r\nMSG: gone", "MSG:", "\xef\xbb\xbf  x  "} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := parsePointer(data)
		if strings.ContainsAny(p.Target+p.Message, "\r\n") && bytes.IndexByte(data, '\r') < 0 {
			t.Fatalf("parsePointer(%q): %+v, want no line break", data, p)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add("; symdepot-index 1\r\n\"app.dll\\000000011000\",\"bins/app.dll\",\"bin\",\"519\"\r\n; transaction 0000000004\r\n")
	f.Add("app.dll\\000000011000,bins/app.dll,bin,519\n#\n\"..\\AB\",\"x\"\n")
	f.Fuzz(func(t *testing.T, data string) {
		for e, err := range ReadIndex(strings.NewReader(data)) {
			if err != nil {
				continue
			}
			if checkName(e.Key.Name) != nil || !validKey(e.Key.Key) {
				t.Fatalf("got %+v, want checkName(e.Key.Name) nil, validKey(e.Key.Key)", e)
			}
			file, err := indexed(e, "/share", "/share")
			if err == nil && !isAbsolute(strings.ReplaceAll(e.Path, `\`, "/")) && !strings.HasPrefix(filepath.ToSlash(file.Path), "/share") {
				t.Fatalf("%q leads to %q, want a path of the share", e.Path, file.Path)
			}
		}
	})
}
