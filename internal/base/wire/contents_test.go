package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

var twoContents = []PushContent{{strings.Repeat("a1", 32), 7}, {strings.Repeat("0f", 32), 1 << 40}}

// TestContents: a list of contents is read as it was written, and what follows it is left.
func TestContents(t *testing.T) {
	t.Parallel()
	b := append(AppendContents(nil, twoContents), "bytes\n\n"...)
	r := bufio.NewReaderSize(bytes.NewReader(b), 128)
	list, err := ReadContents(r, 2)
	if err != nil || !slices.Equal(list, twoContents) {
		t.Errorf("the list is read as %v, %v; want %v", list, err, twoContents)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "bytes\n\n" {
		t.Errorf("%q follows the list, want the bytes", rest)
	}
	sum := strings.Repeat("a1", 32)
	for _, wrong := range []string{
		"", "\n", sum + " 7", sum + " 7\n", sum + "\n\n", sum + " 07\n\n", sum + " -7\n\n", sum + " 7 \n\n", sum + " 99999999999999999999\n\n",
		sum + " " + sum + " 7\n\n", strings.Repeat("a", 500), string(AppendContents(nil, slices.Repeat(twoContents, 2))),
	} {
		if list, err := ReadContents(bufio.NewReaderSize(strings.NewReader(wrong), 128), 3); !errors.Is(err, ErrContents) {
			t.Errorf("%.90q is read as %v, %v; want no list", wrong, list, err)
		}
	}
	broken := errors.New("broken")
	if _, err := ReadContents(bufio.NewReader(io.MultiReader(strings.NewReader(sum), failing{broken})), 3); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v, want its error", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzContents: any bytes are a list of few contents, or none; a list is written as it was read.
func FuzzContents(f *testing.F) {
	f.Add(AppendContents(nil, twoContents))
	f.Add([]byte("abc 7\n\nbytes"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ReadContents(bufio.NewReaderSize(bytes.NewReader(b), 128), 5)
		if err != nil {
			return
		}
		if again := AppendContents(nil, list); len(list) > 5 || !bytes.HasPrefix(b, again) {
			t.Errorf("%q is read as %v, which is written %q", b, list, again)
		}
	})
}
