package applecrash_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/applecrash"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// judged is what the crate apple-crash-report-parser says of a report.
type judged struct {
	Threads []struct {
		ID      int  `json:"id"`
		Crashed bool `json:"crashed"`
		Frames  []struct {
			Module  string `json:"module"`
			Symbol  string `json:"symbol"`
			File    string `json:"filename"`
			Line    uint32 `json:"lineno"`
			Address string `json:"instruction_addr"`
		} `json:"frames"`
		Registers map[string]string `json:"registers"`
	} `json:"threads"`
	Images []struct {
		Address string `json:"addr"`
		Size    uint64 `json:"size"` // end - start, without the last byte
		UUID    string `json:"uuid"`
		Path    string `json:"path"`
	} `json:"binary_images"`
}

// TestJudge compares reports of real programs with the parser that Symbolicator uses. That parser
// reads no registers of reports by ReportCrash for ARM64, and only the text form.
func TestJudge(t *testing.T) {
	program := symtest.Tool(t, "rust/bin/applecrash")
	files := reports(t, "*.txt", "*ios14*.ips")
	frames := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := applecrash.Read(bytes.NewReader(data))
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(file), err)
			continue
		}
		if bytes.HasPrefix(data, []byte("{")) {
			_, data, _ = bytes.Cut(data, []byte("\n"))
		}
		cmd := exec.Command(program)
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var want judged
		if err := json.Unmarshal(out, &want); err != nil {
			t.Fatal(err)
		}
		frames += compare(t, filepath.Base(file), r, &want)
	}
	if frames < 500 {
		t.Errorf("%d frames were compared, want 500 at least", frames)
	}
}

// reports returns reports of real programs.
func reports(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, p := range patterns {
		list, err := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "reports", p))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			t.Skip("needs crash reports of real programs in SYMDEPOT_PEERS (scripts/oracles fetches them)")
		}
		files = append(files, list...)
	}
	return files
}

func compare(t *testing.T, file string, r *applecrash.Report, want *judged) (frames int) {
	t.Helper()
	if len(r.Threads) != len(want.Threads) || len(r.Images) != len(want.Images) {
		t.Errorf("%s: %d threads and %d images, want %d and %d", file, len(r.Threads), len(r.Images), len(want.Threads), len(want.Images))
		return 0
	}
	for i, w := range want.Threads {
		got := r.Threads[i]
		if got.Index != w.ID || got.Crashed != w.Crashed || len(got.Frames) != len(w.Frames) || len(got.Registers) < len(w.Registers) {
			t.Errorf("%s: thread %d: crashed %t, %d frames, %d registers; want %d, %t, %d, %d", file, got.Index, got.Crashed,
				len(got.Frames), len(got.Registers), w.ID, w.Crashed, len(w.Frames), len(w.Registers))
			continue
		}
		for k, f := range w.Frames {
			g := got.Frames[k]
			if g.Address != number(f.Address) || g.Symbol != f.Symbol || g.File != f.File || g.Line != f.Line || g.Module != f.Module {
				t.Errorf("%s: thread %d, frame %d: %+v, want %+v", file, i, k, g, f)
			}
			frames++
		}
		for _, reg := range got.Registers {
			if v, ok := w.Registers[reg.Name]; ok && number(v) != reg.Value {
				t.Errorf("%s: thread %d: register %s is %#x, want %s", file, i, reg.Name, reg.Value, v)
			}
		}
	}
	for i, w := range want.Images {
		g := r.Images[i]
		if g.Base != number(w.Address) || g.Size != w.Size+1 || !strings.EqualFold(g.UUID.String(), w.UUID) || g.Path != w.Path {
			t.Errorf("%s: image %d: %+v, want %+v", file, i, g, w)
		}
	}
	return frames
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	return n
}
