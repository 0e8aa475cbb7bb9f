package mstools

import (
	"errors"
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symstore"
)

var convertSyntax = slashSyntax{rest: true, flags: append([]slashFlag{
	storeFlag,
	{name: "-to", kind: slashWord, words: []string{"one", "two"}},
	{name: "-move"},
}, commonFlags...)}

// convert changes the tiers of a store.
func (r *symstoreRun) convert() error {
	name, err := r.oneStore()
	if err != nil {
		return err
	}
	if r.args.has("-to") && r.args.get("-to") == "" {
		return term.UsageError("--to wants one or two")
	}
	s, err := r.openStore(name)
	if err != nil {
		return err
	}
	defer s.Close()
	before := s.Tiers()
	to, pending, err := s.Converting()
	if err != nil {
		return err
	}
	switch {
	case r.args.has("-to"):
		to = map[string]symstore.Tiers{"one": symstore.One, "two": symstore.Two}[strings.ToLower(r.args.get("-to"))]
	case pending:
		r.message("completing an interrupted conversion")
	case before == symstore.Two:
		to = symstore.One
	default:
		to = symstore.Two
	}
	keys := 0
	opt := symstore.ConvertOptions{Move: r.args.has("-move"), Progress: func(n int) { keys = max(keys, n) }}
	if err := s.Convert(r.ctx, to, opt); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return fmt.Errorf("%w. The store is unchanged. Try --move, which needs no links; readers may miss files until it ends", err)
		}
		return err
	}
	r.line(struct {
		Event string `json:"event"`
		From  string `json:"from"`
		To    string `json:"to"`
		Keys  int    `json:"keys"`
	}{"done", before.String(), to.String(), keys})
	if before == to && !pending {
		r.print("SYMSTORE: %s is %s already\n", term.Printable(name), to)
		return nil
	}
	r.print("SYMSTORE: %s is %s now, %s\n", term.Printable(name), to, term.Count(int64(keys), "key"))
	return nil
}

// oneStore returns the store of /s or of the only argument.
func (r *symstoreRun) oneStore() (string, error) {
	name := r.args.get("s")
	switch {
	case name == "" && len(r.args.rest) == 1:
		return r.args.rest[0], nil
	case len(r.args.rest) > 0:
		return "", term.UsageError("one store at a time")
	}
	return name, nil
}
