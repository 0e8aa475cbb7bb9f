package breakpad

import "testing"

// TestCutOff: what is a record is no sign of a cut, because some files have no end of their
// last line.
func TestCutOff(t *testing.T) {
	for line, want := range map[string]bool{
		"":                           false,
		"MODULE Linux x86_64 0 a":    false,
		"INFO GENERATOR x":           false,
		"FUNC 1000 20 0 f(int, int)": false,
		"FUNC m 1000 20 0 f":         false,
		"FUNC 1000 20 0 <name>":      false,
		"PUBLIC 1000 0 f\r":          false,
		"1000 4 12 0":                false,
		"a000 4 12 0":                false,
		"STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^": false,
		"STACK CFI 1004 .cfa: $rsp 16 +":                         false,
		"STACK WIN 4 1000 20 3 0 4 8 10 0 1 $eip 4 + ^ = ":       false,
		"STACK WIN 0 1000 20 3 0 4 8 10 0 0 1":                   false,
		"INLINE 0 12 1 3 1000 8":                                 false,
		"INFO":                                                   true,
		"FILE 5 /build/a.c":                                      true,
		"INLINE_ORIGIN 5 f":                                      true,
		"FUNC 1000 20":                                           true,
		"FUNC 1000 20 0 f(int, i":                                true,
		"FUNC 1000 20 0 <u":                                      true,
		"FUN":                                                    true,
		"PUBLIC 1000":                                            true,
		"PUBL":                                                   true,
		"1000 4 12":                                              true,
		"10":                                                     true,
		"STACK":                                                  true,
		"STACK CFI INIT 1000":                                    true,
		"STACK CFI 1004 .cfa: $rsp 16 + .ra:":                    true,
		"STACK WIN 4 1000 20 3 0":                                true,
		"INLINE 0 12 1 3":                                        true,
	} {
		if got := CutOff([]byte(line)); got != want {
			t.Errorf("CutOff(%q): %t, want %t", line, got, want)
		}
	}
}
