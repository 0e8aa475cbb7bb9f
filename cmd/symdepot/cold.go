package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"

	"github.com/symdepot/symdepot/internal/cold"
	"github.com/symdepot/symdepot/internal/term"
)

type coldCmd struct {
	Inspect coldInspectCmd `cmd:"" nodepot:"" help:"Print what a cold file consists of."`
}

type coldInspectCmd struct {
	Blocks bool     `help:"Print each block."`
	JSON   bool     `help:"Print one JSON object per file."`
	Files  []string `arg:"" name:"file" help:"Cold files: *.c1 in a depot."`
}

// Help is the long help text.
func (coldInspectCmd) Help() string {
	return `Prints what a cold file consists of: its form, the content and the base by their SHA-256, and its blocks by kind. A plain block is
compressed alone; a delta is made of parts of the base, with differences, and of insertions; a copy is a part of the base; zero has no bytes but
zeros. The share is the length of the file divided by that of the content. Head, foot and the hash of the table are checked; nothing is decoded,
and the base is not needed: symdepot verify checks contents.

  symdepot cold inspect depot/cold/7c/3f09…c1.c1
  symdepot cold inspect --blocks --json *.c1

Exit codes: 0 printed, 2 wrong command line, 3 a file cannot be read, is no cold file, is damaged, or has a newer version of the format.`
}

// coldReport is a report as JSON.
type coldReport struct {
	Path       string           `json:"path"`
	Version    int              `json:"version"`
	Form       string           `json:"form"`
	SHA256     string           `json:"sha256"`
	Size       int64            `json:"size"`
	BaseSHA256 string           `json:"base_sha256,omitempty"`
	BaseSize   int64            `json:"base_size,omitempty"`
	Bytes      int64            `json:"bytes"`
	Share      float64          `json:"share"`
	Table      int64            `json:"table_bytes"`
	Blocks     map[string]int   `json:"blocks"`
	Frames     map[string]int64 `json:"frame_bytes"`
	Units      int64            `json:"base_units"`
	Most       int64            `json:"most_base_units"`
	Each       []cold.Block     `json:"each_block,omitempty"`
}

// Run inspects one file after the other.
func (c coldInspectCmd) Run(a *app) error {
	for _, path := range c.Files {
		r, err := c.inspect(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if c.JSON {
			err = term.NewJSONLines(a.stdout).Write(r)
		} else {
			err = r.print(a)
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
	if err != nil {
		return coldReport{}, err
	}
	h, s := p.Header, p.Stats
	r := coldReport{Path: path, Version: h.Version, Form: h.Form.String(), SHA256: hex.EncodeToString(h.Sum[:]), Size: h.Size, Bytes: p.Bytes,
		Share: float64(p.Bytes) / float64(max(h.Size, 1)), Table: p.Table, Frames: p.Frames, Units: p.Units, Most: p.Most,
		Blocks: map[string]int{"plain": s.Plain, "delta": s.Delta, "copy": s.Copied, "zero": s.Zero}}
	if h.Form == cold.DeltaForm {
		r.BaseSHA256, r.BaseSize = hex.EncodeToString(h.BaseSum[:]), h.BaseSize
	}
	if c.Blocks {
		r.Each = p.Blocks
	}
	return r, nil
}

func (r coldReport) print(a *app) error {
	fmt.Fprintf(a.stdout, "%s: %s, version %d, %s of %s (%.2f %%)\n", r.Path, r.Form, r.Version, term.Size(r.Bytes), term.Size(r.Size), 100*r.Share)
	fmt.Fprintf(a.stdout, "  content %s\n", r.SHA256)
	if r.BaseSHA256 != "" {
		fmt.Fprintf(a.stdout, "  base    %s, %s, in %d units of 64 KiB, at most %d for a block\n", r.BaseSHA256, term.Size(r.BaseSize), r.Units, r.Most)
	}
	for _, kind := range []string{"plain", "delta", "copy", "zero"} {
		if n := r.Blocks[kind]; n > 0 {
			fmt.Fprintf(a.stdout, "  %-7s %s, %s\n", kind, term.Count(int64(n), "block"), term.Size(r.Frames[kind]))
		}
	}
	if r.Each == nil {
		return nil
	}
	t := term.NewTable(a.stdout, "BLOCK", "KIND", "FRAME", "CONTROLS", "DIFFERENCES", "RANGES", "UNITS")
	for i, b := range r.Each {
		t.Row(strconv.Itoa(i), b.Kind, term.Size(b.Frame), term.Size(b.Controls), term.Size(b.Diffs), strconv.Itoa(b.Ranges), strconv.FormatInt(b.Units, 10))
	}
	return t.Flush()
}
