package command

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/store/cold"
)

type coldCmd struct {
	Inspect coldInspectCmd `cmd:"" nodepot:"" help:"Print what a cold file consists of."`
}

type coldInspectCmd struct {
	Blocks bool     `help:"Print each block."`
	JSON   bool     `help:"Print one JSON object per file."`
	Files  []string `arg:"" name:"file" help:"text:cold_inspect_files"`
}

// Run inspects one file after the other.
func (c coldInspectCmd) Run(a *session) error {
	for _, path := range c.Files {
		r, err := c.inspect(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if c.JSON {
			err = term.NewJSONLines(a.Stdout).Write(r)
		} else {
			err = r.print(a.Console)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c coldInspectCmd) inspect(path string) (coldReport, error) {
	f, err := os.Open(path)
	if err != nil {
		return coldReport{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return coldReport{}, err
	}
	p, err := cold.Inspect(f, st.Size())
	if errors.Is(err, cold.ErrDamaged) && !startsAs(f, "SDC1") {
		return coldReport{}, errors.New("this is a plain file, not a cold one; " +
			"symdepot find --json prints the SHA-256 of cold files as sha256 under cold")
	}
	if err != nil {
		return coldReport{}, err
	}
	h, s := p.Header, p.Stats
	r := coldReport{Path: path, Version: h.Version, Form: h.Form.String(), SHA256: hex.EncodeToString(h.Sum[:]), Size: h.Size, Bytes: p.Bytes,
		Share: float64(p.Bytes) / float64(max(h.Size, 1)), Table: p.Table, Frames: p.Frames, Units: p.Units, Most: p.Most,
		Blocks: map[string]int{"plain": s.Plain, "delta": s.Delta, "copy": s.Copied, "zero": s.Zero}}
	r.Hashes = h.HashRuns()
	if r.Streams = h.Streams(); r.Streams+r.Hashes > 0 {
		r.Unpacked = h.UnpackedSize()
	}
	if h.Form == cold.DeltaForm {
		r.BaseSHA256, r.BaseSize = hex.EncodeToString(h.BaseSum[:]), h.BaseSize
	}
	if c.Blocks {
		r.Each = p.Blocks
	}
	return r, nil
}

// startsAs reports whether a file begins with some bytes.
func startsAs(r io.ReaderAt, with string) bool {
	b := make([]byte, len(with))
	n, _ := r.ReadAt(b, 0) // what cannot be read is not there
	return string(b[:n]) == with
}
