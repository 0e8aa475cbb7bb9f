package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// PushContent is a content of a request with several.
type PushContent struct {
	SHA256 string // in hex
	Size   int64  // bytes
}

// ErrContents means that a list of contents is not valid.
var ErrContents = errors.New("the body does not begin with a list of contents: lines of SHA256 SIZE, and an empty line")

// maxContentLine is the longest line of a list of contents, in bytes.
const maxContentLine = 64 + 1 + 19 + 1

// AppendContents appends to b the list with which a request of several contents begins: for each a
// line of its SHA-256, a blank and its size, and an empty line at the end.
func AppendContents(b []byte, list []PushContent) []byte {
	for _, c := range list {
		b = strconv.AppendInt(append(append(b, c.SHA256...), ' '), c.Size, 10)
		b = append(b, '\n')
	}
	return append(b, '\n')
}

// ReadContents reads a list of most contents at most, and nothing behind it. The hashes are as they
// came. An error of a list that is not valid is ErrContents; others are those of r.
func ReadContents(r *bufio.Reader, most int) (list []PushContent, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull || err == io.EOF || len(line) > maxContentLine {
			return nil, ErrContents
		}
		if err != nil {
			return nil, err
		}
		if len(line) == 1 {
			if len(list) == 0 {
				return nil, ErrContents
			}
			return list, nil
		}
		sum, digits, ok := strings.Cut(string(line[:len(line)-1]), " ")
		size, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || size < 0 || strconv.FormatInt(size, 10) != digits {
			return nil, ErrContents
		}
		if len(list) == most {
			return nil, fmt.Errorf("%w; it has more than %d", ErrContents, most)
		}
		list = append(list, PushContent{sum, size})
	}
}
