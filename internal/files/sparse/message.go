package sparse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// MediaType is that of a message with ranges of a file: one line with a Header in
// JSON, and then the bytes of its slices, in the order of the header.
const MediaType = "application/x-symdepot-slices"

// Header is the first line of a message.
type Header struct {
	Name string `json:"name"` // of the file
	Size int64  `json:"size"` // of the whole file
	// Round counts from 1; 0 if the sender does not count.
	Round  int     `json:"round,omitempty"`
	Slices []Range `json:"slices"`
}

// Need is the answer to a message that has too little of a file, in JSON: the ranges to
// send together with those of the message.
type Need struct {
	Need []Range `json:"need"`
}

// maxHeader is the length of the longest header that Read takes.
const maxHeader = 512 << 10

// ErrMessage is wrapped by the error of Read for a message that is not valid.
var ErrMessage = errors.New("not a valid message with slices of a file")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMessage, fmt.Errorf(format, args...))
}

// Read reads a message. The error wraps ErrMessage or ErrLimit, or is that of r.
func Read(r io.Reader) (h Header, f *File, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	line, err := readLine(br)
	if err != nil {
		return h, nil, err
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, wrong("the first line is not a header in JSON: %w", err)
	}
	switch {
	case h.Size < 0 || h.Size == math.MaxInt64:
		return h, nil, wrong("the size is %d", h.Size)
	case h.Round < 0:
		return h, nil, wrong("the round is %d", h.Round)
	case h.Round > MaxRounds:
		return h, nil, fmt.Errorf("%w in more than %d rounds", ErrLimit, MaxRounds)
	}
	f = New(h.Size)
	for _, s := range h.Slices {
		// Nothing is allocated for bytes that could not be added.
		if s.Len > MaxHeld-f.sum {
			return h, nil, ErrLimit
		}
		if s.Len <= 0 || s.At < 0 || s.At > h.Size || s.Len > h.Size-s.At {
			return h, nil, wrong("the slice of %d bytes at %d is empty or not within the %d bytes of the file", s.Len, s.At, h.Size)
		}
		b := make([]byte, s.Len)
		if _, err := io.ReadFull(br, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return h, nil, wrong("it ends within the slice of %d bytes at %d", s.Len, s.At)
		} else if err != nil {
			return h, nil, err
		}
		if err := f.Add(s.At, b); errors.Is(err, ErrLimit) {
			return h, nil, err
		} else if err != nil {
			return h, nil, wrong("%w", err)
		}
	}
	if _, err := br.ReadByte(); err == nil {
		return h, nil, wrong("bytes follow the last slice")
	} else if !errors.Is(err, io.EOF) {
		return h, nil, err
	}
	return h, f, nil
}

// readLine reads the header.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxHeader {
			return nil, wrong("the header is longer than %d bytes", maxHeader)
		}
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF):
			return nil, wrong("it has no line with a header")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Within reports whether all ranges lie within a file of size bytes.
func (n Need) Within(size int64) bool {
	for _, r := range n.Need {
		if r.At < 0 || r.Len <= 0 || r.At > size || r.Len > size-r.At {
			return false
		}
	}
	return true
}

// Message returns a function that begins to read the message with slices of a file, and
// the length of the message.
func Message(h Header, file io.ReaderAt) (open func() io.Reader, size int64, err error) {
	line, err := json.Marshal(h)
	if err != nil {
		return nil, 0, err
	}
	line = append(line, '\n')
	size = int64(len(line))
	for _, s := range h.Slices {
		size += s.Len
	}
	return func() io.Reader {
		parts := []io.Reader{bytes.NewReader(line)}
		for _, s := range h.Slices {
			parts = append(parts, io.NewSectionReader(file, s.At, s.Len))
		}
		return io.MultiReader(parts...)
	}, size, nil
}
