package command

import (
	"fmt"
	"strconv"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/store/cold"
)

// coldReport is a report as JSON.
type coldReport struct {
	Path       string           `json:"path"`
	Version    int              `json:"version"`
	Form       string           `json:"form"`
	SHA256     string           `json:"sha256"`
	Size       int64            `json:"size"`
	BaseSHA256 string           `json:"base_sha256,omitempty"`
	BaseSize   int64            `json:"base_size,omitempty"`
	Streams    int              `json:"streams,omitempty"`
	Hashes     int              `json:"type_hash_runs,omitempty"`
	Unpacked   int64            `json:"unpacked_size,omitempty"`
	Bytes      int64            `json:"bytes"`
	Share      float64          `json:"share"`
	Table      int64            `json:"table_bytes"`
	Blocks     map[string]int   `json:"blocks"`
	Frames     map[string]int64 `json:"frame_bytes"`
	Units      int64            `json:"base_units"`
	Most       int64            `json:"most_base_units"`
	Each       []cold.Block     `json:"each_block,omitempty"`
}

func (r coldReport) print(a *console.Console) error {
	fmt.Fprintf(a.Stdout, "%s: %s, version %d, %s of %s (%.2f %%)\n",
		r.Path, r.Form, r.Version, term.Size(r.Bytes), term.Size(r.Size), 100*r.Share)
	fmt.Fprintf(a.Stdout, "  content %s\n", r.SHA256)
	if r.BaseSHA256 != "" {
		fmt.Fprintf(a.Stdout, "  base    %s, %s, in %d units of 64 KiB, at most %d for a block\n",
			r.BaseSHA256, term.Size(r.BaseSize), r.Units, r.Most)
	}
	if r.Streams > 0 {
		fmt.Fprintf(a.Stdout, "  %s unpacked, %s in all\n", term.Count(int64(r.Streams), "compressed stream"), term.Size(r.Unpacked))
	}
	if r.Hashes > 0 {
		fmt.Fprintf(a.Stdout, "  %s of hashes of types not stored, %s without them\n", term.Count(int64(r.Hashes), "run"), term.Size(r.Unpacked))
	}
	for _, kind := range []string{"plain", "delta", "copy", "zero"} {
		if n := r.Blocks[kind]; n > 0 {
			fmt.Fprintf(a.Stdout, "  %-7s %s, %s\n", kind, term.Count(int64(n), "block"), term.Size(r.Frames[kind]))
		}
	}
	if r.Each == nil {
		return nil
	}
	t := term.NewTable(a.Stdout, "BLOCK", "KIND", "FRAME", "CONTROLS", "DIFFERENCES", "RANGES", "UNITS")
	for i, b := range r.Each {
		t.Row(strconv.Itoa(i), b.Kind, term.Size(b.Frame), term.Size(b.Controls), term.Size(b.Diffs),
			strconv.Itoa(b.Ranges), strconv.FormatInt(b.Units, 10))
	}
	return t.Flush()
}
