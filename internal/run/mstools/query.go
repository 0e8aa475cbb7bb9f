package mstools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symstore"
)

var querySyntax = slashSyntax{flags: append([]slashFlag{
	storeFlag,
	{name: "f", kind: slashList, also: []string{"file", "files"}},
	{name: "r", also: []string{"recurse", "recursive"}},
	{name: "-all"},
}, commonFlags...)}

var checkSyntax = slashSyntax{rest: true, flags: append([]slashFlag{
	storeFlag, {name: "-repair"}, {name: "-quick"}, {name: "-remove-stray"},
}, commonFlags...)}

// answerer is a store that can be queried for the keys of a file: a folder or a
// server.
type answerer interface {
	// answer returns what the store has under each key of the file called name.
	// The error wraps objfile.ErrNotSymbolFile if the file has no key, and
	// errNoStore if the store failed.
	answer(ctx context.Context, name string, all bool) ([]symstore.Answer, error)
	// where returns the full form of a path in the store.
	where(stored string) string
}

type folderStore struct{ store *symstore.Store }

func (f folderStore) answer(_ context.Context, name string, all bool) ([]symstore.Answer, error) {
	list, err := f.store.Query(name, all)
	if err == nil {
		return list, nil
	}
	if _, bad := symstore.IdentifyFile(name, all); bad == nil {
		return nil, fmt.Errorf("%w: %w", errNoStore, err) // the store failed, not the file
	}
	return nil, err
}

func (f folderStore) where(stored string) string {
	return filepath.Join(f.store.Dir(), filepath.FromSlash(stored))
}

func isURL(s string) bool {
	s = strings.ToLower(s)
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// query says which files a store has.
func (r *symstoreRun) query() error {
	if !r.args.has("f") {
		return term.UsageError("the files are missing: give /f FILES")
	}
	var store answerer
	in := r.inputs()
	if name := r.args.get("s"); isURL(name) {
		h, err := r.openHTTPStore(name)
		if err != nil {
			return err
		}
		store = h
	} else {
		r.opt.ReadOnly = true
		s, err := r.openStore(name)
		if err != nil {
			return err
		}
		defer s.Close()
		store = folderStore{s}
		in.skip = s.Dir()
	}
	named := map[string]bool{}
	for _, p := range r.args.values["f"] {
		if local, err := r.paths.local(p); err == nil {
			named[filepath.Clean(local)] = true
		}
	}
	missing := 0
	for f, err := range in.all(r.args.values["f"]) {
		if err == nil {
			err = r.ctx.Err()
		}
		if err != nil {
			return err
		}
		ok, err := r.queryOne(store, f.Path, named[f.Path])
		if err != nil {
			return err
		}
		if !ok {
			missing++
		}
	}
	if missing > 0 || r.errors > 0 {
		return term.Exit(ssFailed)
	}
	return nil
}

// queryOne looks one file up. A file without a key counts only if it was named.
// The error is one of the store.
func (r *symstoreRun) queryOne(store answerer, name string, named bool) (ok bool, err error) {
	answers, err := store.answer(r.ctx, name, r.args.has("-all"))
	out := queryLine{Path: name}
	switch {
	case errors.Is(err, errNoStore), errors.Is(err, context.Canceled):
		return false, err
	case errors.Is(err, objfile.ErrNotSymbolFile) && !named:
		r.message("Skipping file %s - not a known file type. ErrorLevel is 13.", name)
		return true, nil
	case err != nil:
		r.print("%s  NOT FOUND  (%s)\n", term.Printable(name), readProblem(err))
		out.Error = err.Error()
	default:
		r.printAnswers(store, name, answers, &out)
	}
	r.line(out)
	return out.Found, nil
}

// readProblem describes briefly why a file has no keys.
func readProblem(err error) string {
	var path *fs.PathError
	var asked *symstore.NeedsAllError
	switch {
	case errors.As(err, &asked):
		return asked.What + "; ask with --all"
	case errors.Is(err, objfile.ErrNotSymbolFile):
		return "not a known file type"
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return err.Error()
}

// queryLine is one line of JSON output. Its keys are a public interface.
type queryLine struct {
	Path  string     `json:"path"`
	Found bool       `json:"found"`
	Error string     `json:"error,omitempty"`
	Keys  []queryKey `json:"keys,omitempty"`
}

type queryKey struct {
	Name    string     `json:"name"`
	Key     string     `json:"key"`
	Found   bool       `json:"found"`
	Form    string     `json:"form,omitempty"` // plain, compressed or pointer
	Stored  string     `json:"stored,omitempty"`
	Target  string     `json:"target,omitempty"`
	Message string     `json:"message,omitempty"`
	Refs    []queryRef `json:"refs,omitempty"`
}

type queryRef struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"` // file or ptr
	Path       string `json:"path"`
	Type       string `json:"type,omitempty"`
	Compressed bool   `json:"compressed,omitempty"`
}

// printAnswers prints the line of a file and, with /o, the records of the
// store.
func (r *symstoreRun) printAnswers(store answerer, name string, answers []symstore.Answer, out *queryLine) {
	var keys []string
	shown := ""
	var refs []queryRef
	for _, a := range answers {
		k := newQueryKey(store, a)
		out.Keys = append(out.Keys, k)
		keys = append(keys, a.Key.String())
		if !k.Found {
			if k.Message != "" && shown == "" {
				shown = "(" + k.Message + ")"
			}
			continue
		}
		if !out.Found {
			out.Found, shown, refs = true, k.Stored, k.Refs
			if k.Form == "pointer" {
				shown += " -> " + k.Target
			}
		}
	}
	if out.Found {
		r.print("%s  FOUND  %s\n", term.Printable(name), term.Printable(shown))
	} else {
		r.print("%s  NOT FOUND  %s\n", term.Printable(name), term.Printable(strings.TrimSpace(strings.Join(keys, " ")+" "+shown)))
	}
	if r.verbose() {
		for _, ref := range refs {
			compressed := ""
			if ref.Compressed {
				compressed = " compressed"
			}
			r.print("    %s  %s  %s%s  %s\n", ref.ID, ref.Kind, ref.Type, compressed, term.Printable(ref.Path))
		}
	}
}

// newQueryKey describes what clients get under a key. A pointer without a path
// counts as not found.
func newQueryKey(store answerer, a symstore.Answer) queryKey {
	k := queryKey{Name: a.Key.Name, Key: a.Key.Key}
	if a.Found == nil {
		return k
	}
	k.Found, k.Stored = true, store.where(a.Found.Best())
	switch f := a.Found; {
	case f.Plain != "":
		k.Form = "plain"
	case f.Compressed != "":
		k.Form = "compressed"
	default:
		k.Form, k.Target, k.Message = "pointer", f.Target.Target, f.Target.Message
		k.Found = k.Target != ""
	}
	for _, ref := range a.Found.Refs {
		kind := "file"
		if ref.Pointer {
			kind = "ptr"
		}
		k.Refs = append(k.Refs, queryRef{ref.ID.String(), kind, ref.Path, string(ref.Type), ref.Compressed})
	}
	return k
}
