package cold

import "io"

// Report is what a cold file consists of.
type Report struct {
	Header Header
	Bytes  int64 // of the file
	Table  int64 // bytes of the table
	Stats  Stats
	Frames map[string]int64 // bytes of the frames, by kind of block
	Units  int64            // 64 KiB units of the base that blocks name, all together
	Most   int64            // units of the block that names most
	Blocks []Block          // nil above a million blocks
}

// Block is what the table says of one block.
type Block struct {
	Kind     string `json:"kind"`          // plain, delta, copy or zero
	Frame    int64  `json:"frame_bytes"`   // compressed
	Controls int64  `json:"control_bytes"` // decoded
	Diffs    int64  `json:"diff_bytes"`    // decoded, without what is equal
	Ranges   int    `json:"base_ranges"`
	Units    int64  `json:"base_units"`
}

const maxReported = 1 << 20

var kindNames = [...]string{kindPlain: "plain", kindDelta: "delta", kindCopy: "copy", kindZero: "zero", kindMoved: "delta"}

// Inspect says what a cold file of size bytes consists of. It checks head, table and
// foot, and decodes nothing.
func Inspect(r io.ReaderAt, size int64) (Report, error) {
	h, f, err := readEnds(r, size)
	if err != nil {
		return Report{}, err
	}
	p := Report{Header: h, Bytes: size, Table: f.len, Frames: map[string]int64{}}
	p.Stats.Bytes = size
	err = walk(r, h, f, func(_ int64, e *entry, _, _ int64) error {
		name, units := kindNames[e.kind], e.units()
		p.Stats.count(e.kind)
		p.Frames[name] += int64(e.frame)
		p.Units += units
		p.Most = max(p.Most, units)
		if h.blocks() <= maxReported {
			p.Blocks = append(p.Blocks, Block{name, int64(e.frame), int64(e.controls), int64(e.diffs), len(e.extents), units})
		}
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	return p, nil
}
