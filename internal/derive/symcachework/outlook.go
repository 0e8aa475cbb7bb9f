package symcachework

import (
	"context"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symcache"
)

// Outlook is what Answer would do at first.
type Outlook struct {
	symcache.Decision
	// Key is that of the file to send: the one of the request, or its hex reading.
	Key symcache.Key
	// Held are the versions of which there is a file, Producible those that can be
	// made, and Failed those of them that have failed for this PDB.
	Held, Producible, Failed []symcache.Version
	// FromServers means that servers of the SymCache protocol would be asked first.
	FromServers bool
	// PDB is the PDB of which the file would be made; nil if the depot lacks it.
	// InTree means that a served folder has it.
	PDB    *record.Hit
	InTree bool
}

// Outlook finds out what Answer would do. It makes nothing and asks nobody.
func (svc *Service) Outlook(ctx context.Context, ask Ask) (o Outlook, err error) {
	if v := ask.Request.Version; v.Compare(symcache.MinVersion) < 0 {
		return Outlook{Decision: symcache.Decide(v, symcache.State{}), Key: ask.Request.Key}, nil
	}
	q, err := svc.ask(ctx, ask, false)
	if err != nil {
		return o, err
	}
	o = Outlook{
		Decision: symcache.Decide(ask.Request.Version, q.state), Key: q.key, Held: q.state.Held,
		Producible: q.state.Producible, Failed: q.state.Failed, FromServers: q.fromServers,
	}
	hits, err := svc.depot.Find(ctx, ask.Products, pdbRequest(q.key))
	switch {
	case err == nil:
		o.PDB = &hits[0]
		return o, nil
	case !errors.Is(err, fs.ErrNotExist):
		return o, err
	}
	if ask.Products == nil {
		switch err := svc.depot.InTrees(ctx, pdbRequest(q.key)); {
		case err == nil:
			o.InTree = true
		case !errors.Is(err, fs.ErrNotExist):
			return o, err
		}
	}
	return o, nil
}
