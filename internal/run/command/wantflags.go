package command

import (
	"fmt"
	"os"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/run/console"
)

// wantFlags name what needs symbol files.
type wantFlags struct {
	Manifest []string `help:"List of name,key lines, as symchk /om writes it; repeatable." placeholder:"FILE" sep:"none"`
	Folder   []string `help:"Folder with programs and libraries that need symbol files; repeatable." placeholder:"DIR" sep:"none"`
	Dump     []string `help:"Minidump or core file that needs symbol files; repeatable." placeholder:"FILE" sep:"none"`
	Jobs     int      `help:"How many files to download at once." default:"8" short:"j"`
}

// wants reads manifests, folders and dumps.
func (f wantFlags) wants(a *console.Console) (*needed.List, error) {
	l := &needed.List{}
	for _, m := range f.Manifest {
		if err := readManifest(l, m); err != nil {
			return nil, err
		}
	}
	for _, dir := range f.Folder {
		if _, err := os.Stat(dir); err != nil {
			return nil, err
		}
	}
	if len(f.Folder) > 0 {
		if err := l.Files(a.Ctx, f.Folder); err != nil {
			return nil, err
		}
	}
	for _, dmp := range f.Dump {
		if err := l.Local(a.Ctx, dmp); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func readManifest(l *needed.List, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := term.ReadText(f)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	return l.Manifest(name, text)
}

func (f wantFlags) empty() bool { return len(f.Manifest)+len(f.Folder)+len(f.Dump) == 0 }

// printMissing reports what was not found and the input that was not understood.
func printMissing(a *console.Console, r *needed.Report, bad []string) {
	for _, b := range bad {
		fmt.Fprintln(a.Stderr, "symdepot: left out:", term.Printable(b))
	}
	for _, line := range r.MissingLines(a.Now()) {
		fmt.Fprintln(a.Stderr, "symdepot:", line)
	}
}

// printFetched prints the sums of downloads.
func printFetched(a *console.Console, r *needed.Report) {
	fmt.Fprintf(a.Stdout, "%d downloaded (%s), %d already in the depot, %d not found, %d failed\n",
		r.Counts[needed.Fetched], term.Size(r.Bytes), r.Counts[needed.InDepot], r.Counts[needed.Missing], r.Counts[needed.Failed])
}
