package public

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/symdepot/symdepot/symfile"
)

// BenchmarkWrite makes the public forms of all real files of a kind of which anything is taken away.
// percent is the share of their bytes that is left, and percent/file the mean of these shares.
func BenchmarkWrite(b *testing.B) {
	type file struct {
		content []byte
		left    int64
	}
	kinds := map[string][]file{}
	for path, p := range sampleFiles(b, "pdb", "elf", "macho", "pe", "wasm", "material") {
		r, err := Write(io.Discard, bytes.NewReader(p), int64(len(p)), Options{})
		if errors.Is(err, ErrPrivate) {
			continue
		}
		if err != nil {
			b.Fatalf("%s: %v", path, err)
		}
		if len(r.Removed) == 0 {
			continue // it is its own public form
		}
		for _, kind := range []string{"all", r.Kind.String()} {
			kinds[kind] = append(kinds[kind], file{p, r.Size})
		}
	}
	for _, kind := range []string{"all", symfile.PDB.String(), symfile.ELF.String(), symfile.MachO.String(), symfile.PE.String()} {
		b.Run(kind, func(b *testing.B) {
			var private, left int64
			var share float64
			for _, f := range kinds[kind] {
				private, left = private+int64(len(f.content)), left+f.left
				share += float64(f.left) / float64(len(f.content))
			}
			b.SetBytes(private)
			for b.Loop() {
				for _, f := range kinds[kind] {
					if _, err := Write(io.Discard, bytes.NewReader(f.content), int64(len(f.content)), Options{}); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(100*float64(left)/float64(private), "percent")
			b.ReportMetric(100*share/float64(len(kinds[kind])), "percent/file")
			b.ReportMetric(float64(len(kinds[kind])), "files")
		})
	}
}
