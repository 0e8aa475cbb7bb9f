// Package sharedtext finds texts of one content in another: whether something that should have
// been taken away is still there.
//
// A text is a run of eight printable characters of ASCII or more, of one byte each or of two
// (UTF-16, little-endian).
package sharedtext

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
)

// Shortest is the number of characters of the shortest text.
const Shortest = 8

// Limits of a Search.
const (
	maxSuspects = 16 << 20 // characters
	filterBits  = 22
)

// ErrLimit is the error of Texts if there were more suspects than a Search holds, and none of those
// that it holds is shared.
var ErrLimit = errors.New("more text than can be compared")

// Text is a text that both contents have.
type Text struct {
	Text   string
	Part   int   // the number that was given to Suspects
	Offset int64 // in what was written to Suspects
}

// Break ends all texts: what is written before it and behind it does not make one text.
const Break = "\xff\xff"

// Search compares two contents. Each part of the one is written to what Suspects returns, then each
// part of the other to what Compare returns. The zero value is ready. The memory that it needs
// depends on the texts of the suspects, and is 512 MiB at most.
type Search struct {
	list   []suspect
	chars  int
	limit  int // of chars; 0: maxSuspects
	lost   bool
	shared map[uint64]bool // parts of eight characters: whether the other content has them
	filter []uint64        // a bit for each of these
}

// suspect is a run of characters.
type suspect struct {
	text []byte
	part int
	at   int64
	step int64 // bytes of a character
}

// HasSuspects reports whether there is any text to compare.
func (s *Search) HasSuspects() bool { return len(s.list) > 0 }

// Suspects returns a writer that notes the texts of a part, which has a number. It never fails.
func (s *Search) Suspects(part int) io.Writer {
	if s.shared == nil {
		s.shared, s.filter = map[uint64]bool{}, make([]uint64, 1<<filterBits/64)
	}
	limit := cmp.Or(s.limit, maxSuspects)
	var open [3]int // the last suspect of each width
	return &scanner{gram: func(width int, gram uint64, more bool, at int64) {
		if s.chars >= limit {
			s.lost = true
			return
		}
		s.shared[gram] = false
		s.filter[bit(gram)/64] |= 1 << (bit(gram) % 64)
		if more {
			last := &s.list[open[width]]
			last.text = append(last.text, byte(gram))
			s.chars++
			return
		}
		step := int64(min(width, 1) + 1)
		open[width] = len(s.list)
		s.list = append(s.list, suspect{binary.BigEndian.AppendUint64(nil, gram), part, at + 1 - Shortest*step, step})
		s.chars += Shortest
	}}
}

// Compare returns a writer that notes which texts of the suspects a part of the other content has. It
// never fails.
func (s *Search) Compare() io.Writer {
	if !s.HasSuspects() {
		return io.Discard
	}
	return &scanner{gram: func(_ int, gram uint64, _ bool, _ int64) {
		if s.filter[bit(gram)/64]>>(bit(gram)%64)&1 == 0 {
			return
		}
		if _, ok := s.shared[gram]; ok {
			s.shared[gram] = true
		}
	}}
}

// Texts returns the texts of the suspects that the other content has, each once, in the order of
// the parts and of their offsets.
func (s *Search) Texts() ([]Text, error) {
	var out []Text
	seen := map[string]bool{}
	for _, one := range s.list {
		for i := 0; i+Shortest <= len(one.text); i++ {
			end := i
			for end+Shortest <= len(one.text) && s.shared[binary.BigEndian.Uint64(one.text[end:])] {
				end++
			}
			if end == i {
				continue
			}
			text := string(one.text[i : end-1+Shortest])
			if !seen[text] {
				seen[text] = true
				out = append(out, Text{text, one.part, one.at + int64(i)*one.step})
			}
			i = end
		}
	}
	if len(out) == 0 && s.lost {
		return nil, ErrLimit
	}
	return out, nil
}

// bit returns the bit of a part in the filter.
func bit(gram uint64) uint64 { return gram * 0x9E3779B97F4A7C15 >> (64 - filterBits) }

// scanner finds runs of printable characters: of one byte, of two at even offsets, of two at odd
// ones.
type scanner struct {
	runs [3]struct {
		n    int // characters, up to Shortest
		gram uint64
	}
	at   int64
	last byte
	// gram is called with each eight characters in a row, whether they continue the last ones of their
	// width, and the offset of their last byte. Width 0 means one byte.
	gram func(width int, gram uint64, more bool, at int64)
}

// Write implements io.Writer.
func (s *scanner) Write(p []byte) (int, error) {
	for _, c := range p {
		s.char(0, c, printable(c))
		s.char(1+int(s.at&1), s.last, c == 0 && printable(s.last))
		s.last = c
		s.at++
	}
	return len(p), nil
}

func printable(c byte) bool { return c >= ' ' && c <= '~' }

// char adds a character to a run, or ends the run.
func (s *scanner) char(width int, c byte, ok bool) {
	run := &s.runs[width]
	if !ok {
		run.n = 0
		return
	}
	run.gram = run.gram<<8 | uint64(c)
	more := run.n == Shortest
	if !more {
		run.n++
	}
	if run.n == Shortest {
		s.gram(width, run.gram, more, s.at)
	}
}
