package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// watchFlags let a command that reads the depot of this machine know the folders that a
// server watches.
type watchFlags struct {
	Watch []string `help:"text:watch_watch" placeholder:"DIR[=PRODUCT[/VERSION]]" sep:"none"`
}

// watchedFolders are the watched folders of the configuration and of the flags.
type watchedFolders struct {
	a     *session
	conf  *config.Config
	notes []string // what was not searched
	done  func()
}

// folders reads which folders there are. With a server, that is its own matter.
func (f watchFlags) folders(a *session, server string) (*watchedFolders, error) {
	ws := &watchedFolders{a: a, done: func() {}}
	if server != "" {
		if len(f.Watch) > 0 {
			return nil, term.UsageError("--watch does not go with --server, which knows its folders")
		}
		return ws, nil
	}
	conf, err := a.config("")
	if err != nil {
		// A mistake in the configuration does not keep a command from reading the depot.
		conf, ws.notes = config.Default(), []string{"watched folders of the configuration were not searched: " + err.Error()}
	}
	ws.conf = conf
	return ws, f.addTo(conf)
}

// addTo adds the folders of the flags to a configuration.
func (f watchFlags) addTo(conf *config.Config) error {
	for _, v := range f.Watch {
		if err := conf.AddWatch(v); err != nil {
			return term.UsageError("--watch " + v + ": " + err.Error())
		}
	}
	return nil
}

// use makes a depot search the folders until close is called.
func (ws *watchedFolders) use(d *depot.Depot, _ *web.Config) error {
	list, notes, done := setup.ReadWatched(ws.a.Ctx, ws.conf, d.Watched.Dir())
	d.Watched.Use(list)
	ws.notes, ws.done = append(ws.notes, notes...), done
	return nil
}

// close releases the folders. It is called before the depot is closed.
func (ws *watchedFolders) close() { ws.done() }

// tell prints which folders were not searched.
func (ws *watchedFolders) tell() {
	for _, n := range ws.notes {
		fmt.Fprintln(ws.a.Stderr, "symdepot:", n)
	}
}

// storeFlags let a command know folders that a server serves where they lie.
type storeFlags struct {
	Store []string `help:"Also search this folder, as serve does: DIR[,layout=L]; repeatable." placeholder:"DIR" sep:"none"`
}

// served returns options for a depot with the served folders of the configuration and of the
// flags; with a server, they are its own matter. A folder of the configuration that cannot be
// opened is noted, and does not keep the command from reading the depot. The function closes them.
func (f storeFlags) served(ws *watchedFolders, server string) (depot.Options, func(), error) {
	if server != "" {
		if len(f.Store) > 0 {
			return depot.Options{}, nil, term.UsageError("--store does not go with --server, which knows its folders")
		}
		return depot.Options{}, func() {}, nil
	}
	opt, done, err := withStores(ws.a.Console, ws.conf, f.Store)
	if err != nil && len(f.Store) == 0 {
		ws.notes = append(ws.notes, "served folders of the configuration were not searched: "+err.Error())
		return depot.Options{}, func() {}, nil
	}
	return opt, done, err
}

// withStores returns options for a depot with the stores of a configuration, and those of
// the flags --store. The function closes them.
func withStores(a *console.Console, conf *config.Config, flags []string) (opt depot.Options, done func(), err error) {
	for _, v := range flags {
		if err := conf.AddStore(v); err != nil {
			return opt, nil, term.UsageError("--store " + v + ": " + err.Error())
		}
	}
	stores, err := setup.OpenStores(a.Ctx, conf)
	done = func() {
		for _, s := range stores {
			_ = s.Close()
		}
	}
	if err != nil {
		done()
	}
	opt.Sources = stores
	return opt, done, err
}
