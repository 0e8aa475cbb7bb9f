package symbolicate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/worker"
)

// Worker makes symbol files on a machine without a depot. It implements
// worker.Kind.
type Worker struct {
	// Dir is the working folder.
	Dir string
}

// Name implements worker.Kind.
func (Worker) Name() string { return Kind }

// Abilities implements worker.Kind.
func (Worker) Abilities(context.Context) (list []wire.Ability) {
	for _, v := range variants {
		list = append(list, wire.Ability(ability(v)))
	}
	return list
}

// Do implements worker.Kind: it makes one symbol file.
func (w Worker) Do(ctx context.Context, j worker.Job, input func(context.Context, *os.File) error) (worker.Result, error) {
	var m message
	if err := json.Unmarshal(j.Input, &m); err != nil || len(m.Files) == 0 || m.Format != Breakpad && m.Format != GSYM {
		return worker.Result{}, worker.Failure{
			Class:  jobs.ClassInfra,
			Detail: "this worker cannot read the input of the job; update it to the version of the server",
		}
	}
	dir, err := os.MkdirTemp(w.Dir, "symbols-*")
	if err != nil {
		return worker.Result{}, err
	}
	res := worker.Result{Drop: func() { _ = os.RemoveAll(dir) }}
	in, err := os.Create(filepath.Join(dir, "input"))
	if err != nil {
		return res, err
	}
	defer in.Close()
	if err := input(ctx, in); err != nil {
		return res, err
	}
	start := time.Now()
	var inputs []Input
	var off int64
	for _, f := range m.Files {
		inputs = append(inputs, Input{io.NewSectionReader(in, off, f.Size), f.Size, f.Name})
		off += f.Size
	}
	limited, cancel := context.WithTimeout(ctx, timeFor(off))
	defer cancel()
	table, err := readIn(limited, dir, inputs, m.Format)
	if err == nil {
		res.Path = filepath.Join(dir, "result")
		err = writeFile(limited, res.Path, m.Format, table)
	}
	switch {
	case err == nil:
		res.Version, res.Detail = fmt.Sprint(Version), fmt.Sprintf("%s of %s in %s", m.Format, m.Name, time.Since(start).Round(time.Millisecond))
		return res, nil
	case ctx.Err() != nil:
		return res, context.Cause(ctx)
	}
	if class := classOf(err); class != "" {
		return res, worker.Failure{Class: class, Detail: err.Error()}
	}
	return res, err
}

// writeFile writes a table to a new file.
func writeFile(ctx context.Context, path string, format Format, table *functab.Table) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 64<<10)
	err = Write(ctx, b, format, table)
	if err == nil {
		err = b.Flush()
	}
	return errors.Join(err, f.Close())
}
