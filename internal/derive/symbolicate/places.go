package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// Place is an address in a module.
type Place struct {
	Text   string // as the user wrote it
	Module ModuleQuery
	Offset uint64
}

// ParsePlaces reads a list of MODULE/DEBUGID+OFFSET.
func ParsePlaces(texts []string) ([]Place, error) {
	var list []Place
	for _, t := range texts {
		q, off, err := ParsePlace(t)
		if err != nil {
			return nil, err
		}
		list = append(list, Place{t, q, off})
	}
	return list, nil
}

// V5Request returns the body of a request of version 5 for places, each of which is a
// frame of one stack.
func V5Request(places []Place) any {
	modules, at := [][2]string{}, map[ModuleQuery]int{}
	frames := make([][2]int64, len(places))
	for i, p := range places {
		n, ok := at[p.Module]
		if !ok {
			n = len(modules)
			at[p.Module] = n
			modules = append(modules, [2]string{p.Module.DebugFile, p.Module.DebugID})
		}
		frames[i] = [2]int64{int64(n), int64(p.Offset)}
	}
	return map[string]any{"memoryMap": modules, "stacks": [][][2]int64{frames}}
}

// PrintedOf returns the answer to a V5Request as llvm-symbolizer would print it.
func PrintedOf(places []Place, a V5Answer) ([]Printed, error) {
	if len(a.Results) != 1 || len(a.Results[0].Stacks) != 1 || len(a.Results[0].Stacks[0]) != len(places) {
		return nil, fmt.Errorf("the answer of the server has not the %d frames of the request", len(places))
	}
	list := make([]Printed, len(places))
	for i, f := range a.Results[0].Stacks[0] {
		p := Printed{
			Address:    fmt.Sprintf("0x%x", places[i].Offset),
			ModuleName: places[i].Module.DebugFile + "/" + places[i].Module.DebugID, Symbol: []PrintedSymbol{{}},
		}
		if why := a.Results[0].ModuleErrors[p.ModuleName]; len(why) > 0 {
			p.Symbol, p.Error = nil, &PrintedError{why[0].Message}
		} else if f.Function != "" || f.File != "" {
			off, _ := strconv.ParseUint(strings.TrimPrefix(f.FunctionOffset, "0x"), 16, 64)
			start := fmt.Sprintf("0x%x", places[i].Offset-off)
			p.Symbol = nil
			for _, in := range append(f.Inlines, V5Inline{f.Function, f.File, f.Line}) {
				p.Symbol = append(p.Symbol, PrintedSymbol{FileName: in.File, FunctionName: in.Function, Line: in.Line, StartAddress: start})
			}
		}
		list[i] = p
	}
	return list, nil
}

// Direct opens a module of the depot for one process: its files are read at once, and
// nothing is stored. It implements Source.
type Direct struct{ Service *Service }

// Module implements Source.
func (d Direct) Module(ctx context.Context, q ModuleQuery) (*Module, error) {
	var unfit []blob.Ref
	var unusable error // the last attempt
	for {
		f, err := d.Service.find(ctx, nil, q, true, unfit...)
		if err == nil && len(f.list) == 0 {
			err = fs.ErrNotExist
		}
		if err != nil {
			if unusable != nil && errors.Is(err, fs.ErrNotExist) {
				err = unusable // there is no other file
			}
			return nil, d.Service.orPortable(ctx, nil, q, err)
		}
		m, err := d.read(ctx, f)
		if !isBadSource(err) || !f.isSym() || len(unfit) == maxUnfit {
			return m, err
		}
		unusable = err
		unfit = append(unfit, f.source())
	}
}

// read reads the files of a module.
func (d Direct) read(ctx context.Context, f *files) (*Module, error) {
	svc := d.Service
	list, err := svc.openAll(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() { _ = closeAll(list) }()
	table, err := ReadIn(ctx, svc.Scratch, f.inputs(list))
	if err != nil {
		return nil, err
	}
	m := table.Module()
	return &Module{Looker: table, Name: f.name, CodeFile: f.code, Arch: m.Arch, From: f.from(), Missing: f.missing, Done: func() {}}, nil
}

// Depot answers places from the modules of a depot.
func (d Direct) Depot(ctx context.Context, places []Place) ([]Printed, error) {
	job := Job{Stacks: [][]Offset{make([]Offset, len(places))}}
	at := map[ModuleQuery]int{}
	for i, p := range places {
		n, ok := at[p.Module]
		if !ok {
			n = len(job.Modules)
			at[p.Module] = n
			job.Modules = append(job.Modules, p.Module)
		}
		job.Stacks[0][i] = Offset{n, int64(p.Offset)}
	}
	a, err := V5(ctx, d, []Job{job})
	if err != nil {
		return nil, err
	}
	return PrintedOf(places, a)
}
