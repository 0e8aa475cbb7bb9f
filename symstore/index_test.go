package symstore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// TestIndexLines: a bad line has its number and does not hide those after it.
func TestIndexLines(t *testing.T) {
	text := "; symdepot-index 1\r\n\"a.dll\\000000011000\",\"a.dll\"\r\nnonsense\r\n" + strings.Repeat("x", 3*maxIndexLine) + "\n" +
		"\"b.dll\\000000011000\",\"..\\b.dll\"\n\"c.dll\\000000011000\",\"c.dll\"\n\n\"..\\AB\",\"x\"\n\"d.dll\\000000011000\",\"d.dll\""
	var got []string
	for f, err := range FromIndex(ReadIndex(strings.NewReader(text)), "/share", "") {
		var line *LineError
		switch {
		case errors.As(err, &line):
			got = append(got, fmt.Sprint(line.Line))
		case err != nil:
			t.Error(err)
		default:
			got = append(got, filepath.Base(f.Path))
		}
	}
	// The file of line 2 comes after the bad lines behind it: the line after
	// might have been about it too.
	if s := strings.Join(got, " "); s != "3 4 a.dll 5 8 c.dll d.dll" {
		t.Errorf(`got %s, want "3 4 a.dll 5 8 c.dll d.dll"`, s)
	}
	gone := errors.New("the share went away")
	var last error
	for _, err := range ReadIndex(io.MultiReader(strings.NewReader("\"a.dll\\000000011000\",\"a.dll\"\nx"), iotest.ErrReader(gone))) {
		last = err
	}
	var line *LineError
	if !errors.Is(last, gone) || errors.As(last, &line) {
		t.Errorf("got %v, want %v, not errors.As(last, &line)", last, gone)
	}
}
