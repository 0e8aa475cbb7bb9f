package checkcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/api"
)

// Folders calls do with an empty depot that lasts as long as the command, and has indexed folders where they lie.
func Folders(ctx context.Context, folders []string, do func(*client.API) error) (err error) {
	dir, err := os.MkdirTemp("", "symdepot-check-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := depot.Open(ctx, filepath.Join(dir, "depot"), depot.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	list, done, err := setup.ScanFolders(ctx, folders, dir)
	defer done()
	if err != nil {
		return err
	}
	d.Watched.Use(list)
	conf := web.Config{Makes: true} // as a server does that has the files
	conf.Use(d)
	return do(client.Within(api.New(web.New(conf)).Within(console.LocalUser())))
}
