package mstools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/files/unpack"
	"github.com/symdepot/symdepot/internal/remote/sympath"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// symbolSource is one store of a symbol path.
type symbolSource interface {
	// find returns the files of a key, or nil if there are none.
	find(ctx context.Context, name, key string) (*symstore.Found, error)
	// open opens the file that find has found, or its cabinet.
	open(ctx context.Context, f *symstore.Found) (io.ReadCloser, error)
	where(stored string) string
}

// symbolChain is one element of a symbol path: stores that are asked in order.
// Files of the later stores are copied to the cache, if there is one.
type symbolChain struct {
	cache   string // folder; empty for none
	sources []symbolSource
}

// parseSymbolPath parses the symbol path of a debugger: elements separated by
// semicolons, each a folder, a URL, srv*FOLDER*SERVER or cache*FOLDER.
func (r *symstoreRun) parseSymbolPath(text string) ([]symbolChain, error) {
	var chains []symbolChain
	cache := ""
	elements, _ := sympath.Split(text)
	for _, e := range elements {
		stores := e.Stores
		switch {
		case len(stores) == 0:
			continue
		case e.Word == "cache":
			if cache = stores[len(stores)-1]; len(stores) != 1 {
				return nil, term.UsageError(e.Bare + " is not cache*FOLDER")
			}
			continue
		case e.Word == "symsrv":
			if len(stores) < 2 {
				return nil, term.UsageError(e.Bare + " is not symsrv*DLL*STORE")
			}
			stores = stores[1:]
		case e.Word != "" && e.Word != "srv":
			// The element is a chain without srv* at its start.
			word, _, _ := strings.Cut(e.Bare, "*")
			stores = append([]string{word}, stores...)
		}
		c, err := r.parseChain(stores, cache)
		if err != nil {
			return nil, err
		}
		chains = append(chains, c)
	}
	if len(chains) == 0 {
		return nil, term.UsageError("the stores are missing: give /s PATH, such as srv*/srv/cache*https://symbols.example.com, " +
			"or set _NT_SYMBOL_PATH")
	}
	return chains, nil
}

// parseChain parses the stores of one element. All but the last are caches.
// Only the first cache is filled.
func (r *symstoreRun) parseChain(places []string, cache string) (symbolChain, error) {
	c := symbolChain{}
	if cache != "" {
		places = append([]string{cache}, places...)
	}
	for i, p := range places {
		if p == "" {
			continue // the default folder of the debugger, which this machine does not have
		}
		last := i == len(places)-1
		if isURL(p) {
			h, err := r.openHTTPStore(p)
			if err != nil {
				return c, err
			}
			c.sources = append(c.sources, h)
			continue
		}
		dir, err := r.paths.local(p)
		if err != nil {
			return c, fmt.Errorf("%w: %w", errNoStore, err)
		}
		if !last && c.cache == "" {
			c.cache = dir
			if !isDir(dir) {
				continue // created when the first file is cached
			}
		}
		opt := r.opt
		opt.ReadOnly = true
		s, err := symstore.Open(dir, opt)
		if err != nil {
			return c, fmt.Errorf("%w: %w", errNoStore, err)
		}
		r.closers = append(r.closers, s)
		c.sources = append(c.sources, folderStore{s})
	}
	if len(c.sources) == 0 {
		return c, term.UsageError("the symbol path names no store")
	}
	return c, nil
}

