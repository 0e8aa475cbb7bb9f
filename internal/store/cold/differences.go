package cold

import (
	"encoding/binary"
	"math"
)

// classes is how runs of differences are kept apart: those of one byte, of two, three
// and four, and longer ones. Addresses that moved alike are alike then, and next to
// each other.
const classes = 5

// maxRun is the length of the longest run of differences.
const maxRun = 255

// differences is what is added to the bytes that a block takes from its base. Most of
// it is zeros: only the others are written, in runs, and how many zeros are before
// each run.
type differences struct {
	zeros  int
	gaps   []byte // numbers of zeros; see gap
	runs   []byte // lengths
	values [classes][]byte
	head   []byte // lengths of gaps, runs and values
	read   progress
}

// progress is how much of the parts was read.
type progress struct {
	gaps, runs int
	values     [classes]int
}

func (d *differences) reset() {
	d.zeros, d.gaps, d.runs, d.head = 0, d.gaps[:0], d.runs[:0], d.head[:0]
	for i := range d.values {
		d.values[i] = d.values[i][:0]
	}
}

// subtract adds the differences between the bytes of a and those of b at equal places.
func (d *differences) subtract(a, b []byte) {
	b = b[:len(a)]
	for len(a) > 0 {
		n := same(a, b)
		d.zeros += n
		a, b = a[n:], b[n:]
		n = 0
		for n < len(a) && n < maxRun && a[n] != b[n] {
			n++
		}
		if n == 0 {
			break
		}
		d.gaps = gap(d.gaps, d.zeros)
		d.zeros = 0
		d.runs = append(d.runs, byte(n))
		v := &d.values[min(n, classes)-1]
		for i := range n {
			*v = append(*v, a[i]-b[i])
		}
		a, b = a[n:], b[n:]
	}
}

// Gaps below gap2 have one byte, those below gap3 two, the others four.
const (
	gap2 = 192
	gap3 = gap2 + (255-gap2)<<8
)

func gap(b []byte, n int) []byte {
	switch {
	case n < gap2:
		return append(b, byte(n))
	case n < gap3:
		n -= gap2
		return append(b, byte(gap2+n>>8), byte(n))
	}
	return append(b, 255, byte(n), byte(n>>8), byte(n>>16))
}

// readGap reads what gap has written, and gives where it goes on. It is negative if there is
// none.
func readGap(b []byte, at int) (n, next int) {
	b = b[at:]
	switch {
	case len(b) > 0 && b[0] < gap2:
		return int(b[0]), at + 1
	case len(b) > 1 && b[0] < 255:
		return gap2 + int(b[0]-gap2)<<8 + int(b[1]), at + 2
	case len(b) > 3:
		return int(b[1]) | int(b[2])<<8 | int(b[3])<<16, at + 4
	}
	return -1, at
}

// estimate is about how many bytes the parts take, if each byte is coded by how often it is
// in its part.
func (d *differences) estimate() (n int) {
	parts := [...][]byte{d.gaps, d.runs, d.values[0], d.values[1], d.values[2], d.values[3], d.values[4]}
	for _, p := range parts {
		var count [256]int
		for _, b := range p {
			count[b]++
		}
		bits := 0.0
		for _, k := range count {
			if k > 0 {
				bits += float64(k) * math.Log2(float64(len(p))/float64(k))
			}
		}
		n += int(bits / 8)
	}
	return n
}

// begin writes the lengths before the rest, unless all is zero.
func (d *differences) begin() {
	if len(d.runs) == 0 || len(d.head) > 0 {
		return
	}
	d.head = binary.AppendUvarint(d.head, uint64(len(d.gaps)))
	d.head = binary.AppendUvarint(d.head, uint64(len(d.runs)))
	for _, v := range d.values {
		d.head = binary.AppendUvarint(d.head, uint64(len(v)))
	}
}

// len is how many bytes append appends.
func (d *differences) len() int {
	d.begin()
	n := len(d.head) + len(d.gaps) + len(d.runs)
	for _, v := range d.values {
		n += len(v)
	}
	return n
}

// append appends the parts.
func (d *differences) append(parts [][]byte) [][]byte {
	d.begin()
	parts = append(parts, d.head, d.gaps, d.runs)
	return append(parts, d.values[:]...)
}

// parse takes the parts from b, which they must fill.
func (d *differences) parse(b []byte) bool {
	*d = differences{zeros: -1}
	if len(b) == 0 {
		return true
	}
	parts := []*[]byte{&d.gaps, &d.runs, &d.values[0], &d.values[1], &d.values[2], &d.values[3], &d.values[4]}
	var lens [2 + classes]uint64
	for i := range lens {
		n, k := binary.Uvarint(b)
		if k <= 0 {
			return false
		}
		lens[i], b = n, b[k:]
	}
	for i, p := range parts {
		if lens[i] > uint64(len(b)) {
			return false
		}
		*p, b = b[:lens[i]], b[lens[i]:]
	}
	if len(b) > 0 {
		return false
	}
	if len(d.runs) == 0 {
		return len(d.gaps) == 0
	}
	d.zeros, d.read.gaps = readGap(d.gaps, 0)
	return d.zeros >= 0
}

// add adds the next len(to) differences to the bytes of to. It is false if the parts
// contradict each other.
func (d *differences) add(to []byte) bool {
	zeros, read := d.zeros, d.read
	at := 0
	for zeros >= 0 && zeros < len(to)-at {
		at += zeros
		n := int(d.runs[read.runs])
		if n == 0 || n > len(to)-at {
			return false
		}
		class := min(n, classes) - 1
		v := d.values[class][read.values[class]:]
		if n > len(v) {
			return false
		}
		for i, b := range v[:n] {
			to[at+i] += b
		}
		at += n
		read.values[class] += n
		if read.runs++; read.runs < len(d.runs) {
			if zeros, read.gaps = readGap(d.gaps, read.gaps); zeros < 0 {
				return false
			}
		} else if zeros = -1; read.gaps < len(d.gaps) {
			return false
		}
	}
	if zeros >= 0 {
		zeros -= len(to) - at
	}
	d.zeros, d.read = zeros, read
	return true
}

// end is true if all differences were added.
func (d *differences) end() bool {
	for i, v := range d.values {
		if d.read.values[i] < len(v) {
			return false
		}
	}
	return d.zeros < 0
}
