package public

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/breakpad"
)

// maxLine is the longest line of a Breakpad symbol file in bytes that is kept.
const maxLine = 1 << 20

// breakpad examines a Breakpad symbol file. It reads the file twice: what it does with each line
// depends on that line alone.
func (f *form) breakpad(r io.ReaderAt, size int64, n *namer) error {
	if n.opt.Exported {
		return private("a Breakpad symbol file does not say which names are exported")
	}
	if _, err := breakpad.ParseHeader(io.NewSectionReader(r, 0, size)); err != nil {
		return broken("%w", err)
	}
	if err := f.records(r, size, n, io.Discard); err != nil {
		return err
	}
	if f.names == 0 {
		return ErrNothingPublic
	}
	f.write = func(w io.Writer) error {
		again := &form{removed: map[RemovedKind]*Removed{}}
		out := bufio.NewWriterSize(w, 256<<10)
		if err := again.records(r, size, &namer{opt: n.opt, form: again}, out); err != nil {
			return err
		}
		return out.Flush()
	}
	return nil
}

// gone has the kinds of lines that are taken away.
var gone = map[breakpad.RecordKind]RemovedKind{
	breakpad.FileRecord: RemovedFiles, breakpad.LineRecord: RemovedLines,
	breakpad.InlineRecord: RemovedInlines, breakpad.OriginRecord: RemovedInlines,
	breakpad.InfoRecord: RemovedRecords, breakpad.NoRecord: RemovedRecords,
}

// records writes the public lines of a symbol file.
func (f *form) records(r io.ReaderAt, size int64, n *namer, w io.Writer) error {
	return eachLine(r, size, func(number int, _ int64, line []byte) error {
		record := breakpad.ParseRecord(line)
		kind, taken := gone[record.Kind]
		switch {
		case len(line) == 0:
			return nil
		case taken:
			f.take(kind, 1, int64(len(line))+1)
			return nil
		case record.Kind == breakpad.ModuleRecord && number > 1:
			f.take(RemovedRecords, 1, int64(len(line))+1)
			return nil
		case record.Kind == breakpad.FuncRecord || record.Kind == breakpad.PublicRecord:
			name := n.at(string(line[record.Name:]), record.Address)
			line = append(line[:record.Name:record.Name], name...)
		}
		_, err := w.Write(append(line[:len(line):len(line)], '\n'))
		return err
	})
}

// eachLine calls visit with the number and the offset of each line, which it gives without its end.
// Longer lines than maxLine are given as lines that are no record.
func eachLine(r io.ReaderAt, size int64, visit func(number int, at int64, line []byte) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), maxLine)
	at := int64(0)
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		n := len(line)
		if errors.Is(err, bufio.ErrBufferFull) {
			line = []byte("?")
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				more, err = in.ReadSlice('\n')
				n += len(more)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n > 0 {
			if err := visit(number, at, bytes.TrimRight(line, "\r\n")); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		at += int64(n)
		if err != nil {
			return nil //nolint:nilerr // the end of the file
		}
	}
}