// find looks in a store, or in a flat folder as debuggers do.
func (f folderStore) find(_ context.Context, name, key string) (*symstore.Found, error) {
	if f.store.Tiers() == symstore.Flat {
		// Debuggers look below the extension of the program, and in the
		// folder itself.
		for _, ext := range []string{"", strings.TrimPrefix(path.Ext(name), "."), "exe", "dll", "sys", "drv", "ocx", "scr", "cpl"} {
			for _, dir := range []string{path.Join("symbols", ext), path.Join(".", ext)} {
				at := path.Join(dir, name)
				if keys, err := symstore.IdentifyFile(f.where(at), true); err == nil && hasKey(keys, key) {
					return &symstore.Found{Name: name, Dir: dir, Plain: at}, nil
				}
			}
		}
		return nil, nil
	}
	found, err := f.store.Find(name, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

func hasKey(keys []symstore.Key, key string) bool {
	for _, k := range keys {
		if strings.EqualFold(k.Key, key) {
			return true
		}
	}
	return false
}

func (f folderStore) open(_ context.Context, found *symstore.Found) (io.ReadCloser, error) {
	if found.Plain == "" && found.Compressed == "" {
		return f.store.Follow(found)
	}
	return durable.OpenShared(f.where(found.Best()))
}

func (h *httpStore) open(ctx context.Context, found *symstore.Found) (io.ReadCloser, error) {
	if found.Plain == "" && found.Compressed == "" {
		return nil, fmt.Errorf("%w: %s points to %s, which the server does not offer", symstore.ErrPointer, found.Pointer, found.Target.Target)
	}
	leaf := found.Name
	if found.Plain == "" {
		leaf = layout.CabinetName(leaf)
	}
	body, err := h.get(ctx, found.Dir+"/"+url.PathEscape(leaf))
	if body == nil && err == nil {
		err = fmt.Errorf("%w: %s does not exist any more", errNoStore, found.Best())
	}
	return body, err
}

// fetchTo copies a file that was found to a cache, without its cabinet. It
// checks the key of the file first. It returns the path of the copy.
func fetchTo(ctx context.Context, cache string, src symbolSource, found *symstore.Found, name, key string) (string, error) {
	if !symfile.ValidName(name) || !symfile.ValidName(key) {
		return "", fmt.Errorf("%w: %s/%s", symstore.ErrName, name, key)
	}
	in, err := src.open(ctx, found)
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := durable.MkdirAll(cache, 0o777); err != nil {
		return "", err
	}
	tree, err := durable.OpenTree(cache)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	dir := path.Join(name, key)
	if exists(filepath.Join(cache, "index2.txt")) {
		dir = path.Join(layout.Bucket(name), dir)
	} else if !exists(filepath.Join(cache, "pingme.txt")) && !exists(filepath.Join(cache, "pingback.txt")) {
		if err := durable.WriteFile(filepath.Join(cache, "pingme.txt"), nil, 0o666); err != nil {
			return "", err
		}
	}
	temp, err := receive(ctx, tree, in)
	if err != nil {
		return "", err
	}
	err = sameKey(filepath.Join(cache, filepath.FromSlash(temp.Name())), name, key)
	if err == nil {
		err = tree.MkdirAll(dir, 0o777)
	}
	if err != nil {
		temp.Abort()
		return "", err
	}
	return filepath.Join(cache, filepath.FromSlash(dir), name), temp.Commit(path.Join(dir, name))
}

// receive copies a stream to a temporary file. Of a cabinet it copies the file
// in it.
func receive(ctx context.Context, tree *durable.Tree, in io.Reader) (*durable.File, error) {
	temp, err := tree.Create(".", 0o666)
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(temp, ctxio.NewReader(ctx, in))
	if err != nil {
		temp.Abort()
		return nil, err
	}
	f, err := tree.Root().Open(filepath.FromSlash(temp.Name()))
	if err != nil {
		temp.Abort()
		return nil, err
	}
	defer f.Close()
	if !unpack.IsCabinet(f) {
		return temp, nil
	}
	defer temp.Abort()
	plain, err := tree.Create(".", 0o666)
	if err != nil {
		return nil, err
	}
	if _, err := unpack.File(ctx, plain, f, size, math.MaxInt64-1); err != nil {
		plain.Abort()
		return nil, err
	}
	return plain, nil
}

// sameKey returns an error if a file does not have this key.
func sameKey(at, name, key string) error {
	f, err := durable.OpenShared(at)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	keys, err := symstore.Identify(f, info.Size(), name, true)
	if err != nil || !hasKey(keys, key) {
		return fmt.Errorf("the content of %s does not have the key %s", name, key)
	}
	return nil
}
