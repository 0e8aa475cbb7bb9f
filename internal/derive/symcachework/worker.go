package symcachework

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/derive/worker"
)

// Worker makes SymCache files on a machine without a depot. It implements
// worker.Kind.
type Worker struct{ Transcoders *transcode.Transcoders }

// Name implements worker.Kind.
func (Worker) Name() string { return Kind }

// Abilities implements worker.Kind.
func (w Worker) Abilities(ctx context.Context) (list []wire.Ability) {
	w.Transcoders.Refresh(ctx)
	for _, a := range abilities(w.Transcoders) {
		list = append(list, wire.Ability(a))
	}
	return list
}

// Do implements worker.Kind: it transcodes one PDB.
func (w Worker) Do(ctx context.Context, j worker.Job, input func(context.Context, *os.File) error) (worker.Result, error) {
	var m message
	var key SymCacheKey
	err := json.Unmarshal(j.Input, &m)
	if err == nil {
		key, err = m.key()
	}
	if err != nil {
		return worker.Result{}, worker.Failure{
			Class:  wire.ClassInfra,
			Detail: "this worker cannot read the input of the job: " + err.Error() + "; update it to the version of the server",
		}
	}
	sc, err := w.Transcoders.Workspace().New(key.Name)
	if err != nil {
		return worker.Result{}, err
	}
	res := worker.Result{Drop: sc.Remove}
	f, err := sc.Create()
	if err != nil {
		return res, err
	}
	if err := errors.Join(input(ctx, f), f.Close()); err != nil {
		return res, err
	}
	made, err := w.Transcoders.Transcode(ctx, sc, transcode.Job{Name: key.Name, ID: key.ID, Major: j.Variant})
	switch {
	case err != nil && ctx.Err() != nil:
		return res, context.Cause(ctx)
	case err != nil:
		f := programFailure(err)
		return res, worker.Failure{Class: f.Class, Version: f.Version, Detail: transcode.Printable(f.Detail)}
	}
	res.Path, res.Version, res.Detail = made.Path, made.Version.String(), madeBy(made)
	return res, nil
}
